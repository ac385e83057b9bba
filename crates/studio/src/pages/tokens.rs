//! Tokens: who has one, making one, and taking one away.

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::{Method, StatusCode};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::segment;
use crate::form::Form;
use crate::layout;
use crate::once::new_key;
use crate::operator::Operator;
use crate::router::Studio;
use crate::shown::{list as items, names, shown, text, time};

const ROLES: [(&str, &str); 4] = [
    ("admin", "admin: everything"),
    ("operator", "operator: everything but tokens"),
    ("caller", "caller: calls, and reads its own"),
    ("auditor", "auditor: reads everything but tokens and configuration, changes nothing"),
];

pub(crate) async fn list(Extension(operator): Extension<Operator>) -> Response {
    page(&operator, &html! {}, StatusCode::OK).await
}

/// Makes a token, and shows it this once.
pub(crate) async fn create(
    State(studio): State<Studio>,
    Extension(operator): Extension<Operator>,
    Extension(form): Extension<Form>,
) -> Response {
    if !studio.once.take(form.text("once")) {
        // A reload sends the form again, and is no wish for a second token.
        return Redirect::to("/studio/tokens").into_response();
    }
    let agents: Vec<&str> = form.text("agents").split(',').map(str::trim).filter(|id| !id.is_empty()).collect();
    let days = form.text("expires_in_days").trim();
    let mut body = json!({ "name": form.text("name").trim(), "role": form.text("role") });
    if !agents.is_empty() {
        body["agents"] = json!(agents);
    }
    if !days.is_empty() {
        body["expires_in_days"] = days.parse::<i64>().map_or_else(|_| days.into(), Value::from);
    }
    match operator.api.post("/v1/tokens", &body).await {
        Ok(token) => {
            let notice = html! {
                div.notice.good role="status" {
                    p { "The token of " strong { (shown(text(&token, "name"))) } ", shown this once:" }
                    pre tabindex="0" { code { (text(&token, "token")) } }
                }
            };
            page(&operator, &notice, StatusCode::OK).await
        }
        Err(failure) => page(&operator, &failure.notice(), failure.status).await,
    }
}

pub(crate) async fn revoke(Extension(operator): Extension<Operator>, Extension(form): Extension<Form>) -> Response {
    match operator.api.send(Method::DELETE, &format!("/v1/tokens/{}", segment(form.text("id"))), None, None).await {
        Ok(_) => Redirect::to("/studio/tokens").into_response(),
        Err(failure) => page(&operator, &failure.notice(), failure.status).await,
    }
}

async fn page(operator: &Operator, notice: &Markup, status: StatusCode) -> Response {
    let answer = match operator.api.get("/v1/tokens").await {
        Ok(answer) => answer,
        Err(failure) => return failure.into_response(),
    };
    let body = html! {
        h1 { "Tokens" }
        (notice)
        div.scroll tabindex="0" { table {
            thead { tr {
                th scope="col" { "Who" } th scope="col" { "Id" } th scope="col" { "Role" } th scope="col" { "Agents" } th scope="col" { "Made (UTC)" }
                th scope="col" { "Ends (UTC)" } th scope="col" { "Take away" }
            } }
            tbody { @for token in items(&answer, "tokens") {
                tr {
                    th scope="row" { (shown(text(token, "name"))) }
                    td { code { (shown(text(token, "id"))) } }
                    td { (shown(text(token, "role"))) }
                    td { @if token["agents"].is_null() { "all" } @else { (shown(&names(&token["agents"]))) } }
                    td { (time(&token["created_at"])) }
                    td { @if token["expires_at"].is_null() { "never" } @else { (time(&token["expires_at"])) } }
                    td { @if text(token, "id") == operator.token_id { "you are logged in with it" } @else {
                        form method="post" action="/studio/tokens/revoke" {
                            (layout::form_key(operator))
                            input type="hidden" name="id" value=(text(token, "id"));
                            button.danger { "Revoke" span.unseen { " the token of " (shown(text(token, "name"))) } }
                        }
                    } }
                }
            } }
        } }
        h2 { "A new token" }
        form method="post" action="/studio/tokens" {
            (layout::form_key(operator))
            input type="hidden" name="once" value=(new_key());
            label for="name" { "Who holds it" }
            input #name name="name" required maxlength="100" autocomplete="off";
            label for="role" { "Role" }
            select #role name="role" { @for (role, words) in ROLES { option value=(role) selected[role == "caller"] { (words) } } }
            label for="agents" { "Only for these agents, with commas (empty: all)" }
            input #agents name="agents" autocomplete="off";
            label for="expires_in_days" { "Ends after so many days (empty: never)" }
            input #expires_in_days name="expires_in_days" inputmode="numeric" autocomplete="off";
            div.actions { button.primary { "Make it" } }
        }
    };
    (status, layout::page(operator, "Tokens", &body)).into_response()
}
