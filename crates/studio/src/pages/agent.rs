//! One agent: who it is, what it may use and why, its skills, its limits, and talking with it.

use axum::Extension;
use axum::extract::{Path, Query};
use axum::response::{IntoResponse, Redirect, Response};
use http::{Method, StatusCode};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{segment, with_query};
use crate::failure::Failure;
use crate::form::Form;
use crate::layout;
use crate::operator::Operator;
use crate::pages::agents::model_of;
use crate::profile::{self, Rule};
use crate::shown::{block, list as items, names, shown, text};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AgentQuery {
    q: String,
    may: String,
    after: String,
}

pub(crate) async fn show(
    Extension(operator): Extension<Operator>,
    Path(id): Path<String>,
    Query(query): Query<AgentQuery>,
) -> Response {
    page(&operator, &id, &query, None).await
}

/// Writes which of the tools that were shown it may use.
pub(crate) async fn save_tools(
    Extension(operator): Extension<Operator>,
    Path(id): Path<String>,
    Extension(form): Extension<Form>,
) -> Response {
    let profile = profile::with_rules(&form);
    write(&operator, &id, &form, profile).await
}

/// Deletes the agent as it was seen.
pub(crate) async fn delete(
    Extension(operator): Extension<Operator>,
    Path(id): Path<String>,
    Extension(form): Extension<Form>,
) -> Response {
    let revision = format!("\"{}\"", form.text("revision"));
    match operator.api.send(Method::DELETE, &format!("/v1/agents/{}", segment(&id)), None, Some(&revision)).await {
        Ok(_) => Redirect::to("/studio/agents").into_response(),
        Err(failure) => failure.into_response(),
    }
}

async fn write(operator: &Operator, id: &str, form: &Form, profile: Result<Value, String>) -> Response {
    let query = AgentQuery { q: form.text("q").to_owned(), may: form.text("may").to_owned(), after: String::new() };
    let profile = match profile {
        Ok(profile) => profile,
        Err(message) => {
            let failure = Failure::form(StatusCode::UNPROCESSABLE_ENTITY, &message);
            return page(operator, id, &query, Some(&failure)).await;
        }
    };
    let revision = format!("\"{}\"", form.text("revision"));
    let path = format!("/v1/agents/{}", segment(id));
    match operator.api.send(Method::PUT, &path, Some(&profile), Some(&revision)).await {
        Ok(_) => {
            let back = format!("/studio/agents/{}", segment(id));
            Redirect::to(&with_query(&back, &[("q", &query.q), ("may", &query.may)])).into_response()
        }
        Err(failure) if failure.status == StatusCode::PRECONDITION_FAILED => {
            let detail = "somebody changed this agent while you worked on it: nothing of yours is written. What they wrote \
                          stands below; make your change anew";
            page(operator, id, &query, Some(&Failure::form(StatusCode::CONFLICT, detail))).await
        }
        Err(failure) => page(operator, id, &query, Some(&failure)).await,
    }
}

/// Begins a turn, and goes to where it can be followed.
pub(crate) async fn chat(
    Extension(operator): Extension<Operator>,
    Path(id): Path<String>,
    Extension(form): Extension<Form>,
) -> Response {
    let session = Some(form.text("session").trim()).filter(|session| !session.is_empty());
    // The page follows what comes; the form need not wait for it.
    let body = json!({ "message": form.text("message"), "session": session, "wait": 0 });
    match operator.api.post(&format!("/v1/agents/{}/turns", segment(&id)), &body).await {
        Ok(turn) => Redirect::to(&format!("/studio/sessions/{}#end", segment(text(&turn, "session")))).into_response(),
        Err(failure) => failure.into_response(),
    }
}

