//! The inbox: what waits for a person, and deciding about it.

use axum::Extension;
use axum::extract::{Path, Query};
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::StreamExt;
use futures_util::stream::iter;
use http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{segment, with_query};
use crate::failure::Failure;
use crate::form::Form;
use crate::layout;
use crate::operator::Operator;
use crate::pages::traces::session_link;
use crate::shown::{beginning, block, list as items, shown, status, text, time, whole_block};

/// Reads that are under way at once.
const AT_ONCE: usize = 8;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ApprovalsQuery {
    state: String,
    after: String,
}

pub(crate) async fn list(Extension(operator): Extension<Operator>, Query(query): Query<ApprovalsQuery>) -> Response {
    let state = if query.state.is_empty() { "open" } else { query.state.as_str() };
    let wanted = if state == "all" { "" } else { state };
    let path = with_query("/v1/approvals", &[("state", wanted), ("after", &query.after), ("limit", "50")]);
    let answer = match operator.api.get(&path).await {
        Ok(answer) => answer,
        Err(failure) => return failure.into_response(),
    };
    let api = &operator.api;
    // The list does not say what is asked for, and two calls of one tool are told apart by nothing else.
    let ids: Vec<String> = items(&answer, "approvals").iter().map(|approval| segment(text(approval, "id"))).collect();
    let read = iter(ids).map(|id| async move { api.get(&format!("/v1/approvals/{id}")).await });
    let whole: Vec<_> = read.buffered(AT_ONCE).collect().await;
    let approvals: Vec<Value> = whole.into_iter().filter_map(Result::ok).collect();
    let body = html! {
        h1 { "Approvals" }
        p {
            a href="/studio/approvals" aria-current=[(state == "open").then_some("true")] { "Open" } " · "
            a href="/studio/approvals?state=all" aria-current=[(state == "all").then_some("true")] { "All" } " · "
            a href="/studio/doubts" { "Calls in doubt" }
        }
        div #inbox data-live="3" {
            @if approvals.is_empty() { p.hint { "Nothing waits for a person." } }
            div.cards {
                @for approval in &approvals {
                    a.card href={ "/studio/approvals/" (segment(text(approval, "id"))) } {
                        strong { (shown(text(approval, "tool"))) } " " (status(text(approval, "state")))
                        br; code { (beginning(&approval["arguments"].to_string())) }
                        br; (shown(text(approval, "why")))
                        br; span.hint { (shown(text(approval, "agent"))) ", since " (time(&approval["created_at"])) " UTC" }
                    }
                }
            }
            (layout::next(&with_query("/studio/approvals", &[("state", &query.state)]), answer["next"].as_str()))
        }
    };
    layout::page(&operator, "Approvals", &body)
}

pub(crate) async fn show(Extension(operator): Extension<Operator>, Path(id): Path<String>) -> Response {
    page(&operator, &id, None).await
}

/// Decides. Of two people one wins, and the other is told.
pub(crate) async fn decide(
    Extension(operator): Extension<Operator>,
    Path(id): Path<String>,
    Extension(form): Extension<Form>,
) -> Response {
    let reason = form.text("reason").trim();
    let with_reason = |mut body: Value| {
        if !reason.is_empty() {
            body["reason"] = reason.into();
        }
        body
    };
    let (way, body) = match form.text("decision") {
        "approve" => ("approve", with_reason(json!({}))),
        "deny" => ("deny", with_reason(json!({}))),
        "answer" => ("answer", with_reason(json!({ "answer": form.text("answer").trim() }))),
        _ => {
            let failure = Failure::form(StatusCode::BAD_REQUEST, "the form names no decision");
            return page(&operator, &id, Some(&failure)).await;
        }
    };
    match operator.api.post(&format!("/v1/approvals/{}/{way}", segment(&id)), &body).await {
        Ok(_) => Redirect::to(&format!("/studio/approvals/{}", segment(&id))).into_response(),
        Err(failure) => page(&operator, &id, Some(&failure)).await,
    }
}

async fn page(operator: &Operator, id: &str, failure: Option<&Failure>) -> Response {
    let approval = match operator.api.get(&format!("/v1/approvals/{}", segment(id))).await {
        Ok(approval) => approval,
        Err(failure) => return failure.into_response(),
    };
    let is_open = text(&approval, "state") == "open";
    let body = html! {
        h1 { "May " (shown(text(&approval, "agent"))) " call " (shown(text(&approval, "tool"))) "?" }
        @if let Some(failure) = failure { (failure.notice()) }
        div #approval data-live=[is_open.then_some("3")] {
            dl {
                dt { "State" } dd { (status(text(&approval, "state"))) }
                dt { "Why it asks" } dd { (shown(text(&approval, "why"))) }
                dt { "Session" } dd {
                    (session_link(text(&approval, "session")))
                }
                dt { "Since" } dd { (time(&approval["created_at"])) " UTC" }
                @if is_open { dt { "Until" } dd { (time(&approval["expires_at"])) " UTC" } }
                @if let Some(by) = approval["decided_by"].as_str() {
                    dt { "Decided" } dd { (time(&approval["decided_at"])) " UTC by " (shown(by)) " " (shown(text(&approval, "reason"))) }
                }
            }
            (whole_block("Arguments", &approval["arguments"]))
            (whole_block("What runs when it is approved", &approval["request"]))
            (block("What the caller reads", &approval["outcome"]))
            @if is_open && operator.may_write() { (decision(operator, id, &approval)) }
            @if is_open && !operator.may_write() { p.notice { "Your role, " (operator.role) ", may not decide." } }
        }
    };
    let status = failure.map_or(StatusCode::OK, |failure| failure.status);
    (status, layout::page(operator, "An approval", &body)).into_response()
}

fn decision(operator: &Operator, id: &str, approval: &Value) -> Markup {
    let is_question = text(approval, "kind") == "question";
    html! {
        form method="post" action={ "/studio/approvals/" (segment(id)) } {
            (layout::form_key(operator))
            @if is_question {
                label for="answer" { "Answer" }
                input #answer name="answer" maxlength="2000" autocomplete="off";
            }
            label for="reason" { "Reason, for the model and for whoever reads this later" }
            input #reason name="reason" maxlength="2000" autocomplete="off";
            div.actions {
                @if is_question {
                    button.primary name="decision" value="answer" { "Answer" }
                } @else {
                    button.primary name="decision" value="approve" { "Approve" }
                }
                button.danger name="decision" value="deny" { "Deny" }
            }
        }
    }
}
