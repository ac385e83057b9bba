//! The OpenAPI document against the tests: an address without a test of its access fails.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::access::ADDRESSES;
use crate::app::App;

/// Addresses that need no token.
const OPEN: &[(&str, &str)] = &[("GET", "/healthz"), ("GET", "/readyz")];

#[tokio::test]
async fn every_address_of_the_document_has_a_test_of_its_access() {
    let app = App::new().await;
    let document = app.get("/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut written = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let needs_token = operation.get("security").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
            let key = (method.to_uppercase(), path.clone());
            assert_eq!(!needs_token, OPEN.contains(&(key.0.as_str(), key.1.as_str())), "{key:?}");
            if needs_token {
                written.insert(key);
            }
            assert!(
                operation["summary"].as_str().is_some_and(|text| !text.is_empty()),
                "{method} {path} has no summary"
            );
        }
    }
    let tested: BTreeSet<_> = ADDRESSES.iter().map(|(m, p, _)| ((*m).to_owned(), (*p).to_owned())).collect();
    assert_eq!(written, tested);
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let app = App::new().await;
    let page = app.get("/docs").await;
    assert!(page.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    assert!(!page.text.contains("<script") && !page.text.contains("src="), "no script, nothing loaded");
    assert!(page.text.contains("/v1/agents/{id}/calls") && page.text.contains("placeholder.unknown"));
}
