//! The shop's API: two orders, and refunds.

use std::net::SocketAddr;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

pub(crate) async fn serve(address: SocketAddr) -> std::io::Result<()> {
    let router = Router::new().route("/orders/{number}", get(order)).route("/refunds", post(refund));
    let listener = TcpListener::bind(address).await?;
    println!("shop: http://{}", listener.local_addr()?);
    axum::serve(listener, router).await
}

async fn order(Path(number): Path<String>) -> Response {
    let order = match number.as_str() {
        "1001" => json!({"number": "1001", "state": "delivered", "total": "42.00 EUR", "items": ["a desk lamp"]}),
        "1002" => json!({"number": "1002", "state": "in transit", "total": "180.00 EUR", "items": ["an office chair"]}),
        _ => return (StatusCode::NOT_FOUND, Json(json!({"reason": "there is no such order"}))).into_response(),
    };
    Json(order).into_response()
}

async fn refund(Json(request): Json<Value>) -> Response {
    (StatusCode::CREATED, Json(json!({"refund": "r-1", "order": request["order"], "state": "paid"}))).into_response()
}
