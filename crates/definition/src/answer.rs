//! An HTTP answer becomes what the model reads, whether the turn ends, and what may be cited.

use serde_json::{Map, Value, json};

use crate::definition::Definition;
use crate::json::{ReadOptions, read, scalar_text};
use crate::response::{Evidence, Extract, HaltWhen, Say};

/// The longest JSON error body that the model reads whole, in bytes.
pub const MAX_ERROR_JSON: usize = 2000;
/// How much of any other error body the model reads, in characters.
pub const MAX_ERROR_TEXT: usize = 200;
/// How many evidence items the model reads.
pub const MAX_ITEMS: usize = 16;
/// How much of an evidence line the model reads, in characters.
pub const MAX_LINE: usize = 200;
/// How many attachments an outcome carries.
pub const MAX_ATTACHMENTS: usize = 16;
/// The longest URL of an attachment, in characters.
pub const MAX_ATTACHMENT_URL: usize = 500;

/// An HTTP answer, its body read and decompressed.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The status code.
    pub status: u16,
    /// The `Location` header.
    pub location: Option<&'a str>,
    /// The body as text.
    pub body: &'a str,
}

/// What an answer means.
#[derive(Debug, Clone, PartialEq)]
pub struct Shaped {
    /// Exactly what the model reads.
    pub result: Value,
    /// Whether the result is an error.
    pub is_error: bool,
    /// Set when the answer ends the turn.
    pub halt: Option<Halt>,
    /// The ids that may be cited, each once.
    pub evidence_ids: Vec<String>,
    /// Cards and images for the person, never for the model.
    pub attachments: Vec<Attachment>,
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Halt {
    /// What is published, unless the model already streamed a lead-in.
    pub say: Option<String>,
}

/// Something to show beside the answer.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Attachment {
    /// `card` or `image`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it is, at most 500 characters.
    pub url: String,
    /// A line below it.
    pub caption: Option<String>,
}

/// A result that is an error: the text the model reads.
type Failure = Value;

fn failure(message: impl Into<String>) -> Failure {
    json!({ "error": message.into() })
}

impl Definition {
    /// Shapes an answer: error, extract, evidence and halt.
    pub fn shape(&self, answer: Answer<'_>) -> Shaped {
        let success = (200..300).contains(&answer.status);
        let body = LazyBody::new(answer.body);
        let halt = self.halt_when.as_ref().filter(|_| success).and_then(|rule| find_halt(rule, body.json()));
        let mut evidence = Cited::default();
        let result = if !success && !matches!(self.extract, Extract::Status) {
            Err(http_failure(answer, &body))
        } else {
            self.extract(answer, &body, &mut evidence)
        };
        let is_error = result.is_err();
        Shaped {
            result: result.unwrap_or_else(|failure| failure),
            is_error,
            halt,
            evidence_ids: evidence.ids,
            attachments: evidence.attachments,
        }
    }

    fn extract(&self, answer: Answer<'_>, body: &LazyBody<'_>, cited: &mut Cited) -> Result<Value, Failure> {
        let not_json = || failure("response is not JSON");
        let value = match &self.extract {
            Extract::Status => return Ok(json!({ "status": answer.status })),
            Extract::McpContent => return mcp_content(body.json().ok_or_else(not_json)?),
            Extract::BodyRaw if self.evidence.is_none() => return Ok(answer.body.into()),
            Extract::BodyRaw | Extract::EvidenceEnvelope => {
                body.json().ok_or_else(|| failure("evidence processing failed: response is not JSON"))?
            }
            Extract::JsonPath(path) => {
                let value = body.json().ok_or_else(not_json)?;
                path.find(value)
                    .ok_or_else(|| failure(format!("path '{}' not found in the response", path.as_str())))?
            }
        };
        match &self.evidence {
            None => Ok(value.clone()),
            Some(evidence) => {
                let (lean, found) = cite(evidence, value)?;
                *cited = found;
                Ok(lean)
            }
        }
    }
}

/// The body as JSON, read once and only when something asks.
struct LazyBody<'a> {
    text: &'a str,
    json: std::cell::OnceCell<Option<Value>>,
}

impl<'a> LazyBody<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, json: std::cell::OnceCell::new() }
    }

    fn json(&self) -> Option<&Value> {
        let text = self.text.trim_start_matches('\u{feff}');
        let parse = || read(text.as_bytes(), ReadOptions::for_answers()).ok();
        self.json.get_or_init(parse).as_ref()
    }
}

