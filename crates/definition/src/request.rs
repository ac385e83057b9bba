//! The one HTTP call of a data tool, as it is written.

use std::fmt;

use serde_json::{Map, Value};

use crate::body::BodyTemplate;
use crate::fields::Fields;
use crate::json::{child_pointer, inline_text, kind_of};
use crate::problem::{ProblemCode, Problems};
use crate::template::{Slot, Template};
use crate::url_template::{UrlTemplate, env_message};

/// The method of a request (RFC 9110).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Read.
    Get,
    /// Read the headers only.
    Head,
    /// Do something.
    Post,
    /// Replace.
    Put,
    /// Change.
    Patch,
    /// Remove.
    Delete,
}

impl Method {
    /// Every method a tool can use.
    pub const ALL: [Method; 6] = [Method::Get, Method::Head, Method::Post, Method::Put, Method::Patch, Method::Delete];

    /// The method in capitals.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }

    /// Whether a request is taken to change something when the tool does not say.
    pub fn has_side_effect(self) -> bool {
        !matches!(self, Method::Get | Method::Head)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The HTTP call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Where the call goes.
    pub url: UrlTemplate,
    /// Header names as written, and their values.
    pub headers: Vec<(String, Template)>,
    /// Query entries that are added to the URL's own.
    pub query: Vec<(String, Template)>,
    /// The body, if there is one.
    pub body: Option<BodyTemplate>,
    /// Headers and query values as they were written, for the stored form.
    pub(crate) written: Written,
}

/// The texts behind the templates.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Written {
    pub(crate) headers: Map<String, Value>,
    pub(crate) query: Map<String, Value>,
}

/// Headers that belong to the connection or to the message framing: the HTTP client sets them.
const RESERVED_HEADERS: [&str; 14] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "http2-settings",
    "accept-encoding",
];

impl Request {
    /// Reads the `request` object; `secret_headers` tells where secrets may stand.
    pub(crate) fn read(value: Option<&Value>, secret_headers: &[String], problems: &mut Problems) -> Option<Self> {
        let pointer = "/request";
        let empty = Value::Object(Map::new());
        let known = ["method", "url", "headers", "query", "body"];
        let fields = Fields::read(value.unwrap_or(&empty), pointer, "request", &known, problems)?;
        let method = read_method(&fields, problems);
        let url = match fields.text("url", problems) {
            Some(text) => UrlTemplate::parse(text, &fields.at("url"), problems),
            None => {
                if fields.get("url").is_none() {
                    problems.add(fields.at("url"), ProblemCode::Missing, "a tool needs request.url");
                }
                None
            }
        };
        let headers = read_texts(&fields, "headers", problems);
        check_headers(&headers, secret_headers, &fields.at("headers"), problems);
        let query = read_texts(&fields, "query", problems);
        check_query(&query, &fields.at("query"), problems);
        let content_type = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let content_type = content_type.and_then(|(_, value)| value.as_str());
        let body =
            fields.get("body").and_then(|body| BodyTemplate::read(body, content_type, &fields.at("body"), problems));
        Some(Self {
            method: method?,
            url: url?,
            headers: templates(&headers),
            query: templates(&query),
            body,
            written: Written { headers, query },
        })
    }

    /// The stored form.
    pub(crate) fn to_json(&self) -> Value {
        let mut out = Map::new();
        out.insert("method".into(), self.method.as_str().into());
        out.insert("url".into(), self.url.as_str().into());
        out.insert("headers".into(), Value::Object(self.written.headers.clone()));
        out.insert("query".into(), Value::Object(self.written.query.clone()));
        out.insert("body".into(), self.body.as_ref().map_or(Value::Null, |body| body.written().clone()));
        Value::Object(out)
    }

    /// Every placeholder with the pointer of the text it stands in.
    pub(crate) fn slots(&self) -> Vec<(String, &Slot)> {
        let mut out: Vec<(String, &Slot)> = Vec::new();
        out.extend(self.url.slots().map(|slot| ("/request/url".to_owned(), slot)));
        for (key, pairs) in [("headers", &self.headers), ("query", &self.query)] {
            for (name, template) in pairs {
                let pointer = child_pointer(&format!("/request/{key}"), name);
                out.extend(template.slots().map(|slot| (pointer.clone(), slot)));
            }
        }
        if let Some(body) = &self.body {
            out.extend(body.slots().into_iter().map(|slot| ("/request/body".to_owned(), slot)));
        }
        out
    }
}

fn templates(map: &Map<String, Value>) -> Vec<(String, Template)> {
    map.iter().map(|(name, value)| (name.clone(), Template::parse(value.as_str().unwrap_or_default()))).collect()
}

fn read_method(fields: &Fields<'_>, problems: &mut Problems) -> Option<Method> {
    let Some(text) = fields.text("method", problems) else {
        return fields.get("method").is_none().then_some(Method::Get);
    };
    let method = Method::ALL.into_iter().find(|method| method.as_str().eq_ignore_ascii_case(text));
    if method.is_none() {
        let message = format!("{text:?} is no method of a tool; write GET, HEAD, POST, PUT, PATCH or DELETE");
        problems.add(fields.at("method"), ProblemCode::Method, message);
    }
    method
}

