//! The tool.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolcrib_registry::{CallContext, CodeToolError, TransactionalTool};
use toolcrib_store::{EffectTransaction, StoreError};

/// Books a seat for a guest.
pub struct BookSeat;

/// What it takes. The doc comments are what the model reads.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Booking {
    /// Who sits there
    pub guest: String,
}

fn failed(error: StoreError) -> CodeToolError {
    CodeToolError(format!("the seat could not be booked: {error}"))
}

#[async_trait]
impl TransactionalTool for BookSeat {
    type Arguments = Booking;
    const NAME: &'static str = "book_seat";
    const DESCRIPTION: &'static str = "Books the next free seat";

    async fn call(
        &self,
        booking: Booking,
        transaction: &mut EffectTransaction,
        _context: &CallContext,
    ) -> Result<Value, CodeToolError> {
        let table = "CREATE TABLE IF NOT EXISTS bookings (guest TEXT NOT NULL)";
        transaction.execute(table, &[]).await.map_err(failed)?;
        let insert = "INSERT INTO bookings (guest) VALUES ($1)";
        transaction.execute(insert, &[booking.guest.as_str().into()]).await.map_err(failed)?;
        Ok(json!({ "guest": booking.guest, "booked": true }))
    }
}
