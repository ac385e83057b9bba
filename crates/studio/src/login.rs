//! Logging in with a token, and out.

use axum::body::Bytes;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use http::header::SET_COOKIE;
use http_body_util::{BodyExt, Limited};
use maud::{Markup, html};
use serde::Deserialize;

use crate::failure::Failure;
use crate::form::Form;
use crate::guard::{host_of, is_foreign};
use crate::layout;
use crate::router::Studio;
use crate::session::Session;

/// The longest form, in bytes.
const LONGEST: usize = 16 << 10;

#[derive(Debug, Deserialize)]
pub(crate) struct Next {
    #[serde(default)]
    next: String,
}

pub(crate) async fn ask(Query(Next { next }): Query<Next>) -> Response {
    layout::bare("Log in", &form(&next, None)).into_response()
}

/// Tries the token, and keeps it in a cookie when it is good.
///
/// A page of another origin could log somebody in under a token of its own, so that their decisions carried its name: it is
/// refused.
pub(crate) async fn take(State(studio): State<Studio>, request: Request) -> Response {
    if is_foreign(&request) {
        let failure = Failure::form(StatusCode::FORBIDDEN, "this form was sent from another site; log in here");
        return failure.into_response();
    }
    let host = host_of(&request);
    let body = Limited::new(request.into_body(), LONGEST).collect().await;
    let form_fields = Form::read(&body.map(|body| body.to_bytes()).unwrap_or_else(|_| Bytes::new()));
    let session = Session { token: form_fields.text("token").trim().to_owned() };
    let next = form_fields.text("next");
    let refused =
        |status: StatusCode, words: &str| (status, layout::bare("Log in", &form(next, Some(words)))).into_response();
    if session.token.is_empty() {
        return refused(StatusCode::UNAUTHORIZED, "Paste a token; an admin makes one with `toolcrib tokens create`.");
    }
    match studio.api.caller(&session.token, host).get("/v1/whoami").await {
        Ok(_) => {
            let cookie = session.cookie(studio.settings.https);
            ([(SET_COOKIE, cookie)], Redirect::to(inside(next))).into_response()
        }
        Err(failure) if failure.status == StatusCode::UNAUTHORIZED => {
            refused(StatusCode::UNAUTHORIZED, "This token is not known, has ended or was revoked.")
        }
        Err(failure) => refused(failure.status, &failure.detail),
    }
}

pub(crate) async fn logout(State(studio): State<Studio>) -> Response {
    ([(SET_COOKIE, Session::end(studio.settings.https))], Redirect::to("/studio/login")).into_response()
}

/// Only addresses of the Studio are gone to.
fn inside(next: &str) -> &str {
    let inside = next.starts_with("/studio/") && !next.contains(['\\', '\r', '\n']) && !next.contains("//");
    if inside { next } else { "/studio" }
}

fn form(next: &str, refused: Option<&str>) -> Markup {
    html! {
        h1 { "Toolcrib Studio" }
        @if let Some(words) = refused { div.notice.bad role="alert" { p { (words) } } }
        form method="post" action="/studio/login" {
            input type="hidden" name="next" value=(next);
            label for="token" { "Token" }
            input #token type="password" name="token" autocomplete="current-password" required autofocus;
            button.primary { "Log in" }
        }
        p.hint { "It is the token of the API. The first admin token is shown when the server starts for the first time." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere() {
        let check = |next: &str, expected: &str| assert_eq!(inside(next), expected, "{next}");
        check("/studio/tools", "/studio/tools");
        for outside in ["", "https://evil.example", "//evil.example", "/studio//evil", "/studio/\\evil", "/v1/tools"] {
            check(outside, "/studio");
        }
    }
}
