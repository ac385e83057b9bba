//! A new tool: blank, or from what there is already.

use std::collections::BTreeSet;

use axum::Extension;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use maud::{Markup, html};
use serde_json::{Value, json};
use toolcrib_definition::json::{ReadOptions, read};
use toolcrib_definition::{Definition, Problems};
use toolcrib_import::{ImportError, Imported, Options, curl, openapi};

use crate::editor::Draft;
use crate::failure::Failure;
use crate::form::Form;
use crate::layout;
use crate::operator::Operator;
use crate::pages::editor;
use crate::shown::{list, shown};

/// The longest document that is pasted, in bytes (4 MiB); a longer one goes in by `toolcrib import openapi`.
const LONGEST: usize = 4 << 20;
/// How deep a document may be nested.
const DEEPEST: usize = 256;

pub(crate) async fn choose(Extension(operator): Extension<Operator>) -> Response {
    page(&operator, "", "", None)
}

pub(crate) async fn blank(Extension(operator): Extension<Operator>) -> Response {
    let request = json!({ "method": "GET", "url": "https://" });
    let draft = Draft::of(&json!({ "request": request, "response": { "extract": "body_raw" } }));
    editor::page(&operator, &draft, None, &Problems::default(), &html! {})
}

/// Opens the editor with what a curl command says.
pub(crate) async fn from_curl(Extension(operator): Extension<Operator>, Extension(form): Extension<Form>) -> Response {
    let command = form.text("command");
    match curl(command, &Options::default()) {
        Ok(imported) => match imported.tools.first() {
            Some(tool) => {
                let draft = Draft::of(&tool.to_json());
                editor::page(&operator, &draft, None, &Problems::default(), &said(&imported))
            }
            None => page(&operator, command, "", Some(&said(&imported))),
        },
        Err(error) => page(&operator, command, "", Some(&refused(&error))),
    }
}

/// Lists the operations of a document, and writes those that were picked.
pub(crate) async fn from_openapi(
    Extension(operator): Extension<Operator>,
    Extension(form): Extension<Form>,
) -> Response {
    let text = form.text("document");
    let options = ReadOptions { max_bytes: LONGEST, max_depth: DEEPEST, ..ReadOptions::default() };
    let document: Value = match read(text.as_bytes(), options) {
        Ok(document) => document,
        Err(error) => {
            let notice = html! { div.notice.bad role="alert" { p { "It is not JSON: " (error.to_string()) ". A document in YAML goes in with " code { "toolcrib import openapi" } "." } } };
            return page(&operator, "", text, Some(&notice));
        }
    };
    let picked: BTreeSet<String> = form.all("operation").map(str::to_owned).collect();
    let base_url = Some(form.text("base_url").trim().to_owned()).filter(|url| !url.is_empty());
    let only = (!picked.is_empty()).then(|| picked.clone());
    let options = Options { base_url, only, ..Options::default() };
    // A long document takes a while, in which others are served.
    let imported = match tokio::task::spawn_blocking(move || openapi(&document, &options)).await {
        Ok(Ok(imported)) => imported,
        Ok(Err(error)) => return page(&operator, "", text, Some(&refused(&error))),
        Err(_) => return Failure::internal("the document could not be read").into_response(),
    };
    if picked.is_empty() {
        return pick(&operator, text, form.text("base_url"), &imported);
    }
    let tools: Vec<Value> = imported.tools.iter().map(Definition::to_json).collect();
    match operator.api.post("/v1/tools/manifest?secrets=later", &json!({ "version": 1, "tools": tools })).await {
        Ok(answer) => {
            let body = html! {
                h1 { "From a document" }
                div.notice.good role="status" { p {
                    (list(&answer, "created").len()) " tool(s) made, " (list(&answer, "updated").len()) " changed, "
                    (list(&answer, "unchanged").len()) " as they were."
                } }
                @for error in list(&answer, "errors") {
                    div.notice.bad role="alert" { p { "Left out " (shown(&error["tool"].to_string())) ": " (shown(&error["message"].to_string())) } }
                }
                (said(&imported))
                p { a href="/studio/tools" { "To the tools" } }
            };
            layout::page(&operator, "From a document", &body)
        }
        Err(failure) => (failure.status, page(&operator, "", text, Some(&failure.notice()))).into_response(),
    }
}

