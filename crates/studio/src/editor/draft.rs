//! A definition as the fields of a form, and back. What no field shows is kept.

use serde_json::{Map, Value, json};
use toolcrib_definition::{Definition, Problem, ProblemCode, Problems, json, parameters_from_text, parameters_to_text};

use crate::form::Form;
use crate::shown::text;

/// A definition that somebody works on: its fields as texts, and the rest of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    /// The definition as it was read; its keys that no field shows go back as they are.
    whole: Map<String, Value>,
    fields: Map<String, Value>,
}

/// How a field is written in a definition.
#[derive(Clone, Copy)]
enum Kind {
    /// A text; an empty one is none.
    Text,
    /// A number; none when empty.
    Number,
    /// Texts between commas.
    Texts,
    /// Any JSON; none when empty.
    Json,
}

/// The fields that stand in a definition as they are, each with its key.
const PLAIN: [(&str, Kind); 10] = [
    ("name", Kind::Text),
    ("description", Kind::Text),
    ("group", Kind::Text),
    ("idempotency_key_header", Kind::Text),
    ("timeout", Kind::Number),
    ("idempotency_key_life", Kind::Number),
    ("tags", Kind::Texts),
    ("secret_headers", Kind::Texts),
    ("halt_when", Kind::Json),
    ("evidence", Kind::Json),
];

/// The others, by their names in the form.
const OTHERS: [&str; 11] = [
    "method",
    "url",
    "headers",
    "query",
    "body",
    "body_as",
    "parameters",
    "extract",
    "path",
    "side_effect",
    "approval",
];

/// The names of all fields.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PLAIN.iter().map(|(name, _)| *name).chain(OTHERS)
}

impl Draft {
    /// The fields of a definition.
    pub(crate) fn of(definition: &Value) -> Self {
        let whole = definition.as_object().cloned().unwrap_or_default();
        let mut fields = Map::new();
        for (name, kind) in PLAIN {
            let value = &definition[name];
            let text = match kind {
                Kind::Texts => texts(value),
                Kind::Text | Kind::Number | Kind::Json => plain_text(value),
            };
            fields.insert(name.to_owned(), text.into());
        }
        let request = &definition["request"];
        let body = &request["body"];
        let mut put = |name: &str, text: String| fields.insert(name.to_owned(), text.into());
        put("method", text(request, "method").to_owned());
        put("url", text(request, "url").to_owned());
        put("headers", lines(&request["headers"]));
        put("query", lines(&request["query"]));
        put("body", body.as_str().map_or_else(|| plain_text(body), str::to_owned));
        put("body_as", if body.is_string() { "text" } else { "json" }.to_owned());
        put("parameters", plain_text(&definition["parameters"]));
        put("extract", text(&definition["response"], "extract").to_owned());
        put("path", text(&definition["response"], "path").to_owned());
        put(
            "side_effect",
            definition["side_effect"].as_bool().map_or("", |is| if is { "yes" } else { "no" }).to_owned(),
        );
        put(
            "approval",
            match &definition["approval"] {
                Value::Object(rule) => rule.get("when").and_then(Value::as_str).unwrap_or_default().to_owned(),
                other => other.as_str().unwrap_or("never").to_owned(),
            },
        );
        Self { whole, fields }
    }

    /// The fields that a form sent.
    pub(crate) fn read(form: &Form) -> Self {
        let whole = json::parse(form.text("whole").as_bytes()).ok();
        // Browsers send lines as CRLF.
        let fields = names().map(|name| (name.to_owned(), form.text(name).replace("\r\n", "\n").into())).collect();
        Self { whole: whole.and_then(|whole| whole.as_object().cloned()).unwrap_or_default(), fields }
    }

