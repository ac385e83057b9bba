//! `toolcrib events`

use anyhow::bail;

use crate::connection::Connection;

/// Prints the events of a server as they come, one line each.
pub(crate) async fn run(api: &Connection) -> anyhow::Result<()> {
    let Connection::Remote { .. } = api else {
        bail!("events are those of a running server: name it with --server");
    };
    api.lines("/v1/events", |line| {
        if let Some(data) = line.strip_prefix("data: ") {
            println!("{data}");
        } else if let Some(kind) = line.strip_prefix("event: ") {
            print!("{kind} ");
        }
    })
    .await
}
