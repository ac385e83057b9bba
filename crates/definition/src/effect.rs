//! What a call changes, and what is known of that when it fails.

use serde_json::Value;

use crate::fields::Fields;
use crate::problem::{ProblemCode, Problems};
use crate::request::{Request, is_header_name, is_reserved_header};

/// How long an upstream remembers the key of a call when the tool says nothing else, in seconds: a day.
pub const DEFAULT_KEY_LIFE: u32 = 24 * 3600;
/// The longest life of a key, in seconds: 30 days.
const MAX_KEY_LIFE: u64 = 30 * 24 * 3600;

/// Headers that say something else than the key of a call.
const HAS_A_MEANING: [&str; 6] =
    ["content-type", "content-encoding", "accept", "authorization", "cookie", "user-agent"];

/// What a crash may do to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EffectMode {
    /// The effect and its record commit together. For code tools only.
    Transactional,
    /// Sent at most once; when nobody knows whether it arrived, a person decides.
    AtMostOnce,
    /// May be sent again.
    Idempotent,
}

impl EffectMode {
    /// Every mode.
    pub const ALL: [EffectMode; 3] = [EffectMode::Transactional, EffectMode::AtMostOnce, EffectMode::Idempotent];

    /// The mode with this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }

    /// The word in traces and annotations.
    pub fn as_str(self) -> &'static str {
        match self {
            EffectMode::Transactional => "transactional",
            EffectMode::AtMostOnce => "at_most_once",
            EffectMode::Idempotent => "idempotent",
        }
    }
}

pub(crate) fn read_side_effect(fields: &Fields<'_>, problems: &mut Problems) -> Option<bool> {
    if fields.get("side_effect").and_then(Value::as_str) == Some("transactional") {
        let message = "a sent request can't be rolled back, so a data tool is never transactional; write true or false";
        problems.add(fields.at("side_effect"), ProblemCode::Effect, message);
        return None;
    }
    fields.boolean("side_effect", problems)
}

pub(crate) fn read_idempotency_header(
    fields: &Fields<'_>,
    request: Option<&Request>,
    problems: &mut Problems,
) -> Option<String> {
    let name = fields.trimmed("idempotency_key_header", problems)?;
    let taken = request.is_some_and(|request| request.headers.iter().any(|(h, _)| h.eq_ignore_ascii_case(name)));
    let wrong = if !is_header_name(name) {
        "it is no header name: letters, digits and -"
    } else if is_reserved_header(name) || HAS_A_MEANING.iter().any(|header| header.eq_ignore_ascii_case(name)) {
        "the header has another meaning; the usual one is Idempotency-Key"
    } else if taken {
        "the header is set in request.headers already; keep one"
    } else {
        return Some(name.to_owned());
    };
    let message = format!("idempotency_key_header {name:?}: {wrong}");
    problems.add(fields.at("idempotency_key_header"), ProblemCode::IdempotencyHeader, message);
    None
}

pub(crate) fn read_key_life(fields: &Fields<'_>, has_header: bool, problems: &mut Problems) -> Option<u32> {
    let value = fields.get("idempotency_key_life")?;
    let message = match value.as_u64() {
        _ if !has_header => {
            "it is the life of the key in idempotency_key_header, which this tool does not have".to_owned()
        }
        Some(life) if (1..=MAX_KEY_LIFE).contains(&life) => return u32::try_from(life).ok(),
        _ => format!("idempotency_key_life is a whole number of seconds from 1 to {MAX_KEY_LIFE}, not {value}"),
    };
    problems.add(fields.at("idempotency_key_life"), ProblemCode::IdempotencyHeader, message);
    None
}

pub(crate) fn read_not_performed_on(fields: &Fields<'_>, problems: &mut Problems) -> Vec<u16> {
    let Some(value) = fields.get("not_performed_on") else { return Vec::new() };
    let at = fields.at("not_performed_on");
    let Value::Array(items) = value else {
        problems.add(at, ProblemCode::EffectStatuses, "not_performed_on is a list of HTTP statuses, such as [503]");
        return Vec::new();
    };
    let mut statuses = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        match item.as_u64().and_then(|status| u16::try_from(status).ok()) {
            Some(status @ 300..=599) if !statuses.contains(&status) => statuses.push(status),
            Some(300..=599) => {}
            _ => {
                let message = format!("a status from 300 to 599 can mean that nothing happened, and {item} is none");
                problems.add(format!("{at}/{i}"), ProblemCode::EffectStatuses, message);
            }
        }
    }
    statuses
}
