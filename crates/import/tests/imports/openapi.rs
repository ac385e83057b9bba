//! OpenAPI documents, and the tools that they become.

use serde_json::{Value, json};
use toolcrib_definition::{Ctx, Definition, NoSecrets, PathParam, RenderInput, RenderedRequest};
use toolcrib_import::{ImportError, Imported, Options, openapi};

fn document(version: &str, paths: Value, components: Value) -> Value {
    json!({
        "openapi": version,
        "info": {"title": "Big Shop", "version": "1"},
        "servers": [{"url": "https://{region}.example.com/v1/", "variables": {"region": {"default": "eu"}}}],
        "paths": paths,
        "components": components,
    })
}

fn read(document: &Value) -> Imported {
    openapi(document, &Options::default()).unwrap()
}

/// The one tool of a document with one operation.
fn tool(version: &str, path: &str, method: &str, operation: Value, components: Value) -> (Definition, Vec<String>) {
    let mut imported = read(&document(version, json!({ path: {method: operation} }), components));
    let report = imported.operations.remove(0);
    assert_eq!(report.problems, [""; 0]);
    (imported.tools.remove(0), report.notes)
}

fn render(tool: &Definition, arguments: Value) -> RenderedRequest {
    let arguments = tool.parameters.restore(arguments.as_object().unwrap().clone());
    tool.parameters.check(&arguments).unwrap();
    tool.render(RenderInput {
        arguments: &arguments,
        ctx: &Ctx::default(),
        call_id: "c",
        key: "k",
        secrets: &NoSecrets,
        path_param: PathParam::Encode,
    })
    .unwrap()
}

