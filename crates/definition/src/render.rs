//! A definition and arguments become the exact request. Each value is escaped for the place it
//! goes to, and none can leave it.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use crate::body::{BodyForm, BodyTemplate, Node, Quotes};
use crate::context::Ctx;
use crate::definition::Definition;
use crate::json::inline_text;
use crate::request::Method;
use crate::scrub;
use crate::template::{Piece, Slot, Template};
use crate::url_template::UrlTemplate;

/// Everything but the unreserved characters of RFC 3986.
const NOT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What stands for a secret wherever a request is shown.
pub const MASK: &str = "***";

/// A shorter secret is none, and would blank out half of every answer.
const MIN_SCRUBBED: usize = 4;

/// Where secrets come from when a request is rendered.
pub trait Secrets: Send + Sync {
    /// The secret with this name, or none when it is not configured.
    fn secret(&self, name: &str) -> Option<SecretString>;
}

/// No secrets at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSecrets;

impl Secrets for NoSecrets {
    fn secret(&self, _name: &str) -> Option<SecretString> {
        None
    }
}

/// What a value may hold that goes into a path segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathParam {
    /// Anything: it is percent-encoded.
    #[default]
    Encode,
    /// No slash, backslash or control character, plain or percent-encoded, for upstreams that
    /// decode a path once too often.
    Strict,
}

/// The values of one call.
#[derive(Clone, Copy)]
pub struct RenderInput<'a> {
    /// The model's arguments, already checked.
    pub arguments: &'a Map<String, Value>,
    /// The turn context.
    pub ctx: &'a Ctx,
    /// The caller's key of the call.
    pub call_id: &'a str,
    /// The key by which an upstream knows the call: the same whenever it is sent, and no other call's.
    pub key: &'a str,
    /// Where secrets come from.
    pub secrets: &'a dyn Secrets,
    /// What path values may hold.
    pub path_param: PathParam,
}

/// A request ready to be sent.
#[derive(Debug, Clone)]
pub struct RenderedRequest {
    /// The method.
    pub method: Method,
    /// The whole URL.
    pub url: String,
    /// The headers in the order of the definition.
    pub headers: Vec<RenderedHeader>,
    /// The body, if there is one.
    pub body: Option<String>,
    /// The secrets that the headers hold, so that an answer which repeats one can be scrubbed.
    pub secrets: Vec<SecretString>,
}

impl RenderedRequest {
    /// A text of the upstream with [`MASK`] in the place of every secret of this request: as it is, in
    /// JSON escapes of any spelling (also JSON inside JSON), percent-encoded, or read as Latin-1. What an
    /// upstream makes of a secret otherwise (base64, HTML entities, a hash) can't be known.
    pub fn scrub<'t>(&self, text: &'t str) -> Cow<'t, str> {
        scrub::mask(text, &self.forms_of_secrets(), MASK)
    }

    /// The same for a text that is not whole: where it breaks off inside a secret, the part that came is
    /// masked too.
    pub fn scrub_cut(&self, text: &str) -> String {
        let mut clean = self.scrub(text).into_owned();
        let begun = |secret: &String| {
            let ends = (MIN_SCRUBBED..secret.len()).rev().filter(|end| secret.is_char_boundary(*end));
            ends.into_iter().find(|end| clean.ends_with(&secret[..*end]))
        };
        if let Some(length) = self.forms_of_secrets().iter().filter_map(begun).max() {
            clean.truncate(clean.len() - length);
            clean.push_str(MASK);
        }
        clean
    }

    fn forms_of_secrets(&self) -> Vec<String> {
        let mut forms: Vec<String> = Vec::new();
        for secret in &self.secrets {
            let secret = secret.expose_secret().trim();
            if secret.len() >= MIN_SCRUBBED {
                forms.push(secret.to_owned());
                if !secret.is_ascii() {
                    forms.push(secret.bytes().map(char::from).collect());
                }
            }
        }
        forms
    }
}

/// A header ready to be sent.
#[derive(Debug, Clone)]
pub struct RenderedHeader {
    /// The name as written in the definition.
    pub name: String,
    /// The value, with [`MASK`] in the place of each secret.
    pub masked: String,
    /// The value with its secrets, when it has any.
    pub secret: Option<SecretString>,
}

