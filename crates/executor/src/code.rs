//! Calls of code tools.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use toolcrib_definition::EffectMode;
use toolcrib_registry::{CallContext, CodeToolError, RegisteredCodeTool};
use toolcrib_store::EffectTransaction;

/// How long a tool may go on after it was told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Why a code tool gave no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CodeFailure {
    /// What the tool says.
    Tool(String),
    /// It panicked. The words of the panic are for the operator.
    Panic(String),
    /// It took too long.
    Timeout,
    /// Its caller gave up.
    Cancelled,
}

/// Runs a code tool. At the deadline, or when its caller gives up, it is told to stop and given a moment
/// to.
pub(crate) async fn run(
    tool: &RegisteredCodeTool,
    arguments: &Map<String, Value>,
    transaction: Option<&mut EffectTransaction>,
    context: &CallContext,
    deadline: Instant,
    given_up: &CancellationToken,
) -> Result<Value, CodeFailure> {
    // A transaction holds up others, so there is no moment more.
    let grace = if transaction.is_some() { Duration::ZERO } else { GRACE };
    let running = AssertUnwindSafe(tool.run(arguments, transaction, context)).catch_unwind();
    let mut running = std::pin::pin!(running);
    let late = tokio::select! {
        ended = &mut running => return result_of(ended),
        () = tokio::time::sleep_until(deadline) => CodeFailure::Timeout,
        // What may have changed something is awaited, whoever still listens.
        () = given_up.cancelled(), if tool.effect() == EffectMode::Idempotent => CodeFailure::Cancelled,
    };
    context.cancellation.cancel();
    match timeout(grace, &mut running).await {
        Ok(ended) => result_of(ended),
        Err(_) => Err(late),
    }
}

fn result_of(ended: std::thread::Result<Result<Value, CodeToolError>>) -> Result<Value, CodeFailure> {
    match ended {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(CodeFailure::Tool(error.0)),
        Err(panic) => Err(CodeFailure::Panic(words_of(&*panic))),
    }
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no words".to_owned())
}

/// Whether a call of this effect that got no result may have changed something.
pub(crate) fn is_in_doubt(effect: EffectMode, failure: &CodeFailure) -> bool {
    effect == EffectMode::AtMostOnce
        && matches!(failure, CodeFailure::Timeout | CodeFailure::Cancelled | CodeFailure::Panic(_))
}
