//! The editor of a tool: opened, checked as somebody types, saved, and merged with what somebody else saved.

use axum::Extension;
use axum::extract::Path;
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::{Method, StatusCode};
use maud::{Markup, html};
use serde_json::Value;
use toolcrib_definition::{Definition, Problems};

use crate::api::segment;
use crate::editor::{Draft, draft, fields, preview};
use crate::failure::Failure;
use crate::form::Form;
use crate::layout;
use crate::operator::Operator;
use crate::shown::{shown, text};

pub(crate) async fn open(Extension(operator): Extension<Operator>, Path(name): Path<String>) -> Response {
    let tool = match operator.api.get(&format!("/v1/tools/{}", segment(&name))).await {
        Ok(tool) => tool,
        Err(failure) => return failure.into_response(),
    };
    if tool["definition"].is_null() {
        return Redirect::to(&format!("/studio/tools/{}", segment(&name))).into_response();
    }
    let draft = Draft::of(&tool["definition"]);
    page(&operator, &draft, Some(&revision_of(&tool)), &Problems::default(), &html! {})
}

/// What is wrong, and what the tool would be: a part of the page, asked for as somebody types.
pub(crate) async fn check(Extension(form): Extension<Form>) -> Html<String> {
    let checked = Draft::read(&form).definition();
    let part = html! {
        @match checked.as_ref().map(Definition::from_value) {
            Ok(Ok(definition)) => (preview::preview(&definition)),
            Ok(Err(problems)) => (told(&problems)),
            Err(problems) => (told(problems)),
        }
    };
    Html(part.into_string())
}

fn told(problems: &Problems) -> Markup {
    html! {
        ul.told {
            @for problem in problems.iter() {
                li data-field=[fields::field_of(&problem.pointer)] { (shown(&problem.message)) }
            }
        }
    }
}

/// The page with what the tool would be, for a browser without JavaScript.
pub(crate) async fn show(Extension(operator): Extension<Operator>, Extension(form): Extension<Form>) -> Response {
    let draft = Draft::read(&form);
    let revision = Some(form.text("revision")).filter(|revision| !revision.is_empty());
    match draft.definition().and_then(|value| Definition::from_value(&value)) {
        Ok(definition) => page(&operator, &draft, revision, &Problems::default(), &preview::preview(&definition)),
        Err(problems) => page(&operator, &draft, revision, &problems, &html! {}),
    }
}

/// The page with the parameters in their other spelling.
pub(crate) async fn switch(Extension(operator): Extension<Operator>, Extension(form): Extension<Form>) -> Response {
    let revision = Some(form.text("revision")).filter(|revision| !revision.is_empty());
    match Draft::read(&form).switched() {
        Ok(draft) => page(&operator, &draft, revision, &Problems::default(), &html! {}),
        Err((draft, why)) => {
            let notice = html! { div.notice role="alert" { p { (shown(&why)) } } };
            page(&operator, &draft, revision, &Problems::default(), &notice)
        }
    }
}

/// Writes the tool, unless something is wrong or somebody else wrote it meanwhile.
pub(crate) async fn save(Extension(operator): Extension<Operator>, Extension(form): Extension<Form>) -> Response {
    let draft = Draft::read(&form);
    let revision = Some(form.text("revision")).filter(|revision| !revision.is_empty());
    let definition = match draft.definition() {
        Ok(definition) => definition,
        Err(problems) => return page(&operator, &draft, revision, &problems, &html! {}),
    };
    let path = format!("/v1/tools/{}", segment(text(&definition, "name")));
    let expected = revision.map_or(Expected::New, Expected::Revision);
    match write(&operator, &path, &definition, &expected).await {
        Ok(_) => Redirect::to(&format!("/studio/tools/{}", segment(text(&definition, "name")))).into_response(),
        Err(failure) if failure.status == StatusCode::PRECONDITION_FAILED => {
            merge(&operator, &path, draft, revision.is_none()).await
        }
        Err(failure) => {
            let page = page(&operator, &draft, revision, &Problems::default(), &failure.notice());
            (failure.status, page).into_response()
        }
    }
}

/// What a write expects to find.
enum Expected<'a> {
    New,
    Revision(&'a str),
}

async fn write(operator: &Operator, path: &str, definition: &Value, expected: &Expected<'_>) -> Result<Value, Failure> {
    match expected {
        Expected::New => operator.api.create(path, definition).await,
        Expected::Revision(revision) => {
            operator.api.send(Method::PUT, path, Some(definition), Some(&format!("\"{revision}\""))).await
        }
    }
}

/// Somebody else saved it first: what they have and what was typed, side by side. Saving again takes what was typed, over the
/// version that is shown.
async fn merge(operator: &Operator, path: &str, draft: Draft, is_new: bool) -> Response {
    let tool = match operator.api.get(path).await {
        Ok(tool) => tool,
        // It was deleted meanwhile: it can be made anew.
        Err(failure) if failure.status == StatusCode::NOT_FOUND => {
            let notice = html! { div.notice.bad role="alert" { p { "Somebody deleted this tool meanwhile. Saving makes it anew." } } };
            return page(operator, &draft, None, &Problems::default(), &notice);
        }
        Err(failure) => return failure.into_response(),
    };
    let theirs = Draft::of(&tool["definition"]);
    let mine = draft.over(&tool["definition"]);
    let names = draft::names().filter(|name| theirs.text(name) != mine.text(name));
    let notice = html! {
        div.notice.bad role="alert" {
            p {
                @if is_new { "There is a tool of this name already. " } @else { "Somebody saved this tool while you worked on it. " }
                "Nothing of yours is written yet. Take over below what you want to keep of theirs, and save again."
            }
        }
        div.scroll tabindex="0" { table {
            caption { "What differs" }
            thead { tr { th scope="col" { "Field" } th scope="col" { "Theirs" } th scope="col" { "Yours" } } }
            tbody {
                @for name in names {
                    tr { th scope="row" { (name) } td { pre { (shown(theirs.text(name))) } } td { pre { (shown(mine.text(name))) } } }
                }
            }
        } }
        p { a href={ "/studio/tools/" (segment(theirs.text("name"))) "/edit" } { "Drop mine, and edit theirs" } }
    };
    page(operator, &mine, Some(&revision_of(&tool)), &Problems::default(), &notice)
}

fn revision_of(tool: &Value) -> String {
    tool["revision"].as_i64().map(|revision| revision.to_string()).unwrap_or_default()
}

/// The editor with something above or below the form.
pub(crate) fn page(
    operator: &Operator,
    draft: &Draft,
    revision: Option<&str>,
    problems: &Problems,
    beside: &Markup,
) -> Response {
    let title = match (revision, draft.text("name")) {
        (None, _) => "A new tool".to_owned(),
        (Some(_), name) => format!("Edit {}", shown(name)),
    };
    let body = html! { h1 { (title) } (beside) (fields::form(operator, draft, revision, problems)) };
    let status = if problems.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    (status, layout::page(operator, &title, &body)).into_response()
}
