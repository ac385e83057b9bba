//! The definition of a data tool: read, checked whole, and written back in its stored form.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::approval::Approval;
use crate::effect::{
    DEFAULT_KEY_LIFE, EffectMode, read_idempotency_header, read_key_life, read_not_performed_on, read_side_effect,
};
use crate::fields::Fields;
use crate::json;
use crate::mcp::McpTool;
use crate::name::ToolName;
use crate::parameters::Parameters;
use crate::problem::{ProblemCode, Problems, nearest};
use crate::request::{Request, check_slot};
use crate::response::{Evidence, Extract, HaltWhen};
use crate::template::Slot;

/// The keys of a definition, in the order of the stored form.
pub(crate) const KEYS: [&str; 19] = [
    "name",
    "description",
    "parameters",
    "request",
    "response",
    "secret_headers",
    "side_effect",
    "timeout",
    "group",
    "tags",
    "halt_when",
    "evidence",
    "approval",
    "idempotency_key_header",
    "idempotency_key_life",
    "not_performed_on",
    "lowered_from",
    "protocol",
    "mcp",
];

/// The longest timeout of a tool, in seconds.
pub const MAX_TIMEOUT: u16 = 600;

/// A data tool: what the model reads, and one HTTP call.
///
/// A value of this type is valid: it was checked whole.
///
/// ```
/// use toolcrib_definition::Definition;
///
/// let tool = Definition::from_json(br#"{
///     "name": "search_products",
///     "description": "Search the catalog",
///     "parameters": [{"name": "query", "description": "Words to look for"}],
///     "request": {"url": "https://api.example.com/search", "query": {"q": "{{query}}"}}
/// }"#)?;
/// assert_eq!(tool.name.as_str(), "search_products");
/// assert!(!tool.side_effect);
/// # Ok::<(), toolcrib_definition::Problems>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The name the model calls.
    pub name: ToolName,
    /// What the model reads.
    pub description: String,
    /// The arguments the model may give.
    pub parameters: Parameters,
    /// The HTTP call.
    pub request: Request,
    /// Which part of the answer the model reads.
    pub extract: Extract,
    /// Headers that hold secrets.
    pub secret_headers: Vec<String>,
    /// Whether a call changes something outside.
    pub side_effect: bool,
    /// The whole time of one call in seconds, 1 to 600; none means the agent's limit.
    pub timeout: Option<u16>,
    /// The group, for allowlists.
    pub group: Option<String>,
    /// Free labels.
    pub tags: Vec<String>,
    /// When the answer ends the turn.
    pub halt_when: Option<HaltWhen>,
    /// Which ids of the result may be cited.
    pub evidence: Option<Evidence>,
    /// Whether a person is asked first.
    pub approval: Approval,
    /// The header that carries the stable key of the call.
    pub idempotency_key_header: Option<String>,
    /// How long an upstream remembers that key, in seconds; none means [`DEFAULT_KEY_LIFE`].
    pub idempotency_key_life: Option<u32>,
    /// Statuses by which the upstream says that it did nothing.
    pub not_performed_on: Vec<u16>,
    /// The JSON Schema that the parameters were lowered from, in the words of the upstream: it checks the arguments, and
    /// they are sent as it takes them. An MCP tool keeps its own.
    pub lowered_from: Option<Value>,
    /// The MCP tool that it calls; none for plain HTTP.
    pub mcp: Option<McpTool>,
}

impl Definition {
    /// Reads a definition from JSON text.
    ///
    /// # Errors
    /// Every problem at once; a text that is not JSON is one problem at the top.
    pub fn from_json(text: &[u8]) -> Result<Self, Problems> {
        match json::parse(text) {
            Ok(value) => Self::from_value(&value),
            Err(error) => {
                let mut problems = Problems::default();
                problems.add(error.pointer.clone(), ProblemCode::Type, error.to_string());
                Err(problems)
            }
        }
    }

    /// Reads a definition from a JSON value.
    ///
    /// # Errors
    /// Every problem at once, each with a pointer, a code and a mend.
    pub fn from_value(value: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let definition = Self::read(value, &mut problems);
        problems.or(definition)
    }

