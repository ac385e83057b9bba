//! The small upstream of the tour: a catalog, and a desk for returns.

use std::net::{Ipv4Addr, SocketAddr};

use axum::extract::Query;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolcrib_api::{Server, ServerSettings};

const CATALOG: [(&str, &str, &str); 4] = [
    ("K1", "Red kettle, 1.7 l", "39.00"),
    ("K2", "Steel kettle, 1 l", "29.50"),
    ("L1", "Desk lamp, warm light", "24.90"),
    ("M1", "Red mug", "7.10"),
];

#[derive(Deserialize)]
struct Search {
    q: String,
    limit: Option<usize>,
}

/// Starts it on a free port of loopback and returns its address.
pub(super) async fn start(shutdown: CancellationToken) -> std::io::Result<String> {
    let router = Router::new().route("/products", get(products)).route("/returns", post(returns));
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::bind(free, None, router, ServerSettings::default()).await?;
    let base = format!("http://{}", server.local_addr()?);
    tokio::spawn(server.run(shutdown));
    Ok(base)
}

async fn products(Query(search): Query<Search>) -> Json<Value> {
    let words: Vec<String> = search.q.to_lowercase().split_whitespace().map(str::to_owned).collect();
    let found = CATALOG.iter().filter(|(_, name, _)| words.iter().any(|word| name.to_lowercase().contains(word)));
    let results: Vec<Value> = found
        .take(search.limit.unwrap_or(10))
        .map(|(sku, name, price)| json!({ "sku": sku, "name": name, "price": price }))
        .collect();
    Json(json!({ "results": results, "took_ms": 1 }))
}

async fn returns(Json(body): Json<Value>) -> Json<Value> {
    let order = body["order"].as_str().unwrap_or_default();
    let message = format!("A colleague takes over the return of {order}.");
    Json(json!({ "state": "HANDED_OVER", "message": message }))
}
