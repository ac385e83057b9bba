//! Security schemes, as headers that hold secrets.

use serde_json::{Map, Value};
use url::Url;

use super::Api;
use crate::names::{secret_of, snake};
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
        url: &str,
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
            let found: Result<Vec<Header>, String> = schemes.keys().map(|name| self.header(name, url)).collect();
            match found.and_then(|found| Ok((with(headers, &found)?, found))) {
                Ok((with_secrets, found)) => {
                    *headers = with_secrets;
                    needed.extend(found.iter().map(|header| header.needed.clone()));
                    let mut names: Vec<String> = found.into_iter().map(|header| header.name).collect();
                    names.dedup();
                    return names;
                }
                Err(reason) => why.push(reason),
            }
        }
        if !why.is_empty() {
            notes.push(format!("it is sent without credentials: {}", why.join("; ")));
        }
        Vec::new()
    }

    fn header(&self, name: &str, url: &str) -> Result<Header, String> {
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
        let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
        let scheme = if snake(name).is_empty() { "api key" } else { name };
        let needed = SecretNeeded { name: secret_of(&host, scheme), header: header.to_owned(), holds };
        Ok(Header { name: header.to_owned(), before, needed })
    }
}

/// The headers with those that hold secrets. Cookies stand beside each other; of any other header there is one.
fn with(headers: &Map<String, Value>, secrets: &[Header]) -> Result<Map<String, Value>, String> {
    let mut all = headers.clone();
    for header in secrets {
        let value = format!("{}{{{{secret.{}}}}}", header.before, header.needed.name);
        let known = all.iter().find(|(name, _)| name.eq_ignore_ascii_case(&header.name));
        let (name, value) = match known {
            None => (header.name.clone(), value),
            Some((name, Value::String(before))) if name.eq_ignore_ascii_case("cookie") => {
                (name.clone(), format!("{before}; {value}"))
            }
            Some((name, _)) => return Err(format!("the header {name} holds something else already")),
        };
        all.insert(name, value.into());
    }
    Ok(all)
}
