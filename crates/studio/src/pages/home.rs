//! What is broken, what waits, and what happened last.

use axum::Extension;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use crate::api::segment;
use crate::failure::Failure;
use crate::layout;
use crate::operator::Operator;
use crate::pages::traces;
use crate::shown::{list, shown, text};

/// Calls that are shown.
const SHOWN: usize = 20;

pub(crate) async fn show(Extension(operator): Extension<Operator>) -> Response {
    let api = &operator.api;
    // Each part stands for itself: what a role may not see leaves the rest as it is.
    let (doctor, approvals, calls) = tokio::join!(
        api.get("/v1/doctor"),
        api.get("/v1/approvals?state=open&limit=100"),
        api.get("/v1/traces?limit=100"),
    );
    let body = html! {
        h1 { "Home" }
        div #now data-live="5" {
            div.cards {
                (card("Waiting for a person", "/studio/approvals", counted(approvals.as_ref(), "approvals", |_| true)))
                (card("Findings of doctor", "#doctor", counted(doctor.as_ref(), "findings", |_| true)))
                (card("Blocked among the last 100 calls", "/studio/traces?status=error", counted(calls.as_ref(), "traces", |call| !call["blocked"].is_null())))
                (card("Failed among the last 100 calls", "/studio/traces?status=error", counted(calls.as_ref(), "traces", |call| text(call, "status") == "error")))
            }
            h2 #doctor { "What is broken" }
            @match &doctor {
                Ok(report) => (findings(report)),
                Err(failure) => (unavailable(failure)),
            }
            h2 { "The last calls" }
            @match &calls {
                Ok(calls) => {
                    @let calls = list(calls, "traces");
                    (traces::table(&calls[..calls.len().min(SHOWN)]))
                }
                Err(failure) => (unavailable(failure)),
            }
        }
    };
    layout::page(&operator, "Home", &body)
}

fn counted(answer: Result<&Value, &Failure>, key: &str, is: impl Fn(&Value) -> bool) -> Option<usize> {
    answer.ok().map(|answer| list(answer, key).iter().filter(|item| is(item)).count())
}

fn card(words: &str, address: &str, count: Option<usize>) -> Markup {
    html! {
        @if let Some(count) = count {
            a.card href=(address) { b { (count) @if count == 100 { "+" } } (words) }
        }
    }
}

/// Each finding with the page that mends it.
fn findings(report: &Value) -> Markup {
    let findings = list(report, "findings");
    html! {
        @if findings.is_empty() {
            p.hint { "Nothing: doctor finds no fault." }
        } @else {
            ul {
                @for finding in findings {
                    @let subject = text(finding, "subject");
                    @let code = text(finding, "code");
                    li {
                        strong { (shown(text(finding, "severity"))) } " "
                        @if code.starts_with("tool.") {
                            a href={ "/studio/tools/" (segment(subject)) } { (shown(subject)) }
                        } @else {
                            (shown(subject))
                        }
                        ": " (shown(text(finding, "message"))) " " code { (shown(code)) }
                    }
                }
            }
        }
    }
}

fn unavailable(failure: &Failure) -> Markup {
    html! { p.hint { (shown(&failure.detail)) } }
}
