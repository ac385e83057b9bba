//! Checking the arguments and rendering the request of one typical call.

use std::time::Instant;

use serde_json::json;
use toolcrib_definition::{Ctx, CtxField, Definition, NoSecrets, PathParam, RenderInput};

const TIMES: u32 = 200_000;

pub fn run() -> anyhow::Result<()> {
    let definition = Definition::from_value(&json!({
        "name": "search_products",
        "description": "Search the catalog",
        "parameters": {
            "type": "object",
            "properties": {
                "query": { "type": "string", "minLength": 1, "maxLength": 200 },
                "limit": { "type": "integer", "minimum": 1, "maximum": 50 },
                "filters": { "type": "array", "items": { "type": "object", "properties": {
                    "key": { "type": "string" }, "value": { "type": "string" } }, "required": ["key", "value"] } },
            },
            "required": ["query"],
        },
        "request": {
            "method": "POST",
            "url": "https://api.example.com/stores/{{ctx.store_id}}/search",
            "headers": { "X-Session": "{{ctx.chat_id}}" },
            "query": { "limit": "{{limit}}" },
            "body": { "query": "{{query}}", "filters": "{{filters}}" },
        },
    }))?;
    let arguments = json!({
        "query": "red kettle", "limit": 10, "filters": [{ "key": "brand", "value": "Ruby" }, { "key": "size", "value": "L" }],
    });
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let ctx = Ctx::default().with(CtxField::ChatId, "chat-81").with(CtxField::StoreId, "s4");
    definition.parameters.check(&arguments)?;
    let started = Instant::now();
    for _ in 0..TIMES {
        definition.parameters.check(&arguments)?;
        let request = definition.render(RenderInput {
            arguments: &arguments,
            ctx: &ctx,
            call_id: "call-1",
            key: "call-1",
            secrets: &NoSecrets,
            path_param: PathParam::Encode,
        })?;
        std::hint::black_box(request);
    }
    println!("call: check and render {:.2} µs", started.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES));
    Ok(())
}
