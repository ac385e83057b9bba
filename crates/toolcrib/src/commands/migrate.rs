//! `toolcrib migrate --from … --to …`

use std::sync::Arc;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use toolcrib_store::{CopyError, Location, OsRandomness, Store, StoreError, SystemClock};

use crate::output::{Output, cell, table};

/// Copies a whole database into an empty one, and says what was copied.
pub(crate) async fn copy(from: &Location, to: &Location, output: Output) -> anyhow::Result<()> {
    if let Location::File(path) = from
        && !path.is_file()
    {
        bail!("there is no database at {}", path.display());
    }
    if from.shown() == to.shown() {
        bail!("{} can't be copied into itself", from.shown());
    }
    let open = async |location: &Location| {
        let store = Store::open(location, Arc::new(SystemClock), Arc::new(OsRandomness)).await;
        store.map_err(|error| told(&error)).with_context(|| format!("{} can't be opened", location.shown()))
    };
    let (source, target) = (open(from).await?, open(to).await?);
    let copied = source.copy_to(&target).await;
    source.close().await;
    target.close().await;
    let copied = copied.map_err(|error| match &error {
        CopyError::Store(store) => told(store),
        other => anyhow::anyhow!("{other}"),
    });
    let copied = copied.with_context(|| format!("nothing was copied into {}", to.shown()))?;
    let tables: Vec<Value> = copied
        .iter()
        .map(|table| json!({ "table": table.table, "rows": table.rows, "checksum": table.checksum }))
        .collect();
    output.print(&json!({ "from": from.shown(), "to": to.shown(), "tables": tables }), |_| {
        let row = |table: &Value| vec![cell(&table["table"]), cell(&table["rows"]), cell(&table["checksum"])];
        table(&["table", "rows", "checksum on both sides"], tables.iter().map(row));
    });
    Ok(())
}

/// An error with what the database itself says: whoever copies a database may know.
fn told(error: &StoreError) -> anyhow::Error {
    match error.reason() {
        Some(reason) => anyhow::anyhow!("{error} ({reason})"),
        None => anyhow::anyhow!("{error}"),
    }
}