    fn read(value: &Value, problems: &mut Problems) -> Option<Self> {
        let fields = Fields::read(value, "", "a tool", &KEYS, problems)?;
        let name = read_name(&fields, problems);
        let description = read_description(&fields, problems);
        let mcp = McpTool::read(&fields, problems);
        let lowered_from = read_lowered_from(&fields, matches!(mcp, Ok(Some(_))), problems);
        let original = match &mcp {
            Ok(Some(mcp)) => Some(&mcp.input_schema),
            _ => lowered_from.as_ref(),
        };
        let parameters = match original {
            Some(original) => Parameters::read_lowered(fields.get("parameters"), original, "/parameters", problems),
            None => Parameters::read(fields.get("parameters"), "/parameters", problems),
        };
        let secret_headers = fields.texts("secret_headers", str::eq_ignore_ascii_case, problems);
        let request = Request::read(fields.get("request"), &secret_headers, problems);
        if let (Some(request), Some(parameters)) = (&request, &parameters) {
            check_placeholders(request, parameters, problems);
        }
        if let (Some(request), Ok(Some(mcp))) = (&request, &mcp) {
            mcp.check_request(request, problems);
        }
        let extract = Extract::read(fields.get("response"), problems);
        let side_effect = read_side_effect(&fields, problems);
        let timeout = read_timeout(&fields, problems);
        let group = fields.trimmed("group", problems).map(str::to_owned);
        let tags = fields.texts("tags", |a, b| a == b, problems);
        let halt_when = fields.get("halt_when").and_then(|value| HaltWhen::read(value, problems));
        let evidence = fields.get("evidence").and_then(|value| Evidence::read(value, problems));
        check_evidence(extract.as_ref(), fields.get("evidence").is_some(), problems);
        // A rule sees the arguments as they are sent.
        let seen = match original {
            Some(original) => Some(original.clone()),
            None => parameters.as_ref().map(|parameters| Value::Object(parameters.schema().clone())),
        };
        let approval = match fields.get("approval") {
            None => Some(Approval::Never),
            Some(value) => Approval::read(value, seen.as_ref(), problems),
        };
        let idempotency_key_header = read_idempotency_header(&fields, request.as_ref(), problems);
        let idempotency_key_life = read_key_life(&fields, idempotency_key_header.is_some(), problems);
        let not_performed_on = read_not_performed_on(&fields, problems);
        let request = request?;
        Some(Self {
            name: name?,
            description: description?,
            parameters: parameters?,
            side_effect: side_effect.unwrap_or(request.method.has_side_effect()),
            request,
            extract: extract?,
            secret_headers,
            timeout,
            group,
            tags,
            halt_when,
            evidence,
            approval: approval?,
            idempotency_key_header,
            idempotency_key_life,
            not_performed_on,
            lowered_from,
            mcp: mcp.ok()?,
        })
    }

    /// The stored form: every key, with its default written out. Reading it gives the same tool.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        let mut put = |key: &str, value: Value| out.insert(key.to_owned(), value);
        put("name", self.name.as_str().into());
        put("description", self.description.as_str().into());
        put("parameters", Value::Object(self.parameters.schema().clone()));
        put("request", self.request.to_json());
        put("response", self.extract.to_json());
        put("secret_headers", self.secret_headers.clone().into());
        put("side_effect", self.side_effect.into());
        put("timeout", self.timeout.map_or(Value::Null, Value::from));
        put("group", self.group.clone().map_or(Value::Null, Value::from));
        put("tags", self.tags.clone().into());
        put("halt_when", self.halt_when.as_ref().map_or(Value::Null, HaltWhen::to_json));
        put("evidence", self.evidence.as_ref().map_or(Value::Null, Evidence::to_json));
        put("approval", self.approval.to_json());
        put("idempotency_key_header", json!(self.idempotency_key_header));
        if let Some(life) = self.idempotency_key_life {
            put("idempotency_key_life", life.into());
        }
        if !self.not_performed_on.is_empty() {
            put("not_performed_on", self.not_performed_on.clone().into());
        }
        if let Some(original) = &self.lowered_from {
            put("lowered_from", original.clone());
        }
        if let Some(mcp) = &self.mcp {
            put("protocol", "mcp".into());
            put("mcp", mcp.to_json());
        }
        Value::Object(out)
    }

    /// How long a call that was sent may be sent again under its key; none when it has no key to send.
    pub fn key_life(&self) -> Option<Duration> {
        let life = self.idempotency_key_life.unwrap_or(DEFAULT_KEY_LIFE);
        self.idempotency_key_header.as_ref().map(|_| Duration::from_secs(life.into()))
    }

    /// What a crash may do to a call of this tool.
    pub fn effect(&self) -> EffectMode {
        if self.side_effect { EffectMode::AtMostOnce } else { EffectMode::Idempotent }
    }

    /// The names of the secrets that the headers refer to, without repetitions.
    pub fn secrets(&self) -> Vec<&str> {
        let mut out: Vec<&str> = Vec::new();
        for (_, template) in &self.request.headers {
            for slot in template.slots() {
                if let Slot::Secret(name) = slot
                    && !out.contains(&name.as_str())
                {
                    out.push(name);
                }
            }
        }
        out
    }
}

