//! What a tool makes of an answer, as it is written: extract, halt, evidence.

use serde_json::{Map, Value, json};

use crate::fields::Fields;
use crate::json::{child_pointer, kind_of, scalar_text};
use crate::path::ValuePath;
use crate::problem::{ProblemCode, Problems, nearest};

/// Which part of a 2xx answer the model reads.
#[derive(Debug, Clone, PartialEq)]
pub enum Extract {
    /// The body as text.
    BodyRaw,
    /// `{"status": 204}`; every status is an answer.
    Status,
    /// The value that a path leads to.
    JsonPath(ValuePath),
    /// The lean envelope of the evidence declaration.
    EvidenceEnvelope,
    /// MCP content blocks, passed on as they are.
    McpContent,
}

const EXTRACTS: [&str; 5] = ["body_raw", "status", "json_path", "evidence_envelope", "mcp_content"];

impl Extract {
    /// The word in `response.extract`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Extract::BodyRaw => "body_raw",
            Extract::Status => "status",
            Extract::JsonPath(_) => "json_path",
            Extract::EvidenceEnvelope => "evidence_envelope",
            Extract::McpContent => "mcp_content",
        }
    }

    pub(crate) fn read(value: Option<&Value>, problems: &mut Problems) -> Option<Self> {
        let Some(value) = value else { return Some(Extract::BodyRaw) };
        let fields = Fields::read(value, "/response", "response", &["extract", "path"], problems)?;
        let before = problems.len();
        let word = fields.text("extract", problems);
        let path = fields.text("path", problems).filter(|path| !path.trim().is_empty());
        if problems.len() > before {
            return None;
        }
        let extract = match word.unwrap_or("body_raw") {
            "json_path" => {
                let Some(path) = path else {
                    let message = "extract json_path needs a path: \"$.results\" or \"results.0.id\"";
                    problems.add(fields.at("path"), ProblemCode::Extract, message);
                    return None;
                };
                return read_path(path, &fields.at("path"), problems).map(Extract::JsonPath);
            }
            "body_raw" => Extract::BodyRaw,
            "status" => Extract::Status,
            "evidence_envelope" => Extract::EvidenceEnvelope,
            "mcp_content" => Extract::McpContent,
            other => {
                let hint = nearest(other, EXTRACTS).map_or_else(
                    || format!("one of {}", EXTRACTS.join(", ")),
                    |near| format!("did you mean {near:?}?"),
                );
                problems.add(fields.at("extract"), ProblemCode::Extract, format!("no extract {other:?}; {hint}"));
                return None;
            }
        };
        if path.is_some() {
            let message = format!("a path belongs to extract json_path, not to {}", extract.as_str());
            problems.add(fields.at("path"), ProblemCode::Extract, message);
        }
        Some(extract)
    }

    pub(crate) fn to_json(&self) -> Value {
        let path = match self {
            Extract::JsonPath(path) => Value::from(path.as_str()),
            _ => Value::Null,
        };
        json!({ "extract": self.as_str(), "path": path })
    }
}

/// When the tool's own answer ends the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaltWhen {
    /// The path into the body of a 2xx.
    pub path: ValuePath,
    /// The texts that end the turn; a scalar at the path is compared by its exact text.
    pub equals: Vec<String>,
    /// What is published when the turn ends.
    pub say: Option<Say>,
}

/// What a halted turn publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Say {
    /// This text.
    Text(String),
    /// The text at this path of the body, when it is not blank.
    Path(ValuePath),
}

