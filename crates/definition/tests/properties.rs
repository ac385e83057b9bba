//! Properties of the definition: nothing panics, what is written reads back, no value leaves its place.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolcrib_definition::json::{parse, scalar_text};
use toolcrib_definition::{
    Answer, Ctx, CtxField, Definition, Manifest, NoSecrets, PathParam, RenderInput, RenderedRequest, Template,
    parameters_from_text,
};

/// Any JSON, with the keys of a definition often among the keys.
fn any_json() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        prop::sample::select(vec![
            "name",
            "description",
            "parameters",
            "request",
            "response",
            "url",
            "headers",
            "query",
            "body",
            "type",
            "properties",
            "required",
            "items",
            "enum",
            "halt_when",
            "json_path",
            "equals",
            "say",
            "text",
            "evidence",
            "kind",
            "approval",
            "when",
            "secret_headers",
            "timeout",
            "tags",
            "extract",
            "path",
            "pattern",
            "minLength",
        ])
        .prop_map(str::to_owned),
        ".{0,6}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "object",
            "array",
            "string",
            "integer",
            "GET",
            "https://api.example.test/{{q}}",
            "{{ctx.tenant}}",
            "{{q}}",
            "$.a[?@.b]",
            "a..b",
            "probe_tool",
            "json_path",
            "args.x > 1 && has(ctx.tenant)",
            "((((",
            "^(a+)+$",
        ])
        .prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..8)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// A tool that puts `{{v}}` into every place a value can go.
fn everywhere() -> Definition {
    Definition::from_value(&json!({
        "name": "everywhere",
        "description": "A value in every place",
        "parameters": { "type": "object", "properties": { "v": { "type": "string" } }, "required": [] },
        "request": {
            "method": "POST",
            "url": "https://api.example.test/a/{{v}}/b?in={{v}}&fixed=1",
            "headers": { "X-Value": "<{{v}}>", "Content-Type": "application/json" },
            "query": { "q": "{{v}}" },
            "body": "{\"quoted\":\"[{{v}}]\",\"bare\":{{v}},\"fixed\":1}",
        },
    }))
    .unwrap()
}

fn render(definition: &Definition, value: &Value) -> Option<RenderedRequest> {
    let arguments = Map::from_iter([("v".to_owned(), value.clone())]);
    let ctx = Ctx::default();
    let input = RenderInput {
        arguments: &arguments,
        ctx: &ctx,
        call_id: "c",
        key: "c",
        secrets: &NoSecrets,
        path_param: PathParam::Encode,
    };
    definition.render(input).ok()
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned()
}

