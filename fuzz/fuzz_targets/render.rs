//! Any text in every place of a request: it never leaves its place.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use toolcrib_definition::{Answer, Ctx, CtxField, Definition, NoSecrets, PathParam, RenderInput, json};

static TOOL: LazyLock<Definition> = LazyLock::new(|| {
    Definition::from_json(
        br#"{"name": "everywhere", "description": "A value in every place",
            "parameters": {"type": "object", "properties": {"v": {"type": "string"}}, "required": []},
            "request": {"method": "POST", "url": "https://{{ctx.tenant}}.example.test/a/{{v}}/b?in={{v}}",
                "headers": {"X-Value": "{{v}}", "Content-Type": "application/json"},
                "query": {"q": "{{v}}"}, "body": "{\"a\":\"{{v}}\",\"b\":{{v}}}"},
            "response": {"extract": "json_path", "path": "$.a"}, "evidence": "things"}"#,
    )
    .expect("the tool is valid")
});

fuzz_target!(|text: &str| {
    let arguments = serde_json::Map::from_iter([("v".to_owned(), text.into())]);
    let ctx = Ctx::default().with(CtxField::Tenant, text.chars().take(12).collect::<String>());
    let fixed = Ctx::default().with(CtxField::Tenant, "acme");
    for ctx in [&ctx, &fixed] {
        let input =
            RenderInput { arguments: &arguments, ctx, call_id: text, key: text, secrets: &NoSecrets, path_param: PathParam::Encode };
        let Ok(request) = TOOL.render(input) else { continue };
        let rest = request.url.split_once(".example.test/a/").expect("the host stays").1;
        let (path, query) = rest.split_once('?').expect("the query stays");
        assert_eq!(path.matches('/').count(), 1, "{path}");
        assert_eq!(query.matches('&').count(), 1, "{query}");
        assert!(request.url.bytes().all(|b| (0x21..=0x7e).contains(&b)));
        let body = json::parse(request.body.expect("a body").as_bytes()).expect("the body is JSON");
        assert_eq!(body["a"], text);
        assert_eq!(body["b"], text);
    }
    TOOL.shape(Answer { status: 200, location: None, body: text });
});
