//! The commands, each a file. They all speak to the API through a [`crate::connection::Connection`].

pub(crate) mod agents;
pub(crate) mod apply;
pub(crate) mod approvals;
pub(crate) mod call;
pub(crate) mod calls;
pub(crate) mod chat;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod import;
pub(crate) mod mcp;
pub(crate) mod mcp_login;
pub(crate) mod mcp_stdio;
pub(crate) mod migrate;
pub(crate) mod skills;
pub(crate) mod tokens;
pub(crate) mod tools;
pub(crate) mod traces;
pub(crate) mod turns;

use serde_json::Value;

/// A text as one segment of a path.
pub(crate) fn segment(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// A path with the query entries that are set.
pub(crate) fn with_query(path: &str, entries: &[(&str, Option<String>)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (key, value) in entries {
        if let Some(value) = value {
            query.append_pair(key, value);
        }
    }
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// Prints the warnings of an answer on standard error. What is said of many tools is said once.
pub(crate) fn print_warnings(answer: &Value) {
    let warnings = answer.get("warnings").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let mut said: Vec<(&str, Vec<&str>)> = Vec::new();
    for warning in warnings {
        let (of, words) = warning.split_once(": ").unwrap_or(("", warning));
        match said.iter_mut().find(|(known, _)| *known == words) {
            Some((_, all)) => all.push(of),
            None => said.push((words, vec![of])),
        }
    }
    for (words, of) in said {
        match of.as_slice() {
            [""] => eprintln!("warning: {words}"),
            [one] => eprintln!("warning: {one}: {words}"),
            [first, ..] => eprintln!("warning: {first} and {} more: {words}", of.len() - 1),
            [] => {}
        }
    }
}
