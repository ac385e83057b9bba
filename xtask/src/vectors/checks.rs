//! One check a kind of row.

use serde_json::{Map, Value, json};
use toolcrib_definition::{
    Answer, Ctx, Definition, Manifest, Parameters, PathParam, Problems, RenderError, RenderInput, parameters_from_text,
};

use super::Verdict;

/// The check for a file, by the first word of its name.
pub fn for_kind(name: &str) -> Option<fn(&Value) -> Verdict> {
    Some(match name.split(['.', '-']).next()? {
        "definition" => definition,
        "arguments" => arguments,
        "render" => render,
        "response" => response,
        "manifest" => manifest,
        "evidence" => evidence,
        "sugar_text" => sugar_text,
        _ => return None,
    })
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn field<'a>(row: &'a Value, key: &str) -> &'a Value {
    row.get(key).unwrap_or(&Value::Null)
}

/// Compares by exact text: `1.10` is not `1.1`, and a list has an order. Objects have none.
fn same(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (a, b) => {
            let texts = [a, b].map(Value::to_string);
            texts[0] == texts[1]
        }
    }
}

fn equal(expected: &Value, got: &Value) -> Verdict {
    if same(expected, got) { Ok(()) } else { Err((expected.to_string(), got.to_string())) }
}

fn wrong(expected: impl Into<String>, got: impl Into<String>) -> Verdict {
    Err((expected.into(), got.into()))
}

/// Whether a problem lies in the part of a definition that a row names.
fn names_field(problems: &Problems, part: &str) -> bool {
    let pointer = format!("/{}", part.replace('.', "/"));
    problems.iter().any(|problem| {
        let subject = problem.code.as_str().split('.').next();
        subject == Some(part)
            || problem.pointer == pointer
            || problem.pointer.strip_prefix(&pointer).is_some_and(|rest| rest.starts_with('/'))
    })
}

/// The stored form beside the row's: the schema's own top keys filled, fields newer than the row
/// left aside, an absent evidence like none.
fn normalized(stored: Value, expected: &Value) -> Value {
    let Value::Object(mut stored) = stored else { return stored };
    if let Some(Value::Object(schema)) = stored.get_mut("parameters") {
        schema.entry("type").or_insert_with(|| "object".into());
        schema.entry("properties").or_insert_with(|| json!({}));
        schema.entry("required").or_insert_with(|| json!([]));
    }
    stored.retain(|key, _| expected.get(key).is_some());
    Value::Object(stored)
}

fn definition(row: &Value) -> Verdict {
    match (text(row, "expect"), Definition::from_value(field(row, "input"))) {
        ("accept", Ok(definition)) => {
            let expected = field(row, "normalized");
            let stored = definition.to_json();
            match Definition::from_value(&stored) {
                Ok(again) if again == definition => {}
                Ok(_) => return wrong("the stored form reads back the same", "another definition"),
                Err(problems) => return wrong("the stored form reads back", problems.to_string()),
            }
            equal(expected, &normalized(stored, expected))
        }
        ("reject", Err(problems)) => {
            let part = text(row, "reject_field");
            if part.is_empty() || names_field(&problems, part) {
                Ok(())
            } else {
                wrong(format!("a problem of {part}"), problems.to_string())
            }
        }
        (expect, Ok(_)) => wrong(expect, "accept"),
        (expect, Err(problems)) => wrong(expect, format!("reject: {problems}")),
    }
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn arguments(row: &Value) -> Verdict {
    let parameters = match Parameters::from_schema(field(row, "parameters")) {
        Ok(parameters) => parameters,
        Err(problems) => return wrong("a schema of the safe subset", problems.to_string()),
    };
    match (text(row, "expect"), parameters.check(&object(field(row, "args")))) {
        ("accept", Ok(())) => Ok(()),
        ("reject", Err(error)) => {
            if row.get("error_path").is_some_and(|path| path != error.path()) {
                return wrong(field(row, "error_path").to_string(), error.path());
            }
            if row.get("error_text").is_some_and(|text| *text != error.to_string()) {
                return wrong(field(row, "error_text").to_string(), error.to_string());
            }
            Ok(())
        }
        (expect, Ok(())) => wrong(expect, "accept"),
        (expect, Err(error)) => wrong(expect, error.to_string()),
    }
}

/// Secrets of a row: each name has the value the row gives it.
struct RowSecrets<'a>(&'a Value);

impl toolcrib_definition::Secrets for RowSecrets<'_> {
    fn secret(&self, name: &str) -> Option<secrecy::SecretString> {
        self.0.get(name).and_then(Value::as_str).map(secrecy::SecretString::from)
    }
}

