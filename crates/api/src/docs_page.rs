//! The OpenAPI document as a page that needs no script and nothing from elsewhere.

use serde_json::Value;
use toolcrib_definition::ProblemCode;
use toolcrib_egress::{BLOCK_CODES, EGRESS_CODES};
use toolcrib_executor::CALL_CODES;
use toolcrib_registry::REGISTRY_CODES;
use toolcrib_store::STORE_CODES;
use toolcrib_turn::TURN_CODES;
use utoipa::openapi::OpenApi;

use crate::doctor::DOCTOR_CODES;
use crate::problem::API_CODES;

pub(crate) const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:#1b1b1f;background:#fff}code{font:14px ui-monospace,monospace}section{border-top:1px solid #ccd;padding:.5rem 0}\
.m{display:inline-block;min-width:4.5rem;font-weight:700}table{border-collapse:collapse}td,th{text-align:left;\
padding:.1rem 1rem .1rem 0;vertical-align:top}@media(prefers-color-scheme:dark){body{color:#e6e6ea;background:#16161a}}";

/// Renders the page.
pub(crate) fn render(openapi: &OpenApi) -> String {
    let document = serde_json::to_value(openapi).unwrap_or(Value::Null);
    let mut page = format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>Toolcrib API</title>\
         <meta name=viewport content='width=device-width,initial-scale=1'><style>{STYLE}</style></head><body>\
         <h1>Toolcrib API</h1><p>{}</p><p>The same as <a href=/openapi.json>OpenAPI 3.1</a>. Send a token as \
         <code>Authorization: Bearer …</code>.</p>",
        escape(text(&document, "/info/description"))
    );
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            operation_section(&mut page, path, method, operation);
        }
    }
    page.push_str("<h2>Error codes</h2><table><tr><th>Code<th>Meaning</tr>");
    let tables =
        [API_CODES, REGISTRY_CODES, STORE_CODES, CALL_CODES, TURN_CODES, DOCTOR_CODES, EGRESS_CODES, BLOCK_CODES];
    let listed = tables.into_iter().flatten().map(|(code, meaning)| (*code, *meaning));
    let problems = ProblemCode::ALL.iter().map(|code| (code.as_str(), code.meaning()));
    for (code, meaning) in listed.chain(problems) {
        page.push_str(&format!("<tr id='{code}'><td><code>{code}</code><td>{}</tr>", escape(meaning)));
    }
    page.push_str("</table></body></html>");
    page
}

fn operation_section(page: &mut String, path: &str, method: &str, operation: &Value) {
    page.push_str(&format!(
        "<section><h3><span class=m>{}</span> <code>{}</code></h3><p>{}</p><p>{}</p>",
        escape(&method.to_uppercase()),
        escape(path),
        escape(text(operation, "/summary")),
        escape(text(operation, "/description")),
    ));
    let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !parameters.is_empty() {
        page.push_str("<table><tr><th>Parameter<th>In<th></tr>");
        for parameter in parameters {
            page.push_str(&format!(
                "<tr><td><code>{}</code><td>{}<td>{}</tr>",
                escape(text(parameter, "/name")),
                escape(text(parameter, "/in")),
                escape(text(parameter, "/description")),
            ));
        }
        page.push_str("</table>");
    }
    if let Some(body) = operation.pointer("/requestBody/description").and_then(Value::as_str) {
        page.push_str(&format!("<p>Body: {}</p>", escape(body)));
    }
    page.push_str("<p>Answers:");
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        page.push_str(&format!(" <code>{}</code> {}", escape(status), escape(text(response, "/description"))));
    }
    page.push_str("</p></section>");
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;").replace('"', "&quot;")
}