    /// A field as it was typed.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The same with its parameters in the other spelling: lines, or JSON Schema.
    ///
    /// # Errors
    /// Why they can't be, in words.
    pub(crate) fn switched(mut self) -> Result<Self, (Self, String)> {
        let typed = self.text("parameters").to_owned();
        let schema = match parameters_from_text(&typed) {
            Ok(schema) => schema,
            Err(problems) => {
                let why: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
                let why = format!("the parameters can't be read as they are: {}", why.join("; "));
                return Err((self, why));
            }
        };
        let other = match typed.trim_start().starts_with(['{', '[']) {
            true => parameters_to_text(&schema),
            false => Some(format!("{schema:#}")),
        };
        match other {
            Some(text) => {
                self.fields.insert("parameters".to_owned(), text.into());
                Ok(self)
            }
            None => Err((self, "lines would say less than this schema does, so it stays JSON Schema".to_owned())),
        }
    }

    /// The definition as it was read, for the form to keep.
    pub(crate) fn whole(&self) -> String {
        Value::Object(self.whole.clone()).to_string()
    }

    /// What was typed, over what stands in the row now.
    pub(crate) fn over(self, definition: &Value) -> Self {
        Self { whole: definition.as_object().cloned().unwrap_or_default(), fields: self.fields }
    }

    /// Whether the row keeps the schema that its parameters were lowered from.
    pub(crate) fn is_lowered(&self) -> bool {
        self.whole.get("lowered_from").is_some()
    }

    /// The definition that the fields say.
    ///
    /// # Errors
    /// The fields that can't be read, each with the pointer of its place.
    pub(crate) fn definition(&self) -> Result<Value, Problems> {
        let mut problems = Vec::new();
        let mut wrong = |pointer: &str, message: String| {
            problems.push(Problem { pointer: pointer.to_owned(), code: ProblemCode::Type, message });
        };
        let mut out = self.whole.clone();
        for (name, kind) in PLAIN {
            let typed = self.text(name).trim();
            let value = match kind {
                _ if typed.is_empty() => Value::Null,
                Kind::Text => self.text(name).trim().into(),
                Kind::Number => json::parse(typed.as_bytes()).unwrap_or_else(|_| typed.into()),
                // A list of JSON is one whose texts hold commas.
                Kind::Texts => match json::parse(typed.as_bytes()) {
                    Ok(list @ Value::Array(_)) => list,
                    _ => between_commas(typed),
                },
                Kind::Json => match json::parse(typed.as_bytes()) {
                    Ok(value) => value,
                    Err(error) => {
                        wrong(&format!("/{name}"), format!("it is not JSON: {error}"));
                        Value::Null
                    }
                },
            };
            if value.is_null() {
                out.shift_remove(name)
            } else {
                out.insert(name.to_owned(), value)
            };
        }
        match parameters_from_text(self.text("parameters")) {
            Ok(parameters) => drop(out.insert("parameters".to_owned(), parameters)),
            // What is JSON is judged whole below, with all that belongs to it.
            Err(_) if self.text("parameters").trim_start().starts_with(['{', '[']) => {
                match json::parse(self.text("parameters").as_bytes()) {
                    Ok(value) => drop(out.insert("parameters".to_owned(), value)),
                    Err(error) => wrong("/parameters", format!("it is not JSON: {error}")),
                }
            }
            Err(found) => found.iter().for_each(|problem| wrong("/parameters", problem.message.clone())),
        }
        let mut request = out.get("request").and_then(Value::as_object).cloned().unwrap_or_default();
        for name in ["method", "url"] {
            request.insert(name.to_owned(), self.text(name).trim().into());
        }
        for name in ["headers", "query"] {
            match map_of(self.text(name)) {
                Ok(map) => drop(request.insert(name.to_owned(), Value::Object(map))),
                Err(message) => wrong(&format!("/request/{name}"), message),
            }
        }
        match (self.text("body").trim(), self.text("body_as")) {
            // A body that is an empty text is not the same as none.
            ("", "text") if request.get("body").and_then(Value::as_str) == Some("") => {}
            ("", _) => drop(request.shift_remove("body")),
            (_, "text") => drop(request.insert("body".to_owned(), self.text("body").into())),
            (typed, _) => match json::parse(typed.as_bytes()) {
                Ok(value) => drop(request.insert("body".to_owned(), value)),
                Err(error) => wrong("/request/body", format!("it is not JSON: {error}; or send it as text")),
            },
        }
        out.insert("request".to_owned(), Value::Object(request));
        let path = self.text("path").trim();
        let path = if path.is_empty() { Value::Null } else { path.into() };
        out.insert("response".to_owned(), json!({ "extract": self.text("extract"), "path": path }));
        match self.text("side_effect") {
            "yes" => drop(out.insert("side_effect".to_owned(), true.into())),
            "no" => drop(out.insert("side_effect".to_owned(), false.into())),
            _ => drop(out.shift_remove("side_effect")),
        }
        let approval = match self.text("approval").trim() {
            "" => "never".into(),
            word @ ("never" | "always" | "once") => word.into(),
            rule => json!({ "when": rule }),
        };
        out.insert("approval".to_owned(), approval);
        let out = Value::Object(out);
        if problems.is_empty() {
            return Definition::from_value(&out).map(|_| out);
        }
        // What can be read is judged too: all problems come at once.
        let named: Vec<String> = problems.iter().map(|problem| problem.pointer.clone()).collect();
        if let Err(more) = Definition::from_value(&out) {
            problems.extend(more.iter().filter(|problem| !named.contains(&problem.pointer)).cloned());
        }
        Err(problems.into_iter().collect())
    }
}

