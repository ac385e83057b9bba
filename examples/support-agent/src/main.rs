//! `support-agent [SHOP_PORT] [MODEL_PORT]`: the shop's API and a scripted model, on this machine. Ports 4010 and 4011 when
//! none are named.

mod shop;

use std::net::SocketAddr;

use anyhow::Context as _;
use scripted_model::{Script, ScriptedModel};

/// What the model says, when.
const SCRIPT: &str = include_str!("../script.json");

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut ports = std::env::args().skip(1);
    let mut port = |default: u16| ports.next().map_or(Ok(default), |text| text.parse()).context("a port is no number");
    let (shop, model) = (address(port(4010)?), address(port(4011)?));
    let script: Script = serde_json::from_str(SCRIPT).context("script.json is no script")?;
    let serving = tokio::try_join!(async { shop::serve(shop).await.context("the shop can't serve") }, async {
        let model = ScriptedModel::new(script).serve(model, |address| println!("model: http://{address}/v1"));
        model.await.context("the model can't serve")
    },);
    serving.map(drop)
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}