/// The operations, each with what it would become.
fn pick(operator: &Operator, document: &str, base_url: &str, imported: &Imported) -> Response {
    let (can, cannot): (Vec<_>, Vec<_>) = imported.operations.iter().partition(|report| report.tool.is_some());
    let body = html! {
        h1 { "Which operations?" }
        p { (can.len()) " of " (imported.operations.len()) " operations can be tools." }
        form method="post" action="/studio/new/openapi" {
            (layout::form_key(operator))
            input type="hidden" name="document" value=(document);
            input type="hidden" name="base_url" value=(base_url);
            div.actions { button.primary { "Make those that are ticked" } }
            ul.picks {
                @for report in &can {
                    @let place = format!("{} {}", report.method, report.path);
                    li {
                        label {
                            input type="checkbox" name="operation" value=(place);
                            " " code { (shown(&place)) } " → " (shown(report.tool.as_deref().unwrap_or_default()))
                        }
                        @for note in &report.notes { p.hint { (shown(note)) } }
                    }
                }
            }
        }
        @if !cannot.is_empty() {
            h2 { "Those that can't be tools" }
            ul { @for report in &cannot { li { code { (report.method) " " (shown(&report.path)) } ": " (shown(&report.problems.join("; "))) } } }
        }
    };
    layout::page(operator, "Which operations?", &body)
}

/// What was not carried over, and what is to be done next.
fn said(imported: &Imported) -> Markup {
    let of = imported.operations.iter().filter(|report| !report.notes.is_empty() || !report.problems.is_empty());
    html! {
        @for report in of {
            div.notice {
                p { code { (report.method) " " (shown(&report.path)) } }
                ul { @for said in report.problems.iter().chain(&report.notes) { li { (shown(said)) } } }
            }
        }
        @for secret in &imported.secrets {
            div.notice { p {
                "It needs the secret " code { (secret.name) } ", for the header " (shown(&secret.header)) ": " (shown(&secret.holds)) ". Set "
                code { "TOOLCRIB_SECRET_" (secret.name.to_ascii_uppercase()) } " on the server, or put a file into its folder of secrets."
            } }
        }
    }
}

fn refused(error: &ImportError) -> Markup {
    html! { div.notice.bad role="alert" { p { (shown(&error.to_string())) } } }
}

fn page(operator: &Operator, command: &str, document: &str, notice: Option<&Markup>) -> Response {
    let body = html! {
        h1 { "A new tool" }
        @if let Some(notice) = notice { (notice) }
        p { a href="/studio/new/blank" { "Begin with an empty one" } ", or from what there is already:" }
        form method="post" action="/studio/new/curl" {
            (layout::form_key(operator))
            label for="command" { "A curl command" }
            textarea #command name="command" rows="5" spellcheck="false" placeholder="curl https://api.example.com/orders/7 -H 'Authorization: Bearer …'" { "\n" (command) }
            div.actions { button.primary { "Make a tool of it" } }
        }
        form method="post" action="/studio/new/openapi" {
            (layout::form_key(operator))
            label for="document" { "An OpenAPI document, in JSON" }
            textarea #document name="document" rows="8" spellcheck="false" { "\n" (document) }
            label for="base_url" { "The API's address, where the document names none" }
            input #base_url name="base_url" placeholder="https://api.example.com";
            div.actions { button.primary { "List its operations" } }
        }
        p { "The tools of an MCP server are adopted together: " a href="/studio/mcp" { "MCP servers" } "." }
    };
    let status = if notice.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    (status, layout::page(operator, "A new tool", &body)).into_response()
}
