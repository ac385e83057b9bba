//! The page behind a signed link: what would run, and two buttons. Looking at it decides nothing, since mail scanners
//! and previews look at links too.

use axum::Form;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY};
use serde::Deserialize;
use toolcrib_definition::visible;
use toolcrib_executor::Say;
use toolcrib_store::{ApprovalKind, ApprovalState};

use crate::approval_links::Link;
use crate::approvals::{decision, typed};
use crate::docs_page::{STYLE, escape};
use crate::extract::Path;
use crate::state::ApiState;

/// The address of the page.
pub(crate) const PAGE: &str = "/approvals/{link}";

/// What the form says.
#[derive(Debug, Deserialize)]
pub(crate) struct Decision {
    #[serde(default)]
    decision: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    answer: String,
}

/// Shows what a link is about.
pub(crate) async fn show(State(state): State<ApiState>, Path(text): Path<String>) -> Response {
    match opened(&state, &text) {
        Ok(link) => asked(&state, &link).await,
        Err(message) => page(StatusCode::FORBIDDEN, "This link is not good", &paragraph(&message)),
    }
}

/// Takes what a person says on the page.
pub(crate) async fn decide(
    State(state): State<ApiState>,
    Path(text): Path<String>,
    Form(form): Form<Decision>,
) -> Response {
    let link = match opened(&state, &text) {
        Ok(link) => link,
        Err(message) => return page(StatusCode::FORBIDDEN, "This link is not good", &paragraph(&message)),
    };
    let say = match form.decision.as_str() {
        "approve" => Say::Approve,
        "deny" => Say::Deny,
        "answer" => Say::Answer(typed(&state, &link.approval, form.answer.trim().into()).await),
        _ => return page(StatusCode::BAD_REQUEST, "Nothing was decided", &paragraph("Choose one of the buttons.")),
    };
    let reason: String = form.reason.trim().chars().take(2_000).collect();
    let actor = format!("link for {}", link.whom);
    let decided =
        state.executor.decide(&link.approval, say, &actor, Some(reason.as_str()).filter(|r| !r.is_empty())).await;
    match decision(&link.approval, decided) {
        Ok(approval) => {
            let words = match approval.state {
                ApprovalState::Approved => "The call runs now, exactly as it was shown.",
                ApprovalState::Answered => "Your answer is the result of the call.",
                _ => "The call is not made, and the model is told your reason.",
            };
            page(StatusCode::OK, approval.state.as_str(), &paragraph(words))
        }
        Err(error) => page(StatusCode::CONFLICT, "Nothing was changed", &paragraph(&error.to_string())),
    }
}

fn opened(state: &ApiState, text: &str) -> Result<Link, String> {
    let key = state.link_key().ok_or_else(|| "Links are not configured on this server.".to_owned())?;
    let now = state.registry().store().clock().now_ms();
    Link::open(&key, text, now).map_err(|fault| fault.to_string())
}

async fn asked(state: &ApiState, link: &Link) -> Response {
    let store = state.registry().store();
    let approval = match store.approval(&link.approval).await {
        Ok(Some(approval)) => approval,
        Ok(None) => return page(StatusCode::NOT_FOUND, "There is no such approval", ""),
        Err(error) => {
            tracing::error!(error = %error, reason = error.reason(), "api.approval_page.show failed");
            return page(
                StatusCode::SERVICE_UNAVAILABLE,
                "The database can't be read",
                &paragraph("Try again in a moment."),
            );
        }
    };
    let row = store.ledger_row(&approval.ledger_id).await.ok().flatten();
    let pretty =
        |text: Option<&str>| text.and_then(crate::ledger::stored).map(|value| format!("{value:#}")).unwrap_or_default();
    let arguments = pretty(row.as_ref().map(|row| row.arguments.as_str()));
    let request = pretty(row.as_ref().map(|row| row.request.as_str()));
    let mut body = format!(
        "<p>The agent <b>{}</b> wants to call <b>{}</b>.</p><p>{}</p><h2>Arguments</h2><pre>{}</pre>\
         <h2>What would run</h2><pre>{}</pre>",
        seen(&approval.agent),
        seen(&approval.tool),
        seen(&approval.why),
        seen(&arguments),
        seen(&request),
    );
    if approval.state != ApprovalState::Open {
        let by = approval.decided_by.as_deref().map(|by| format!(" by {}", escape(by))).unwrap_or_default();
        body.push_str(&format!("<p><b>It is {} already{by}.</b></p>", approval.state.as_str()));
        return page(StatusCode::OK, "Already decided", &body);
    }
    body.push_str("<form method=post><p><label>Why <input name=reason maxlength=2000 size=50></label></p><p>");
    body.push_str(match approval.kind {
        ApprovalKind::Approval => "<button name=decision value=approve>Approve</button> ",
        ApprovalKind::Question => {
            "<label>Answer <input name=answer maxlength=2000 size=50></label> \
             <button name=decision value=answer>Answer</button> "
        }
    });
    body.push_str("<button name=decision value=deny>Refuse</button></p></form>");
    body.push_str(&format!("<p>For {}, until {}.</p>", escape(&link.whom), crate::time::shown(link.expires_at)));
    page(StatusCode::OK, "A call waits for your decision", &body)
}

/// A text of somebody else, as it is and as HTML.
fn seen(text: &str) -> String {
    escape(&visible(text))
}

fn paragraph(text: &str) -> String {
    format!("<p>{}</p>", escape(text))
}

fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let title = escape(title);
    let text = format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>{title}</title><meta name=robots content=noindex>\
         <meta name=viewport content='width=device-width,initial-scale=1'><style>{STYLE}pre{{overflow:auto}}</style></head>\
         <body><h1>{title}</h1>{body}</body></html>"
    );
    let headers: [(HeaderName, HeaderValue); 4] = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(
                "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
            ),
        ),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (status, headers, text).into_response()
}
