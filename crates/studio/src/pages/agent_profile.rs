//! Who an agent is, its skills and its limits: a form.

use axum::Extension;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use http::{Method, StatusCode};
use maud::{Markup, html};
use serde_json::Value;

use crate::api::segment;
use crate::failure::Failure;
use crate::form::Form;
use crate::layout;
use crate::operator::Operator;
use crate::profile::{self, LIMITS};
use crate::shown::{names, shown, text};

pub(crate) async fn edit(Extension(operator): Extension<Operator>, Path(id): Path<String>) -> Response {
    match operator.api.get(&format!("/v1/agents/{}", segment(&id))).await {
        Ok(agent) => {
            let profile = &agent["profile"];
            let kept = Kept { revision: agent["revision"].to_string(), whole: profile.to_string() };
            page(&operator, &id, &kept, &|field| field_of(profile, field), None)
        }
        Err(failure) => failure.into_response(),
    }
}

/// Writes it, unless something is wrong or somebody was faster: then what was typed stays.
pub(crate) async fn save(
    Extension(operator): Extension<Operator>,
    Path(id): Path<String>,
    Extension(form): Extension<Form>,
) -> Response {
    let kept = Kept { revision: form.text("revision").to_owned(), whole: form.text("whole").to_owned() };
    let typed = |field: &str| form.text(field).to_owned();
    let again = |failure: &Failure| page(&operator, &id, &kept, &typed, Some(failure));
    let profile = match profile::with_identity(&form) {
        Ok(profile) => profile,
        Err(message) => return again(&Failure::form(StatusCode::UNPROCESSABLE_ENTITY, &message)),
    };
    let path = format!("/v1/agents/{}", segment(&id));
    let revision = format!("\"{}\"", kept.revision);
    match operator.api.send(Method::PUT, &path, Some(&profile), Some(&revision)).await {
        Ok(_) => Redirect::to(&format!("/studio/agents/{}", segment(&id))).into_response(),
        Err(failure) if failure.status == StatusCode::PRECONDITION_FAILED => {
            let detail = "somebody changed this agent while you worked on it: nothing of yours is written. Open the agent in \
                          another tab to see what they wrote, then open this form again and make your change anew";
            again(&Failure::form(StatusCode::CONFLICT, detail))
        }
        Err(failure) => again(&failure),
    }
}

/// What the form keeps: the revision that was read, and the keys that it does not show.
struct Kept {
    revision: String,
    whole: String,
}

/// A field as a profile has it.
fn field_of(profile: &Value, field: &str) -> String {
    match field {
        "skills" if profile["skills"].is_null() => "all".to_owned(),
        "skills" | "approvals_required" => names(&profile[field]),
        "skills_eager" => profile[field].as_str().map_or_else(|| names(&profile[field]), str::to_owned),
        limit if LIMITS.iter().any(|(name, _)| *name == limit) => profile["limits"][limit].to_string(),
        other => text(profile, other).to_owned(),
    }
}

fn page(
    operator: &Operator,
    id: &str,
    kept: &Kept,
    value: &dyn Fn(&str) -> String,
    failure: Option<&Failure>,
) -> Response {
    let line = |name: &str, words: &str, hint: &str| -> Markup {
        html! {
            div.field {
                label for=(name) { (words) }
                input id=(name) name=(name) value=(value(name)) autocomplete="off" spellcheck="false";
                @if !hint.is_empty() { p.hint { (hint) } }
            }
        }
    };
    let here = format!("/studio/agents/{}", segment(id));
    let body = html! {
        h1 { "Profile of " a href=(here) { (shown(id)) } }
        @if let Some(failure) = failure { (failure.notice()) }
        form method="post" action={ (here) "/profile" } {
            (layout::form_key(operator))
            input type="hidden" name="revision" value=(kept.revision);
            input type="hidden" name="whole" value=(kept.whole);
            (line("description", "Description", "For people and other agents"))
            div.field {
                label for="instructions" { "Instructions" }
                textarea #instructions name="instructions" rows="10" { "\n" (value("instructions")) }
                p.hint { "Who it is and how it works: the beginning of its prompt" }
            }
            (line("provider", "Provider", "A name of the configuration; empty when others drive its turns"))
            (line("model", "Model", ""))
            (line("skills", "Skills", "all, or names with commas; empty for none"))
            (line("skills_eager", "Skills that are always in its prompt", "none, all, or names with commas"))
            (line("approvals_required", "Tools whose every call needs a person", "names, with commas"))
            fieldset {
                legend { "Limits" }
                @for (name, words) in LIMITS { (line(name, words, "")) }
            }
            div.actions { button.primary { "Save the profile" } }
        }
    };
    let status = failure.map_or(StatusCode::OK, |failure| failure.status);
    (status, layout::page(operator, id, &body)).into_response()
}
