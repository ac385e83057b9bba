//! The URL of a tool, with placeholders only where a value can be escaped.
//!
//! `scheme://authority/path?query`: the scheme is literal, the authority holds at most
//! `{{ctx.*}}` and no port or userinfo placeholder, path segments and query values hold any
//! parameter. So a value never decides where a request goes.

use crate::problem::{ProblemCode, Problems};
use crate::template::{Piece, Slot, Template};

/// A URL split at the borders that rendering must keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlTemplate {
    text: String,
    /// `https://`, as written.
    pub(crate) scheme: String,
    /// Host and port.
    pub(crate) authority: Template,
    /// The segments behind each `/`.
    pub(crate) segments: Vec<Template>,
    /// The entries of the query, each `key` or `key=value` with a literal key.
    pub(crate) query: Option<Vec<Template>>,
}

impl UrlTemplate {
    /// The URL as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host and port when no context decides them, for a forecast of what egress will say.
    pub fn literal_origin(&self) -> Option<String> {
        match self.authority.pieces() {
            [Piece::Text(text)] => Some(format!("{}{text}/", self.scheme)),
            _ => None,
        }
    }

    /// All placeholders in order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        let rest = self.segments.iter().chain(self.query.iter().flatten());
        std::iter::once(&self.authority).chain(rest).flat_map(Template::slots)
    }

    /// Reads a URL, reporting everything that is wrong with it at `pointer`.
    pub(crate) fn parse(text: &str, pointer: &str, problems: &mut Problems) -> Option<Self> {
        let before = problems.len();
        let whole = Template::parse(text);
        check_literals(&whole, pointer, problems);
        let Some((scheme, rest)) = split_scheme(text) else {
            let (code, message) = if text.split("://").next().is_some_and(|scheme| scheme.contains("{{")) {
                (ProblemCode::PlaceholderMisplaced, "the scheme is literal: begin the URL with http:// or https://")
            } else {
                (ProblemCode::UrlScheme, "a URL begins with http:// or https://")
            };
            for slot in whole.slots().filter(|slot| matches!(slot, Slot::Env(_))) {
                problems.add(pointer, ProblemCode::PlaceholderEnv, env_message(slot));
            }
            problems.add(pointer, code, message);
            return None;
        };
        let (authority, path, query) = split_rest(rest);
        let authority = Template::parse(authority);
        check_authority(scheme, &authority, pointer, problems);
        let query = query.map(|query| query.split('&').map(Template::parse).collect::<Vec<_>>());
        for entry in query.iter().flatten() {
            check_query_entry(entry, pointer, problems);
        }
        (problems.len() == before).then(|| Self {
            text: text.to_owned(),
            scheme: scheme.to_owned(),
            authority,
            segments: path.map(|path| path.split('/').map(Template::parse).collect()).unwrap_or_default(),
            query,
        })
    }
}

pub(crate) fn env_message(slot: &Slot) -> String {
    format!("{{{{{}}}}} is filled when a manifest is ingested; here write the value itself", slot.name())
}

/// The literal text holds visible ASCII only (RFC 3986), no backslash and no fragment.
fn check_literals(template: &Template, pointer: &str, problems: &mut Problems) {
    let literals = || {
        template.pieces().iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Slot(_) => None,
        })
    };
    let outside = |ch: &char| !('\x21'..='\x7e').contains(ch) || matches!(ch, '\\' | '<' | '>' | '"' | '`');
    if let Some(ch) = literals().flat_map(str::chars).find(outside) {
        let message = format!("a URL holds no {ch:?}; percent-encode it (RFC 3986)");
        problems.add(pointer, ProblemCode::Url, message);
    }
    if literals().any(|text| text.contains('#')) {
        let message = "a fragment (#…) is never sent to a server; leave it out, or write %23";
        problems.add(pointer, ProblemCode::UrlFragment, message);
    }
}

fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let end = text.find("://")? + 3;
    let (scheme, rest) = text.split_at(end);
    (scheme.eq_ignore_ascii_case("http://") || scheme.eq_ignore_ascii_case("https://")).then_some((scheme, rest))
}

/// Authority, path without its first slash, query without its mark. Placeholders hold none of the
/// delimiters, so the text can be split before it is read.
fn split_rest(rest: &str) -> (&str, Option<&str>, Option<&str>) {
    let (before_query, query) = match rest.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (rest, None),
    };
    match before_query.split_once('/') {
        Some((authority, path)) => (authority, Some(path), query),
        None => (before_query, None, query),
    }
}

fn check_authority(scheme: &str, authority: &Template, pointer: &str, problems: &mut Problems) {
    let before = problems.len();
    let mut in_port = false;
    let mut probe = String::new();
    let userinfo = authority.pieces().iter().any(|piece| matches!(piece, Piece::Text(text) if text.contains('@')));
    if userinfo {
        let message = "credentials in a URL end up in logs; send them in a header named in secret_headers";
        problems.add(pointer, ProblemCode::UrlUserinfo, message);
    }
    for piece in authority.pieces() {
        match piece {
            Piece::Text(text) => {
                let after_bracket = text.rsplit(']').next().unwrap_or(text);
                in_port |= after_bracket.contains(':');
                probe.push_str(text);
            }
            Piece::Slot(Slot::Ctx(_)) if !in_port && !userinfo => probe.push('x'),
            Piece::Slot(slot @ Slot::Env(_)) => {
                problems.add(pointer, ProblemCode::PlaceholderEnv, env_message(slot));
            }
            Piece::Slot(Slot::Unknown(_)) => {} // Reported with all other unknown placeholders.
            Piece::Slot(slot) => problems.add(
                pointer,
                ProblemCode::PlaceholderMisplaced,
                format!(
                    "{{{{{}}}}} may not decide where a request goes; before the first slash of the path only \
                     {{{{ctx.*}}}} in the host is allowed",
                    slot.name()
                ),
            ),
        }
    }
    if problems.len() > before {
        return;
    }
    let host_of = |text: &str| url::Url::parse(text).ok().and_then(|url| url.host_str().map(str::to_owned));
    if host_of(&format!("{scheme}{probe}/")).is_none_or(|host| host.is_empty()) {
        let message =
            if probe.is_empty() { "the URL has no host".to_owned() } else { format!("{probe:?} is no host and port") };
        problems.add(pointer, ProblemCode::UrlHost, message);
    }
}

fn check_query_entry(entry: &Template, pointer: &str, problems: &mut Problems) {
    let mut in_key = true;
    for piece in entry.pieces() {
        match piece {
            Piece::Text(text) => in_key &= !text.contains('='),
            Piece::Slot(slot) if in_key => {
                let message = format!("{{{{{}}}}} stands in the key of a query entry; keys are literal", slot.name());
                problems.add(pointer, ProblemCode::PlaceholderMisplaced, message);
            }
            Piece::Slot(_) => {}
        }
    }
}
