//! `toolcrib doctor`

use anyhow::bail;
use http::Method;

use crate::connection::Connection;
use crate::output::{Output, rows, table};

pub(crate) async fn run(api: &Connection, output: Output) -> anyhow::Result<()> {
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
    let errors = answer["findings"].as_array().into_iter().flatten().filter(|f| f["severity"] == "error").count();
    if errors == 0 { Ok(()) } else { bail!("doctor found {errors} error(s)") }
}
