//! Texts with `{{placeholders}}`, split once when a definition is read.

use crate::context::CtxField;

/// What fills a placeholder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Slot {
    /// `{{name}}`: a top-level argument of the model.
    Param(String),
    /// `{{ctx.x}}`: a field of the turn context.
    Ctx(CtxField),
    /// `{{secret.x}}`: a secret, at provision time.
    Secret(String),
    /// `{{env.X}}`: the deployment's environment, in manifests only.
    Env(String),
    /// `{{call.id}}`: the stable key of the call.
    CallId,
    /// `{{call.arguments}}`: all arguments as one JSON value.
    CallArguments,
    /// Looks like a placeholder and names nothing: `{{ctx.user_id}}`, `{{a.b}}`.
    Unknown(String),
}

impl Slot {
    fn named(name: &str) -> Self {
        let unknown = || Slot::Unknown(name.to_owned());
        match name.split_once('.') {
            None => Slot::Param(name.to_owned()),
            Some(("ctx", field)) => CtxField::named(field).map_or_else(unknown, Slot::Ctx),
            Some(("secret", secret)) if !secret.is_empty() => Slot::Secret(secret.to_owned()),
            Some(("env", variable)) if !variable.is_empty() => Slot::Env(variable.to_owned()),
            Some(("call", "id")) => Slot::CallId,
            Some(("call", "arguments")) => Slot::CallArguments,
            Some(_) => unknown(),
        }
    }

    /// The name between the braces.
    pub fn name(&self) -> String {
        match self {
            Slot::Param(name) | Slot::Unknown(name) => name.clone(),
            Slot::Ctx(field) => format!("ctx.{}", field.as_str()),
            Slot::Secret(name) => format!("secret.{name}"),
            Slot::Env(name) => format!("env.{name}"),
            Slot::CallId => "call.id".to_owned(),
            Slot::CallArguments => "call.arguments".to_owned(),
        }
    }
}

/// A piece of a [`Template`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Piece {
    /// Text that is sent as it is.
    Text(String),
    /// A placeholder.
    Slot(Slot),
}

/// A text with placeholders. What does not have the form of one (`{q}`, `{{q-1}}`, `{{}}`) is text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Template {
    pieces: Vec<Piece>,
}

impl Template {
    /// Splits a text.
    pub fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut literal_from = 0;
        let mut at = 0;
        while let Some(found) = text[at..].find("{{") {
            let open = at + found;
            match placeholder_at(&text[open..]) {
                Some((name, length)) => {
                    if literal_from < open {
                        pieces.push(Piece::Text(text[literal_from..open].to_owned()));
                    }
                    pieces.push(Piece::Slot(Slot::named(name)));
                    at = open + length;
                    literal_from = at;
                }
                // "{" is one byte, so the next search starts at a character border.
                None => at = open + 1,
            }
        }
        if literal_from < text.len() {
            pieces.push(Piece::Text(text[literal_from..].to_owned()));
        }
        Template { pieces }
    }

    /// The pieces in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The placeholders in order.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Slot(slot) => Some(slot),
            Piece::Text(_) => None,
        })
    }

    /// The placeholder, when the text is exactly one.
    pub fn sole_slot(&self) -> Option<&Slot> {
        match self.pieces.as_slice() {
            [Piece::Slot(slot)] => Some(slot),
            _ => None,
        }
    }

    /// The text with each placeholder replaced by what `fill` gives.
    pub fn fill(&self, mut fill: impl FnMut(&Slot) -> String) -> String {
        self.pieces.iter().fold(String::new(), |mut out, piece| {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Slot(slot) => out.push_str(&fill(slot)),
            }
            out
        })
    }
}

/// The name of the placeholder at the start of a text that begins with `{{`, and its whole length.
fn placeholder_at(text: &str) -> Option<(&str, usize)> {
    let inner = &text[2..];
    let name_from = inner.len() - inner.trim_ascii_start().len();
    let rest = &inner[name_from..];
    let name_len = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')).count();
    let after = rest[name_len..].trim_ascii_start();
    if name_len == 0 || !after.starts_with("}}") {
        return None;
    }
    Some((&rest[..name_len], text.len() - after.len() + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_form_is_a_placeholder() {
        let check = |text: &str, slots: &[&str]| {
            let template = Template::parse(text);
            let names: Vec<_> = template.slots().map(Slot::name).collect();
            assert_eq!(names, slots, "{text}");
            assert_eq!(Template::parse("").fill(|_| String::new()), "");
        };
        check("{q} {{ q {{q-1}} {{}} {{q}}", &["q"]);
        check("{{{q}}}", &["q"]);
        check("é{{ ctx.tenant }}é{{secret.a.B_2}}", &["ctx.tenant", "secret.a.B_2"]);
        check("{{ctx.}}{{env.}}", &["ctx.", "env."]);
        check("{{call.id}}{{call.arguments}}{{call.x}}", &["call.id", "call.arguments", "call.x"]);
        check("{{q", &[]);
    }
}