fn read_name(fields: &Fields<'_>, problems: &mut Problems) -> Option<ToolName> {
    match fields.get("name") {
        Some(Value::String(text)) => match text.parse() {
            Ok(name) => return Some(name),
            Err(error) => problems.add(fields.at("name"), ProblemCode::Name, format!("the name {error}")),
        },
        Some(_) => problems.add(fields.at("name"), ProblemCode::Name, "the name is a string"),
        None => problems.add(fields.at("name"), ProblemCode::Name, "a tool needs a name, such as \"search_products\""),
    }
    None
}

fn read_description(fields: &Fields<'_>, problems: &mut Problems) -> Option<String> {
    let before = problems.len();
    match fields.text("description", problems) {
        Some(text) if !text.trim().is_empty() => Some(text.to_owned()),
        _ => {
            if problems.len() == before {
                let message = "the description is what the model reads to choose the tool; say what it does";
                problems.add(fields.at("description"), ProblemCode::Description, message);
            }
            None
        }
    }
}

fn read_lowered_from(fields: &Fields<'_>, is_mcp: bool, problems: &mut Problems) -> Option<Value> {
    let value = fields.get("lowered_from")?;
    let message = match value {
        Value::Object(_) if is_mcp => "an MCP tool keeps the schema of its server in mcp.input_schema",
        Value::Object(_) => return Some(value.clone()),
        _ => "lowered_from is the JSON Schema, an object, that the parameters were lowered from",
    };
    problems.add(fields.at("lowered_from"), ProblemCode::Type, message);
    None
}

fn read_timeout(fields: &Fields<'_>, problems: &mut Problems) -> Option<u16> {
    let value = fields.get("timeout")?;
    let text = value.as_number().map(ToString::to_string).unwrap_or_default();
    let whole = match text.split_once('.') {
        Some((whole, zeros)) if zeros.bytes().all(|b| b == b'0') => whole,
        Some(_) => "",
        None => text.as_str(),
    };
    match whole.parse::<u16>() {
        Ok(seconds) if (1..=MAX_TIMEOUT).contains(&seconds) => Some(seconds),
        _ => {
            let message = format!("timeout is a whole number of seconds from 1 to {MAX_TIMEOUT}, not {value}");
            problems.add(fields.at("timeout"), ProblemCode::Timeout, message);
            None
        }
    }
}

fn check_evidence(extract: Option<&Extract>, declared: bool, problems: &mut Problems) {
    let message = match extract {
        Some(Extract::EvidenceEnvelope) if !declared => {
            "extract evidence_envelope needs an evidence declaration: \"evidence\": \"products\""
        }
        Some(Extract::Status | Extract::McpContent) if declared => {
            "evidence reads the body, and this extract does not give it; use evidence_envelope"
        }
        _ => return,
    };
    problems.add("/response/extract", ProblemCode::Extract, message);
}

fn check_placeholders(request: &Request, parameters: &Parameters, problems: &mut Problems) {
    for (pointer, slot) in request.slots() {
        check_slot(
            &pointer,
            slot,
            |name| parameters.declares(name),
            |name| nearest(name, parameters.names()).map(str::to_owned),
            problems,
        );
    }
}
