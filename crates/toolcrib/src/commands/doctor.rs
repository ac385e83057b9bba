//! `toolcrib doctor`

use anyhow::bail;
use clap::Args;
use http::Method;

use crate::connection::Connection;
use crate::output::{Output, rows, table};

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Fails on warnings too, not only on errors
    #[arg(long)]
    strict: bool,
}

pub(crate) async fn run(args: DoctorArgs, api: &Connection, output: Output) -> anyhow::Result<()> {
    let answer = api.send(Method::GET, "/v1/doctor", None).await?;
    output.print(&answer, |answer| {
        println!("{} tool(s) at revision {}", answer["tools"], answer["revision"]);
        let findings = rows(answer, "findings", &["severity", "code", "subject", "message"]);
        if findings.is_empty() {
            println!("nothing is wrong");
        } else {
            table(&["severity", "code", "subject", "message"], findings);
        }
        let breakers = rows(answer, "breakers", &["host", "state", "failures"]);
        if !breakers.is_empty() {
            println!();
            table(&["host", "state", "failures"], breakers);
        }
    });
    let count = |severity| {
        answer["findings"].as_array().into_iter().flatten().filter(|finding| finding["severity"] == severity).count()
    };
    match (count("error"), count("warning")) {
        (0, 0) => Ok(()),
        (0, _) if !args.strict => Ok(()),
        (0, warnings) => bail!("doctor found {warnings} warning(s)"),
        (errors, _) => bail!("doctor found {errors} error(s)"),
    }
}
