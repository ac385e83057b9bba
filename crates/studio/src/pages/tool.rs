//! One tool: what it is, what the model reads, what it was, and trying it.

use axum::Extension;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use http::{Method, StatusCode};
use maud::{Markup, html};
use serde_json::{Value, json};
use toolcrib_definition::json::parse;

use crate::api::{segment, with_query};
use crate::arguments;
use crate::diff::diff_of_values;
use crate::failure::Failure;
use crate::form::Form;
use crate::layout;
use crate::once::new_key;
use crate::operator::Operator;
use crate::shown::{block, list, pretty, shown, status, text, time};

pub(crate) async fn show(Extension(operator): Extension<Operator>, Path(name): Path<String>) -> Response {
    match page(&operator, &name, None).await {
        Ok(response) => response,
        Err(failure) => failure.into_response(),
    }
}

/// Shows the request of a call, and makes it when the form says so.
pub(crate) async fn try_it(
    Extension(operator): Extension<Operator>,
    Path(name): Path<String>,
    Extension(form): Extension<Form>,
) -> Response {
    let tried = Tried::of(&operator, &name, &form).await;
    let status = tried.answer.as_ref().err().map_or(StatusCode::OK, |failure| failure.status);
    match page(&operator, &name, Some(&tried)).await {
        Ok(response) => (status, response).into_response(),
        Err(failure) => failure.into_response(),
    }
}

/// Makes a version the current one again.
pub(crate) async fn restore(
    Extension(operator): Extension<Operator>,
    Path((name, version)): Path<(String, String)>,
) -> Response {
    let path = format!("/v1/tools/{}/versions/{}/restore", segment(&name), segment(&version));
    match operator.api.send(Method::POST, &path, None, None).await {
        Ok(_) => Redirect::to(&format!("/studio/tools/{}", segment(&name))).into_response(),
        Err(failure) => failure.into_response(),
    }
}

/// Deletes the tool as it was seen; its versions stay.
pub(crate) async fn delete(
    Extension(operator): Extension<Operator>,
    Path(name): Path<String>,
    Extension(form): Extension<Form>,
) -> Response {
    let revision = format!("\"{}\"", form.text("revision"));
    match operator.api.send(Method::DELETE, &format!("/v1/tools/{}", segment(&name)), None, Some(&revision)).await {
        Ok(_) => Redirect::to("/studio/tools").into_response(),
        Err(failure) => failure.into_response(),
    }
}

/// What came of a try.
struct Tried {
    form: Form,
    answer: Result<Value, Failure>,
    /// The trace of the call that was made.
    trace: Option<Value>,
}

impl Tried {
    async fn of(operator: &Operator, name: &str, form: &Form) -> Self {
        let answer = Self::ask(operator, name, form).await;
        let id = answer.as_ref().ok().and_then(|answer| answer["outcome"]["trace_id"].as_str());
        let trace = match id {
            Some(id) => operator.api.get(&format!("/v1/traces/{}", segment(id))).await.ok(),
            None => None,
        };
        Self { form: form.clone(), answer, trace }
    }

    async fn ask(operator: &Operator, name: &str, form: &Form) -> Result<Value, Failure> {
        let path = format!("/v1/tools/{}", segment(name));
        let unread = |detail: String| Failure::form(StatusCode::UNPROCESSABLE_ENTITY, &detail);
        let read = |what: &str, text: &str| {
            parse(text.as_bytes()).map_err(|error| unread(format!("{what} are not JSON: {error}")))
        };
        let arguments = match form.text("arguments").trim() {
            "" => {
                let tool = operator.api.get(&path).await?;
                Value::Object(arguments::read(schema_of(&tool), form).map_err(unread)?)
            }
            text => read("the arguments", text)?,
        };
        let ctx = match form.text("ctx").trim() {
            "" => json!({}),
            text => read("the fields of ctx", text)?,
        };
        // Sent again, as a reload does, it is the same call.
        let call_id = Some(form.text("call_id")).filter(|id| !id.is_empty());
        let mut body = json!({ "ctx": ctx, "send": form.text("send") == "yes", "call_id": call_id });
        // Put in as they are: the macro would read their numbers anew.
        body["arguments"] = arguments;
        operator.api.post(&format!("{path}/try"), &body).await
    }
}

