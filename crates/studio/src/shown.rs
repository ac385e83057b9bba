//! Texts of others as a person can read them: whatever they hold, they are text.

use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;
use toolcrib_definition::visible;

/// What a list shows of a text, in characters.
const BEGINNING: usize = 160;
/// The longest text that is shown at once, in characters.
const LONGEST: usize = 20_000;

/// A text with what can't be seen, or turns the direction of reading, written out; the beginning of a long one.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}… ({} more bytes)", visible(&text[..end]), text.len() - end),
        None => visible(text).into_owned(),
    }
}

/// The text below a key; empty when there is none.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The list below a key.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The beginning of a text, for a list.
pub(crate) fn beginning(text: &str) -> String {
    match text.char_indices().nth(BEGINNING) {
        Some((end, _)) => format!("{}…", visible(&text[..end])),
        None => shown(text),
    }
}

/// The names of a list, with commas.
pub(crate) fn names(list: &Value) -> String {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}

/// A value as JSON that a person reads, or as the text that it is.
pub(crate) fn pretty(value: &Value) -> String {
    shown(&written(value))
}

fn written(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner @ (Value::Object(_) | Value::Array(_))) => format!("{inner:#}"),
            _ => text.clone(),
        },
        other => format!("{other:#}"),
    }
}

/// A block of JSON or text; the beginning of a long one.
pub(crate) fn block(title: &str, value: &Value) -> Markup {
    block_of(title, value, &pretty(value))
}

/// A block of JSON or text, however long: for what somebody decides about.
pub(crate) fn whole_block(title: &str, value: &Value) -> Markup {
    block_of(title, value, &visible(&written(value)))
}

fn block_of(title: &str, value: &Value, text: &str) -> Markup {
    html! {
        @if !value.is_null() {
            section.block {
                h3 { (title) }
                pre tabindex="0" { code { (text) } }
            }
        }
    }
}

/// A time in ms since 1970, in UTC, for people and for machines.
pub(crate) fn time(value: &Value) -> Markup {
    let timestamp = value.as_i64().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    html! {
        @if let Some(timestamp) = timestamp {
            @let words = timestamp.strftime("%Y-%m-%d %H:%M:%S").to_string();
            time datetime=(timestamp.to_string()) { (words) }
        }
    }
}

/// A status, so that a bad one can't be overlooked and none is told by its colour alone.
pub(crate) fn status(word: &str) -> Markup {
    let (class, sign) = match word {
        "ok" | "halted" | "succeeded" | "completed" | "approved" | "answered" => ("good", "✓"),
        "error" | "failed" | "denied" | "in_doubt" | "unknown" | "expired" => ("bad", "✗"),
        "waiting" | "open" | "awaiting" | "parked" | "queued" | "running" => ("wait", "…"),
        _ => ("", "·"),
    };
    html! { span.status.(class) { span aria-hidden="true" { (sign) " " } (shown(word)) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        let check = |text: &str, expected: &str| assert_eq!(shown(text), expected);
        check("plain\ttext\n", "plain\ttext\n");
        check("a\u{0}b\u{1b}[31m", "a␀b␛[31m");
        check("user\u{202e}gpj.exe", "user[U+202E]gpj.exe");
        check("zero\u{200b}width", "zero[U+200B]width");
        check("tag\u{e0041} so\u{ad}ft \u{3164}", "tag[U+E0041] so[U+00AD]ft [U+3164]");
        let long = shown(&"x".repeat(1 << 20));
        assert!(long.len() < 21_000 && long.ends_with("… (1028576 more bytes)"), "{}", &long[20_000..]);
        let whole = whole_block("t", &json!("x".repeat(1 << 20))).into_string();
        assert!(whole.len() > 1 << 20, "what somebody decides about is shown whole");
    }

    #[test]
    fn markup_is_text() {
        let block = block("Body", &json!("<script>alert(1)</script>")).into_string();
        assert!(!block.contains("<script>") && block.contains("&lt;script&gt;"), "{block}");
        assert!(!status("\"><img src=x>").into_string().contains("<img"));
    }
}