impl RenderedHeader {
    /// The value to send. It may hold a secret: it goes to the wire and nowhere else.
    pub fn expose(&self) -> &str {
        self.secret.as_ref().map_or(&self.masked, |secret| secret.expose_secret())
    }
}

/// Why a call can't become a request. The text is what the model reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// An argument, or a context field, has a value that its place can't hold.
    #[error("invalid arguments: {name}: {reason}")]
    Argument {
        /// The parameter, or `ctx.x`.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// A secret is not configured. The model reads the name of no secret.
    #[error("the tool is not set up: a secret it needs is not configured")]
    MissingSecret {
        /// The name, for the operator.
        name: String,
    },
}

impl Definition {
    /// Renders the request of one call.
    ///
    /// # Errors
    /// [`RenderError`] when a value can't stand in its place or a secret is not configured.
    pub fn render(&self, input: RenderInput<'_>) -> Result<RenderedRequest, RenderError> {
        let mut url = render_url(&self.request.url, input)?;
        append_query(&mut url, &self.request.query, input);
        let mut headers = Vec::with_capacity(self.request.headers.len() + 2);
        let mut secrets = Vec::new();
        for (name, template) in &self.request.headers {
            // As in the query: what an absent parameter would fill is not sent.
            if template.sole_slot().is_some_and(|slot| matches!(slot, Slot::Param(_)) && input.is_absent(slot)) {
                continue;
            }
            headers.push(render_header(name, template, input, &mut secrets)?);
        }
        let plain =
            |name: &str, value: &str| RenderedHeader { name: name.to_owned(), masked: value.to_owned(), secret: None };
        if let Some(name) = &self.idempotency_key_header {
            headers.push(plain(name, &without_controls(input.key)));
        }
        let body = self.request.body.as_ref();
        let typed = headers.iter().any(|header| header.name.eq_ignore_ascii_case("content-type"));
        if body.is_some_and(BodyTemplate::is_json) && !typed {
            headers.push(plain("Content-Type", "application/json"));
        }
        Ok(RenderedRequest {
            method: self.request.method,
            url,
            headers,
            body: body.map(|body| render_body(&body.form, input)),
            secrets,
        })
    }
}

/// The value of a placeholder; null and absent are the same.
enum Filled<'a> {
    Text(&'a str),
    Value(&'a Value),
    Arguments(&'a Map<String, Value>),
    Absent,
}

impl<'a> RenderInput<'a> {
    fn fill(&self, slot: &Slot) -> Filled<'a> {
        match slot {
            Slot::Param(name) => match self.arguments.get(name) {
                None | Some(Value::Null) => Filled::Absent,
                Some(value) => Filled::Value(value),
            },
            Slot::Ctx(field) => self.ctx.get(*field).map_or(Filled::Absent, Filled::Text),
            Slot::CallId => Filled::Text(self.call_id),
            Slot::CallArguments => Filled::Arguments(self.arguments),
            // A checked definition has secrets in headers only, and none of the others.
            Slot::Secret(_) | Slot::Env(_) | Slot::Unknown(_) => Filled::Absent,
        }
    }

    /// The plain text of a placeholder: empty when absent.
    fn text(&self, slot: &Slot) -> String {
        match self.fill(slot) {
            Filled::Text(text) => text.to_owned(),
            Filled::Value(value) => inline_text(value).into_owned(),
            Filled::Arguments(map) => object_text(map),
            Filled::Absent => String::new(),
        }
    }

    fn is_absent(&self, slot: &Slot) -> bool {
        matches!(self.fill(slot), Filled::Absent)
    }
}

fn object_text(map: &Map<String, Value>) -> String {
    serde_json::to_string(map).unwrap_or_default()
}

fn encode(text: &str) -> impl fmt::Display + '_ {
    utf8_percent_encode(text, NOT_UNRESERVED)
}