async fn page(operator: &Operator, id: &str, query: &AgentQuery, failure: Option<&Failure>) -> Response {
    let base = format!("/v1/agents/{}", segment(id));
    let asked = [("q", query.q.as_str()), ("may", query.may.as_str())];
    let reach_path =
        with_query(&format!("{base}/reach"), &[asked[0], asked[1], ("after", &query.after), ("limit", "50")]);
    let own_path = with_query("/v1/skills", &[("agent", id)]);
    let (agent, reach, shared, own) = tokio::join!(
        operator.api.get(&base),
        operator.api.get(&reach_path),
        operator.api.get("/v1/skills"),
        operator.api.get(&own_path)
    );
    let (agent, reach) = match (agent, reach) {
        (Ok(agent), Ok(reach)) => (agent, reach),
        (Err(failure), _) | (_, Err(failure)) => return failure.into_response(),
    };
    let profile = &agent["profile"];
    let here = format!("/studio/agents/{}", segment(id));
    let body = html! {
        h1 { (shown(id)) }
        @if let Some(failure) = failure { (failure.notice()) }
        @if !text(profile, "description").is_empty() { p { (shown(text(profile, "description"))) } }
        dl {
            dt { "Model" } dd { (shown(&model_of(profile))) }
            dt { "Tools" } dd { (reach["reached"]) " of " (reach["total"]) }
            dt { "Calls" } dd { a href=(with_query("/studio/traces", &[("agent", id)])) { "Its calls" } " · " a href=(with_query("/studio/sessions", &[("agent", id)])) { "Its sessions" } }
        }
        @if operator.may_write() && !text(profile, "provider").is_empty() { (chat_form(operator, &here, "")) }
        h2 #tools { "Tools" }
        form.row method="get" action=(here) role="search" {
            div { label for="q" { "Search" } input #q type="search" name="q" value=(query.q); }
            div { label for="may" { "Which" } select #may name="may" {
                option value="" { "all" }
                option value="true" selected[query.may == "true"] { "those it may use" }
                option value="false" selected[query.may == "false"] { "those it may not use" }
            } }
            button { "Find" }
        }
        (matrix(operator, &here, query, &agent, &reach))
        (layout::next(&with_query(&here, &asked), reach["next"].as_str()))
        h2 #skills { "Skills" }
        (skills(id, profile, shared.as_ref().ok(), own.as_ref().ok()))
        h2 #profile { "Profile" }
        @if operator.may_write() { p { a href={ (here) "/profile" } { "Edit who it is, its skills and its limits" } } }
        (block("As it is", profile))
        @if operator.may_write() {
            form method="post" action={ (here) "/delete" } {
                (layout::form_key(operator))
                input type="hidden" name="revision" value=(agent["revision"]);
                div.actions { button.danger { "Delete this agent" } }
            }
        }
    };
    let status = failure.map_or(StatusCode::OK, |failure| failure.status);
    (status, layout::page(operator, id, &body)).into_response()
}

/// A box to say something, and the button that begins a turn.
pub(crate) fn chat_form(operator: &Operator, agent: &str, session: &str) -> Markup {
    html! {
        form method="post" action={ (agent) "/chat" } {
            (layout::form_key(operator))
            input type="hidden" name="session" value=(session);
            label for="message" { "Say something to it" }
            textarea.short #message name="message" rows="2" required {}
            div.actions { button.primary { "Send" } }
        }
    }
}

