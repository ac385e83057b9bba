//! Questions of a running tool to a legacy client, which replies with a request of its own.

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::Value;
use tokio::sync::oneshot;
use toolcrib_store::{OsRandomness, Randomness};

use super::parts::CallerKey;

/// Questions that wait, by the id that nobody else can guess.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<String, Waiting>>);

struct Waiting {
    caller: CallerKey,
    reply: oneshot::Sender<Result<Value, String>>,
}

/// A question that was asked. Dropping it takes it back.
pub(super) struct Question<'a> {
    questions: &'a Questions,
    pub(super) id: String,
    pub(super) reply: oneshot::Receiver<Result<Value, String>>,
}

impl Questions {
    /// A new question to a caller.
    pub(super) fn ask(&self, caller: &CallerKey) -> Question<'_> {
        let id = OsRandomness.hex();
        let (reply, receiver) = oneshot::channel();
        if let Ok(mut waiting) = self.0.lock() {
            waiting.insert(id.clone(), Waiting { caller: caller.clone(), reply });
        }
        Question { questions: self, id, reply: receiver }
    }

    /// Takes a reply. Only the caller who was asked can give it.
    pub(super) fn answer(&self, caller: &CallerKey, message: &Value) {
        let Some(id) = message.get("id").and_then(Value::as_str) else { return };
        let Ok(mut waiting) = self.0.lock() else { return };
        if waiting.get(id).is_none_or(|waiting| waiting.caller != *caller) {
            return;
        }
        let Some(found) = waiting.remove(id) else { return };
        let reply = match (message.get("result"), message.get("error")) {
            (Some(result), _) => Ok(result.clone()),
            (None, error) => {
                let words = error.and_then(|error| error.get("message")).and_then(Value::as_str);
                Err(words.unwrap_or("the client could not answer").chars().take(500).collect())
            }
        };
        // The one who asked may have given up just now.
        let _ = found.reply.send(reply);
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if let Ok(mut waiting) = self.questions.0.lock() {
            waiting.remove(&self.id);
        }
    }
}
