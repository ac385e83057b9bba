//! `toolcrib import openapi FILE|URL` and `toolcrib import curl '…'`

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::{Args, Subcommand};
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio::time::Instant;
use toolcrib_definition::Definition;
use toolcrib_definition::json::{ReadOptions, read};
use toolcrib_egress::{Completeness, Outbound};
use toolcrib_import::{Imported, Options, curl, openapi};

use super::tools;
use crate::compose;
use crate::config::Config;
use crate::connection::Connection;
use crate::output::Output;

/// The largest document, in bytes (64 MiB).
const LARGEST: usize = 64 << 20;
/// How long a document is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How deep a document may be nested: schemas within schemas.
const DEEPEST: usize = 256;
/// Tools that are written together.
const TOGETHER: usize = 500;

#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// Make a tool of each operation of an OpenAPI document (3.0 or 3.1, JSON or YAML)
    Openapi(OpenapiArgs),
    /// Make a tool of a curl command
    Curl(CurlArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OpenapiArgs {
    /// A file, an address (which the egress policy has to allow), or - for standard input
    document: String,
    /// The address that paths are appended to, in the place of the document's own
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Only these operations: an operation's id, `GET /path`, or a tag; repeatable
    #[arg(long, value_name = "OPERATION")]
    only: Vec<String>,
    #[command(flatten)]
    more: More,
}

#[derive(Debug, Args)]
pub(crate) struct CurlArgs {
    /// The command, in quotes; - is standard input
    command: String,
    #[command(flatten)]
    more: More,
}

#[derive(Debug, Args)]
struct More {
    /// The group of the tools; the title of the document when left out
    #[arg(long)]
    group: Option<String>,
    /// What every name begins with
    #[arg(long)]
    prefix: Option<String>,
    /// Shows what would be made and writes nothing
    #[arg(long)]
    dry_run: bool,
}

impl ImportCommand {
    /// Whether anything is written.
    pub(crate) fn writes(&self) -> bool {
        let (ImportCommand::Openapi(OpenapiArgs { more, .. }) | ImportCommand::Curl(CurlArgs { more, .. })) = self;
        !more.dry_run
    }

    pub(crate) async fn run(self, config: &Config, api: &Connection, output: Output) -> anyhow::Result<()> {
        let writes = self.writes();
        let imported = match self {
            ImportCommand::Openapi(args) => {
                let is_address = args.document.starts_with("https://") || args.document.starts_with("http://");
                let text = if is_address { fetch(config, &args.document).await? } else { read_file(&args.document)? };
                let document = parse(&args.document, &text)?;
                let options = Options {
                    base_url: args.base_url,
                    source: is_address.then(|| args.document.clone()),
                    group: args.more.group,
                    prefix: args.more.prefix,
                    only: (!args.only.is_empty()).then(|| args.only.into_iter().collect::<BTreeSet<_>>()),
                };
                openapi(&document, &options)?
            }
            ImportCommand::Curl(args) => {
                let text = match args.command.as_str() {
                    "-" => String::from_utf8(read_file("-")?).context("the command is no text")?,
                    command => command.to_owned(),
                };
                let options = Options { group: args.more.group, prefix: args.more.prefix, ..Options::default() };
                curl(&text, &options)?
            }
        };
        let mut written = Vec::new();
        if !output.json {
            show(&imported);
        }
        if writes {
            for tools in imported.tools.chunks(TOGETHER) {
                let tools: Vec<Value> = tools.iter().map(Definition::to_json).collect();
                let manifest = json!({ "version": 1, "tools": tools });
                written.push(api.send(Method::POST, "/v1/tools/manifest?secrets=later", Some(&manifest)).await?);
            }
        } else if !output.json {
            println!("nothing was written (--dry-run)");
        }
        if output.json {
            let Imported { tools, operations, secrets } = &imported;
            let tools: Vec<Value> = tools.iter().map(Definition::to_json).collect();
            let report = json!({ "operations": operations, "secrets": secrets, "tools": tools, "written": written });
            println!("{report:#}");
        }
        let mut left_out = 0;
        for answer in &written {
            left_out += tools::report(answer, output);
        }
        if imported.operations.is_empty() {
            bail!("no operation was found: the document has none, or none that --only names");
        }
        if imported.tools.is_empty() {
            bail!("no tool can be made of it");
        }
        if left_out > 0 {
            bail!("{left_out} tool(s) were left out");
        }
        Ok(())
    }
}

/// One line for each operation, and what is to be done next.
fn show(imported: &Imported) {
    let Imported { tools, operations, secrets } = imported;
    for report in operations {
        let place = format!("{} {}", report.method, report.path);
        match &report.tool {
            Some(tool) => println!("{place} -> {tool}"),
            None => println!("{place}: left out: {}", report.problems.join("; ")),
        }
        for note in &report.notes {
            println!("    {note}");
        }
    }
    if operations.len() == 1 {
        tools.iter().for_each(|tool| println!("{:#}", tool.to_json()));
    }
    println!("{} of {} operation(s) can be tools", tools.len(), operations.len());
    for secret in secrets {
        println!("needs the secret {}, for the header {}: {}", secret.name, secret.header, secret.holds);
    }
}

/// A document in JSON, or in YAML, which JSON is not always and which is read much slower.
fn parse(name: &str, text: &[u8]) -> anyhow::Result<Value> {
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'{') {
        let options = ReadOptions { max_bytes: LARGEST, max_depth: DEEPEST, ..ReadOptions::default() };
        return read(text, options).with_context(|| name.to_owned());
    }
    let text = std::str::from_utf8(text).with_context(|| format!("{name} is no text"))?;
    serde_saphyr::from_str(text).with_context(|| name.to_owned())
}

fn read_file(name: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let bound = LARGEST as u64 + 1;
    if name == "-" {
        std::io::stdin().take(bound).read_to_end(&mut bytes).context("standard input can't be read")?;
    } else {
        let file = std::fs::File::open(Path::new(name)).with_context(|| format!("{name} can't be read"))?;
        file.take(bound).read_to_end(&mut bytes).with_context(|| format!("{name} can't be read"))?;
    }
    if bytes.len() > LARGEST {
        bail!("{name} is larger than {LARGEST} bytes");
    }
    Ok(bytes)
}

/// Asks for a document under the egress policy.
async fn fetch(config: &Config, address: &str) -> anyhow::Result<Vec<u8>> {
    let limits = toolcrib_egress::Limits { body_bytes: LARGEST, ..config.limits() };
    let client = compose::egress(config, limits)?;
    let target = client.policy().check_url(address).with_context(|| {
        format!("{address} is blocked by the egress policy; download the document and give the file")
    })?;
    let request = Outbound { method: Method::GET, target, headers: HeaderMap::new(), body: Bytes::new() };
    let answer = client.read(&request, Instant::now() + PATIENCE).await.with_context(|| address.to_owned())?;
    if !answer.status.is_success() {
        bail!("{address} answered {}; download the document and give the file", answer.status);
    }
    match answer.completeness {
        Completeness::Whole => Ok(answer.body),
        Completeness::OverBound(bound) => bail!("{address} is larger than {bound} bytes"),
        _ => bail!("{address} broke off before its end; try again"),
    }
}
