//! The list of agents, and making one.

use axum::Extension;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use maud::html;
use serde_json::{Value, json};

use crate::api::segment;
use crate::failure::Failure;
use crate::form::Form;
use crate::layout;
use crate::operator::Operator;
use crate::shown::{list as items, shown, text};

pub(crate) async fn list(Extension(operator): Extension<Operator>) -> Response {
    page(&operator, "", None).await
}

async fn page(operator: &Operator, typed: &str, failure: Option<&Failure>) -> Response {
    let answer = match operator.api.get("/v1/agents").await {
        Ok(answer) => answer,
        Err(failure) => return failure.into_response(),
    };
    let agents = items(&answer, "agents");
    let body = html! {
        h1 { "Agents" }
        @if let Some(failure) = failure { (failure.notice()) }
        @if agents.is_empty() {
            p.hint { "There is no agent yet." }
        } @else {
            div.scroll tabindex="0" { table {
                thead { tr {
                    th scope="col" { "Agent" } th scope="col" { "What it is for" } th scope="col" { "Model" } th.number scope="col" { "Tools" }
                } }
                tbody {
                    @for agent in agents {
                        @let profile = &agent["profile"];
                        tr {
                            th scope="row" { a href={ "/studio/agents/" (segment(text(agent, "id"))) } { (shown(text(agent, "id"))) } }
                            td { (shown(text(profile, "description"))) }
                            td { (shown(&model_of(profile))) }
                            td.number { (agent["tools"]) }
                        }
                    }
                }
            } }
        }
        @if operator.may_write() {
            h2 { "A new agent" }
            form.row method="post" action="/studio/agents" {
                (layout::form_key(operator))
                div { label for="id" { "Id" } input #id name="id" value=(typed) required maxlength="64" autocomplete="off" aria-describedby="id-hint"; }
                button.primary { "Make it" }
            }
            p.hint #id-hint { "Letters, digits, _, - and . such as support-desk. It begins with no tools; the next page gives it some." }
        }
    };
    let status = failure.map_or(StatusCode::OK, |failure| failure.status);
    (status, layout::page(operator, "Agents", &body)).into_response()
}

/// The model of a profile, as `provider/model`.
pub(crate) fn model_of(profile: &Value) -> String {
    match (text(profile, "provider"), text(profile, "model")) {
        ("", _) => "none: others drive its turns".to_owned(),
        (provider, model) => format!("{provider}/{model}"),
    }
}

/// Makes an agent that may use nothing yet.
pub(crate) async fn create(Extension(operator): Extension<Operator>, Extension(form): Extension<Form>) -> Response {
    let id = form.text("id").trim();
    let path = format!("/v1/agents/{}", segment(id));
    match operator.api.create(&path, &json!({ "tools_allow": [] })).await {
        Ok(_) => Redirect::to(&format!("/studio/agents/{}", segment(id))).into_response(),
        Err(failure) => page(&operator, id, Some(&failure)).await,
    }
}
