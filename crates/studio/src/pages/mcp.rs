//! MCP servers: adding one, what it lists, what an ingestion would change, and the `mcpServers` document.

use axum::Extension;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use toolcrib_definition::json::parse;

use crate::api::{segment, with_query};
use crate::failure::Failure;
use crate::form::Form;
use crate::layout;
use crate::operator::Operator;
use crate::shown::{block, list as items, names, shown, status, text, time};

pub(crate) async fn list(Extension(operator): Extension<Operator>) -> Response {
    list_page(&operator, &html! {}, StatusCode::OK).await
}

async fn list_page(operator: &Operator, notice: &Markup, status: StatusCode) -> Response {
    let answer = match operator.api.get("/v1/mcp/servers").await {
        Ok(answer) => answer,
        Err(failure) => return failure.into_response(),
    };
    let servers = items(&answer, "servers");
    let body = html! {
        h1 { "MCP servers" }
        (notice)
        @if servers.is_empty() { p.hint { "No MCP server is adopted yet." } } @else {
            div.scroll tabindex="0" { table {
                thead { tr { th scope="col" { "Server" } th scope="col" { "Address" } th.number scope="col" { "Tools" } th scope="col" { "State" } th scope="col" { "Looked at (UTC)" } } }
                tbody { @for server in servers {
                    @let state = &server["state"];
                    tr {
                        th scope="row" { a href={ "/studio/mcp/" (segment(text(server, "name"))) } { (shown(text(server, "name"))) } }
                        td { code { (shown(text(&server["server"], "url"))) } }
                        td.number { (state["tools"]) }
                        td { (state_of(server)) }
                        td { (time(&state["looked_at"])) }
                    }
                } }
            } }
            p { a href="/studio/mcp-export" { "Export as mcpServers JSON" } }
        }
        @if operator.may_write() {
            h2 { "Adopt a server" }
            form method="post" action="/studio/mcp-add" {
                (layout::form_key(operator))
                label for="name" { "Name" }
                input #name name="name" required autocomplete="off";
                label for="url" { "Address" }
                input #url name="url" required placeholder="https://mcp.example.com/mcp" autocomplete="off";
                label for="headers" { "Headers, name: value, a line each" }
                textarea.short #headers name="headers" rows="2" spellcheck="false" placeholder="Authorization: Bearer {{secret.example}}" {}
                label.choice { input type="checkbox" name="hold" value="yes"; " Later changes wait until somebody accepts them" }
                div.actions { button.primary { "Adopt it" } }
            }
            h2 { "Or from a mcpServers document" }
            form method="post" action="/studio/mcp-import" {
                (layout::form_key(operator))
                label for="document" { "JSON, as desktop clients keep it" }
                textarea #document name="document" rows="6" spellcheck="false" placeholder="{\"mcpServers\": {\"docs\": {\"url\": \"https://…\"}}}" {}
                div.actions { button.primary { "Take it over" } }
            }
        }
    };
    (status, layout::page(operator, "MCP servers", &body)).into_response()
}

fn state_of(server: &Value) -> Markup {
    let state = &server["state"];
    html! {
        @if server["server"]["enabled"] == false { span.status { "· disabled" } }
        @else if let Some(error) = state["error"].as_str() { span.status.bad { "✗ " (shown(error)) } }
        @else if !items(state, "pending").is_empty() { span.status.wait { "… " (items(state, "pending").len()) " change(s) wait" } }
        @else if state["looked_at"].is_null() { span.status { "· not looked at yet" } }
        @else { span.status.good { "✓ adopted" } }
    }
}

