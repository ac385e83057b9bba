//! Hashes by which it is known that what runs is what was approved.

use secrecy::SecretString;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use toolcrib_definition::{Ctx, Definition, RenderError, RenderInput, RenderedRequest, Secrets, canonical};
use toolcrib_egress::Policy;
use toolcrib_registry::Entry;

/// Stands for the keys of the call, which are different each time.
const CALL_ID: &str = "{{call.id}}";
const CALL_KEY: &str = "{{call.key}}";

/// The SHA-256 of a text, in hexadecimal.
pub(crate) fn sha256(text: &str) -> String {
    let digit = |four_bits: u8| char::from_digit(u32::from(four_bits), 16).unwrap_or_default();
    Sha256::digest(text.as_bytes()).iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The key by which an upstream knows a call: the same whenever it is sent, and no other call's.
pub(crate) fn upstream_key(session: &str, call_id: &str) -> String {
    let hash = sha256(&canonical(&json!([session, call_id])));
    format!("toolcrib-{}", &hash[..32])
}

/// The hash of what a tool is now.
pub(crate) fn hash_of_tool(entry: &Entry) -> String {
    match (entry.json(), entry.as_code()) {
        (Some(json), _) => sha256(json),
        (None, Some(code)) => {
            let schema = Value::Object(code.view().parameters.schema().clone());
            sha256(&canonical(&json!(["code", code.name().as_str(), code.effect().as_str(), schema])))
        }
        (None, None) => String::new(),
    }
}

/// What would run, as an approver sees it: never a secret, and the same whenever it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EffectiveRequest {
    /// As JSON text.
    pub(crate) text: String,
    pub(crate) hash: String,
}

impl EffectiveRequest {
    /// Of a code tool: its name and arguments are all there is.
    pub(crate) fn of_code(name: &str, arguments: &Map<String, Value>) -> Self {
        Self::new(&json!({ "code": name, "arguments": arguments }))
    }

    /// Of a data tool: the HTTP request with its secrets as references.
    ///
    /// # Errors
    /// When a value can't stand in its place.
    pub(crate) fn of_data(
        definition: &Definition,
        arguments: &Map<String, Value>,
        ctx: &Ctx,
        policy: &Policy,
    ) -> Result<Self, RenderError> {
        let request = definition.render(RenderInput {
            arguments,
            ctx,
            call_id: CALL_ID,
            key: CALL_KEY,
            secrets: &References,
            path_param: policy.path_param,
        })?;
        Ok(Self::new(&described(&request)))
    }

    fn new(value: &Value) -> Self {
        Self { text: value.to_string(), hash: sha256(&canonical(value)) }
    }
}

fn described(request: &RenderedRequest) -> Value {
    let headers = request.headers.iter().map(|header| json!([header.name, header.expose()]));
    json!({
        "method": request.method.as_str(),
        "url": request.url,
        "headers": headers.collect::<Vec<_>>(),
        "body": request.body,
    })
}

/// A secret's reference in the place of the secret.
struct References;

impl Secrets for References {
    fn secret(&self, name: &str) -> Option<SecretString> {
        Some(format!("{{{{secret.{name}}}}}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_hexadecimal() {
        assert_eq!(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn an_approver_sees_references_and_no_key_of_the_call() {
        let tool = json!({
            "name": "refund", "description": "d", "idempotency_key_header": "Idempotency-Key",
            "parameters": { "type": "object", "properties": { "to": { "type": "string" } } },
            "request": {
                "method": "POST", "url": "https://api.example.com/{{to}}",
                "headers": { "Authorization": "Bearer {{secret.token}}" }, "body": { "call": "{{call.id}}" },
            },
            "secret_headers": ["Authorization"],
        });
        let tool = Definition::from_value(&tool).expect("a tool");
        let arguments = Map::from_iter([("to".to_owned(), "a".into())]);
        let of = |arguments| EffectiveRequest::of_data(&tool, arguments, &Ctx::default(), &Policy::default());
        let request = of(&arguments).expect("a request");
        assert_eq!(
            request.text,
            r#"{"method":"POST","url":"https://api.example.com/a","headers":[["Authorization","Bearer {{secret.token}}"],["Idempotency-Key","{{call.key}}"],["Content-Type","application/json"]],"body":"{\"call\":\"{{call.id}}\"}"}"#
        );
        let other = Map::from_iter([("to".to_owned(), "b".into())]);
        assert_ne!(of(&other).expect("a request").hash, request.hash);
        assert_ne!(upstream_key("a", "bc"), upstream_key("ab", "c"));
    }
}
