//! What every request passes: headers that bind the browser, a session, and the proof that a form is ours.

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;

use crate::api::segment;
use crate::failure::Failure;
use crate::form::{FORM_KEY, Form};
use crate::operator::Operator;
use crate::router::Studio;
use crate::session::Session;

/// No script or style but our own files, no other origin, no frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/// The longest form, in bytes (16 MiB).
const LONGEST_FORM: usize = 16 << 20;
/// Sets the headers that bind the browser, on every answer.
pub(crate) async fn protect(request: Request, next: Next) -> Response {
    let is_asset = request.uri().path().starts_with("/studio/assets/");
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(X_FRAME_OPTIONS, "DENY");
    set(REFERRER_POLICY, "same-origin");
    if !is_asset {
        set(CACHE_CONTROL, "no-store");
    }
    response
}

/// Lets a request in whose cookie holds a good token; a form has to be one of that session's.
pub(crate) async fn let_in(State(studio): State<Studio>, request: Request, next: Next) -> Response {
    let host = host_of(&request);
    let (path, is_read) = (request.uri().path().to_owned(), request.method() == Method::GET);
    let Some(session) = Session::of(request.headers()) else { return to_login(&path, is_read) };
    let api = studio.api.caller(&session.token, host);
    let who = match api.get("/v1/whoami").await {
        Ok(who) => who,
        Err(failure) if failure.status == StatusCode::UNAUTHORIZED => return to_login(&path, is_read),
        Err(failure) => return failure.into_response(),
    };
    let text = |key: &str| who.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let operator = Operator {
        api,
        token_id: text("id"),
        name: text("name"),
        role: text("role"),
        form_key: session.form_key(),
        path,
    };
    let mut request = request;
    if !is_read {
        let (parts, body) = request.into_parts();
        let Ok(body) = Limited::new(body, LONGEST_FORM).collect().await else {
            return Failure::form(StatusCode::PAYLOAD_TOO_LARGE, "The form is too long").into_response();
        };
        let bytes: Bytes = body.to_bytes();
        let form = Form::read(&bytes);
        if !session.is_form_key(form.text(FORM_KEY)) {
            let detail = "The form is not one of this session: open the page again, and send it from there";
            return Failure::form(StatusCode::FORBIDDEN, detail).into_response();
        }
        request = Request::from_parts(parts, Body::from(bytes));
        request.extensions_mut().insert(form);
    }
    request.extensions_mut().insert(operator);
    next.run(request).await
}

pub(crate) fn host_of(request: &Request) -> HeaderValue {
    request.headers().get(HOST).cloned().unwrap_or_else(|| HeaderValue::from_static("unknown"))
}

fn to_login(path: &str, is_read: bool) -> Response {
    let next = if is_read && path != "/studio" { format!("?next={}", segment(path)) } else { String::new() };
    Redirect::to(&format!("/studio/login{next}")).into_response()
}

/// Lets only those through who may change the catalog.
pub(crate) async fn writers(Extension(operator): Extension<Operator>, request: Request, next: Next) -> Response {
    if operator.may_write() {
        return next.run(request).await;
    }
    let detail = format!("the role {} reads and does not write; log in with the token of an operator", operator.role);
    Failure { code: "auth.forbidden".to_owned(), ..Failure::form(StatusCode::FORBIDDEN, &detail) }.into_response()
}

/// Whether a request comes from a page of another origin, as far as the browser says.
pub(crate) fn is_foreign(request: &Request) -> bool {
    let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    match (text("sec-fetch-site"), text("origin"), text("host")) {
        (Some(site), ..) => !matches!(site, "same-origin" | "none"),
        (None, Some(origin), Some(host)) => origin.split_once("://").is_none_or(|(_, named)| named != host),
        _ => false,
    }
}