/// Writes a server, and takes over what it lists.
pub(crate) async fn add(Extension(operator): Extension<Operator>, Extension(form): Extension<Form>) -> Response {
    let name = form.text("name").trim();
    let mut headers = Map::new();
    for line in form.text("headers").lines().filter(|line| !line.trim().is_empty()) {
        let Some((key, value)) = line.split_once(':') else {
            let failure = Failure::form(StatusCode::UNPROCESSABLE_ENTITY, "a header is written as name: value");
            return list_page(&operator, &failure.notice(), failure.status).await;
        };
        headers.insert(key.trim().to_owned(), value.trim().into());
    }
    let server = json!({ "url": form.text("url").trim(), "headers": headers, "hold": form.text("hold") == "yes" });
    let base = format!("/v1/mcp/servers/{}", segment(name));
    if let Err(failure) = operator.api.create(&base, &server).await {
        return list_page(&operator, &failure.notice(), failure.status).await;
    }
    match operator.api.send(Method::POST, &format!("{base}/ingest"), None, None).await {
        Ok(_) => Redirect::to(&format!("/studio/mcp/{}", segment(name))).into_response(),
        Err(failure) => server_page(&operator, name, &failure.notice(), failure.status).await,
    }
}

/// Takes the servers of a `mcpServers` document over.
pub(crate) async fn import(Extension(operator): Extension<Operator>, Extension(form): Extension<Form>) -> Response {
    let document = match parse(form.text("document").as_bytes()) {
        Ok(document) => document,
        Err(error) => {
            let failure = Failure::form(StatusCode::UNPROCESSABLE_ENTITY, &format!("it is not JSON: {error}"));
            return list_page(&operator, &failure.notice(), failure.status).await;
        }
    };
    match operator.api.post("/v1/mcp/import", &document).await {
        Ok(answer) => {
            let notice = html! {
                div.notice.good role="status" { p { (items(&answer, "written").len()) " server(s) written. Look at each to take over its tools." } }
                @for refused in items(&answer, "refused") { div.notice.bad role="alert" { p { "Not taken over: " (shown(&refused.to_string())) } } }
                @for secret in items(&answer, "secrets").iter().filter_map(Value::as_str) {
                    div.notice { p { "Its value was dropped: set " code { "TOOLCRIB_SECRET_" (shown(&secret.to_ascii_uppercase())) } " on the server." } }
                }
            };
            list_page(&operator, &notice, StatusCode::OK).await
        }
        Err(failure) => list_page(&operator, &failure.notice(), failure.status).await,
    }
}

/// The servers as a `mcpServers` document, secrets as references.
pub(crate) async fn export(Extension(operator): Extension<Operator>) -> Response {
    match operator.api.get("/v1/mcp/export").await {
        Ok(document) => {
            let headers = [
                (CONTENT_TYPE, HeaderValue::from_static("application/json")),
                (CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"mcp-servers.json\"")),
            ];
            (headers, format!("{document:#}")).into_response()
        }
        Err(failure) => failure.into_response(),
    }
}

pub(crate) async fn show(Extension(operator): Extension<Operator>, Path(name): Path<String>) -> Response {
    server_page(&operator, &name, &html! {}, StatusCode::OK).await
}

/// Looks at the server, and says what would change or changes it; accepts what waits; asks whether it is there; removes it.
pub(crate) async fn act(
    Extension(operator): Extension<Operator>,
    Path(name): Path<String>,
    Extension(form): Extension<Form>,
) -> Response {
    let base = format!("/v1/mcp/servers/{}", segment(&name));
    let api = &operator.api;
    let done = match form.text("act") {
        "diff" => {
            api.send(Method::POST, &format!("{base}/ingest?dry_run=true"), None, None).await.map(|answer| plan(&answer))
        }
        "ingest" => api.send(Method::POST, &format!("{base}/ingest"), None, None).await.map(|answer| plan(&answer)),
        "accept" => {
            let body = json!({ "mark": form.text("mark") });
            let accepted = api.post(&format!("{base}/accept"), &body).await;
            accepted.map(|answer| html! { div.notice.good role="status" { p { (items(&answer, "accepted").len()) " change(s) accepted." } } })
        }
        "ping" => {
            let answered = api.send(Method::POST, &format!("{base}/ping"), None, None).await;
            answered.map(|answer| html! { div.notice.good role="status" { p { "It answers in " (answer["duration_ms"]) " ms and speaks MCP " (shown(text(&answer, "version"))) "." } } })
        }
        "delete" => {
            return match api.send(Method::DELETE, &base, None, None).await {
                Ok(_) => Redirect::to("/studio/mcp").into_response(),
                Err(failure) => server_page(&operator, &name, &failure.notice(), failure.status).await,
            };
        }
        _ => Err(Failure::form(StatusCode::BAD_REQUEST, "the form names nothing to do")),
    };
    match done {
        Ok(notice) => server_page(&operator, &name, &notice, StatusCode::OK).await,
        Err(failure) => server_page(&operator, &name, &failure.notice(), failure.status).await,
    }
}