/// Reads a map of texts: scalars become text with their exact digits, null is empty text.
fn read_texts(fields: &Fields<'_>, key: &str, problems: &mut Problems) -> Map<String, Value> {
    let mut out = Map::new();
    match fields.get(key) {
        None => {}
        Some(Value::Object(map)) => {
            for (name, value) in map {
                if value.is_array() || value.is_object() {
                    let message = format!("{name:?} is one text, not {}; write it as a string", kind_of(value));
                    problems.add(child_pointer(&fields.at(key), name), ProblemCode::Type, message);
                } else {
                    out.insert(name.clone(), Value::String(inline_text(value).into_owned()));
                }
            }
        }
        Some(other) => {
            let message = format!("{key} is an object of texts, not {}", kind_of(other));
            problems.add(fields.at(key), ProblemCode::Type, message);
        }
    }
    out
}

/// Whether a text is a field name (a token of RFC 9110, section 5.6.2).
pub(crate) fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Whether the HTTP client sets this header itself.
pub(crate) fn is_reserved_header(name: &str) -> bool {
    RESERVED_HEADERS.iter().any(|reserved| reserved.eq_ignore_ascii_case(name))
}

fn check_headers(headers: &Map<String, Value>, secret_headers: &[String], pointer: &str, problems: &mut Problems) {
    let is_secret = |name: &str| secret_headers.iter().any(|secret| secret.eq_ignore_ascii_case(name));
    for (i, (name, value)) in headers.iter().enumerate() {
        let at = child_pointer(pointer, name);
        if Template::parse(name).slots().next().is_some() {
            problems.add(&at, ProblemCode::PlaceholderMisplaced, "a header name is literal; put the value behind it");
        } else if !is_header_name(name) {
            let message = format!("{name:?} is no header name: letters, digits and -");
            problems.add(&at, ProblemCode::HeaderName, message);
        } else if is_reserved_header(name) {
            let message = format!("{name} belongs to the connection and is set by the HTTP client; leave it out");
            problems.add(&at, ProblemCode::HeaderReserved, message);
        } else if headers.keys().take(i).any(|earlier| earlier.eq_ignore_ascii_case(name)) {
            problems.add(&at, ProblemCode::HeaderDuplicate, format!("{name} stands twice; header names have no case"));
        }
        let template = Template::parse(value.as_str().unwrap_or_default());
        if name.eq_ignore_ascii_case("content-type") && template.slots().next().is_some() {
            let message = "the Content-Type is literal: it decides how values are escaped in the body";
            problems.add(&at, ProblemCode::PlaceholderMisplaced, message);
        }
        let has_secret = template.slots().any(|slot| matches!(slot, Slot::Secret(_)));
        if is_secret(name) && !has_secret {
            problems.add(
                &at,
                ProblemCode::SecretHeaderLiteral,
                format!("{name} is named in secret_headers, so it holds a {{{{secret.name}}}} and never a literal"),
            );
        }
        for slot in template.slots() {
            match slot {
                Slot::Secret(secret) if !is_secret(name) => problems.add(
                    &at,
                    ProblemCode::PlaceholderSecret,
                    format!("{{{{secret.{secret}}}}} stands in {name}; name the header in secret_headers"),
                ),
                Slot::CallArguments => {
                    problems.add(&at, ProblemCode::PlaceholderMisplaced, "{{call.arguments}} goes into a body only")
                }
                _ => {}
            }
        }
    }
    for (i, secret) in secret_headers.iter().enumerate() {
        if !headers.keys().any(|name| name.eq_ignore_ascii_case(secret)) {
            let message = format!("secret_headers names {secret:?}, and the request has no such header");
            problems.add(format!("/secret_headers/{i}"), ProblemCode::SecretHeaderAbsent, message);
        }
    }
}

fn check_query(query: &Map<String, Value>, pointer: &str, problems: &mut Problems) {
    for name in query.keys() {
        if Template::parse(name).slots().next().is_some() {
            problems.add(
                child_pointer(pointer, name),
                ProblemCode::PlaceholderMisplaced,
                "a query key is literal; put the placeholder into the value",
            );
        }
    }
}

/// Checks one placeholder outside the headers, where no secret and no deployment value may stand.
pub(crate) fn check_slot(
    pointer: &str,
    slot: &Slot,
    declares: impl Fn(&str) -> bool,
    nearest_name: impl Fn(&str) -> Option<String>,
    problems: &mut Problems,
) {
    let in_headers = pointer.starts_with("/request/headers");
    let in_body = pointer.starts_with("/request/body");
    match slot {
        Slot::Param(name) if !declares(name) => {
            let hint = nearest_name(name)
                .map_or_else(|| "declare it in parameters".to_owned(), |near| format!("did you mean {{{{{near}}}}}?"));
            let message = format!("{{{{{name}}}}} names no parameter of this tool; {hint}");
            problems.add(pointer, ProblemCode::PlaceholderUnknown, message);
        }
        Slot::Unknown(name) => {
            let message = format!(
                "{{{{{name}}}}} is no placeholder: there are parameters, ctx.chat_id, ctx.store_id, ctx.agent_id, \
                 ctx.tenant, ctx.image_url, secret.*, call.id and call.arguments"
            );
            problems.add(pointer, ProblemCode::PlaceholderUnknown, message);
        }
        Slot::Env(_) => problems.add(pointer, ProblemCode::PlaceholderEnv, env_message(slot)),
        Slot::Secret(name) if !in_headers => problems.add(
            pointer,
            ProblemCode::PlaceholderSecret,
            format!("{{{{secret.{name}}}}} goes only into a header named in secret_headers"),
        ),
        Slot::CallId if !in_headers && !in_body => {
            problems.add(pointer, ProblemCode::PlaceholderMisplaced, "{{call.id}} goes into headers and bodies only")
        }
        Slot::CallArguments if !in_headers && !in_body => {
            problems.add(pointer, ProblemCode::PlaceholderMisplaced, "{{call.arguments}} goes into a body only")
        }
        _ => {}
    }
}