/// The schema of a tool's arguments, as it is shown.
fn schema_of(tool: &Value) -> &Value {
    &tool["shown"]["inputSchema"]
}

/// One of its versions, and what came after it.
pub(crate) async fn version(
    Extension(operator): Extension<Operator>,
    Path((name, version)): Path<(String, String)>,
) -> Response {
    let path = format!("/v1/tools/{}", segment(&name));
    let versions_path = format!("{path}/versions");
    let (tool, versions) = tokio::join!(operator.api.get(&path), operator.api.get(&versions_path));
    let versions = match versions {
        Ok(versions) => versions,
        Err(failure) => return failure.into_response(),
    };
    let Some(old) = list(&versions, "versions").iter().find(|known| known["version"].as_i64() == version.parse().ok())
    else {
        return Failure::form(StatusCode::NOT_FOUND, "this version is not kept any more").into_response();
    };
    let now = tool.unwrap_or_default();
    let body = html! {
        h1 { (shown(&name)) ", version " (shown(&version)) }
        p { "Written " (time(&old["created_at"])) " UTC by " (shown(text(old, "actor"))) " · " a href={ "/studio/tools/" (segment(&name)) } { "as it is now" } }
        h2 { "From this version to now" }
        (diff_of_values(&old["definition"], &now["definition"]))
        (block("The version whole", &old["definition"]))
    };
    layout::page(&operator, &name, &body)
}

async fn page(operator: &Operator, name: &str, tried: Option<&Tried>) -> Result<Response, Failure> {
    let path = format!("/v1/tools/{}", segment(name));
    let versions_path = format!("{path}/versions");
    let (tool, versions) = tokio::join!(operator.api.get(&path), operator.api.get(&versions_path));
    let tool = tool?;
    let definition = &tool["definition"];
    let is_data = !definition.is_null();
    let body = html! {
        h1 { (shown(name)) }
        @for warning in list(&tool, "warnings").iter().filter_map(Value::as_str) { div.notice.bad { p { "Calls will fail: " (shown(warning)) } } }
        @if !is_data { p.hint { "It is compiled into the program: it can be read and tried here, and not changed." } }
        dl {
            dt { "Origin" } dd { (shown(text(&tool, "origin"))) }
            @if is_data {
                dt { "Request" } dd { code { (shown(text(&definition["request"], "method"))) " " (shown(text(&definition["request"], "url"))) } }
                dt { "Group" } dd { (shown(text(definition, "group"))) }
                dt { "Effect" } dd { @if definition["side_effect"] == true { "changes something: a call is never sent twice blindly" } @else { "reads only" } }
                dt { "Approval" } dd { code { (pretty(&definition["approval"])) } }
                dt { "Changed" } dd { (time(&tool["updated_at"])) " UTC, version " (tool["version"]) }
            }
            dt { "Agents that may use it" } dd {
                @let agents = list(&tool, "agents");
                @if agents.is_empty() { span.status.bad { "✗ none" } " · " a href="/studio/agents" { "give it to one" } }
                @for (place, id) in agents.iter().filter_map(Value::as_str).enumerate() {
                    @if place > 0 { ", " }
                    a href=(with_query(&format!("/studio/agents/{}", segment(id)), &[("q", name)])) { (shown(id)) }
                }
            }
        }
        p {
            a href={ "/studio/traces?tool=" (segment(name)) } { "Its calls" }
            @if is_data && operator.may_write() {
                " · " a href={ "/studio/tools/" (segment(name)) "/edit" } { "Edit it" }
            }
        }
        (block("What the model reads", &tool["shown"]))
        @if operator.may_write() { (try_form(operator, name, schema_of(&tool), tried)) }
        @if is_data { (block("Definition", definition)) }
        @if let Ok(versions) = &versions { (versions_table(operator, name, versions)) }
        @if is_data && operator.may_write() {
            form method="post" action={ "/studio/tools/" (segment(name)) "/delete" } {
                (layout::form_key(operator))
                input type="hidden" name="revision" value=(tool["revision"]);
                div.actions { button.danger { "Delete this tool" } }
            }
        }
    };
    Ok(layout::page(operator, name, &body))
}

