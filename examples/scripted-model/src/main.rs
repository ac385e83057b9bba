//! `scripted-model SCRIPT.json [PORT]`: serves a script on a port of this machine, 4010 when none is named.

use std::net::SocketAddr;

use anyhow::Context as _;
use scripted_model::{Script, ScriptedModel};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().context("usage: scripted-model SCRIPT.json [PORT]")?;
    let port: u16 = arguments.next().map_or(Ok(4010), |text| text.parse()).context("the port is no number")?;
    let text = std::fs::read_to_string(&path).with_context(|| format!("{path} can't be read"))?;
    let script: Script = serde_json::from_str(&text).with_context(|| format!("{path} is no script"))?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    ScriptedModel::new(script).serve(address, |address| println!("listening on http://{address}")).await?;
    Ok(())
}
