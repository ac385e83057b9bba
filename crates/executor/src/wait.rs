//! Waiting for a call of the ledger.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use toolcrib_store::{Change, LedgerRow, Store, StoreError};

/// How often the row is looked at although nobody told of a change.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Waits until a call is as wanted, at the longest until `deadline`, and returns it as it is then. None when there is no
/// such call.
pub(crate) async fn until(
    store: &Store,
    id: &str,
    deadline: Instant,
    wanted: impl Fn(&LedgerRow) -> bool,
) -> Result<Option<LedgerRow>, StoreError> {
    let mut changes = store.changes().listen();
    loop {
        let row = store.ledger_row(id).await?;
        let now = Instant::now();
        if now >= deadline || row.as_ref().is_none_or(&wanted) {
            return Ok(row);
        }
        let next_look = deadline.min(now + LOOK_EVERY);
        // Told or not, it is time to look.
        let _ = timeout_at(next_look, changes.next(Change::Settled)).await;
    }
}
