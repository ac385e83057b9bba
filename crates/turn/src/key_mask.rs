//! Keeping a provider's key out of what the provider says.

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::model::{ModelError, ModelEvent};

/// What stands in the place of a key.
const MASK: &str = "***";

/// Takes a key out of a stream of text, also where two pieces share it.
pub(crate) struct KeyMask {
    key: SecretString,
    /// The end of what came so far, which may be the beginning of the key.
    held: String,
}

impl KeyMask {
    pub(crate) fn new(key: SecretString) -> Self {
        Self { key, held: String::new() }
    }

    /// What can be passed on of an event: a piece may be held back, and comes before the end.
    pub(crate) fn event(&mut self, event: Result<ModelEvent, ModelError>) -> Vec<Result<ModelEvent, ModelError>> {
        match event {
            Ok(ModelEvent::Text(text)) => {
                let text = self.text(&text);
                if text.is_empty() { Vec::new() } else { vec![Ok(ModelEvent::Text(text))] }
            }
            Ok(ModelEvent::End { mut calls, usage, cut }) => {
                for call in &mut calls {
                    self.value(&mut call.arguments);
                }
                let rest = std::mem::take(&mut self.held);
                let rest = (!rest.is_empty()).then_some(Ok(ModelEvent::Text(rest)));
                rest.into_iter().chain([Ok(ModelEvent::End { calls, usage, cut })]).collect()
            }
            Err(error) => vec![Err(self.error(error))],
        }
    }

    /// An error without the key.
    pub(crate) fn error(&self, error: ModelError) -> ModelError {
        error.map_words(|words| self.masked(words))
    }

    fn masked(&self, text: &str) -> String {
        text.replace(self.key.expose_secret(), MASK)
    }

    fn text(&mut self, piece: &str) -> String {
        let whole = std::mem::take(&mut self.held) + piece;
        let mut text = self.masked(&whole);
        let key = self.key.expose_secret();
        let begins_key = |place: &usize| key.starts_with(&text[*place..]);
        let from = text.len().saturating_sub(key.len().saturating_sub(1));
        let place = (from..text.len()).filter(|place| text.is_char_boundary(*place)).find(begins_key);
        if let Some(place) = place {
            self.held = text.split_off(place);
        }
        text
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) if text.contains(self.key.expose_secret()) => *text = self.masked(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => map.values_mut().for_each(|item| self.value(item)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::ModelCall;
    use crate::model::Usage;

    fn said(pieces: &[&str]) -> String {
        let mut mask = KeyMask::new("sk-secret".to_owned().into());
        let end = ModelEvent::End { calls: Vec::new(), usage: Usage::default(), cut: false };
        let pieces = pieces.iter().map(|piece| ModelEvent::Text((*piece).to_owned())).chain([end]);
        let events: Vec<_> = pieces.flat_map(|event| mask.event(Ok(event))).collect();
        let text = |event: &Result<ModelEvent, ModelError>| match event {
            Ok(ModelEvent::Text(text)) => text.clone(),
            _ => String::new(),
        };
        assert!(matches!(events.last(), Some(Ok(ModelEvent::End { .. }))));
        events.iter().map(text).collect()
    }

    #[test]
    fn a_key_is_found_wherever_the_pieces_are_cut() {
        let whole = "the key sk-secret and sk-secret, sk-sk-secret, and sk-secre";
        for first in 0..=whole.len() {
            for second in first..=whole.len() {
                let pieces = [&whole[..first], &whole[first..second], &whole[second..]];
                assert_eq!(said(&pieces), "the key *** and ***, sk-***, and sk-secre", "{pieces:?}");
            }
        }
        assert_eq!(said(&["é", "sk-", "é"]), "ésk-é");
    }

    #[test]
    fn arguments_and_errors_are_masked() {
        let mut mask = KeyMask::new("sk-secret".to_owned().into());
        let call = ModelCall {
            id: String::new(),
            tool: String::new(),
            arguments: json!({"a": ["x sk-secret", 1]}),
            signatures: Vec::new(),
            signed_by: None,
        };
        let events = mask.event(Ok(ModelEvent::End { calls: vec![call], usage: Usage::default(), cut: false }));
        let Some(Ok(ModelEvent::End { calls, .. })) = events.first() else { unreachable!() };
        assert_eq!(calls[0].arguments, json!({"a": ["x ***", 1]}));
        let error = mask.error(ModelError::Refused { status: 401, message: "bad sk-secret".to_owned() });
        assert_eq!(error.to_string(), "the provider refuses the request (HTTP 401): bad ***");
    }
}
