//! A curl command becomes a tool.

mod command;
mod inferred;

use serde_json::{Map, Value, json};
use toolcrib_definition::Definition;
use url::Url;

use self::command::{Body, Command};
use self::inferred::schema_of;
use crate::names::{Names, is_secret, looks_drawn, secret_of, snake};
use crate::report::{ImportError, Imported, OperationReport, Options, SecretNeeded};

/// What a browser or curl itself adds, and no tool needs.
const OF_THE_CLIENT: [&str; 9] = [
    "host",
    "content-length",
    "connection",
    "accept-encoding",
    "user-agent",
    "origin",
    "referer",
    "priority",
    "content-type",
];
/// Makes a tool of a curl command: what it sends in the query, in the body and as ids in the path become arguments, and
/// what looks like a secret becomes a reference to one. The secret itself is nowhere in what comes out.
///
/// # Errors
/// [`ImportError::Curl`] when the command can't be read, [`ImportError::Unsupported`] when no tool can do what it does.
pub fn curl(command: &str, options: &Options) -> Result<Imported, ImportError> {
    let command = Command::read(command)?;
    let mut url = command.url()?;
    let mut draft = Draft::default();
    let path = draft.path(&url);
    draft.query(&url);
    let host = url.host_str().unwrap_or_default().to_owned();
    draft.headers(&command, &host);
    let body = draft.body(&command)?;
    let method = command.method();
    // With the names of the ids in it: an id may be a secret.
    let shown_path = path.replace("{{", "{").replace("}}", "}");
    url.set_query(None);
    url.set_fragment(None);
    url.set_path("");
    let base = url.as_str().trim_end_matches('/').to_owned();
    let name = match options.prefix.as_deref().map(snake) {
        Some(prefix) if !prefix.is_empty() => format!("{prefix}_{}", draft.name(&method)),
        _ => draft.name(&method),
    };
    let mut request = json!({ "method": method, "url": format!("{base}{path}") });
    for (key, map) in [("headers", draft.headers), ("query", draft.query)] {
        if !map.is_empty() {
            request[key] = Value::Object(map);
        }
    }
    if let Some(body) = body {
        request["body"] = body;
    }
    let mut parameters = json!({ "type": "object", "properties": draft.properties });
    if !draft.required.is_empty() {
        parameters["required"] = draft.required.into();
    }
    let mut definition = json!({
        "name": name,
        "description": format!("{method} {base}{shown_path}"),
        "parameters": parameters,
        "request": request,
    });
    if !draft.secrets.is_empty() {
        definition["secret_headers"] = draft.secrets.iter().map(|secret| secret.header.as_str()).collect();
    }
    if let Some(group) = &options.group {
        definition["group"] = group.as_str().into();
    }
    draft.notes.push("the description is the address only; say what the tool does, for the model to read".to_owned());
    let (tool, problems) = match Definition::from_value(&definition) {
        Ok(tool) => (Some(tool), Vec::new()),
        Err(problems) => {
            (None, problems.iter().map(|problem| format!("{}: {}", problem.pointer, problem.message)).collect())
        }
    };
    let report = OperationReport {
        method,
        path: shown_path,
        operation_id: None,
        tool: tool.as_ref().map(|tool| tool.name.as_str().to_owned()),
        problems,
        notes: draft.notes,
    };
    Ok(Imported { tools: tool.into_iter().collect(), operations: vec![report], secrets: draft.secrets })
}

/// A tool while it is made.
#[derive(Default)]
struct Draft {
    names: Names,
    properties: Map<String, Value>,
    required: Vec<String>,
    headers: Map<String, Value>,
    query: Map<String, Value>,
    secrets: Vec<SecretNeeded>,
    notes: Vec<String>,
    /// The parts of the path that are names.
    nouns: Vec<String>,
}

impl Draft {
    /// Declares an argument, and returns its placeholder.
    fn argument(&mut self, wanted: &str, schema: Value) -> String {
        let wanted = match snake(wanted) {
            name if name.is_empty() => "value".to_owned(),
            name => name,
        };
        let name = self.names.take(&wanted);
        self.properties.insert(name.clone(), schema);
        self.required.push(name.clone());
        format!("{{{{{name}}}}}")
    }

    /// The path with an argument in the place of each id.
    fn path(&mut self, url: &Url) -> String {
        let mut path = String::new();
        for segment in url.path().split('/').skip(1) {
            path.push('/');
            let plain = percent_encoding::percent_decode_str(segment).decode_utf8_lossy().into_owned();
            let named = plain
                .strip_prefix('{')
                .and_then(|rest| rest.strip_suffix('}'))
                .map(|name| name.trim_matches(['{', '}', ' ']));
            if let Some(name) = named {
                path.push_str(&self.argument(name, json!({ "type": "string" })));
            } else if is_id(&plain) {
                let of = self.nouns.last().map_or("", |noun| noun.trim_end_matches('s'));
                let wanted = format!("{of}_id");
                let number = plain.bytes().all(|byte| byte.is_ascii_digit()).then(|| text_value(&plain));
                // What is no number may be a secret: it is no example.
                let schema = number.as_ref().map_or_else(|| json!({ "type": "string" }), schema_of);
                path.push_str(&self.argument(wanted.trim_start_matches('_'), schema));
            } else {
                path.push_str(segment);
                if !plain.is_empty() {
                    self.nouns.push(snake(&plain));
                }
            }
        }
        path
    }

