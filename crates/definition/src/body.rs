//! The body of a request: a JSON value with placeholders in its leaves, or a text template.

use serde_json::{Map, Value};

use crate::json::child_pointer;
use crate::problem::{ProblemCode, Problems};
use crate::template::{Piece, Slot, Template};

/// The body of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct BodyTemplate {
    written: Value,
    pub(crate) form: BodyForm,
}

/// How values enter a body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum BodyForm {
    /// A JSON value; a leaf that is exactly one placeholder takes the typed value.
    Structured(Node),
    /// A text that is JSON once filled: quotes decide between text and typed value.
    JsonText(Template),
    /// `application/x-www-form-urlencoded`: values are percent-encoded.
    FormText(Template),
    /// The same of an object: what an absent placeholder would fill is left out, and what lies deeper is written with
    /// brackets (`address[city]=…`).
    FormFields(Node),
    /// Any other text, whatever its `Content-Type`: values go in as they are.
    PlainText(Template),
}

/// A structured body, with its strings split into templates.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// Null, a number, a boolean, or a string without placeholders.
    Literal(Value),
    /// A string with placeholders.
    Text(Template),
    /// A list.
    List(Vec<Node>),
    /// An object; keys are literal.
    Object(Vec<(String, Node)>),
}

impl BodyTemplate {
    /// The body as it was written.
    pub fn written(&self) -> &Value {
        &self.written
    }

    /// Whether the filled body is JSON, and so is sent as `application/json` by default.
    pub fn is_json(&self) -> bool {
        matches!(self.form, BodyForm::Structured(_) | BodyForm::JsonText(_))
    }

    pub(crate) fn read(
        value: &Value,
        content_type: Option<&str>,
        pointer: &str,
        problems: &mut Problems,
    ) -> Option<Self> {
        let media = content_type.map(|text| text.split(';').next().unwrap_or(text).trim().to_ascii_lowercase());
        let says_json = media.as_deref().is_some_and(|media| media.ends_with("/json") || media.ends_with("+json"));
        let says_text = media
            .as_deref()
            .is_some_and(|media| media.starts_with("text/") || media.ends_with("/xml") || media.ends_with("+xml"));
        let says_form = media.as_deref() == Some("application/x-www-form-urlencoded");
        let form = match value {
            Value::String(text) => {
                let template = Template::parse(text);
                let probe = filled_json(&template);
                let is_json = probe.is_some();
                if probe.is_some_and(|probe| has_marked_key(&probe)) {
                    let message = "a key of a JSON body is literal; put the placeholder into the value";
                    problems.add(pointer, ProblemCode::PlaceholderMisplaced, message);
                    return None;
                }
                if says_json && !is_json {
                    let message = "the Content-Type says JSON, and the body is none once its placeholders are filled; \
                                   write it as a JSON value, or mend the text";
                    problems.add(pointer, ProblemCode::Body, message);
                    return None;
                }
                if says_form {
                    BodyForm::FormText(template)
                } else if says_json || (is_json && !says_text) {
                    BodyForm::JsonText(template)
                } else {
                    BodyForm::PlainText(template)
                }
            }
            Value::Object(_) if says_form => BodyForm::FormFields(Node::read(value, pointer, problems)),
            _ if says_form => {
                let message = "a form is an object, or a text: \"a={{a}}&b={{b}}\"";
                problems.add(pointer, ProblemCode::Body, message);
                return None;
            }
            structured => BodyForm::Structured(Node::read(structured, pointer, problems)),
        };
        Some(Self { written: value.clone(), form })
    }

    pub(crate) fn slots(&self) -> Vec<&Slot> {
        let mut out = Vec::new();
        match &self.form {
            BodyForm::Structured(node) | BodyForm::FormFields(node) => node.slots(&mut out),
            BodyForm::JsonText(template) | BodyForm::FormText(template) | BodyForm::PlainText(template) => {
                out.extend(template.slots());
            }
        }
        out
    }
}

impl Node {
    fn read(value: &Value, pointer: &str, problems: &mut Problems) -> Self {
        match value {
            Value::String(text) => {
                let template = Template::parse(text);
                if template.slots().next().is_none() { Node::Literal(value.clone()) } else { Node::Text(template) }
            }
            Value::Array(items) => {
                let read =
                    |(i, item): (usize, &Value)| Node::read(item, &child_pointer(pointer, &i.to_string()), problems);
                Node::List(items.iter().enumerate().map(read).collect())
            }
            Value::Object(map) => Node::Object(read_object(map, pointer, problems)),
            literal => Node::Literal(literal.clone()),
        }
    }

    fn slots<'a>(&'a self, out: &mut Vec<&'a Slot>) {
        match self {
            Node::Literal(_) => {}
            Node::Text(template) => out.extend(template.slots()),
            Node::List(items) => items.iter().for_each(|item| item.slots(out)),
            Node::Object(entries) => entries.iter().for_each(|(_, node)| node.slots(out)),
        }
    }
}

fn read_object(map: &Map<String, Value>, pointer: &str, problems: &mut Problems) -> Vec<(String, Node)> {
    map.iter()
        .map(|(key, value)| {
            let at = child_pointer(pointer, key);
            if Template::parse(key).slots().next().is_some() {
                let message = "a key of a JSON body is literal; put the placeholder into the value";
                problems.add(&at, ProblemCode::PlaceholderMisplaced, message);
            }
            (key.clone(), Node::read(value, &at, problems))
        })
        .collect()
}

/// Stands for a value inside quotes while a text is tried; no text of a person holds it.
const MARK: &str = "\u{f8ff}";

/// The JSON that a text is when each placeholder is a value, or [`MARK`] inside quotes.
fn filled_json(template: &Template) -> Option<Value> {
    let mut quotes = Quotes::default();
    let mut probe = String::new();
    for piece in template.pieces() {
        match piece {
            Piece::Text(text) => {
                quotes.pass(text);
                probe.push_str(text);
            }
            Piece::Slot(_) => probe.push_str(if quotes.inside() { MARK } else { "null" }),
        }
    }
    crate::json::parse(probe.as_bytes()).ok()
}

/// Whether a placeholder stands in a key.
fn has_marked_key(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, value)| key.contains(MARK) || has_marked_key(value)),
        Value::Array(items) => items.iter().any(has_marked_key),
        _ => false,
    }
}

/// Follows the quotes of a JSON text from piece to piece.
#[derive(Debug, Default)]
pub(crate) struct Quotes {
    inside: bool,
    escaped: bool,
}

impl Quotes {
    pub(crate) fn pass(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.inside => self.escaped = true,
                b'"' => self.inside = !self.inside,
                _ => {}
            }
        }
    }

    pub(crate) fn inside(&self) -> bool {
        self.inside
    }
}
