//! Calls in doubt: what is known of each, and a person's verdict.

use axum::Extension;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use maud::html;
use serde_json::json;

use crate::api::segment;
use crate::failure::Failure;
use crate::form::Form;
use crate::layout;
use crate::operator::Operator;
use crate::pages::traces::session_link;
use crate::shown::{list as items, shown, status, text, time, whole_block};

pub(crate) async fn list(Extension(operator): Extension<Operator>) -> Response {
    let answer = match operator.api.get("/v1/calls?state=in_doubt&limit=100").await {
        Ok(answer) => answer,
        Err(failure) => return failure.into_response(),
    };
    let calls = items(&answer, "calls");
    let body = html! {
        h1 { "Calls in doubt" }
        p.hint { "They were sent, and nobody knows whether they were performed: their process ended, or the answer did not come." }
        div #doubts data-live="5" {
            @if calls.is_empty() { p.hint { "No call is in doubt." } }
            div.cards { @for call in calls {
                a.card.blocked href={ "/studio/doubts/" (segment(text(call, "id"))) } {
                    strong { (shown(text(call, "tool"))) } " " (status(text(call, "state")))
                    br; (shown(text(call, "reason")))
                    br; span.hint { (shown(text(call, "agent"))) ", since " (time(&call["updated_at"])) " UTC" }
                }
            } }
        }
    };
    layout::page(&operator, "Calls in doubt", &body)
}

pub(crate) async fn show(Extension(operator): Extension<Operator>, Path(id): Path<String>) -> Response {
    page(&operator, &id, None).await
}

/// Takes a verdict.
pub(crate) async fn decide(
    Extension(operator): Extension<Operator>,
    Path(id): Path<String>,
    Extension(form): Extension<Form>,
) -> Response {
    let mut body = json!({ "verdict": form.text("verdict") });
    let (result, reason) = (form.text("result").trim(), form.text("reason").trim());
    if form.text("verdict") == "done" && !result.is_empty() {
        body["result"] = serde_json::from_str(result).unwrap_or_else(|_| result.into());
    }
    if !reason.is_empty() {
        body["reason"] = reason.into();
    }
    match operator.api.post(&format!("/v1/calls/{}/verdict", segment(&id)), &body).await {
        Ok(_) => Redirect::to(&format!("/studio/doubts/{}", segment(&id))).into_response(),
        Err(failure) => page(&operator, &id, Some(&failure)).await,
    }
}

async fn page(operator: &Operator, id: &str, failure: Option<&Failure>) -> Response {
    let call = match operator.api.get(&format!("/v1/calls/{}", segment(id))).await {
        Ok(call) => call,
        Err(failure) => return failure.into_response(),
    };
    let is_open = text(&call, "state") == "in_doubt";
    let body = html! {
        h1 { "Was " (shown(text(&call, "tool"))) " performed?" }
        @if let Some(failure) = failure { (failure.notice()) }
        div #doubt data-live=[is_open.then_some("3")] {
            dl {
                dt { "State" } dd { (status(text(&call, "state"))) }
                dt { "Why" } dd { (shown(text(&call, "reason"))) }
                dt { "Agent" } dd { (shown(text(&call, "agent"))) }
                dt { "Session" } dd { (session_link(text(&call, "session"))) }
                dt { "Last moved" } dd { (time(&call["updated_at"])) " UTC by " (shown(text(&call, "actor"))) }
            }
            (whole_block("What was sent", &call["request"]))
            (whole_block("Arguments", &call["arguments"]))
            @if is_open && operator.may_write() {
                form method="post" action={ "/studio/doubts/" (segment(id)) } {
                    (layout::form_key(operator))
                    label for="result" { "Its result, when it was performed and that is known (JSON or text)" }
                    textarea.short #result name="result" rows="2" spellcheck="false" {}
                    label for="reason" { "How you know" }
                    input #reason name="reason" maxlength="2000" autocomplete="off";
                    div.actions {
                        button.primary name="verdict" value="done" { "It was performed" }
                        button name="verdict" value="not_done" { "It was not: run it again" }
                        button.danger name="verdict" value="abandon" { "Nobody will find out" }
                    }
                }
            }
        }
    };
    let code = failure.map_or(StatusCode::OK, |failure| failure.status);
    (code, layout::page(operator, "A call in doubt", &body)).into_response()
}
