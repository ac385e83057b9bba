//! The server itself: what doctor finds, and what it is configured with.

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use crate::api::{segment, with_query};
use crate::failure::Failure;
use crate::layout;
use crate::operator::Operator;
use crate::router::Studio;
use crate::shown::{list, shown, text};

/// Findings that doctor's page shows.
const MOST_FINDINGS: usize = 300;

/// Everything that is wrong, each with the page that mends it.
pub(crate) async fn doctor(Extension(operator): Extension<Operator>) -> Response {
    let report = match operator.api.get("/v1/doctor").await {
        Ok(report) => report,
        Err(failure) => return failure.into_response(),
    };
    let body = html! {
        h1 { "Doctor" }
        p {
            @if report["healthy"] == true { span.status.good { "✓ nothing keeps it from working" } }
            @else { span.status.bad { "✗ something is broken" } }
            " · " (report["tools"]) " tools, revision " (report["revision"]) " of the catalog"
        }
        (findings(&report, MOST_FINDINGS))
        @let breakers = list(&report, "breakers");
        @if !breakers.is_empty() {
            h2 { "Hosts that failed lately" }
            ul { @for breaker in breakers { li { (shown(text(breaker, "host"))) ": " (breaker["failures"]) " failure(s), " (shown(text(breaker, "state"))) } } }
        }
    };
    layout::page(&operator, "Doctor", &body)
}

/// Each finding with the page that mends it, at most so many.
pub(crate) fn findings(report: &Value, most: usize) -> Markup {
    let findings = list(report, "findings");
    html! {
        @if findings.is_empty() {
            p.hint { "Nothing: doctor finds no fault." }
        } @else {
            ul {
                @for finding in findings.iter().take(most) {
                    @let subject = text(finding, "subject");
                    li {
                        strong.status.bad[text(finding, "severity") == "error"] { (shown(text(finding, "severity"))) } " "
                        @match mended_at(text(finding, "code"), subject) {
                            Some(address) => a href=(address) { (shown(subject)) },
                            None => (shown(subject)),
                        }
                        ": " (shown(text(finding, "message"))) " " code { (shown(text(finding, "code"))) }
                    }
                }
            }
            @if findings.len() > most {
                p { "And " (findings.len() - most) " more: " a href="/studio/doctor" { "Doctor" } " shows them, and " code { "toolcrib doctor" } " all of them." }
            }
        }
    }
}

/// The page where a finding is mended, or looked into.
fn mended_at(code: &str, subject: &str) -> Option<String> {
    let under = |page: &str| Some(format!("/studio/{page}/{}", segment(subject)));
    match code.split_once('.')? {
        ("tool", _) | ("mcp", "review") => under("tools"),
        ("agent", _) => under("agents"),
        ("skill", _) => match subject.split_once('/') {
            Some((agent, name)) => Some(with_query(&format!("/studio/skills/{}", segment(name)), &[("agent", agent)])),
            None => under("skills"),
        },
        ("mcp", _) => under("mcp"),
        ("call", "in_doubt") => Some("/studio/doubts".to_owned()),
        ("call", "approval") => Some("/studio/approvals".to_owned()),
        ("egress", _) => Some(with_query("/studio/traces", &[("tool", subject)])),
        ("provider", _) => Some("/studio/configuration".to_owned()),
        _ => None,
    }
}

/// Each value of the configuration, and where it came from.
pub(crate) async fn configuration(State(studio): State<Studio>, Extension(operator): Extension<Operator>) -> Response {
    if !operator.is_admin() {
        let detail = "the configuration is shown to admins; `toolcrib config show` prints it on the server's machine";
        return Failure::form(StatusCode::FORBIDDEN, detail).into_response();
    }
    let values = &studio.settings.configuration;
    let body = html! {
        h1 { "Configuration" }
        p.hint { "As this server was started with it. It is changed in the file or in the environment; secrets are never in it." }
        div.scroll tabindex="0" { table {
            thead { tr { th scope="col" { "Key" } th scope="col" { "Value" } th scope="col" { "From" } } }
            tbody { @for value in values.iter() {
                tr { th scope="row" { code { (shown(&value.key)) } } td { code { (shown(&value.value)) } } td { (shown(&value.origin)) } }
            } }
        } }
    };
    layout::page(&operator, "Configuration", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_leads_to_where_it_is_mended() {
        for (code, subject, expected) in [
            ("tool.forecast", "find_order", Some("/studio/tools/find_order")),
            ("agent.provider", "clerk", Some("/studio/agents/clerk")),
            ("skill.companion", "clerk/refunds", Some("/studio/skills/refunds?agent=clerk")),
            ("skill.eager", "refunds", Some("/studio/skills/refunds")),
            ("mcp.pending", "docs", Some("/studio/mcp/docs")),
            ("egress.metadata", "read", Some("/studio/traces?tool=read")),
            ("call.in_doubt", "ledger", Some("/studio/doubts")),
            ("store.bad_row", "database", None),
        ] {
            assert_eq!(mended_at(code, subject).as_deref(), expected, "{code}");
        }
    }
}
