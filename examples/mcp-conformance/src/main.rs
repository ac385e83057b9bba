//! A program for the official MCP conformance suite.
//!
//! `mcp-conformance server ADDRESS` serves the tools that its server scenarios ask for: the plain ones are
//! data tools whose upstream answers with MCP content, and those that talk with their caller are code
//! tools. `mcp-conformance URL` is the client that its client scenarios start.

mod client;
mod server;
mod talking;
mod upstream;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["server", address] => server::run(address.parse()?).await,
        [url] => client::run(url).await,
        _ => anyhow::bail!("mcp-conformance server ADDRESS, or mcp-conformance URL"),
    }
}
