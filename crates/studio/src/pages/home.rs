//! What is broken, what waits, and what happened last.

use axum::Extension;
use axum::response::Response;
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use crate::api::with_query;
use crate::chart::bars;
use crate::failure::Failure;
use crate::layout;
use crate::operator::Operator;
use crate::pages::system::findings;
use crate::pages::traces;
use crate::shown::{list, shown};

/// Findings that are shown here.
const FINDINGS: usize = 20;

pub(crate) async fn show(Extension(operator): Extension<Operator>) -> Response {
    let api = &operator.api;
    // Each part stands for itself: what a role may not see leaves the rest as it is.
    let (doctor, approvals, calls, activity) = tokio::join!(
        api.get("/v1/doctor"),
        api.get("/v1/approvals?state=open&limit=100"),
        api.get("/v1/traces?limit=20"),
        api.get("/v1/activity"),
    );
    let body = html! {
        h1 { "Home" }
        div #now data-live="15" {
            @if let Ok(activity) = &activity { (charts(list(activity, "hours"))) }
            div.cards {
                (card("Waiting for a person", "/studio/approvals", counted(approvals.as_ref(), "approvals", |_| true)))
                (card("Findings of doctor", "/studio/doctor", counted(doctor.as_ref(), "findings", |_| true)))
            }
            h2 #doctor { "What is broken" }
            @match &doctor {
                Ok(report) => (findings(report, FINDINGS)),
                Err(failure) => (unavailable(failure)),
            }
            h2 { "The last calls" }
            @match &calls {
                Ok(calls) if list(calls, "traces").is_empty() => p.hint {
                    "None yet. " a href="/studio/new" { "Make a tool" } ", then " a href="/studio/agents" { "give it to an agent" } "."
                },
                Ok(calls) => {
                    (traces::table(list(calls, "traces")))
                }
                Err(failure) => (unavailable(failure)),
            }
        }
    };
    layout::page(&operator, "Home", &body)
}

/// The last day, hour by hour.
fn charts(hours: &[Value]) -> Markup {
    let since = hours.first().and_then(|hour| Timestamp::from_millisecond(hour["at"].as_i64()?).ok());
    let since = since.map(|at| at.strftime("%Y-%m-%dT%H:%M").to_string()).unwrap_or_default();
    let chart = |words: &str, key: &str, only: (&str, &str)| {
        let address = with_query("/studio/traces", &[only, ("since", &since)]);
        let numbers: Vec<u64> = hours.iter().map(|hour| hour[key].as_u64().unwrap_or_default()).collect();
        let (sum, most) = (numbers.iter().sum::<u64>(), numbers.iter().max().copied().unwrap_or_default());
        let says = format!("{words} of the last day by hour, oldest first: {sum} in all, {most} in the fullest hour");
        html! { a.card href=(address) { b { (sum) } (words) " of the last day" (bars(&numbers, &says)) } }
    };
    html! {
        div.cards.charts {
            (chart("Calls", "calls", ("", "")))
            (chart("Errors", "errors", ("status", "error")))
            (chart("Blocked calls", "blocked", ("blocked", "true")))
        }
    }
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

fn unavailable(failure: &Failure) -> Markup {
    html! { p.hint { (shown(&failure.detail)) } }
}