impl HaltWhen {
    pub(crate) fn read(value: &Value, problems: &mut Problems) -> Option<Self> {
        let pointer = "/halt_when";
        let fields = Fields::read(value, pointer, "halt_when", &["json_path", "equals", "say"], problems)?;
        let before = problems.len();
        let path = match fields.text("json_path", problems) {
            Some(path) if !path.trim().is_empty() => read_path(path, &fields.at("json_path"), problems),
            _ => {
                if problems.len() == before {
                    let message = "halt_when needs a json_path: where in the answer it looks";
                    problems.add(fields.at("json_path"), ProblemCode::Halt, message);
                }
                None
            }
        };
        let equals = read_equals(&fields, problems);
        let say = fields.get("say").and_then(|say| Say::read(say, &fields.at("say"), problems));
        Some(Self { path: path?, equals, say })
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut out = Map::new();
        out.insert("json_path".into(), self.path.as_str().into());
        out.insert("equals".into(), self.equals.clone().into());
        match &self.say {
            None => {}
            Some(Say::Text(text)) => {
                out.insert("say".into(), json!({ "text": text }));
            }
            Some(Say::Path(path)) => {
                out.insert("say".into(), json!({ "json_path": path.as_str() }));
            }
        }
        Value::Object(out)
    }
}

fn read_equals(fields: &Fields<'_>, problems: &mut Problems) -> Vec<String> {
    let at = fields.at("equals");
    let items = match fields.get("equals") {
        Some(Value::Array(items)) => items.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    if items.is_empty() {
        let message = "halt_when needs equals: at least one value that ends the turn";
        problems.add(&at, ProblemCode::Halt, message);
    }
    let mut texts = Vec::new();
    for (i, item) in items.iter().enumerate() {
        match scalar_text(item) {
            Some(text) => texts.push(text.into_owned()),
            None => {
                let message = format!("halt_when.equals holds texts, numbers and booleans, not {}", kind_of(item));
                problems.add(child_pointer(&at, &i.to_string()), ProblemCode::Halt, message);
            }
        }
    }
    texts
}

impl Say {
    fn read(value: &Value, pointer: &str, problems: &mut Problems) -> Option<Self> {
        let fields = Fields::read(value, pointer, "halt_when.say", &["text", "json_path"], problems)?;
        let before = problems.len();
        let text = fields.text("text", problems).filter(|text| !text.trim().is_empty());
        let path = fields.text("json_path", problems).filter(|path| !path.trim().is_empty());
        if problems.len() > before {
            return None;
        }
        match (text, path) {
            (Some(text), None) => Some(Say::Text(text.to_owned())),
            (None, Some(path)) => read_path(path, &fields.at("json_path"), problems).map(Say::Path),
            _ => {
                let message = "say is exactly one of {\"text\": …} and {\"json_path\": …}, and not blank";
                problems.add(pointer, ProblemCode::Halt, message);
                None
            }
        }
    }
}

/// A declaration that the result carries ids that may be cited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// What the ids are ids of.
    pub kind: String,
    /// Where the list of `{id, line}` is.
    pub items: ValuePath,
    /// Where the list of attachments is.
    pub attachments: ValuePath,
}

impl Evidence {
    pub(crate) fn read(value: &Value, problems: &mut Problems) -> Option<Self> {
        let pointer = "/evidence";
        let as_object;
        let (fields, bare) = match value {
            Value::String(kind) => {
                as_object = json!({ "kind": kind });
                (Fields::read(&as_object, pointer, "evidence", &["kind"], problems)?, true)
            }
            other => {
                let known = ["kind", "items", "attachments"];
                (Fields::read(other, pointer, "evidence", &known, problems)?, false)
            }
        };
        let before = problems.len();
        let kind = fields.trimmed("kind", problems);
        if kind.is_none() && problems.len() == before {
            let at = if bare { pointer.to_owned() } else { fields.at("kind") };
            problems.add(at, ProblemCode::Evidence, "evidence names its kind: \"products\"");
        }
        let mut path = |key: &str, default: &str| {
            let text = fields.trimmed(key, problems).unwrap_or(default).to_owned();
            read_path(&text, &fields.at(key), problems)
        };
        let (items, attachments) = (path("items", "items"), path("attachments", "attachments"));
        Some(Self { kind: kind?.to_owned(), items: items?, attachments: attachments? })
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({ "kind": self.kind, "items": self.items.as_str(), "attachments": self.attachments.as_str() })
    }
}

fn read_path(text: &str, pointer: &str, problems: &mut Problems) -> Option<ValuePath> {
    match ValuePath::parse(text.trim()) {
        Ok(path) => Some(path),
        Err(error) => {
            problems.add(pointer, ProblemCode::Path, error.to_string());
            None
        }
    }
}
