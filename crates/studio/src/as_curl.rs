//! A request that was made, as a curl command that somebody can run: without its secrets.

use serde_json::Value;

use crate::shown::{list, text};

/// What stands in a trace for what is secret.
const MASK: &str = "***";

/// The command for the request of a trace. A masked value is a variable of the shell, for whoever has the secret.
pub(crate) fn as_curl(request: &Value) -> String {
    let mut words = vec![
        "curl".to_owned(),
        "--request".to_owned(),
        text(request, "method").to_owned(),
        quoted(text(request, "url")),
    ];
    for header in list(request, "headers") {
        words.push("--header".to_owned());
        words.push(with_variable(&format!("{}: {}", text(header, "name"), text(header, "value"))));
    }
    if let Some(body) = request.get("body").and_then(Value::as_str) {
        words.push("--data-raw".to_owned());
        words.push(quoted(body));
    }
    words.join(" ")
}

/// A text that the shell takes as it is.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn with_variable(text: &str) -> String {
    let pieces: Vec<String> = text.split(MASK).map(quoted).collect();
    pieces.join("\"$SECRET\"").replace("''", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_command_holds_no_secret_and_no_trick() {
        let request = json!({
            "method": "POST", "url": "https://a.example/x?q=it's", "body": "{\"note\": \"$(rm -rf /) `id`\"}",
            "headers": [{"name": "Authorization", "value": "Bearer ***"}, {"name": "X", "value": "$HOME"}],
        });
        assert_eq!(
            as_curl(&request),
            r#"curl --request POST 'https://a.example/x?q=it'\''s' --header 'Authorization: Bearer '"$SECRET" --header 'X: $HOME' --data-raw '{"note": "$(rm -rf /) `id`"}'"#
        );
    }
}