fn render(row: &Value) -> Verdict {
    let definition = match Definition::from_value(field(row, "definition")) {
        Ok(definition) => definition,
        Err(problems) => return wrong("a valid definition", problems.to_string()),
    };
    let ctx = match Ctx::from_json(field(row, "ctx")) {
        Ok(ctx) => ctx,
        Err(problems) => return wrong("a valid ctx", problems.to_string()),
    };
    let arguments = object(field(row, "args"));
    let call_id = row.get("call_id").and_then(Value::as_str).unwrap_or("call-1");
    let rendered = definition.render(RenderInput {
        arguments: &arguments,
        ctx: &ctx,
        call_id,
        key: call_id,
        secrets: &RowSecrets(field(row, "secrets")),
        path_param: PathParam::Encode,
    });
    match (text(row, "expect"), rendered) {
        ("argument_error", Err(RenderError::Argument { name, .. })) => {
            let param = text(row, "error_param");
            if param == name { Ok(()) } else { wrong(param, name) }
        }
        ("request", Ok(request)) => {
            let got = json!({
                "method": request.method.as_str(),
                "url": request.url,
                "headers": lower_case(request.headers.iter().map(|h| (h.name.as_str(), h.expose().into()))),
                "body": request.body,
            });
            let expected = field(row, "request");
            let headers = object(field(expected, "headers"));
            let mut expected = object(expected);
            expected.insert("headers".into(), lower_case(headers.iter().map(|(k, v)| (k.as_str(), v.clone()))));
            equal(&Value::Object(expected), &got)
        }
        (expect, Ok(request)) => wrong(expect, request.url),
        (expect, Err(error)) => wrong(expect, error.to_string()),
    }
}

fn lower_case<'a>(headers: impl Iterator<Item = (&'a str, Value)>) -> Value {
    Value::Object(headers.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect())
}

fn answer_of(response: &Value) -> (u16, Option<String>, String) {
    let location = field(response, "headers").as_object().and_then(|headers| {
        headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("location")).and_then(|(_, v)| v.as_str())
    });
    let status = field(response, "status").as_u64().and_then(|status| u16::try_from(status).ok());
    (status.unwrap_or_default(), location.map(str::to_owned), text(response, "body").to_owned())
}

fn response(row: &Value) -> Verdict {
    let definition = match Definition::from_value(field(row, "definition")) {
        Ok(definition) => definition,
        Err(problems) => return wrong("a valid definition", problems.to_string()),
    };
    let (status, location, body) = answer_of(field(row, "response"));
    let shaped = definition.shape(Answer { status, location: location.as_deref(), body: &body });
    let got = json!({
        "result": shaped.result,
        "halt": shaped.halt.is_some(),
        "say": shaped.halt.and_then(|halt| halt.say),
    });
    let expected = json!({ "result": field(row, "result"), "halt": field(row, "halt"), "say": field(row, "say") });
    equal(&expected, &got)
}

fn evidence(row: &Value) -> Verdict {
    let tool = json!({
        "name": "probe_tool",
        "description": "Reads one answer",
        "request": { "url": "https://api.example.test/r" },
        "response": { "extract": "evidence_envelope" },
        "evidence": field(row, "evidence"),
    });
    let definition = match Definition::from_value(&tool) {
        Ok(definition) => definition,
        Err(problems) => return wrong("a valid definition", problems.to_string()),
    };
    let shaped = definition.shape(Answer { status: 200, location: None, body: text(row, "body") });
    let mut expected = json!({ "ids": field(row, "ids"), "attachments": field(row, "attachments") });
    let mut got = json!({ "ids": shaped.evidence_ids, "attachments": shaped.attachments });
    if let Some(prefix) = row.get("error_prefix").and_then(Value::as_str) {
        let message = text(&shaped.result, "error");
        if !message.starts_with(prefix) {
            return wrong(format!("an error that opens with {prefix:?}"), shaped.result.to_string());
        }
    } else {
        expected["model_sees"] = field(row, "model_sees").clone();
        got["model_sees"] = shaped.result;
    }
    equal(&expected, &got)
}

fn sugar_text(row: &Value) -> Verdict {
    match (text(row, "expect"), parameters_from_text(text(row, "text"))) {
        ("accept", Ok(schema)) => equal(field(row, "parameters"), &schema),
        ("reject", Err(_)) => Ok(()),
        (expect, Ok(schema)) => wrong(expect, schema.to_string()),
        (expect, Err(problems)) => wrong(expect, problems.to_string()),
    }
}

fn manifest(row: &Value) -> Verdict {
    let expect = field(row, "expect");
    let structural = expect.get("structural_error") == Some(&Value::Bool(true));
    let manifest = match Manifest::from_value(field(row, "manifest")) {
        Ok(_) if structural => return wrong("a structural error", "none"),
        Ok(manifest) => manifest,
        Err(_) if structural => return Ok(()),
        Err(error) => return wrong("a sound structure", error.to_string()),
    };
    let env = field(row, "env");
    let environment = |name: &str| env.get(name).and_then(Value::as_str).map(str::to_owned);
    let secrets: Vec<&str> = field(row, "secrets").as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let expanded = manifest.expand(&environment, &|name| secrets.contains(&name));
    let created: Vec<&str> = expanded.tools.iter().map(|tool| tool.name.as_str()).collect();
    equal(field(expect, "created"), &json!(created))?;
    let errors = field(expect, "errors").as_array().cloned().unwrap_or_default();
    if errors.len() != expanded.errors.len() {
        let got: Vec<String> = expanded.errors.iter().map(|e| format!("{}: {}", e.tool, e.problems)).collect();
        return wrong(field(expect, "errors").to_string(), format!("{got:?}"));
    }
    for (expected, got) in errors.iter().zip(&expanded.errors) {
        let message = got.problems.to_string();
        if text(expected, "tool") != got.tool || !message.contains(text(expected, "contains")) {
            return wrong(expected.to_string(), format!("{}: {message}", got.tool));
        }
    }
    if let Some(definitions) = row.get("definitions").and_then(Value::as_array) {
        for (expected, got) in definitions.iter().zip(&expanded.tools) {
            equal(expected, &normalized(got.to_json(), expected))?;
        }
    }
    Ok(())
}
