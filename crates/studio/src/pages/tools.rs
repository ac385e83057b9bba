//! The list of tools.

use axum::Extension;
use axum::extract::Query;
use axum::response::{IntoResponse, Response};
use maud::html;
use serde::Deserialize;
use serde_json::Value;

use crate::api::{segment, with_query};
use crate::layout;
use crate::operator::Operator;
use crate::shown::{beginning, list as items, names, shown, text, time};

/// The orders of the list.
const ORDERS: [(&str, &str); 4] =
    [("name", "by name"), ("updated", "last changed first"), ("group", "by group"), ("origin", "by origin")];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ToolsQuery {
    q: String,
    group: String,
    tag: String,
    sort: String,
    after: String,
}

pub(crate) async fn list(Extension(operator): Extension<Operator>, Query(query): Query<ToolsQuery>) -> Response {
    let ToolsQuery { q, group, tag, sort, after } = &query;
    let asked = [("q", q.as_str()), ("group", group), ("tag", tag), ("sort", sort)];
    let path = with_query(
        "/v1/tools",
        &[asked[0], asked[1], asked[2], asked[3], ("after", after), ("limit", "100"), ("usage", "true")],
    );
    let answer = match operator.api.get(&path).await {
        Ok(answer) => answer,
        Err(failure) => return failure.into_response(),
    };
    let tools = items(&answer, "tools");
    let body = html! {
        h1 { "Tools" }
        form.row method="get" action="/studio/tools" role="search" {
            div { label for="q" { "Search" } input #q type="search" name="q" value=(q) placeholder="words, or a name"; }
            div { label for="group" { "Group" } input #group name="group" value=(group); }
            div { label for="tag" { "Tag" } input #tag name="tag" value=(tag); }
            div { label for="sort" { "Order" } select #sort name="sort" {
                @for (order, words) in ORDERS { option value=(order) selected[sort == order] { (words) } }
            } }
            button { "Find" }
        }
        p.hint {
            (answer["total"]) " tool(s) in all"
            @if operator.may_write() { " · " a href="/studio/new" { "A new tool" } }
        }
        @if tools.is_empty() {
            p { "No tool fits. " a href="/studio/tools" { "Show all" } }
        } @else {
            div.scroll tabindex="0" { table {
                thead { tr {
                    th scope="col" { "Name" } th scope="col" { "What the model reads" } th scope="col" { "Origin" }
                    th scope="col" { "Group" } th scope="col" { "Tags" } th.number scope="col" { "Agents" } th.number scope="col" { "Calls of the day" }
                    th scope="col" { "Last call (UTC)" } th scope="col" { "Changed (UTC)" }
                } }
                tbody {
                    @for tool in tools {
                        @let name = text(tool, "name");
                        tr {
                            th scope="row" { a href={ "/studio/tools/" (segment(name)) } { (shown(name)) } }
                            td { (beginning(text(tool, "description").lines().next().unwrap_or_default())) }
                            td { (shown(text(tool, "origin"))) }
                            td {
                                @let group = text(tool, "group");
                                @if !group.is_empty() {
                                    a href=(with_query("/studio/tools", &[("group", group)])) { (shown(group)) }
                                }
                            }
                            td { (shown(&names(&tool["tags"]))) }
                            @let usage = &tool["usage"];
                            td.number { @if usage["agents"] == 0 { span.status.bad { "✗ none" } } @else { (usage["agents"]) } }
                            td.number {
                                (usage["calls"])
                                @if usage["errors"].as_i64().unwrap_or_default() > 0 { " " span.status.bad { "✗ " (share(usage)) } }
                            }
                            td { (time(&usage["last_call"])) }
                            td { (time(&tool["updated_at"])) }
                        }
                    }
                }
            } }
            (layout::next(&with_query("/studio/tools", &asked), answer["next"].as_str()))
        }
    };
    layout::page(&operator, "Tools", &body)
}

/// The share of calls that failed.
fn share(usage: &Value) -> String {
    let of = |key: &str| usage[key].as_u64().unwrap_or_default();
    format!("{} % failed", (100 * of("errors")).div_ceil(of("calls").max(1)))
}