/// A value as a person types it.
fn plain_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => format!("{other:#}"),
    }
}

/// Texts with commas between them, or as JSON where that would not be read back.
fn texts(value: &Value) -> String {
    let Value::Array(items) = value else { return plain_text(value) };
    let text = items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    if between_commas(&text) == *value { text } else { value.to_string() }
}

fn between_commas(text: &str) -> Value {
    text.split(',').map(str::trim).filter(|text| !text.is_empty()).collect()
}

/// A map as one line for each entry; what would not come back from its line is a line of JSON.
fn lines(map: &Value) -> String {
    let line = |(key, value): (&String, &Value)| {
        let line = format!("{key}: {}", plain_text(value));
        let entry = Map::from_iter([(key.clone(), value.clone())]);
        if map_of(&line).is_ok_and(|read| read == entry) { line } else { Value::Object(entry).to_string() }
    };
    map.as_object().into_iter().flatten().map(line).collect::<Vec<_>>().join("\n")
}

fn map_of(text: &str) -> Result<Map<String, Value>, String> {
    let mut map = Map::new();
    let mut put = |key: String, value: Value| match map.insert(key.clone(), value) {
        None => Ok(()),
        Some(_) => Err(format!("{key} stands there twice")),
    };
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('{') {
            let entries = json::parse(line.as_bytes()).map_err(|error| format!("{line} is not JSON: {error}"))?;
            for (key, value) in entries.as_object().into_iter().flatten() {
                put(key.clone(), value.clone())?;
            }
            continue;
        }
        // A name may hold a colon; what is typed without a space is meant all the same.
        let entry = line.split_once(": ").or_else(|| line.split_once(':'));
        let (key, value) = entry.ok_or_else(|| format!("{line:?} is no name: value"))?;
        put(key.trim().to_owned(), value.trim().into())?;
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A definition as a form sends it back.
    fn round(definition: &Value) -> Value {
        let definition = Definition::from_value(definition).unwrap().to_json();
        let draft = Draft::of(&definition);
        let mut form: Vec<(String, String)> = vec![("whole".to_owned(), draft.whole())];
        form.extend(
            draft.fields.iter().map(|(name, text)| (name.clone(), text.as_str().unwrap().replace('\n', "\r\n"))),
        );
        let mut encoded = url::form_urlencoded::Serializer::new(String::new());
        encoded.extend_pairs(&form);
        let read = Draft::read(&Form::read(encoded.finish().as_bytes()));
        Definition::from_value(&read.definition().unwrap()).unwrap().to_json()
    }

    #[test]
    fn nothing_is_lost_between_a_row_and_the_form() {
        let check = |definition: Value| {
            let stored = Definition::from_value(&definition).unwrap().to_json();
            assert_eq!(round(&definition), stored);
        };
        check(json!({"name": "a", "description": "Two\nlines", "request": {"url": "https://a.example/x"}}));
        check(json!({
            "name": "pay", "description": "Pay", "group": "bank", "tags": ["b2b", "eu"], "timeout": 30, "approval": {"when": "args.amount > 5"},
            "parameters": {"type": "object", "properties": {"amount": {"type": "number", "minimum": 0.10}}, "required": ["amount"]},
            "request": {
                "method": "POST", "url": "https://a.example/{{amount}}", "query": {"a:b": "1: 2", "odd: key": "x", "{": " y "},
                "headers": {"Authorization": "Bearer {{secret.bank}}", "X-Note": "{{ctx.chat_id}}"}, "body": {"amount": "{{amount}}", "n": [1, 2.50]},
            },
            "secret_headers": ["Authorization"], "idempotency_key_header": "Idempotency-Key", "idempotency_key_life": 60, "not_performed_on": [503],
            "response": {"extract": "json_path", "path": "$.a"}, "halt_when": {"json_path": "a", "equals": ["X"]}, "side_effect": true,
            "evidence": {"kind": "payments"},
        }));
        check(json!({
            "name": "text", "description": "d", "parameters": [{"name": "q"}], "approval": "once", "side_effect": false,
            "request": {"method": "POST", "url": "https://a.example", "body": "{\"q\": \"{{q}}\"}"},
        }));
        for body in [json!([]), json!(["5"]), json!(["{{q}}", "a, b"]), json!("5"), json!(""), json!(7)] {
            check(json!({
                "name": "list", "description": "d", "parameters": [{"name": "q"}], "tags": ["a, b", "c"],
                "request": {"method": "POST", "url": "https://a.example/{{q}}", "body": body},
            }));
        }
    }

    #[test]
    fn parameters_are_switched_without_loss() {
        let of = |parameters: &str| {
            let mut draft = Draft::default();
            draft.fields.insert("parameters".to_owned(), parameters.into());
            draft.switched()
        };
        let lines = "zip | string | required | Where to\nkinds | array:integer | optional";
        let schema = of(lines).unwrap();
        assert!(schema.text("parameters").starts_with('{'));
        assert_eq!(schema.switched().unwrap().text("parameters"), lines);
        for (more, words) in [
            (r#"{"type": "object", "properties": {"a": {"type": "string", "minLength": 2}}}"#, "say less"),
            (r#"{"type": "object", "properties": {"a": {"type": "object"}}}"#, "say less"),
            (r#"{"type": "object", "properties": {"a": {"type": "string", "description": "two\nlines"}}}"#, "say less"),
            ("{", "can't be read"),
            ("a | text", "can't be read"),
        ] {
            let (draft, why) = of(more).unwrap_err();
            assert!(why.contains(words), "{more}: {why}");
            assert_eq!(draft.text("parameters"), more, "nothing is changed");
        }
    }

    #[test]
    fn problems_name_their_places() {
        let check = |name: &str, text: &str, pointer: &str, words: &str| {
            let mut draft =
                Draft::of(&json!({"name": "a", "description": "d", "request": {"url": "https://a.example"}}));
            draft.fields.insert(name.to_owned(), text.into());
            let problems = draft.definition().unwrap_err();
            let told =
                problems.iter().map(|problem| format!("{} {}", problem.pointer, problem.message)).collect::<Vec<_>>();
            assert!(told.iter().any(|told| told.starts_with(pointer) && told.contains(words)), "{name}: {told:?}");
        };
        check("name", "Bad Name", "/name", "name");
        check("description", " ", "/description", "what the model reads");
        check("headers", "no colon", "/request/headers", "no name: value");
        check("query", "a: 1\na: 2", "/request/query", "twice");
        check("body", "{", "/request/body", "not JSON");
        check("parameters", "{", "/parameters", "not JSON");
        check("parameters", "zip | text", "/parameters", "text");
        check("halt_when", "[", "/halt_when", "not JSON");
        check("timeout", "soon", "/timeout", "whole number");
        check("url", "ftp://a.example", "/request/url", "http");
    }
}