fn http_failure(answer: Answer<'_>, body: &LazyBody<'_>) -> Failure {
    let status = answer.status;
    if let (300..400, Some(location)) = (status, answer.location.filter(|location| !location.trim().is_empty())) {
        return failure(format!("HTTP {status}: moved to {location}"));
    }
    let body = if answer.body.len() <= MAX_ERROR_JSON { body.json() } else { None };
    match body {
        Some(body @ (Value::Object(_) | Value::Array(_))) => {
            // Built by hand: the macro would read the numbers of the body anew.
            let mut failure = Map::new();
            failure.insert("error".into(), format!("HTTP {status}").into());
            failure.insert("body".into(), body.clone());
            Value::Object(failure)
        }
        _ => failure(format!("HTTP {status}: {}", cut(answer.body, MAX_ERROR_TEXT))),
    }
}

fn cut(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

fn find_halt(rule: &HaltWhen, body: Option<&Value>) -> Option<Halt> {
    let body = body?;
    let text = scalar_text(rule.path.find(body)?)?;
    if !rule.equals.iter().any(|value| *value == text) {
        return None;
    }
    let say = match &rule.say {
        None => None,
        Some(Say::Text(text)) => Some(text.clone()),
        Some(Say::Path(path)) => {
            path.find(body).and_then(Value::as_str).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
        }
    };
    Some(Halt { say })
}

#[derive(Default)]
struct Cited {
    ids: Vec<String>,
    attachments: Vec<Attachment>,
}

/// Cuts a result down to what may be cited. One bad item fails it whole.
fn cite(evidence: &Evidence, value: &Value) -> Result<(Value, Cited), Failure> {
    if !value.is_object() {
        return Err(failure("evidence: result must be an object"));
    }
    let items = match evidence.items.find(value) {
        None | Some(Value::Null) => return Err(failure("evidence: items is missing")),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(failure("evidence: items must be a list")),
    };
    let mut cited = Cited::default();
    let mut lean = Vec::with_capacity(items.len().min(MAX_ITEMS));
    for (i, item) in items.iter().take(MAX_ITEMS).enumerate() {
        let id = match item.get("id") {
            Some(id @ (Value::String(_) | Value::Number(_))) => scalar_text(id).filter(|id| !id.trim().is_empty()),
            _ => None,
        };
        let (Some(id), Some(line)) = (id, item.get("line").and_then(Value::as_str)) else {
            return Err(failure(format!("evidence: items[{i}] must be {{id, line}}")));
        };
        lean.push(json!({ "id": id, "line": cut(line, MAX_LINE) }));
        if !cited.ids.iter().any(|known| *known == id) {
            cited.ids.push(id.into_owned());
        }
    }
    let attachments = evidence.attachments.find(value).and_then(Value::as_array);
    cited.attachments = attachments.into_iter().flatten().filter_map(attachment).take(MAX_ATTACHMENTS).collect();
    Ok((json!({ "items": lean }), cited))
}

fn attachment(value: &Value) -> Option<Attachment> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let kind = text("type").filter(|kind| matches!(*kind, "card" | "image"))?;
    let url = text("url").filter(|url| !url.trim().is_empty() && url.chars().count() <= MAX_ATTACHMENT_URL)?;
    let caption = text("caption").map(str::trim).filter(|caption| !caption.is_empty());
    Some(Attachment { kind: kind.to_owned(), url: url.to_owned(), caption: caption.map(str::to_owned) })
}

/// MCP content: an object with a `content` list of typed blocks, or such a list alone.
fn mcp_content(body: &Value) -> Result<Value, Failure> {
    let wrapped;
    let object = match body {
        Value::Array(_) => {
            wrapped = Map::from_iter([("content".to_owned(), body.clone())]);
            &wrapped
        }
        Value::Object(map) => map,
        _ => return Err(failure("response is not MCP content: expected an object with a content list")),
    };
    let blocks = object.get("content").and_then(Value::as_array);
    let typed = |block: &Value| block.get("type").is_some_and(Value::is_string);
    if !blocks.is_some_and(|blocks| blocks.iter().all(typed)) {
        return Err(failure("response is not MCP content: content is a list of blocks, each with a type"));
    }
    let result = Value::Object(object.clone());
    if object.get("isError") == Some(&Value::Bool(true)) { Err(result) } else { Ok(result) }
}
