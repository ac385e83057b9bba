//! The client of the suite's client scenarios: it lists the tools and calls each, with the arguments that
//! the scenario gives or its schema allows.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolcrib_egress::{Client, Guard, Limits, Outbound, Policy, Resolve, ResolveError, TcpDialler, TrustRoots};
use toolcrib_mcp_ingest::{
    ClientHandler, ClientIdentity, Endpoint, McpClient, McpRequest, Mode, OAuth, Transport, UserAgent,
    check_annotations, param_headers,
};

/// Accepts what is asked, with the defaults that the question names.
struct Accepting;

#[async_trait]
impl ClientHandler for Accepting {
    fn capabilities(&self) -> Value {
        json!({ "elicitation": {}, "sampling": {}, "roots": {} })
    }

    async fn answer(&self, method: &str, params: &Value) -> Option<Value> {
        match method {
            "elicitation/create" => {
                let properties = params["requestedSchema"]["properties"].as_object().cloned().unwrap_or_default();
                let content: Map<String, Value> =
                    properties.into_iter().map(|(name, schema)| (name, example(&schema))).collect();
                Some(json!({ "action": "accept", "content": content }))
            }
            "sampling/createMessage" => Some(json!({
                "role": "assistant", "content": { "type": "text", "text": "Yes." }, "model": "none", "stopReason": "endTurn",
            })),
            "roots/list" => Some(json!({ "roots": [] })),
            _ => None,
        }
    }
}

/// Every name is this machine: the suite serves at `localhost`, which no DNS server knows.
struct Loopback;

#[async_trait]
impl Resolve for Loopback {
    async fn resolve(&self, _host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }
}

/// A browser whose person agrees to everything.
struct Agreeing(Client);

#[async_trait]
impl UserAgent for Agreeing {
    fn redirect_uri(&self) -> String {
        "http://localhost:3999/callback".to_owned()
    }

    async fn visit(&self, url: &str, deadline: Instant) -> Result<String, String> {
        let target = self.0.policy().check_url(url).map_err(|blocked| blocked.to_string())?;
        let (method, headers) = (http::Method::GET, http::HeaderMap::new());
        let outbound = Outbound { method, target, headers, body: Vec::new().into() };
        let answer = self.0.read(&outbound, deadline).await.map_err(|failure| failure.error.to_string())?;
        let location = answer.headers.get("location").and_then(|value| value.to_str().ok());
        location.map(str::to_owned).ok_or_else(|| format!("HTTP {} leads nowhere", answer.status))
    }
}

/// A value that a simple schema accepts: its default, when it has one.
fn example(schema: &Value) -> Value {
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|values| values.first()) {
        return first.clone();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("integer" | "number") => json!(3),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => arguments_for(schema),
        _ => json!("text"),
    }
}

fn arguments_for(schema: &Value) -> Value {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let property = |name: &Value| {
        let name = name.as_str()?;
        Some((name.to_owned(), example(schema.get("properties")?.get(name)?)))
    };
    Value::Object(required.iter().filter_map(property).collect())
}

/// Runs a scenario.
#[expect(clippy::disallowed_methods, reason = "the suite tells its client in the environment what to call")]
pub async fn run(url: &str) -> anyhow::Result<()> {
    let policy = Policy { allow_http: true, allow_private: true, ..Policy::default() };
    let limits = Limits::default();
    let guard = Guard::new(Arc::new(policy), Arc::new(Loopback), Arc::new(TcpDialler), limits.connect);
    let http = Client::new(guard, limits, &TrustRoots::default())?;
    let context: Value = std::env::var("MCP_CONFORMANCE_CONTEXT")
        .ok()
        .and_then(|text| toolcrib_definition::json::parse(text.as_bytes()).ok())
        .unwrap_or_default();
    let text = |key: &str| context.get(key).and_then(Value::as_str).map(str::to_owned);
    let identity = ClientIdentity {
        client_id: text("client_id"),
        client_secret: text("client_secret").map(Into::into),
        metadata_document: Some("https://conformance-test.local/client-metadata.json".to_owned()),
    };
    let oauth = OAuth::new(identity, Arc::new(Agreeing(http.clone())));
    let client = McpClient::with_parts(http, Arc::new(Accepting), Some(Arc::new(oauth)));
    let target = client.policy().check_url(url)?;
    let endpoint = Endpoint::plain("conformance", target, Transport::Http);
    let deadline = Instant::now() + Duration::from_secs(25);

    let tools = client.tools(&endpoint, deadline).await?;
    // Some servers ask on the stream that a client opens beside its requests.
    let listening = {
        let (client, endpoint) = (client.clone(), endpoint.clone());
        tokio::spawn(async move { client.follow(&endpoint, deadline).await })
    };
    tokio::time::sleep(Duration::from_millis(200)).await;
    let given = context.get("toolCalls").and_then(Value::as_array).cloned();
    let usable = tools.iter().filter(|tool| check_annotations(&tool["inputSchema"]).is_ok());
    let calls = given.unwrap_or_else(|| {
        usable.map(|tool| json!({ "name": tool["name"], "arguments": arguments_for(&tool["inputSchema"]) })).collect()
    });
    for call in calls {
        let schema = tools.iter().find(|tool| tool["name"] == call["name"]).map(|tool| tool["inputSchema"].clone());
        let arguments = call["arguments"].as_object().cloned().unwrap_or_default();
        let request = McpRequest {
            method: "tools/call",
            param_headers: param_headers(&schema.unwrap_or_default(), &arguments),
            params: Map::from_iter([
                ("name".to_owned(), call["name"].clone()),
                ("arguments".to_owned(), Value::Object(arguments)),
            ]),
            mode: Mode::Repeatable,
            deadline,
            progress: None,
        };
        match client.call_tool(&endpoint, request).await {
            Ok(done) => println!("{}: {}", call["name"], done.result),
            Err(failure) => println!("{}: {failure}", call["name"]),
        }
    }
    listening.abort();
    Ok(())
}
