//! The caller of a running tool, on the other side of a stream.

use std::sync::Mutex;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use toolcrib_registry::{Ask, AskError, LogLevel, ToolClient};

use super::parts::CallerKey;
use super::rpc::notification;
use crate::state::ApiState;

/// Messages that may wait for a slow client; progress and logs beyond them are dropped.
pub(super) const STREAM_QUEUE: usize = 256;

/// How a client is asked.
#[derive(Debug)]
pub(super) enum Asking {
    /// By a request on the stream; the reply comes with another request.
    OnStream { caller: CallerKey },
    /// By ending the call: the client repeats it with the answers.
    ByRepeating {
        /// The answers so far.
        answers: Map<String, Value>,
    },
}

/// The client of one call.
pub(super) struct StreamClient {
    state: ApiState,
    stream: Option<mpsc::Sender<Value>>,
    progress_token: Option<Value>,
    /// Messages of this level and above are told.
    level: Option<LogLevel>,
    capabilities: Value,
    asking: Asking,
    /// What a tool asked that has no answer yet.
    asked: Mutex<Vec<(String, Ask)>>,
    /// A capability that a tool needs and the client did not declare.
    missing: Mutex<Option<&'static str>>,
}

impl std::fmt::Debug for StreamClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamClient").field("asking", &self.asking).finish_non_exhaustive()
    }
}

impl StreamClient {
    pub(super) fn new(
        state: ApiState,
        stream: Option<mpsc::Sender<Value>>,
        meta: &Value,
        level: Option<LogLevel>,
        capabilities: Value,
        asking: Asking,
    ) -> Self {
        Self {
            state,
            stream,
            progress_token: meta.get("progressToken").filter(|token| token.is_string() || token.is_number()).cloned(),
            level,
            capabilities,
            asking,
            asked: Mutex::default(),
            missing: Mutex::default(),
        }
    }

    fn tell(&self, message: Value) {
        if let Some(stream) = &self.stream {
            // A client that is too slow for its own notifications misses some.
            let _ = stream.try_send(message);
        }
    }

    /// What the tool asked and was not answered.
    pub(super) fn take_asked(&self) -> Vec<(String, Ask)> {
        self.asked.lock().map(|mut asked| std::mem::take(&mut *asked)).unwrap_or_default()
    }

    /// The capability that the client lacks.
    pub(super) fn missing(&self) -> Option<&'static str> {
        self.missing.lock().ok().and_then(|missing| *missing)
    }

    /// The answers that the client gave so far.
    pub(super) fn answers(&self) -> Map<String, Value> {
        match &self.asking {
            Asking::ByRepeating { answers } => answers.clone(),
            Asking::OnStream { .. } => Map::new(),
        }
    }

    async fn ask_on_stream(&self, caller: &CallerKey, ask: &Ask) -> Result<Value, AskError> {
        let Some(stream) = &self.stream else { return Err(AskError::Unsupported(ask.capability())) };
        let question = self.state.mcp_parts.questions.ask(caller);
        let request = json!({ "jsonrpc": "2.0", "id": question.id, "method": ask.method(), "params": ask.params() });
        let gone = || AskError::Failed("the client went away".to_owned());
        stream.send(request).await.map_err(|_| gone())?;
        let mut question = question;
        match (&mut question.reply).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(words)) => Err(AskError::Failed(words)),
            Err(_) => Err(gone()),
        }
    }
}

#[async_trait]
impl ToolClient for StreamClient {
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let Some(token) = &self.progress_token else { return };
        let mut params = Map::new();
        params.insert("progressToken".into(), token.clone());
        params.insert("progress".into(), progress.into());
        if let Some(total) = total {
            params.insert("total".into(), total.into());
        }
        if let Some(message) = message {
            params.insert("message".into(), message.into());
        }
        self.tell(notification("notifications/progress", Value::Object(params)));
    }

    fn wants_progress(&self) -> bool {
        self.progress_token.is_some() && self.stream.is_some()
    }

    fn log(&self, level: LogLevel, logger: &str, data: Value) {
        if self.level.is_some_and(|least| level >= least) {
            let params = json!({ "level": level.as_str(), "logger": logger, "data": data });
            self.tell(notification("notifications/message", params));
        }
    }

    fn supports(&self, capability: &str) -> bool {
        // A question on the stream needs a stream.
        let reachable = self.stream.is_some() || matches!(self.asking, Asking::ByRepeating { .. });
        reachable && self.capabilities.get(capability).is_some_and(Value::is_object)
    }

    async fn ask(&self, asks: Vec<(String, Ask)>) -> Result<Vec<Value>, AskError> {
        if let Some((_, ask)) = asks.iter().find(|(_, ask)| !self.supports(ask.capability())) {
            if let Ok(mut missing) = self.missing.lock() {
                *missing = Some(ask.capability());
            }
            return Err(AskError::Unsupported(ask.capability()));
        }
        match &self.asking {
            Asking::OnStream { caller } => {
                let mut answers = Vec::with_capacity(asks.len());
                for (_, ask) in &asks {
                    answers.push(self.ask_on_stream(caller, ask).await?);
                }
                Ok(answers)
            }
            Asking::ByRepeating { answers } => {
                let given: Option<Vec<Value>> = asks.iter().map(|(key, _)| answers.get(key).cloned()).collect();
                match given {
                    Some(given) => Ok(given),
                    None => {
                        if let Ok(mut asked) = self.asked.lock() {
                            asked.extend(asks.into_iter().filter(|(key, _)| !answers.contains_key(key)));
                        }
                        Err(AskError::Waits)
                    }
                }
            }
        }
    }

    fn waits(&self) -> bool {
        self.asked.lock().is_ok_and(|asked| !asked.is_empty()) || self.missing().is_some()
    }
}