#[test]
fn parameters_of_every_location() {
    let operation = json!({
        "operationId": "orders/find-lines", "summary": "Find lines", "description": "Of an order.", "tags": ["orders"],
        "parameters": [
            {"name": "orderId", "in": "path", "required": true, "schema": {"type": "string"}},
            {"name": "page", "in": "query", "schema": {"type": "integer"}},
            {"name": "fields", "in": "query", "explode": false, "schema": {"type": "array", "items": {"type": "string"}}},
            {"name": "state", "in": "query", "schema": {"type": "array", "items": {"type": "string", "enum": ["open", "done"]}}},
            {"name": "range", "in": "query", "style": "deepObject", "schema": {"type": "object", "properties": {"from": {"type": "string"}, "to": {"type": "string"}}}},
            {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
            {"name": "Accept", "in": "header", "schema": {"type": "string"}},
            {"name": "lang", "in": "cookie", "required": true, "schema": {"type": "string"}},
        ],
        "responses": {},
    });
    let (tool, notes) = tool("3.1.0", "/orders/{orderId}/lines", "get", operation, json!({}));
    assert_eq!(tool.name.as_str(), "orders_find_lines");
    assert_eq!(tool.description, "Find lines\n\nOf an order.");
    assert_eq!((tool.group.as_deref(), tool.tags.as_slice()), (Some("big_shop"), ["orders".to_owned()].as_slice()));
    let names: Vec<&str> = tool.parameters.names().collect();
    assert_eq!(names, ["order_id", "page", "fields", "state", "range_from", "range_to", "x_trace", "lang"]);
    assert_eq!(tool.parameters.required().collect::<Vec<_>>(), ["order_id", "lang"]);
    let arguments = json!({"order_id": "a/b", "fields": "id,sku", "state": "open", "range_to": "9", "lang": "pt"});
    let request = render(&tool, arguments);
    assert_eq!(request.url, "https://eu.example.com/v1/orders/a%2Fb/lines?fields=id%2Csku&state=open&range%5Bto%5D=9");
    let headers: Vec<_> = request.headers.iter().map(|header| (header.name.as_str(), header.expose())).collect();
    assert_eq!(headers, [("Cookie", "lang=pt")], "an optional header that is not given is not sent");
    assert!(notes.iter().any(|note| note.contains("state may be repeated")), "{notes:?}");
}

#[test]
fn bodies_and_references() {
    let components = json!({
        "requestBodies": {"Order": {"required": true, "content": {"application/json; charset=utf-8": {"schema": {"$ref": "#/components/schemas/Order"}}}}},
        "schemas": {
            "Order": {"type": "object", "required": ["id", "customerName", "lines"], "properties": {
                "id": {"type": "string", "readOnly": true},
                "customerName": {"type": "string", "nullable": true},
                "amount": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
                "lines": {"type": "array", "items": {"$ref": "#/components/schemas/Line"}},
                "parent": {"$ref": "#/components/schemas/Order"},
            }},
            "Line": {"type": "object", "properties": {"sku": {"oneOf": [{"type": "integer"}, {"type": "string"}]}}},
        },
    });
    let operation = json!({"operationId": "createOrder", "requestBody": {"$ref": "#/components/requestBodies/Order"}, "responses": {}});
    let (tool, _) = tool("3.0.3", "/orders", "post", operation, components);
    assert!(tool.side_effect);
    assert_eq!(tool.parameters.names().collect::<Vec<_>>(), ["customer_name", "amount", "lines", "parent"]);
    assert_eq!(tool.parameters.schema()["properties"]["amount"], json!({"type": "number", "exclusiveMinimum": 0}));
    let request = render(&tool, json!({"customer_name": "Ana", "lines": [{"sku": "7"}, {"sku": "red"}]}));
    let body: Value = serde_json::from_str(request.body.as_deref().unwrap()).unwrap();
    assert_eq!(body, json!({"customerName": "Ana", "lines": [{"sku": 7}, {"sku": "red"}]}), "as the document takes it");
    let kept = Definition::from_value(&tool.to_json()).unwrap();
    assert_eq!(kept, tool, "a row keeps all of it");
}

#[test]
fn forms_and_texts() {
    let form = json!({"operationId": "charge", "requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object", "properties": {
        "amount": {"type": "integer"}, "metadata": {"type": "object", "additionalProperties": {"type": "string"}}, "expand": {"type": "array", "items": {"type": "string"}},
    }}}}}, "responses": {}});
    let (tool, _) = super::openapi::tool("3.0.0", "/charges", "post", form, json!({}));
    let request = render(&tool, json!({"amount": 5, "metadata": {"order id": "a&b"}, "expand": ["x", "y"]}));
    assert_eq!(request.body.as_deref(), Some("amount=5&metadata[order%20id]=a%26b&expand[0]=x&expand[1]=y"));
    assert_eq!(render(&tool, json!({"amount": 5})).body.as_deref(), Some("amount=5"));
    let none = json!({"operationId": "uncharge", "requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object", "properties": {}}}}}, "responses": {}});
    let (tool, _) = super::openapi::tool("3.0.0", "/charges", "delete", none, json!({}));
    let request = render(&tool, json!({}));
    assert_eq!((request.body, request.headers.len()), (None, 0), "a form without fields is none");
    let text = json!({"operationId": "note", "requestBody": {"required": true, "content": {"text/plain": {"schema": {"type": "string"}}}}, "responses": {}});
    let (tool, _) = super::openapi::tool("3.1.0", "/notes", "post", text, json!({}));
    assert_eq!(render(&tool, json!({"body": "Hello"})).body.as_deref(), Some("Hello"));
}

#[test]
fn credentials_are_references() {
    let components = json!({"securitySchemes": {
        "bearerAuth": {"type": "http", "scheme": "bearer"},
        "inQuery": {"type": "apiKey", "in": "query", "name": "key"},
        "inHeader": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "aCookie": {"type": "apiKey", "in": "cookie", "name": "a"},
        "bCookie": {"type": "apiKey", "in": "cookie", "name": "b"},
        "basicAuth": {"type": "http", "scheme": "basic"},
    }});
    let check = |security: Value, expected: Value, note: &str| {
        let operation = json!({"operationId": "a", "security": security, "responses": {}});
        let (tool, notes) = tool("3.1.0", "/a", "get", operation, components.clone());
        assert_eq!(tool.to_json()["request"]["headers"], expected);
        assert_eq!(notes.iter().any(|said| !note.is_empty() && said.contains(note)), !note.is_empty(), "{notes:?}");
    };
    check(json!([{"bearerAuth": []}]), json!({"Authorization": "Bearer {{secret.eu_example_com_bearer_auth}}"}), "");
    check(json!([{"inQuery": []}, {"inHeader": []}]), json!({"X-Key": "{{secret.eu_example_com_in_header}}"}), "");
    check(json!([{"inQuery": []}]), json!({}), "sent without credentials");
    check(
        json!([{"aCookie": [], "bCookie": []}]),
        json!({"Cookie": "a={{secret.eu_example_com_a_cookie}}; b={{secret.eu_example_com_b_cookie}}"}),
        "",
    );
    check(
        json!([{"bearerAuth": [], "basicAuth": []}, {"inHeader": []}]),
        json!({"X-Key": "{{secret.eu_example_com_in_header}}"}),
        "",
    );
    check(json!([]), json!({}), "");
}