fn render_url(template: &UrlTemplate, input: RenderInput<'_>) -> Result<String, RenderError> {
    let mut url = template.scheme.clone();
    for piece in template.authority.pieces() {
        match piece {
            Piece::Text(text) => url.push_str(text),
            Piece::Slot(slot) => {
                let label = input.text(slot);
                if !is_dns_label(&label) {
                    let reason = "must be one DNS label: letters, digits and inner hyphens, at most 63";
                    return Err(RenderError::Argument { name: slot.name(), reason });
                }
                url.push_str(&label);
            }
        }
    }
    if let Some(slot) = template.authority.slots().next()
        && !url[template.scheme.len()..].split([':', '.']).all(is_finished_label)
    {
        let reason = "must leave every label of the host one that can be read: no xn--, no hyphen at an end";
        return Err(RenderError::Argument { name: slot.name(), reason });
    }
    for segment in &template.segments {
        url.push('/');
        url.push_str(&render_segment(segment, input)?);
    }
    let mut separator = '?';
    for entry in template.query.iter().flatten() {
        if let Some(entry) = render_url_entry(entry, input) {
            url.push(separator);
            url.push_str(&entry);
            separator = '&';
        }
    }
    Ok(url)
}

/// Whether a label that a value is part of is still one: no A-label, since what that stands for can't be
/// seen. A literal label may have an underscore.
fn is_finished_label(label: &str) -> bool {
    label.len() <= 63
        && !label.starts_with('-')
        && !label.ends_with('-')
        && !label.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("xn--"))
}

/// An LDH label, in any case; no A-label.
fn is_dns_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
        && !text.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("xn--"))
}

fn render_segment(segment: &Template, input: RenderInput<'_>) -> Result<String, RenderError> {
    let Some(first) = segment.slots().next() else {
        return Ok(segment.fill(|_| String::new()));
    };
    let refuse = |slot: &Slot, reason| Err(RenderError::Argument { name: slot.name(), reason });
    if input.path_param == PathParam::Strict {
        for slot in segment.slots() {
            if !is_strict_segment(&input.text(slot)) {
                return refuse(slot, "may hold no slash, backslash, control character or dot segment in a path");
            }
        }
    }
    let filled = segment.fill(|slot| encode(&input.text(slot)).to_string());
    // WHATWG parsers read %2e as a dot, and a template may hold one beside a value.
    match filled.to_ascii_lowercase().replace("%2e", ".").as_str() {
        "" => refuse(first, "must not be empty: it is a whole path segment"),
        "." | ".." => refuse(first, "must not be . or ..: it is a whole path segment"),
        _ => Ok(filled),
    }
}

/// Whether a value stays one harmless segment however often an upstream decodes it.
fn is_strict_segment(text: &str) -> bool {
    let mut text = text.to_owned();
    loop {
        let bad = text.chars().any(|ch| ch == '/' || ch == '\\' || ch.is_control());
        if bad || text == "." || text == ".." {
            return false;
        }
        let decoded = percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned();
        if decoded == text {
            return true;
        }
        text = decoded;
    }
}

/// A query entry of the URL. One whose whole value is an absent placeholder is dropped.
fn render_url_entry(entry: &Template, input: RenderInput<'_>) -> Option<String> {
    if let [Piece::Text(key), Piece::Slot(slot)] = entry.pieces()
        && key.ends_with('=')
        && key.find('=') == Some(key.len() - 1)
        && input.is_absent(slot)
    {
        return None;
    }
    Some(entry.fill(|slot| encode(&input.text(slot)).to_string()))
}

fn append_query(url: &mut String, query: &[(String, Template)], input: RenderInput<'_>) {
    let mut separator = match url.split_once('?') {
        None => "?",
        Some((_, query)) if query.is_empty() || query.ends_with('&') => "",
        Some(_) => "&",
    };
    for (key, template) in query {
        if template.sole_slot().is_some_and(|slot| input.is_absent(slot)) {
            continue;
        }
        let value = template.pieces().iter().fold(String::new(), |mut out, piece| {
            let text = match piece {
                Piece::Text(text) => text.clone(),
                Piece::Slot(slot) => input.text(slot),
            };
            out.push_str(&encode(&text).to_string());
            out
        });
        url.push_str(&format!("{separator}{}={value}", encode(key)));
        separator = "&";
    }
}

