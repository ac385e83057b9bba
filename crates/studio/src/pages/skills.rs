//! Skills: the shared ones and those that are an agent's own.

use axum::Extension;
use axum::extract::{Path, Query};
use axum::response::{IntoResponse, Redirect, Response};
use http::{Method, StatusCode};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{segment, with_query};
use crate::diff::diff;
use crate::failure::Failure;
use crate::form::Form;
use crate::layout;
use crate::operator::Operator;
use crate::shown::{list as items, names, shown, text, time};

/// Skills that are listed at once.
const LISTED: usize = 500;
/// What a new skill begins with.
const BLANK: &str = "---\ndescription: When it is used, and for what\ntriggers: []\n---\n\nWhat to do, step by step.\n";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ScopeQuery {
    /// The agent whose own it is; empty for the shared ones.
    agent: String,
    q: String,
}

pub(crate) async fn list(Extension(operator): Extension<Operator>, Query(query): Query<ScopeQuery>) -> Response {
    let answer = match operator.api.get(&with_query("/v1/skills", &[("agent", &query.agent)])).await {
        Ok(answer) => answer,
        Err(failure) => return failure.into_response(),
    };
    let wanted = query.q.to_lowercase();
    let fits = |skill: &&Value| {
        wanted.is_empty() || ["name", "description"].iter().any(|key| text(skill, key).to_lowercase().contains(&wanted))
    };
    let found: Vec<&Value> = items(&answer, "skills").iter().filter(fits).collect();
    let body = html! {
        h1 { "Skills" @if !query.agent.is_empty() { " of " (shown(&query.agent)) } }
        form.row method="get" action="/studio/skills" role="search" {
            div { label for="q" { "Search" } input #q type="search" name="q" value=(query.q); }
            div { label for="agent" { "Of the agent (empty: shared)" } input #agent name="agent" value=(query.agent); }
            button { "Find" }
        }
        @if found.is_empty() { p.hint { "No skill fits." } } @else {
            div.scroll tabindex="0" { table {
                thead { tr { th scope="col" { "Skill" } th scope="col" { "When it is used" } th scope="col" { "Triggers" } th scope="col" { "Companions" } } }
                tbody {
                    @for skill in found.iter().take(LISTED) {
                        tr {
                            th scope="row" { a href=(address(text(skill, "name"), &query.agent)) { (shown(text(skill, "name"))) } }
                            td { (shown(text(skill, "description"))) }
                            td { (shown(&names(&skill["triggers"]))) }
                            td { (shown(&names(&skill["companions"]))) }
                        }
                    }
                }
            } }
            @if found.len() > LISTED { p.hint { "The first " (LISTED) " of " (found.len()) "; search for the others." } }
        }
        @if operator.may_write() {
            h2 { "A new skill" }
            (form(&operator, None, &query.agent, BLANK, ""))
        }
    };
    layout::page(&operator, "Skills", &body)
}

fn address(name: &str, agent: &str) -> String {
    with_query(&format!("/studio/skills/{}", segment(name)), &[("agent", agent)])
}

fn api_path(name: &str, agent: &str) -> String {
    with_query(&format!("/v1/skills/{}", segment(name)), &[("agent", agent)])
}

pub(crate) async fn show(
    Extension(operator): Extension<Operator>,
    Path(name): Path<String>,
    Query(query): Query<ScopeQuery>,
) -> Response {
    page(&operator, &name, &query.agent, None).await
}

/// Writes a skill, unless somebody else wrote it meanwhile.
pub(crate) async fn save(Extension(operator): Extension<Operator>, Extension(form_sent): Extension<Form>) -> Response {
    let (name, agent) = (form_sent.text("name").trim(), form_sent.text("agent").trim());
    let document = form_sent.text("document").replace("\r\n", "\n");
    let body = json!({ "document": document });
    let path = api_path(name, agent);
    let written = match form_sent.text("revision") {
        "" => operator.api.create(&path, &body).await,
        revision => operator.api.send(Method::PUT, &path, Some(&body), Some(&format!("\"{revision}\""))).await,
    };
    match written {
        Ok(_) => Redirect::to(&address(name, agent)).into_response(),
        Err(failure) if failure.status == StatusCode::PRECONDITION_FAILED => {
            let theirs = operator.api.get(&path).await.unwrap_or_default();
            let body = html! {
                h1 { (shown(name)) }
                div.notice.bad role="alert" { p { "Somebody wrote this skill first. Nothing of yours is written yet: save again to write yours over theirs." } }
                h2 { "From theirs to yours" }
                (diff(text(&theirs, "document"), &document))
                (form(&operator, Some(name), agent, &document, &theirs["revision"].to_string()))
            };
            (StatusCode::CONFLICT, layout::page(&operator, name, &body)).into_response()
        }
        Err(failure) => {
            let is_new = form_sent.text("revision").is_empty() && agent.is_empty();
            let body = html! {
                h1 { @if is_new { "A new skill" } @else { (shown(name)) } }
                (failure.notice())
                (form_with(&operator, name, !is_new, agent, &document, form_sent.text("revision")))
            };
            (failure.status, layout::page(&operator, "A skill", &body)).into_response()
        }
    }
}

pub(crate) async fn delete(Extension(operator): Extension<Operator>, Extension(form): Extension<Form>) -> Response {
    let (name, agent) = (form.text("name"), form.text("agent"));
    let revision = format!("\"{}\"", form.text("revision"));
    match operator.api.send(Method::DELETE, &api_path(name, agent), None, Some(&revision)).await {
        Ok(_) => Redirect::to(&with_query("/studio/skills", &[("agent", agent)])).into_response(),
        Err(failure) => page(&operator, name, agent, Some(&failure)).await,
    }
}

async fn page(operator: &Operator, name: &str, agent: &str, failure: Option<&Failure>) -> Response {
    let (path, shared_path) = (api_path(name, agent), api_path(name, ""));
    let versions_path = with_query(&format!("/v1/skills/{}/versions", segment(name)), &[("agent", agent)]);
    let (skill, shared, versions) =
        tokio::join!(operator.api.get(&path), operator.api.get(&shared_path), operator.api.get(&versions_path));
    let shared = shared.ok().filter(|_| !agent.is_empty());
    let skill = match (skill, &shared) {
        (Ok(skill), _) => skill,
        // It is not specialised yet: that begins with the shared text.
        (Err(failure), Some(shared)) if failure.status == StatusCode::NOT_FOUND && operator.may_write() => {
            let body = html! {
                h1 { "Specialise " (shown(name)) " for " (shown(agent)) }
                p { "What is saved here stands in the place of the shared one, for this agent only." }
                (form(operator, Some(name), agent, text(shared, "document"), ""))
            };
            return layout::page(operator, name, &body);
        }
        (Err(failure), _) => return failure.into_response(),
    };
    let body = html! {
        h1 { (shown(name)) @if !agent.is_empty() { " of " (shown(agent)) } }
        @if let Some(failure) = failure { (failure.notice()) }
        p { (shown(text(&skill, "description"))) }
        @for note in items(&skill, "notes").iter().filter_map(Value::as_str) { div.notice { p { (shown(note)) } } }
        @if let Some(shared) = &shared {
            h2 { "From the shared one to this" }
            (diff(text(shared, "document"), text(&skill, "document")))
        }
        @if operator.may_write() {
            (form(operator, Some(name), agent, text(&skill, "document"), &skill["revision"].to_string()))
        } @else { pre tabindex="0" { code { (shown(text(&skill, "document"))) } } }
        @if let Ok(versions) = &versions { (versions_of(items(versions, "versions"))) }
    };
    let status = failure.map_or(StatusCode::OK, |failure| failure.status);
    (status, layout::page(operator, name, &body)).into_response()
}

/// Each version with what it changed of the one before.
fn versions_of(versions: &[Value]) -> Markup {
    html! {
        @if versions.len() > 1 {
            h2 { "Versions" }
            @for pair in versions.windows(2) {
                @let (after, before) = (&pair[0], &pair[1]);
                details {
                    summary { "Version " (after["version"]) ", " (time(&after["created_at"])) " UTC by " (shown(text(after, "actor"))) }
                    (diff(text(before, "document"), text(after, "document")))
                }
            }
        }
    }
}

fn form(operator: &Operator, name: Option<&str>, agent: &str, document: &str, revision: &str) -> Markup {
    form_with(operator, name.unwrap_or_default(), name.is_some(), agent, document, revision)
}

/// The form; a name that is not `fixed` is a field.
fn form_with(operator: &Operator, name: &str, fixed: bool, agent: &str, document: &str, revision: &str) -> Markup {
    html! {
        form method="post" action="/studio/save-skill" {
            (layout::form_key(operator))
            input type="hidden" name="revision" value=(revision);
            input type="hidden" name="agent" value=(agent);
            @if fixed {
                input type="hidden" name="name" value=(name);
            } @else {
                label for="name" { "Name" }
                input #name name="name" value=(name) required autocomplete="off" aria-describedby="name-hint";
                p.hint #name-hint { "Lower case with hyphens, as refunds or tone-of-voice" }
            }
            label for="document" { "SKILL.md" }
            textarea #document name="document" rows="16" spellcheck="false" { "\n" (document) }
            div.actions {
                button.primary { "Save the skill" }
                @if !revision.is_empty() { button.danger formaction="/studio/delete-skill" { "Delete it" } }
            }
        }
    }
}