#[test]
fn what_cannot_be_carried_over_is_said() {
    let paths = json!({
        "/files": {"post": {"operationId": "upload", "requestBody": {"required": true, "content": {"multipart/form-data": {"schema": {"type": "object"}}}}, "responses": {}}},
        "/far": {"get": {"operationId": "far", "parameters": [{"$ref": "other.yaml#/p"}], "responses": {}}},
        "/odd": {"options": {"operationId": "odd", "responses": {}}, "get": {"operationId": "upload", "responses": {}}},
        "/round": {"$ref": "#/paths/~1round"},
        "/there": {"$ref": "paths.yaml#/there"},
    });
    let imported = read(&document("3.0.0", paths, json!({})));
    let told: Vec<String> = imported
        .operations
        .iter()
        .map(|report| {
            format!(
                "{} {} -> {}",
                report.method,
                report.path,
                report.tool.clone().unwrap_or_else(|| report.problems.join("; "))
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "POST /files -> its body is multipart/form-data, which a tool can't send",
            "GET /far -> the reference other.yaml#/p leads to another document; bundle the document first",
            "OPTIONS /odd -> a tool can't be called with OPTIONS",
            "GET /odd -> upload_2",
            "* /round -> its operations can't be read: a reference leads round in a circle",
            "* /there -> its operations can't be read: the reference paths.yaml#/there leads to another document; bundle the document first",
        ]
    );
}

#[test]
fn operations_are_picked_and_named() {
    let paths = json!({
        "/a": {"get": {"operationId": "read", "tags": ["x"], "responses": {}}, "delete": {"responses": {}}},
        "/b": {"get": {"operationId": "read", "responses": {}}},
    });
    let document = document("3.1.0", paths, json!({}));
    let names = |options: Options| -> Vec<String> {
        let imported = openapi(&document, &options).unwrap();
        imported.tools.iter().map(|tool| tool.name.as_str().to_owned()).collect()
    };
    assert_eq!(names(Options::default()), ["read", "delete_a", "read_2"]);
    let only = |word: &str| Options { only: Some([word.to_owned()].into()), ..Options::default() };
    assert_eq!(names(only("x")), ["read"]);
    assert_eq!(names(only("DELETE /a")), ["delete_a"]);
    assert_eq!(names(only("GET /b")), ["read_2"], "whatever else is picked");
    assert_eq!(names(Options { prefix: Some("shop".to_owned()), ..only("x") }), ["shop_read"]);
}

#[test]
fn documents_that_are_none() {
    let check = |document: Value, words: &str| {
        let error = openapi(&document, &Options::default()).expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
    };
    check(json!({"swagger": "2.0"}), "it is Swagger 2.0");
    check(json!({"openapi": "4.0.0"}), "\"4.0.0\"");
    check(json!([]), "it has no \"openapi\"");
    let relative =
        json!({"openapi": "3.0.0", "servers": [{"url": "/v1"}], "paths": {"/a": {"get": {"responses": {}}}}});
    check(relative.clone(), "names no server with a whole address");
    let source = Options { source: Some("https://api.example.com/docs/openapi.json".to_owned()), ..Options::default() };
    let imported = openapi(&relative, &source).unwrap();
    assert_eq!(imported.tools[0].to_json()["request"]["url"], "https://api.example.com/v1/a");
    assert!(matches!(openapi(&json!({}), &Options::default()), Err(ImportError::NotOpenApi { .. })));
}