/// What an ingestion did, or would do.
fn plan(answer: &Value) -> Markup {
    let dry = answer["dry_run"] == true;
    let held = answer["held"] == true;
    let changed = items(answer, "tools").iter().filter(|tool| tool["change"] != "unchanged");
    html! {
        div.notice.good role="status" {
            p {
                @if dry { "It would be: " } @else if held { "These wait until somebody accepts them: " } @else { "Taken over: " }
                (answer["added"]) " new, " (answer["changed"]) " changed, " (answer["gone"]) " gone, "
                (answer["unchanged"]) " as they were, " (answer["failed"]) " that could not be."
            }
            ul { @for tool in changed {
                li {
                    (shown(text(tool, "tool"))) ": " (shown(text(tool, "change")))
                    @if !items(tool, "parts").is_empty() { " (" (shown(&names(&tool["parts"]))) ")" }
                    @for note in items(tool, "notes").iter().filter_map(Value::as_str) { p.hint { (shown(note)) } }
                }
            } }
            @for warning in items(answer, "warnings").iter().filter_map(Value::as_str) { p { (shown(warning)) } }
        }
    }
}

async fn server_page(operator: &Operator, name: &str, notice: &Markup, code: StatusCode) -> Response {
    let base = format!("/v1/mcp/servers/{}", segment(name));
    let group = format!("mcp:{name}");
    let tools_path = with_query("/v1/tools", &[("group", &group), ("limit", "200")]);
    let (server, tools) = tokio::join!(operator.api.get(&base), operator.api.get(&tools_path));
    let server = match server {
        Ok(server) => server,
        Err(failure) => return failure.into_response(),
    };
    let tools = tools.unwrap_or_default();
    let state = &server["state"];
    let pending = items(state, "pending");
    let button =
        |act: &str, words: &str, class: &str| html! { button class=(class) name="act" value=(act) { (words) } };
    let body = html! {
        h1 { (shown(name)) }
        (notice)
        dl {
            dt { "Address" } dd { code { (shown(text(&server["server"], "url"))) } }
            dt { "State" } dd { (state_of(&server)) }
            dt { "Speaks" } dd { "MCP " (shown(text(state, "version"))) }
            dt { "Looked at" } dd { (time(&state["looked_at"])) " UTC" }
        }
        @if !pending.is_empty() {
            div.notice { p { "These changes wait: " (shown(&names(&state["pending"]))) } }
        }
        @if operator.may_write() {
            form method="post" action={ "/studio/mcp/" (segment(name)) } {
                (layout::form_key(operator))
                input type="hidden" name="mark" value=(text(state, "mark"));
                div.actions {
                    (button("diff", "Show what would change", ""))
                    (button("ingest", "Take over what it lists", "primary"))
                    @if !pending.is_empty() { (button("accept", "Accept what waits", "primary")) }
                    (button("ping", "Is it there?", ""))
                    (button("delete", "Remove it with its tools", "danger"))
                }
            }
        }
        h2 { "Its tools" }
        ul { @for tool in items(&tools, "tools") {
            li { a href={ "/studio/tools/" (segment(text(tool, "name"))) } { (shown(text(tool, "name"))) } ": " (shown(text(tool, "description").lines().next().unwrap_or_default())) }
        } }
        @if items(&tools, "tools").is_empty() { p.hint { "None yet." } }
        @for (tool, parts) in state["review"].as_object().into_iter().flatten() {
            div.notice { p { (status("waiting")) " " (shown(tool)) " was changed by its server (" (shown(&names(parts))) ") while an agent may use it: look at it." } }
        }
        (block("As it was written", &server["server"]))
    };
    (code, layout::page(operator, name, &body)).into_response()
}
