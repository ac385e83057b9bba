//! What went wrong, as a page.

use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use crate::layout;
use crate::shown::shown;

/// What the API refused, and why.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) code: String,
    pub(crate) detail: String,
    /// Where, as a JSON Pointer, and what.
    pub(crate) problems: Vec<(String, String)>,
}

impl Failure {
    /// What a problem of the API says (RFC 9457).
    pub(crate) fn of(status: StatusCode, problem: &Value) -> Self {
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let problems = problem.get("problems").and_then(Value::as_array).into_iter().flatten();
        let detail = match text(problem, "detail") {
            empty if empty.is_empty() => text(problem, "title"),
            detail => detail,
        };
        Self {
            status,
            code: text(problem, "code"),
            detail,
            problems: problems.map(|problem| (text(problem, "pointer"), text(problem, "message"))).collect(),
        }
    }

    pub(crate) fn internal(detail: &str) -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            code: "studio.internal".to_owned(),
            detail: detail.to_owned(),
            problems: Vec::new(),
        }
    }

    /// What a browser sent is no form of ours.
    pub(crate) fn form(status: StatusCode, detail: &str) -> Self {
        Self { status, code: "studio.form".to_owned(), detail: detail.to_owned(), problems: Vec::new() }
    }

    pub(crate) fn not_logged_in() -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            code: "token.missing".to_owned(),
            detail: "log in first".to_owned(),
            problems: Vec::new(),
        }
    }

    /// What happened, where, and the code to look up.
    pub(crate) fn notice(&self) -> Markup {
        html! {
            div.notice.bad role="alert" {
                p { (shown(&self.detail)) " " code { (self.code) } }
                @if !self.problems.is_empty() {
                    ul {
                        @for (pointer, message) in &self.problems {
                            li { @if !pointer.is_empty() { code { (shown(pointer)) } " " } (shown(message)) }
                        }
                    }
                }
            }
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        if self.status == StatusCode::UNAUTHORIZED {
            return Redirect::to("/studio/login").into_response();
        }
        let title = match self.status {
            StatusCode::NOT_FOUND => "There is no such thing",
            StatusCode::FORBIDDEN if self.code.starts_with("auth.") => "Your token does not allow this",
            _ => "This did not work",
        };
        let body = html! { h1 { (title) } (self.notice()) p { a href="/studio" { "To the start" } } };
        (self.status, layout::bare(title, &body)).into_response()
    }
}