fn try_form(operator: &Operator, name: &str, schema: &Value, tried: Option<&Tried>) -> Markup {
    let typed = |field: &str| tried.map_or_else(String::new, |tried| tried.form.text(field).to_owned());
    html! {
        h2 #try { "Try it" }
        form method="post" action={ "/studio/tools/" (segment(name)) "/try#try" } {
            (layout::form_key(operator))
            input type="hidden" name="call_id" value=(new_key());
            (arguments::fields(schema, typed))
            details open[!typed("arguments").is_empty() || !typed("ctx").is_empty()] {
                summary { "Arguments as JSON, and fields of ctx" }
                label for="arguments" { "Arguments, as JSON" }
                textarea.short #arguments name="arguments" rows="3" spellcheck="false" aria-describedby="arguments-hint" { "\n" (typed("arguments")) }
                p.hint #arguments-hint { "When something stands here, the fields above are passed over." }
                label for="ctx" { "Fields of ctx, as JSON" }
                input #ctx name="ctx" value=(typed("ctx")) spellcheck="false";
            }
            div.actions {
                button.primary name="send" value="no" { "Show the request" }
                button.danger name="send" value="yes" { "Send it" }
            }
        }
        @if let Some(tried) = tried {
            @match &tried.answer {
                Err(failure) => (failure.notice()),
                Ok(answer) => (came_of(answer, tried.trace.as_ref())),
            }
        }
    }
}

fn came_of(answer: &Value, trace: Option<&Value>) -> Markup {
    let outcome = &answer["outcome"];
    html! {
        @if let Some(error) = answer["error"].as_str() {
            div.notice.bad role="alert" { p { "Nothing was sent. The model would read: " (shown(error)) } }
        }
        @if !outcome.is_null() {
            p role="status" {
                (status(text(outcome, "status"))) " in " (outcome["duration_ms"]) " ms. "
                a href={ "/studio/traces/" (segment(text(outcome, "trace_id"))) } { "What went over the wire" }
            }
            @if let Some(trace) = trace { (block("The response", &trace["response"])) }
            (block("What the model reads of it", &outcome["result"]))
            @let halt = &outcome["halt"];
            p { @if halt.is_null() { "It does not end the turn." } @else { strong { "It ends the turn" } @if let Some(say) = halt["say"].as_str() { ", and says: " (shown(say)) } } }
            @if let Some(trace) = trace { (block("Time by phase, in ms", &trace["phases_ms"])) }
        }
        (block("The request, secrets masked", &answer["request"]))
    }
}

fn versions_table(operator: &Operator, name: &str, versions: &Value) -> Markup {
    let versions = list(versions, "versions");
    html! {
        @if !versions.is_empty() {
            h2 { "Versions" }
            div.scroll tabindex="0" { table {
                thead { tr { th scope="col" { "Version" } th scope="col" { "Written (UTC)" } th scope="col" { "By" } th scope="col" { "Compare" } th scope="col" { "Restore" } } }
                tbody {
                    @for (place, version) in versions.iter().enumerate() {
                        tr {
                            th scope="row" { (version["version"]) }
                            td { (time(&version["created_at"])) }
                            td { (shown(text(version, "actor"))) }
                            td { @if place > 0 { a href={ "/studio/tools/" (segment(name)) "/versions/" (version["version"]) } { "What changed since version " (version["version"]) } } }
                            td {
                                @if place > 0 && operator.may_write() {
                                    form method="post" action={ "/studio/tools/" (segment(name)) "/versions/" (version["version"]) "/restore" } {
                                        (layout::form_key(operator))
                                        button { "Restore version " (version["version"]) }
                                    }
                                }
                            }
                        }
                    }
                }
            } }
        }
    }
}
