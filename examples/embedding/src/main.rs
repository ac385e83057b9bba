//! Toolcrib's crates inside another program: one tool written in Rust beside the rows, one agent, one
//! call. Run it with `cargo run -p embedding`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_definition::{Ctx, CtxField, NoSecrets};
use toolcrib_egress::{Client, DnsResolver, Guard, Limits, Policy, TcpDialler, TrustRoots};
use toolcrib_executor::{CallRequest, Executor, ExecutorSettings, HttpDispatch};
use toolcrib_registry::{Agent, CallContext, CodeTool, CodeToolError, Registry};
use toolcrib_store::{Location, OsRandomness, Store, SystemClock};

/// What the tool takes. The doc comments are what the model reads.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Conversion {
    /// Degrees Celsius
    celsius: f64,
}

struct ToFahrenheit;

#[async_trait::async_trait]
impl CodeTool for ToFahrenheit {
    type Arguments = Conversion;
    const NAME: &'static str = "to_fahrenheit";
    const DESCRIPTION: &'static str = "Convert degrees Celsius to Fahrenheit";

    async fn call(&self, conversion: Conversion, _: &CallContext) -> Result<Value, CodeToolError> {
        if conversion.celsius < -273.15 {
            return Err(CodeToolError("nothing is colder than -273.15 °C".to_owned()));
        }
        Ok(json!({ "fahrenheit": conversion.celsius * 9.0 / 5.0 + 32.0 }))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(&Location::Memory, Arc::new(SystemClock), Arc::new(OsRandomness)).await?;
    let registry = Registry::builder(store).code_tool(ToFahrenheit).open().await?;

    let policy = Arc::new(Policy::default());
    let guard = Guard::new(policy, Arc::new(DnsResolver::system()), Arc::new(TcpDialler), Duration::from_secs(10));
    let http = HttpDispatch::new(Client::new(guard, Limits::default(), &TrustRoots::system())?);
    let executor = Executor::new(registry, Arc::new(http), Arc::new(NoSecrets), ExecutorSettings::default());

    let agent = Arc::new(Agent::from_json(&json!({ "tools_allow": ["to_fahrenheit"] }))?);
    for celsius in [json!(21.5), json!("-40"), json!(-300), json!("warm")] {
        let ctx = Ctx::default().with(CtxField::ChatId, "demo");
        let request = CallRequest::new("to_fahrenheit", json!({ "celsius": celsius }));
        let outcome = executor.call("weather", &agent, ctx, request).await;
        println!("{celsius} -> {} {}", outcome.status.as_str(), outcome.result);
    }
    executor.drain(Duration::from_secs(5)).await;
    Ok(())
}