    fn query(&mut self, url: &Url) {
        let pairs: Vec<(String, String)> =
            url.query_pairs().map(|(key, value)| (key.into_owned(), value.into_owned())).collect();
        for (key, value) in pairs {
            if is_secret(&key) {
                self.notes.push(format!(
                    "the query entry {key} looks like a secret and is left out: secrets go into headers only"
                ));
            } else if self.query.contains_key(&key) {
                self.notes.push(format!("the query entry {key} stands there more than once; the tool gives it once"));
            } else {
                let place = self.argument(&key, schema_of(&text_value(&value)));
                self.query.insert(key, place.into());
            }
        }
    }

    fn headers(&mut self, command: &Command, host: &str) {
        for (name, value) in &command.headers {
            let lower = name.to_ascii_lowercase();
            if is_secret(name) || looks_drawn(value) {
                self.secret(name, value, host);
            } else if OF_THE_CLIENT.contains(&lower.as_str()) || lower.starts_with("sec-") {
                if !matches!(lower.as_str(), "content-type" | "user-agent") {
                    self.notes.push(format!("the header {name} is left out: it is the client's own"));
                }
            } else {
                self.headers.insert(name.clone(), value.as_str().into());
            }
        }
        if command.user.is_some() {
            self.secret("Authorization", "Basic ", host);
        }
        for ignored in &command.ignored {
            self.notes.push(format!("{ignored} is left out: it says how curl works, not what is sent"));
        }
    }

    /// A header that holds a secret, by reference.
    fn secret(&mut self, header: &str, value: &str, host: &str) {
        let before =
            ["Bearer ", "Basic ", "Token ", "token ", "bearer "].into_iter().find(|word| value.starts_with(word));
        let before = before.unwrap_or_default();
        let name = secret_of(host, header);
        self.headers.insert(header.to_owned(), format!("{before}{{{{secret.{name}}}}}").into());
        let holds = match before.trim() {
            "Basic" => "user:password in base64".to_owned(),
            "" => "what the command sends in this header".to_owned(),
            word => format!("what the command sends after {word}"),
        };
        self.secrets.push(SecretNeeded { name, header: header.to_owned(), holds });
    }

    fn body(&mut self, command: &Command) -> Result<Option<Value>, ImportError> {
        let content_type = command.header("content-type");
        Ok(match command.body()? {
            Body::None => None,
            Body::Json(value, said) => {
                match content_type.filter(|media| !media.starts_with("application/json")) {
                    Some(media) => drop(self.headers.insert("Content-Type".to_owned(), media.into())),
                    None if !said => self.notes.push(
                        "curl sends this body as a form, unless it is told that it is JSON; the tool sends JSON"
                            .to_owned(),
                    ),
                    None => {}
                }
                Some(self.fields(value))
            }
            Body::Form(pairs) => {
                self.headers.insert("Content-Type".to_owned(), "application/x-www-form-urlencoded".into());
                let mut fields = Map::new();
                for (key, value) in pairs {
                    if fields.contains_key(&key) {
                        self.notes.push(format!("the field {key} stands there more than once; the tool gives it once"));
                    } else {
                        fields.insert(key, text_value(&value));
                    }
                }
                Some(self.fields(Value::Object(fields)))
            }
            Body::Text => {
                if let Some(media) = content_type {
                    self.headers.insert("Content-Type".to_owned(), media.into());
                }
                // The text itself may hold a secret: it is no example.
                Some(self.argument("body", json!({ "type": "string" })).into())
            }
        })
    }

    /// Each field of an object as an argument of its own; any other value as one.
    fn fields(&mut self, value: Value) -> Value {
        let map = match self.without_secrets(value) {
            Value::Object(map) => map,
            other => return self.argument("body", schema_of(&other)).into(),
        };
        let mut out = Map::new();
        for (key, value) in map {
            let place = self.argument(&key, schema_of(&value));
            out.insert(key, place.into());
        }
        Value::Object(out)
    }

    /// The value without the fields, however deep, that look like secrets.
    fn without_secrets(&mut self, value: Value) -> Value {
        match value {
            Value::Object(map) => {
                let mut kept = Map::new();
                for (key, value) in map {
                    if is_secret(&key) {
                        self.notes.push(format!(
                            "the field {key} of the body looks like a secret and is left out: secrets go into headers only"
                        ));
                    } else {
                        kept.insert(key, self.without_secrets(value));
                    }
                }
                Value::Object(kept)
            }
            Value::Array(items) => items.into_iter().map(|item| self.without_secrets(item)).collect(),
            other => other,
        }
    }

    fn name(&self, method: &str) -> String {
        let version = |noun: &&String| {
            noun.as_str() != "api" && !(noun.starts_with('v') && noun[1..].bytes().all(|byte| byte.is_ascii_digit()))
        };
        let nouns: Vec<&str> = self.nouns.iter().filter(version).map(String::as_str).collect();
        let last = nouns[nouns.len().saturating_sub(2)..].join("_");
        let name = snake(&format!("{method} {last}"));
        name[..name.len().min(64)].trim_end_matches('_').to_owned()
    }
}

/// Whether a part of a path is an id rather than a name.
fn is_id(segment: &str) -> bool {
    let hex = |text: &str| text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let digits = segment.bytes().filter(u8::is_ascii_digit).count();
    !segment.is_empty()
        && (digits == segment.len() || hex(segment) || (digits >= 4 && segment.len() >= 8 && !segment.contains('.')))
}

/// A text as the value that it looks like: a number, a boolean or itself.
fn text_value(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Number(number)) if number.as_str() == text => Value::Number(number),
        Ok(Value::Bool(value)) => value.into(),
        _ => text.into(),
    }
}