proptest! {
    #[test]
    fn nothing_panics_on_any_json(value in any_json()) {
        let _ = Definition::from_value(&value).map(|definition| definition.to_json());
        let _ = Ctx::from_json(&value);
        if let Ok(manifest) = Manifest::from_value(&json!({ "defaults": value, "tools": [value] })) {
            manifest.expand(&|_: &str| None, &|_| false);
        }
    }

    #[test]
    fn nothing_panics_on_any_text(text in ".{0,80}") {
        let _ = parse(text.as_bytes());
        let _ = parameters_from_text(&text);
        let _ = Definition::from_json(text.as_bytes());
        Template::parse(&text);
    }

    #[test]
    fn what_is_accepted_reads_back_the_same(
        schema in any_json(), response in any_json(), halt in any_json(), body in any_json(), approval in any_json(),
    ) {
        let value = json!({
            "name": "probe_tool", "description": "Probe",
            "parameters": { "type": "object", "properties": { "q": schema } },
            "request": { "method": "POST", "url": "https://api.example.test/x", "body": body },
            "response": response, "halt_when": halt, "approval": approval,
        });
        if let Ok(definition) = Definition::from_value(&value) {
            let stored = definition.to_json().to_string();
            let again = Definition::from_json(stored.as_bytes()).unwrap();
            prop_assert_eq!(&again, &definition);
            prop_assert_eq!(again.to_json().to_string(), stored);
        }
    }

    #[test]
    fn a_value_never_leaves_its_place(text in any::<String>()) {
        let definition = everywhere();
        let Some(request) = render(&definition, &Value::from(text.clone())) else {
            // Only a whole segment that is empty or a dot segment is refused.
            prop_assert!(matches!(text.as_str(), "" | "." | ".."));
            return Ok(());
        };
        let url = url::Url::parse(&request.url).unwrap();
        prop_assert_eq!(url.host_str(), Some("api.example.test"));
        prop_assert_eq!(url.fragment(), None);
        let segments: Vec<&str> = url.path_segments().unwrap().collect();
        prop_assert_eq!(segments.len(), 3);
        prop_assert_eq!(decoded(segments[1]), text.clone());
        let pairs: Vec<(&str, &str)> = url.query().unwrap().split('&').map(|pair| pair.split_once('=').unwrap()).collect();
        prop_assert_eq!(pairs.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["in", "fixed", "q"]);
        prop_assert_eq!(decoded(pairs[0].1), text.clone());
        prop_assert_eq!(decoded(pairs[2].1), text.clone());

        prop_assert_eq!(request.headers.len(), 2);
        let header = request.headers[0].expose();
        prop_assert!(header.chars().all(|ch| ch == '\t' || !ch.is_ascii_control()));

        let body = parse(request.body.unwrap().as_bytes()).unwrap();
        prop_assert_eq!(body.as_object().unwrap().len(), 3);
        prop_assert_eq!(&body["quoted"], &Value::from(format!("[{text}]")));
        prop_assert_eq!(body["bare"].as_str(), Some(text.as_str()));
    }

    #[test]
    fn any_value_in_a_json_body_stays_one_value(value in any_json()) {
        let definition = everywhere();
        if let Some(request) = render(&definition, &value) {
            let body = parse(request.body.unwrap().as_bytes()).unwrap();
            prop_assert_eq!(&body["bare"], &value);
            prop_assert_eq!(&body["fixed"], &json!(1));
        }
    }

    #[test]
    fn a_context_host_is_one_label(text in ".{0,20}") {
        let definition = Definition::from_value(&json!({
            "name": "tenant", "description": "By tenant", "request": { "url": "https://{{ctx.tenant}}.example.test/x" },
        })).unwrap();
        let ctx = Ctx::default().with(CtxField::Tenant, text.clone());
        let arguments = Map::new();
        let input = RenderInput {
            arguments: &arguments, ctx: &ctx, call_id: "c", key: "c", secrets: &NoSecrets, path_param: PathParam::Encode,
        };
        if let Ok(request) = definition.render(input) {
            let url = url::Url::parse(&request.url).unwrap();
            let expected = format!("{}.example.test", text.to_ascii_lowercase());
            prop_assert_eq!(url.host_str(), Some(expected.as_str()));
            prop_assert_eq!(url.path(), "/x");
        }
    }

    #[test]
    fn shaping_never_panics(body in ".{0,60}", status in 100u16..600, path in "[$a-c.\\[\\]*0-9]{1,10}") {
        let value = json!({
            "name": "probe_tool", "description": "Probe", "request": { "url": "https://api.example.test" },
            "response": { "extract": "json_path", "path": path }, "halt_when": { "json_path": "a", "equals": 1 },
            "evidence": "things",
        });
        if let Ok(definition) = Definition::from_value(&value) {
            definition.shape(Answer { status, location: None, body: &body });
        }
    }

    #[test]
    fn a_scalar_in_its_text_form_is_accepted_wherever_it_is_accepted(number in any::<i64>(), flag in any::<bool>()) {
        let definition = Definition::from_value(&json!({
            "name": "typed", "description": "Typed", "request": { "url": "https://api.example.test" },
            "parameters": { "type": "object", "properties": {
                "n": { "type": "integer", "minimum": -9_000_000_000_000_000_000i64 }, "f": { "type": "boolean" } } },
        })).unwrap();
        for value in [json!({ "n": number, "f": flag }), json!({ "n": number.to_string(), "f": flag.to_string() })] {
            let expected = number >= -9_000_000_000_000_000_000;
            prop_assert_eq!(definition.parameters.check(value.as_object().unwrap()).is_ok(), expected);
        }
        prop_assert!(scalar_text(&json!(number)).is_some());
    }
}
