//! What people read when a definition is wrong: every problem at once, with its place and mend.

use serde_json::{Value, json};
use toolcrib_definition::Definition;

fn tool(change: impl FnOnce(&mut Value)) -> Value {
    let mut tool = json!({
        "name": "probe_tool",
        "description": "Probe",
        "parameters": { "type": "object", "properties": { "query": { "type": "string" } }, "required": ["query"] },
        "request": { "method": "POST", "url": "https://api.example.test/x" },
    });
    change(&mut tool);
    tool
}

#[test]
fn all_problems_are_said_at_once() {
    let wrong = json!({
        "name": "Search",
        "descripton": "typo",
        "parameters": { "type": "object", "properties": { "filters": { "oneOf": [] } }, "required": ["query"] },
        "request": { "method": "SEND", "url": "ftp://files.example.test/{{quer}}", "headers": { "Host": "x" } },
        "timeout": 0,
        "halt_when": { "equals": [] },
    });
    insta::assert_snapshot!(Definition::from_value(&wrong).unwrap_err().to_string().replace("; /", "\n/"));
}

#[test]
fn single_faults() {
    let check = |code: &str, pointer: &str, change: &dyn Fn(&mut Value)| {
        let problems = Definition::from_value(&tool(change)).unwrap_err();
        let found: Vec<_> = problems.iter().map(|p| (p.code.as_str(), p.pointer.as_str())).collect();
        assert_eq!(found, [(code, pointer)], "{problems}");
    };
    check("placeholder.unknown", "/request/url", &|t| t["request"]["url"] = "https://api.example.test/{{qery}}".into());
    check("url.fragment", "/request/url", &|t| t["request"]["url"] = "https://api.example.test/a#b".into());
    check("url.userinfo", "/request/url", &|t| t["request"]["url"] = "https://u:p@api.example.test/".into());
    check("url.invalid", "/request/url", &|t| t["request"]["url"] = "https://api.example.test/ação".into());
    check("url.host", "/request/url", &|t| t["request"]["url"] = "https:///x".into());
    check("placeholder.misplaced", "/request/query/a{{query}}", &|t| {
        t["request"]["query"] = json!({ "a{{query}}": 1 })
    });
    check("placeholder.misplaced", "/request/body/{{query}}", &|t| t["request"]["body"] = json!({ "{{query}}": 1 }));
    check("header.reserved", "/request/headers/transfer-encoding", &|t| {
        t["request"]["headers"] = json!({ "transfer-encoding": "chunked" });
    });
    check("header.duplicate", "/request/headers/x-a", &|t| t["request"]["headers"] = json!({ "X-A": "1", "x-a": "2" }));
    check("header.name", "/request/headers/X A", &|t| t["request"]["headers"] = json!({ "X A": "1" }));
    check("body.invalid", "/request/body", &|t| {
        t["request"]["headers"] = json!({ "Content-Type": "application/json" });
        t["request"]["body"] = "{\"a\": {{query}}".into();
    });
    check("secret_headers.absent", "/secret_headers/0", &|t| t["secret_headers"] = json!(["Authorization"]));
    check("definition.type", "/side_effect", &|t| t["side_effect"] = "false".into());
    check("effect.transactional", "/side_effect", &|t| t["side_effect"] = "transactional".into());
    check("timeout.range", "/timeout", &|t| t["timeout"] = json!(601));
    check("timeout.range", "/timeout", &|t| t["timeout"] = json!(1.5));
    check("path.invalid", "/response/path", &|t| t["response"] = json!({ "extract": "json_path", "path": "$.a[" }));
    check("response.extract", "/response/path", &|t| t["response"] = json!({ "extract": "status", "path": "a" }));
    check("response.extract", "/response/extract", &|t| t["response"] = json!({ "extract": "evidence_envelope" }));
    check("halt_when.invalid", "/halt_when/equals/0", &|t| {
        t["halt_when"] = json!({ "json_path": "a", "equals": [null] })
    });
    check("approval.invalid", "/approval", &|t| t["approval"] = "allways".into());
    check("approval.invalid", "/approval/when", &|t| t["approval"] = json!({ "when": "args.x >" }));
    check("idempotency.header", "/idempotency_key_header", &|t| t["idempotency_key_header"] = "a b".into());
    check("idempotency.header", "/idempotency_key_life", &|t| t["idempotency_key_life"] = 60.into());
    check("effect.not_performed_on", "/not_performed_on", &|t| t["not_performed_on"] = 503.into());
    check("effect.not_performed_on", "/not_performed_on/1", &|t| t["not_performed_on"] = json!([503, 200]));
    check("schema.constraint", "/parameters/properties/query/pattern", &|t| {
        t["parameters"]["properties"]["query"]["pattern"] = "(".into();
    });
    check("schema.keyword", "/parameters/$defs", &|t| t["parameters"]["$defs"] = json!({}));
    check("schema.required", "/parameters/required/1", &|t| t["parameters"]["required"] = json!(["query", "query"]));
}