/// What it may use, why, and the rule for each.
fn matrix(operator: &Operator, here: &str, query: &AgentQuery, agent: &Value, reach: &Value) -> Markup {
    let profile = &agent["profile"];
    let tools = items(reach, "tools");
    let may_write = operator.may_write();
    html! {
        form method="post" action={ (here) "/tools" } {
            (layout::form_key(operator))
            (carried(agent))
            input type="hidden" name="q" value=(query.q);
            input type="hidden" name="may" value=(query.may);
            @if may_write {
                fieldset {
                    legend { "Which tools it may use" }
                    label.choice { input type="radio" name="mode" value="listed" checked[!profile::allows_all(profile)]; " those that are listed here, and no others" }
                    label.choice { input type="radio" name="mode" value="all" checked[profile::allows_all(profile)]; " every tool that is not denied" }
                    label for="groups" { "Whole groups, with commas" }
                    input #groups name="groups" value=(names(&profile["tools_allow_groups"])) autocomplete="off";
                }
            }
            @if tools.is_empty() {
                p.hint { "No tool fits." }
            } @else {
                div.scroll tabindex="0" { table {
                    thead { tr {
                        th scope="col" { "Tool" } th scope="col" { "Group" } th scope="col" { "May use" } th scope="col" { "Why" }
                        @if may_write { th scope="col" { "Rule" } th scope="col" { "Deferred" } }
                    } }
                    tbody {
                        @for tool in tools {
                            @let name = text(tool, "name");
                            @let rule = Rule::of(profile, name);
                            tr {
                                th scope="row" { a href={ "/studio/tools/" (segment(name)) } { (shown(name)) } }
                                td { (shown(text(tool, "group"))) }
                                td {
                                    @match (tool["may"] == true, tool["deferred"] == true) {
                                        (true, true) => span.status.wait { "… when it is searched for" },
                                        (true, false) => span.status.good { "✓ yes" },
                                        _ => span.status.bad { "✗ no" },
                                    }
                                }
                                td { (shown(text(tool, "why"))) }
                                @if may_write {
                                    td {
                                        input type="hidden" name="tool" value=(name);
                                        select name={ "rule:" (name) } aria-label={ "Rule for " (name) } {
                                            @for (choice, words) in Rule::CHOICES {
                                                option value=(choice.word()) selected[rule == choice] { (words) }
                                            }
                                        }
                                    }
                                    td {
                                        input type="checkbox" name={ "deferred:" (name) } value="yes" aria-label={ "Defer " (name) }
                                            checked[profile::has(&profile["tools_deferred"], name)];
                                    }
                                }
                            }
                        }
                    }
                } }
                @if may_write { div.actions { button.primary { "Save the tools" } } }
            }
        }
    }
}

/// What a form keeps of the agent: the revision that was read, and the keys that it does not show.
pub(crate) fn carried(agent: &Value) -> Markup {
    html! {
        input type="hidden" name="revision" value=(agent["revision"]);
        input type="hidden" name="whole" value=(agent["profile"].to_string());
    }
}

/// Which skills it has, and how each comes to be its own.
fn skills(id: &str, profile: &Value, shared: Option<&Value>, own: Option<&Value>) -> Markup {
    let empty = Value::Null;
    let own = items(own.unwrap_or(&empty), "skills");
    let shared = items(shared.unwrap_or(&empty), "skills");
    let allowed = |name: &str| profile["skills"].is_null() || profile::has(&profile["skills"], name);
    let eager = |name: &str| profile["skills_eager"] == "all" || profile::has(&profile["skills_eager"], name);
    let own_address = |name: &str| with_query(&format!("/studio/skills/{}", segment(name)), &[("agent", id)]);
    let row = |name: &str, address: String, kind: &str, special: Markup| {
        html! {
            tr {
                th scope="row" { a href=(address) { (shown(name)) } }
                td { (kind) (special) }
                td {
                    @if allowed(name) { span.status.good { "✓ yes" } } @else { span.status.bad { "✗ no" } }
                    @if profile["skills"].is_null() { " all are allowed" }
                }
                td { @if allowed(name) && eager(name) { "always in its prompt" } @else { "by its triggers, or load_skill" } }
            }
        }
    };
    let is_own = |name: &str| own.iter().any(|skill| text(skill, "name") == name);
    let is_shared = |name: &str| shared.iter().any(|skill| text(skill, "name") == name);
    html! {
        @if own.is_empty() && shared.is_empty() {
            p.hint { "There are no skills. " a href="/studio/skills" { "Write one" } }
        } @else {
            div.scroll tabindex="0" { table {
                thead { tr { th scope="col" { "Skill" } th scope="col" { "Whose" } th scope="col" { "May use" } th scope="col" { "When" } } }
                tbody {
                    @for skill in own {
                        @let name = text(skill, "name");
                        (row(name, own_address(name), if is_shared(name) { "specialised for it: stands in the place of the shared one" } else { "its own" }, html! {}))
                    }
                    @for skill in shared.iter().filter(|skill| !is_own(text(skill, "name"))).take(200) {
                        @let name = text(skill, "name");
                        (row(name, format!("/studio/skills/{}", segment(name)), "shared", html! { " · " a href=(own_address(name)) { "specialise" } }))
                    }
                }
            } }
        }
    }
}
