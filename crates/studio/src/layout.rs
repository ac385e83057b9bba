//! The frame of every page.

use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use crate::assets;
use crate::form::FORM_KEY;
use crate::operator::Operator;
use crate::shown::shown;

/// The menu: address, word, and the key that goes there after `g`.
const MENU: [(&str, &str, &str); 11] = [
    ("/studio", "Home", "h"),
    ("/studio/tools", "Tools", "t"),
    ("/studio/agents", "Agents", "g"),
    ("/studio/sessions", "Sessions", "s"),
    ("/studio/traces", "Calls", "c"),
    ("/studio/approvals", "Approvals", "a"),
    ("/studio/skills", "Skills", "k"),
    ("/studio/mcp", "MCP", "m"),
    ("/studio/tokens", "Tokens", "o"),
    ("/studio/configuration", "Configuration", "i"),
    ("/studio/doctor", "Doctor", "d"),
];
/// The events of the API at which a page that shows what may change looks again.
const EVENTS: &str = "call_finished egress_blocked catalog_changed approval_requested approval_decided call_in_doubt \
                      verdict_given turn_started skills_activated turn_parked turn_ended";
/// Pages that only admins can see.
const OF_ADMINS: [&str; 2] = ["/studio/tokens", "/studio/configuration"];

/// A page for somebody who is logged in.
pub(crate) fn page(operator: &Operator, title: &str, body: &Markup) -> Response {
    let here = |address: &str| match address {
        "/studio" => operator.path == "/studio",
        address => operator.path.starts_with(address),
    };
    let whole = html! {
        (head(title))
        body data-events=(EVENTS) {
            a.skip href="#main" { "To the content" }
            header {
                a.brand href="/studio" { "Toolcrib" }
                nav aria-label="Studio" {
                    @for (address, word, key) in MENU.into_iter().filter(|(address, ..)| operator.is_admin() || !OF_ADMINS.contains(address)) {
                        a href=(address) data-key=(key) aria-current=[here(address).then_some("page")] { (word) }
                    }
                }
                form.who method="post" action="/studio/logout" {
                    (form_key(operator))
                    span { (shown(&operator.name)) " · " (operator.role) }
                    button { "Log out" }
                }
            }
            main #main tabindex="-1" { (body) }
        }
    };
    Html(document(&whole)).into_response()
}

/// A page for anybody.
pub(crate) fn bare(title: &str, body: &Markup) -> Html<String> {
    let whole = html! { (head(title)) body.bare { main #main { (body) } } };
    Html(document(&whole))
}

/// The field that proves that a form is one of this session's.
pub(crate) fn form_key(operator: &Operator) -> Markup {
    html! { input type="hidden" name=(FORM_KEY) value=(operator.form_key); }
}

/// A link to the next part of a list.
pub(crate) fn next(path: &str, next: Option<&str>) -> Markup {
    html! {
        @if let Some(after) = next {
            @let separator = if path.contains('?') { '&' } else { '?' };
            p.next { a rel="next" href={ (path) (separator) "after=" (crate::api::segment(after)) } { "Next" } }
        }
    }
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            title { (shown(title)) " · Toolcrib" }
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            link rel="stylesheet" href=(assets::STYLE.address());
            link rel="icon" type="image/svg+xml" href=(assets::ICON.address());
            script src=(assets::SCRIPT.address()) defer {}
        }
    }
}

fn document(whole: &Markup) -> String {
    html! { (DOCTYPE) html lang="en" { (whole) } }.into_string()
}
