//! Security schemes, as headers that hold secrets.

use serde_json::{Map, Value};

use super::Api;
use crate::names::snake;
use crate::report::SecretNeeded;

/// What a scheme asks for.
struct Header {
    name: String,
    /// What stands before the secret.
    before: String,
    needed: SecretNeeded,
}

impl Api<'_> {
    /// Adds what one of the alternatives of an operation asks for, and returns the names of its headers.
    pub(super) fn secure(
        &self,
        security: Option<&Value>,
        headers: &mut Map<String, Value>,
        needed: &mut Vec<SecretNeeded>,
        notes: &mut Vec<String>,
    ) -> Vec<String> {
        let Some(alternatives) = security.and_then(Value::as_array).filter(|list| !list.is_empty()) else {
            return Vec::new();
        };
        let mut why = Vec::new();
        // A secret is better than none where both would do.
        let asking = alternatives.iter().filter_map(Value::as_object).filter(|schemes| !schemes.is_empty());
        for schemes in asking {
            let found: Result<Vec<Header>, String> = schemes.keys().map(|name| self.header(name)).collect();
            match found {
                Ok(found) => {
                    for header in &found {
                        let value = format!("{}{{{{secret.{}}}}}", header.before, header.needed.name);
                        headers.insert(header.name.clone(), value.into());
                        needed.push(header.needed.clone());
                    }
                    return found.into_iter().map(|header| header.name).collect();
                }
                Err(reason) => why.push(reason),
            }
        }
        if !why.is_empty() {
            notes.push(format!("it is sent without credentials: {}", why.join("; ")));
        }
        Vec::new()
    }

    fn header(&self, name: &str) -> Result<Header, String> {
        let pointer = format!("/components/securitySchemes/{}", name.replace('~', "~0").replace('/', "~1"));
        let scheme = self.document.root.pointer(&pointer).ok_or_else(|| format!("there is no scheme {name}"))?;
        let scheme = self.document.resolve(scheme)?;
        let text = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or_default();
        let (header, before, holds) = match (text("type"), text("in")) {
            ("apiKey", "header") => (text("name"), String::new(), "the API key".to_owned()),
            ("apiKey", "cookie") => ("Cookie", format!("{}=", text("name")), "the value of the cookie".to_owned()),
            ("apiKey", place) => {
                return Err(format!("{name} is a key in the {place}, and secrets go into headers only"));
            }
            ("http", _) if text("scheme").eq_ignore_ascii_case("bearer") => {
                ("Authorization", "Bearer ".to_owned(), "the token".to_owned())
            }
            ("http", _) if text("scheme").eq_ignore_ascii_case("basic") => {
                ("Authorization", "Basic ".to_owned(), "user:password in base64".to_owned())
            }
            ("oauth2" | "openIdConnect", _) => {
                ("Authorization", "Bearer ".to_owned(), "an access token; it is not renewed".to_owned())
            }
            (kind, _) => return Err(format!("{name} is of the kind {kind} {}, which is not known", text("scheme"))),
        };
        if header.is_empty() {
            return Err(format!("{name} names no header"));
        }
        let secret = match (&self.group, snake(name)) {
            (_, scheme) if scheme.is_empty() => "api_key".to_owned(),
            (Some(group), scheme) if !scheme.starts_with(&snake(group)) => format!("{}_{scheme}", snake(group)),
            (_, scheme) => scheme,
        };
        let needed = SecretNeeded { name: secret, header: header.to_owned(), holds };
        Ok(Header { name: header.to_owned(), before, needed })
    }
}
