//! Approval rules: what is read, what is refused and where, and what a rule says of a call.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use toolcrib_definition::{Approval, Ctx, CtxField, Definition, RuleAnswer, ToolFacts};

fn tool(approval: Value) -> Value {
    json!({
        "name": "refund",
        "description": "Pays money back",
        "parameters": {
            "type": "object",
            "properties": {
                "amount": { "type": "number" },
                "lines": { "type": "array", "items": { "type": "object", "properties": { "qty": { "type": "integer" } } } },
                "to": { "type": "object", "properties": { "country": { "type": "string" } } },
            },
        },
        "request": { "method": "POST", "url": "https://api.example.com/refunds" },
        "approval": approval,
    })
}

fn refused(expression: &str) -> String {
    let problems = Definition::from_value(&tool(json!({ "when": expression }))).unwrap_err();
    let problem = problems.iter().next().unwrap();
    assert_eq!((problem.pointer.as_str(), problem.code.as_str()), ("/approval/when", "approval.invalid"));
    problem.message.strip_prefix("approval.when can't be used: ").unwrap().to_owned()
}

fn judge(expression: &str, arguments: Value) -> Result<RuleAnswer, String> {
    let definition = Definition::from_value(&tool(json!({ "when": expression }))).unwrap();
    let Approval::When(rule) = &definition.approval else { panic!("no rule") };
    let ctx = Ctx::default().with(CtxField::Tenant, "acme");
    let tags = ["money".to_owned()];
    let facts = ToolFacts { name: "refund", group: None, tags: &tags, effect: "at_most_once" };
    rule.judge(&definition.parameters.typed(arguments.as_object().unwrap()), &ctx, facts)
}

#[test]
fn words_are_read() {
    for (word, approval) in [("never", Approval::Never), ("always", Approval::Always), ("once", Approval::Once)] {
        assert_eq!(Definition::from_value(&tool(json!(word))).unwrap().approval, approval);
    }
    assert_eq!(Definition::from_value(&tool(Value::Null)).unwrap().approval, Approval::Never);
    let kept = Definition::from_value(&tool(json!({ "when": "args.amount > 100.0" }))).unwrap().to_json();
    assert_eq!(kept["approval"], json!({ "when": "args.amount > 100.0" }));
}

#[test]
fn a_rule_that_can_not_work_is_refused_with_its_place() {
    for (expression, expected) in [
        ("args.amount >", "column 14: "),
        ("args.amuont > 5", "column 5: args has no field \"amuont\"; did you mean \"amount\"?"),
        ("args.to.land == 'DE'", "column 8: args.to has no field \"land\"; there are country"),
        ("arguments.amount > 5", "column 1: there is no variable \"arguments\"; "),
        ("ctx.tennant == 'x'", "column 4: ctx has no field \"tennant\"; did you mean \"tenant\"?"),
        ("tool.nam == 'x'", "column 5: tool has no field \"nam\"; did you mean \"name\"?"),
        ("args.amount > 5 &&\n  argz.x", "line 2, column 3: there is no variable \"argz\"; did you mean \"args\"?"),
        ("lenght(args.lines) > 1", "column 7: there is no function \"lenght\""),
        ("args.lines.all(a, args.lines.all(b, a == b))", "a loop inside a loop"),
        ("args.lines.map(l, l.qty)", "not a list"),
        ("args.amount > 5 ? 'ask' : 'approved'", "not \"ask\"; there are user_approval"),
        ("5", "column 1: approval.when comes to true, false"),
        ("args", "not a whole object"),
        ("size(args.lines)", "not another value"),
        ("{'refused': 'no'}", "not another map"),
        ("google.rpc.Code{x: 1}", "column "),
        ("é.x", "column 1"),
    ] {
        let message = refused(expression);
        assert!(message.contains(expected), "{expression}: {message}");
    }
    let nested = "(".repeat(70) + "true" + &")".repeat(70);
    assert!(refused(&nested).contains("64 times"));
    assert!(refused(&format!("args.amount > 1 || {}", "true || ".repeat(600) + "true")).contains("longer than"));
}

#[test]
fn a_rule_says_ask_go_or_no() {
    let deny = |reason: &str| Ok(RuleAnswer::Deny(reason.to_owned()));
    for (expression, arguments, expected) in [
        ("args.amount > 100.0", json!({ "amount": 100.5 }), Ok(RuleAnswer::Ask)),
        ("args.amount > 100.0", json!({ "amount": "20.5" }), Ok(RuleAnswer::Go)),
        ("has(args.amount) && args.amount > 100.0", json!({}), Ok(RuleAnswer::Go)),
        ("args.lines.exists(l, l.qty > 9)", json!({ "lines": [{ "qty": 1 }, { "qty": 10 }] }), Ok(RuleAnswer::Ask)),
        ("ctx.tenant == 'acme' ? 'approved' : 'user_approval'", json!({}), Ok(RuleAnswer::Go)),
        ("'money' in tool.tags ? 'user_approval' : 'not_applicable'", json!({}), Ok(RuleAnswer::Ask)),
        (
            "args.to.country == 'XX' ? {'denied': 'not there'} : {'denied': 'closed'}",
            json!({ "to": { "country": "XX" } }),
            deny("not there"),
        ),
        ("tool.effect == 'at_most_once'", json!({}), Ok(RuleAnswer::Ask)),
    ] {
        assert_eq!(judge(expression, arguments), expected, "{expression}");
    }
    // What would take long is not tried.
    let long: Vec<Value> = (0..2_000).map(|n| json!({ "qty": n })).collect();
    let error = judge("args.lines.exists(l, l in args.lines)", json!({ "lines": long })).unwrap_err();
    assert!(error.contains("too large to be judged"), "{error}");
    // What can't be evaluated says so, and whoever asks then asks a person.
    for (expression, arguments) in
        [("args.amount > 100.0", json!({})), ("args.to.country", json!({ "to": { "country": "DE" } }))]
    {
        assert!(judge(expression, arguments).is_err(), "{expression}");
    }
}