fn render_header(
    name: &str,
    template: &Template,
    input: RenderInput<'_>,
    secrets: &mut Vec<SecretString>,
) -> Result<RenderedHeader, RenderError> {
    let masked = without_controls(&template.fill(|slot| match slot {
        Slot::Secret(_) => MASK.to_owned(),
        other => input.text(other),
    }));
    let mut secret = None;
    if template.slots().any(|slot| matches!(slot, Slot::Secret(_))) {
        let mut missing = None;
        let exposed = template.fill(|slot| match slot {
            Slot::Secret(name) => match input.secrets.secret(name) {
                Some(value) => {
                    // What is sent is what an upstream can repeat.
                    let text = without_controls(value.expose_secret());
                    secrets.push(SecretString::from(text.as_str()));
                    text
                }
                None => {
                    missing.get_or_insert_with(|| name.clone());
                    String::new()
                }
            },
            other => input.text(other),
        });
        if let Some(name) = missing {
            return Err(RenderError::MissingSecret { name });
        }
        secret = Some(SecretString::from(without_controls(&exposed)));
    }
    Ok(RenderedHeader { name: name.to_owned(), masked, secret })
}

/// C0 controls but tab, and DEL, leave header values: none can begin another header.
fn without_controls(text: &str) -> String {
    text.chars().filter(|ch| *ch == '\t' || !ch.is_ascii_control()).collect()
}

fn render_body(form: &BodyForm, input: RenderInput<'_>) -> String {
    match form {
        BodyForm::Structured(node) => render_node(node, input).unwrap_or(Value::Null).to_string(),
        BodyForm::JsonText(template) => render_json_text(template, input),
        BodyForm::FormFields(node) => {
            let mut out = String::new();
            if let Some(value) = render_node(node, input) {
                append_form(&mut out, "", &value);
            }
            out
        }
        BodyForm::FormText(template) => template.fill(|slot| encode(&input.text(slot)).to_string()),
        BodyForm::PlainText(template) => template.fill(|slot| input.text(slot)),
    }
}

/// Appends a value as form fields, what lies deeper with brackets. Keys of brackets stay readable: they are encoded only
/// in what they name.
fn append_form(out: &mut String, key: &str, value: &Value) {
    let inner = |name: &str| match key {
        "" => encode(name).to_string(),
        key => format!("{key}[{}]", encode(name)),
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| append_form(out, &inner(name), value)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| append_form(out, &inner(&i.to_string()), item))
        }
        scalar => {
            let separator = if out.is_empty() { "" } else { "&" };
            out.push_str(&format!("{separator}{key}={}", encode(&inline_text(scalar))));
        }
    }
}

/// The value of a node; none when it is exactly one placeholder and that is absent.
fn render_node(node: &Node, input: RenderInput<'_>) -> Option<Value> {
    Some(match node {
        Node::Literal(value) => value.clone(),
        Node::Text(template) => match template.sole_slot() {
            Some(slot) => match input.fill(slot) {
                Filled::Absent => return None,
                Filled::Value(value) => value.clone(),
                Filled::Text(text) => Value::String(text.to_owned()),
                Filled::Arguments(map) => Value::Object(map.clone()),
            },
            None => Value::String(template.fill(|slot| input.text(slot))),
        },
        Node::List(items) => Value::Array(items.iter().filter_map(|item| render_node(item, input)).collect()),
        Node::Object(entries) => {
            let filled = entries.iter().filter_map(|(key, node)| Some((key.clone(), render_node(node, input)?)));
            Value::Object(filled.collect())
        }
    })
}

fn render_json_text(template: &Template, input: RenderInput<'_>) -> String {
    let mut quotes = Quotes::default();
    let mut out = String::new();
    for piece in template.pieces() {
        match piece {
            Piece::Text(text) => {
                quotes.pass(text);
                out.push_str(text);
            }
            Piece::Slot(slot) if quotes.inside() => {
                let quoted = Value::String(input.text(slot)).to_string();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
            Piece::Slot(slot) => match input.fill(slot) {
                Filled::Absent => out.push_str("null"),
                Filled::Value(value) => out.push_str(&value.to_string()),
                Filled::Text(text) => out.push_str(&Value::String(text.to_owned()).to_string()),
                Filled::Arguments(map) => out.push_str(&object_text(map)),
            },
        }
    }
    out
}
