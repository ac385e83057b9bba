//! curl commands, and the tools that they become.

use serde_json::{Value, json};
use toolcrib_import::{ImportError, Imported, Options, curl};

fn read(command: &str) -> Imported {
    curl(command, &Options::default()).unwrap_or_else(|error| panic!("{command}: {error}"))
}

/// The request of the tool, and the names of its arguments with their types.
fn check(command: &str, name: &str, arguments: &[&str], request: Value) {
    let imported = read(command);
    let report = &imported.operations[0];
    assert_eq!(report.problems, [""; 0], "{command}");
    let tool = imported.tools[0].to_json();
    assert_eq!(tool["name"], name, "{command}");
    let properties = tool["parameters"]["properties"].as_object().unwrap();
    let found: Vec<String> = properties
        .iter()
        .map(|(name, schema)| format!("{name} {}", schema["type"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(found, arguments, "{command}");
    for (key, value) in request.as_object().unwrap() {
        assert_eq!(&tool["request"][key], value, "{key} of {command}");
    }
}

#[test]
fn commands_become_requests() {
    check(
        "curl https://api.example.com/v1/orders/1234",
        "get_orders",
        &["order_id integer"],
        json!({ "method": "GET", "url": "https://api.example.com/v1/orders/{{order_id}}" }),
    );
    check(
        "curl -s 'https://api.example.com/search?q=red%20shoes&limit=5'",
        "get_search",
        &["q string", "limit integer"],
        json!({ "url": "https://api.example.com/search", "query": {"q": "{{q}}", "limit": "{{limit}}"} }),
    );
    check(
        r#"curl -X POST https://api.example.com/refunds -H 'Content-Type: application/json' -d '{"orderId": 7, "lines": [{"sku": "a"}], "note": ""}'"#,
        "post_refunds",
        &["order_id integer", "lines array", "note string"],
        json!({ "method": "POST", "body": {"orderId": "{{order_id}}", "lines": "{{lines}}", "note": "{{note}}"} }),
    );
    check(
        "curl --json '[1, 2]' https://api.example.com/sums",
        "post_sums",
        &["body array"],
        json!({ "body": "{{body}}" }),
    );
    check(
        "curl https://api.example.com/charges -d amount=500 -d 'currency=eur' --data-urlencode 'memo=a b'",
        "post_charges",
        &["amount integer", "currency string", "memo string"],
        json!({ "headers": {"Content-Type": "application/x-www-form-urlencoded"}, "body": {"amount": "{{amount}}", "currency": "{{currency}}", "memo": "{{memo}}"} }),
    );
    check(
        "curl -G https://api.example.com/find -d q=x -d page=2",
        "get_find",
        &["q string", "page integer"],
        json!({ "method": "GET", "query": {"q": "{{q}}", "page": "{{page}}"} }),
    );
    check(
        "curl https://api.example.com/users/{userId}/files/{{file}} -XDELETE",
        "delete_users_files",
        &["user_id string", "file string"],
        json!({ "method": "DELETE", "url": "https://api.example.com/users/{{user_id}}/files/{{file}}" }),
    );
    check(
        "curl https://api.example.com/a \\\n  -H \"X-Trace: on\" \\\n  -H 'Accept: application/json'",
        "get_a",
        &[],
        json!({ "headers": {"X-Trace": "on", "Accept": "application/json"} }),
    );
    check(
        "curl https://api.example.com/notes -H 'content-type: text/plain' -d 'Hello there'",
        "post_notes",
        &["body string"],
        json!({ "headers": {"Content-Type": "text/plain"}, "body": "{{body}}" }),
    );
}

#[test]
fn a_secret_is_nowhere_in_what_comes_out() {
    for (command, header, value) in [
        (
            "curl https://api.acme.com/a -H 'Authorization: Bearer hunter2hunter2'",
            "Authorization",
            "Bearer {{secret.api_acme_com_authorization}}",
        ),
        (
            "curl https://api.acme.com/a -H 'X-Api-Key: hunter2hunter2'",
            "X-Api-Key",
            "{{secret.api_acme_com_x_api_key}}",
        ),
        (
            "curl https://api.acme.com/a -u me:hunter2hunter2",
            "Authorization",
            "Basic {{secret.api_acme_com_authorization}}",
        ),
        ("curl https://api.acme.com/a -b sid=hunter2hunter2", "Cookie", "{{secret.api_acme_com_cookie}}"),
    ] {
        let imported = read(command);
        let tool = imported.tools[0].to_json();
        assert_eq!(tool["request"]["headers"][header], value, "{command}");
        assert_eq!(tool["secret_headers"], json!([header]), "{command}");
        assert_eq!(imported.secrets[0].header, header);
        assert!(!format!("{imported:?}{tool}").contains("hunter2"), "{command}");
    }
    let left_out = read(
        "curl 'https://api.acme.com/a?api_key=hunter2hunter2&q=1' -d '{\"password\": \"hunter2hunter2\", \"b\": 1}'",
    );
    assert!(!format!("{left_out:?}").contains("hunter2"));
    let notes = left_out.operations[0].notes.join("\n");
    assert!(notes.contains("api_key") && notes.contains("password"), "{notes}");

    // However deep, in whatever form, and under whatever name, when it looks as if it was drawn by chance.
    for command in [
        r#"curl https://a.example/x -d '{"login": {"password": "hunter2hunter2"}, "list": [{"client_secret": "hunter2hunter2"}]}'"#,
        r#"curl https://a.example/x -d '[{"password": "hunter2hunter2"}]'"#,
        "curl https://a.example/x -H 'Content-Type: application/x-www-form-urlencoded; charset=UTF-8' -d 'password=hunter2hunter2&q=1'",
        "curl https://a.example/x -H 'Content-Type: text/plain' -d 'password is hunter2hunter2'",
        "curl https://a.example/bot1234567890hunter2hunter2/send",
        "curl https://a.example/x -H 'X-Auth-Key: hunter2hunter2' -H 'Ocp-Apim-Subscription-Key: hunter2hunter2'",
        "curl https://a.example/x -H 'X-Odd: hunter2hunter2hunter2'",
        r#"curl https://a.example/x -d '{"odd": "hunter2hunter2hunter2"}'"#,
    ] {
        let imported = read(command);
        let tools: Vec<Value> = imported.tools.iter().map(|tool| tool.to_json()).collect();
        assert_eq!(tools.len(), 1, "{command}: {:?}", imported.operations[0].problems);
        assert!(!json!([tools, imported.operations]).to_string().contains("hunter2"), "{command}: {tools:?}");
    }
    let kept = read("curl 'https://a.example/x?max_tokens=5&page_token=abc' -H 'Idempotency-Key: one'");
    assert_eq!(kept.operations[0].notes.len(), 1, "{:?}", kept.operations[0].notes);
    assert_eq!(
        kept.tools[0].to_json()["request"]["query"],
        json!({"max_tokens": "{{max_tokens}}", "page_token": "{{page_token}}"})
    );
}

#[test]
fn quotes_are_read_as_a_shell_reads_them() {
    let text = |command: &str| {
        let tool = read(command).tools[0].to_json();
        tool["parameters"]["properties"]["note"]["examples"][0].clone()
    };
    assert_eq!(text(r#"curl https://a.example/x --data-raw $'{"note":"it\'s\u0021 \\n"}'"#), "it's! \n");
    assert_eq!(text("curl https://a.example/x -d 'note=costs 5$'"), "costs 5$");
    assert_eq!(text("curl https://a.example/x -d \"note=5$'s\""), "5$'s");
    let twice = read("curl https://a.example/x -d a=1 -d a=2");
    assert!(twice.operations[0].notes.iter().any(|note| note.contains("more than once")));
}

#[test]
fn what_cannot_be_done_is_said() {
    let check = |command: &str, words: &str| {
        let error = curl(command, &Options::default()).expect_err(command);
        assert!(matches!(error, ImportError::Curl { .. } | ImportError::Unsupported { .. }));
        assert!(error.to_string().contains(words), "{command}: {error}");
    };
    check("", "it is empty");
    check("wget https://a.example", "begins with \"wget\"");
    check("curl", "names no address");
    check("curl 'https://a.example", "a quote is not closed");
    check("curl -F file=@a https://a.example", "multipart/form-data");
    check("curl -d @body.json https://a.example", "paste the text of the file");
    check("curl --frobnicate https://a.example", "--frobnicate is not known");
    check("curl ftp://a.example/x", "uses ftp");
    check("curl https://a.example https://b.example", "more than one address");
    check("curl https://me:pw@a.example", "a user or a password");
    check("curl -H", "-H has no value");
    check("curl https://a.example -H 'Content-Type: application/json' -d '{\"a\": }'", "says that it is JSON");
}
