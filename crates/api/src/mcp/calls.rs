//! One `tools/call`: as one answer, or as a stream when the tool tells or asks something on the way.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use http::StatusCode;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolcrib_definition::Ctx;
use toolcrib_executor::{CallRequest, Status};
use toolcrib_registry::{LogLevel, ToolClient};

use super::address::Caller;
use super::approvals::{as_it_stands, ask_client};
use super::client::{Asking, STREAM_QUEUE, StreamClient};
use super::parts::Running;
use super::request_state::call_hash;
use super::rpc::{RpcError, json_response, result};
use super::tools::{call_result, gives_content};
use crate::calls::is_call_id;
use crate::state::ApiState;

/// How often an idle stream shows that it lives.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Where a sealed state keeps the approval that the client is asked about.
const PENDING: &str = "toolcrib/approval";

/// A `tools/call` that was read.
pub(super) struct Call {
    pub(super) id: Value,
    pub(super) tool: String,
    arguments: Value,
    /// The caller's key of the call.
    call_id: Option<String>,
    /// The approval that the client was asked about in the round before.
    pending: Option<String>,
    ctx: Ctx,
    client: Arc<StreamClient>,
    receiver: Option<mpsc::Receiver<Value>>,
    is_current: bool,
    gives_content: bool,
    /// For the state of the next round.
    hash: String,
    round: u32,
}

/// What the eras differ in.
pub(super) struct Era {
    pub(super) is_current: bool,
    pub(super) level: Option<LogLevel>,
    pub(super) capabilities: Value,
}

impl Call {
    /// Reads the parameters of a `tools/call`.
    pub(super) fn read(
        state: &ApiState,
        caller: &Caller,
        era: Era,
        id: &Value,
        params: &Map<String, Value>,
    ) -> Result<Self, RpcError> {
        let Some(Value::String(tool)) = params.get("name") else {
            return Err(RpcError::params("tools/call names a tool: {name, arguments}"));
        };
        let arguments = match params.get("arguments") {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(arguments @ Value::Object(_)) => arguments.clone(),
            Some(_) => return Err(RpcError::params("arguments is an object")),
        };
        let snapshot = state.registry().snapshot();
        let entry = snapshot.tool(tool).filter(|entry| caller.agent.allows(entry));
        let Some(entry) = entry else {
            return Err(RpcError::params(format!("there is no tool {tool:?} that this agent may use")));
        };
        let hash = call_hash([&caller.agent_id, caller.key.0.as_deref().unwrap_or_default(), tool], &arguments);
        let (mut round, mut answers, mut pending) = (0, Map::new(), None);
        let asking = if era.is_current {
            if let Some(text) = params.get("requestState") {
                let now = state.registry().store().clock().now_ms();
                let opened = text.as_str().and_then(|text| state.mcp_parts.signer.open(text, &hash, now));
                let wrong = "requestState is none that this call gave, or it is too old; make the call anew";
                (round, answers) = opened.ok_or_else(|| RpcError::params(wrong))?;
                // It was sealed in by us: no answer of a client can put another approval here.
                pending = answers.shift_remove(PENDING).and_then(|id| id.as_str().map(str::to_owned));
            }
            match params.get("inputResponses") {
                None => {}
                // An answer that is no object answers nothing, and is asked for again.
                Some(Value::Object(given)) => {
                    answers.extend(given.iter().filter(|(_, v)| v.is_object()).map(|(k, v)| (k.clone(), v.clone())));
                }
                Some(_) => return Err(RpcError::params("inputResponses is an object of answers")),
            }
            Asking::ByRepeating { answers }
        } else {
            Asking::OnStream { caller: caller.key.clone() }
        };
        let meta = params.get("_meta").cloned().unwrap_or_default();
        let call_id = match meta.get("toolcrib/call_id") {
            None => None,
            Some(Value::String(id)) if is_call_id(id) => Some(id.clone()),
            Some(_) => return Err(RpcError::params("toolcrib/call_id is 1 to 128 visible ASCII characters")),
        };
        let may_be_asked = entry.as_code().is_some() || caller.agent.approvals_by_client();
        let streams = caller.takes_stream && (may_be_asked || meta.get("progressToken").is_some());
        let (sender, receiver) = if streams {
            let (sender, receiver) = mpsc::channel(STREAM_QUEUE);
            (Some(sender), Some(receiver))
        } else {
            (None, None)
        };
        let client = StreamClient::new(state.clone(), sender, &meta, era.level, era.capabilities, asking);
        Ok(Self {
            id: id.clone(),
            tool: tool.clone(),
            arguments,
            call_id,
            pending,
            ctx: caller.ctx.clone(),
            client: Arc::new(client),
            receiver,
            is_current: era.is_current,
            gives_content: gives_content(entry),
            hash,
            round,
        })
    }

    /// Makes the call. `cancellation` is cancelled when the client goes away.
    pub(super) async fn run(
        self,
        state: ApiState,
        caller: Caller,
        cancellation: CancellationToken,
        under_its_id: Option<Running>,
    ) -> Response {
        let guard = cancellation.clone().drop_guard();
        let Call {
            id,
            tool,
            arguments,
            call_id,
            pending,
            ctx,
            client,
            receiver,
            is_current,
            gives_content,
            hash,
            round,
        } = self;
        let request = CallRequest {
            client: Arc::clone(&client) as Arc<dyn ToolClient>,
            cancellation,
            call_id,
            ..CallRequest::new(tool, arguments)
        };
        let running = {
            let (state, client) = (state.clone(), Arc::clone(&client));
            async move {
                let before = match &pending {
                    Some(approval) => as_it_stands(&state, approval).await,
                    None => None,
                };
                let outcome = match before {
                    Some(outcome) => outcome,
                    None => state.executor.call(&caller.agent_id, &caller.agent, ctx, request).await,
                };
                let outcome = ask_client(&state, &caller, &client, outcome).await;
                if outcome.status == Status::Waiting
                    && let Some(answer) = waiting(&state, &client, &hash, round, outcome.approval.as_deref())
                {
                    return answer;
                }
                let mut out = call_result(outcome, is_current, gives_content);
                if is_current {
                    out.insert("resultType".into(), "complete".into());
                }
                Ok(out)
            }
        };
        drop(client);
        let Some(mut receiver) = receiver else {
            let answer = running.await;
            guard.disarm();
            return one_answer(&id, answer);
        };
        // The answer is one piece as long as nothing is told before it, and has its own status then.
        let mut running = Box::pin(running);
        let first = tokio::select! {
            biased;
            Some(message) = receiver.recv() => message,
            answer = &mut running => {
                guard.disarm();
                return match receiver.try_recv() {
                    Ok(message) => whole_stream(message, receiver, message_of(&id, answer)),
                    Err(_) => one_answer(&id, answer),
                };
            }
        };
        let rest = stream::unfold(
            Some(Following { receiver, running, id, guard, _under_its_id: under_its_id }),
            |following| async move {
                let mut following = following?;
                tokio::select! {
                    biased;
                    Some(message) = following.receiver.recv() => Some((message, Some(following))),
                    answer = &mut following.running => {
                        let Following { mut receiver, id, guard, .. } = following;
                        guard.disarm();
                        // What was told just before the end comes before it.
                        let mut last = Vec::new();
                        while let Ok(message) = receiver.try_recv() {
                            last.push(message);
                        }
                        last.push(message_of(&id, answer));
                        Some((Value::Array(last), None))
                    }
                }
            },
        );
        let messages = stream::once(std::future::ready(first)).chain(rest).flat_map(|message| {
            stream::iter(match message {
                Value::Array(messages) => messages,
                message => vec![message],
            })
        });
        event_stream(messages)
    }
}

/// A stream that goes on, with what ends the call when nobody reads it any more.
struct Following<F> {
    receiver: mpsc::Receiver<Value>,
    running: std::pin::Pin<Box<F>>,
    id: Value,
    guard: DropGuard,
    _under_its_id: Option<Running>,
}

/// What a client is told of a tool that ended only to wait for it.
fn waiting(
    state: &ApiState,
    client: &StreamClient,
    hash: &str,
    round: u32,
    approval: Option<&str>,
) -> Option<Result<Map<String, Value>, RpcError>> {
    if let Some(capability) = client.missing() {
        let message = format!("the tool needs a client that declares {capability}");
        let needed = Map::from_iter([(capability.to_owned(), Value::Object(Map::new()))]);
        let data = Map::from_iter([("requiredCapabilities".to_owned(), Value::Object(needed))]);
        let error = RpcError::new(StatusCode::BAD_REQUEST, -32021, message);
        return Some(Err(error.with_data(Value::Object(data))));
    }
    let asked = client.take_asked();
    (!asked.is_empty()).then(|| {
        let now = state.registry().store().clock().now_ms();
        let mut answers = client.answers();
        answers.shift_remove(PENDING);
        if let Some(approval) = approval {
            answers.insert(PENDING.to_owned(), approval.into());
        }
        let sealed = state.mcp_parts.signer.seal(hash, round + 1, &answers, now);
        let requests = asked.into_iter().map(|(key, ask)| {
            let request =
                Map::from_iter([("method".to_owned(), ask.method().into()), ("params".to_owned(), ask.params())]);
            (key, Value::Object(request))
        });
        let mut out = Map::new();
        out.insert("resultType".into(), "input_required".into());
        out.insert("inputRequests".into(), Value::Object(requests.collect()));
        out.insert("requestState".into(), sealed.into());
        Ok(out)
    })
}

fn message_of(id: &Value, answer: Result<Map<String, Value>, RpcError>) -> Value {
    match answer {
        Ok(map) => result(id, Value::Object(map)),
        Err(error) => error.message(id),
    }
}

fn one_answer(id: &Value, answer: Result<Map<String, Value>, RpcError>) -> Response {
    match answer {
        Ok(map) => json_response(StatusCode::OK, result(id, Value::Object(map)).to_string()),
        Err(error) => error.response(id),
    }
}

/// A stream of a call that has ended already.
fn whole_stream(first: Value, mut receiver: mpsc::Receiver<Value>, last: Value) -> Response {
    let mut messages = vec![first];
    while let Ok(message) = receiver.try_recv() {
        messages.push(message);
    }
    messages.push(last);
    event_stream(stream::iter(messages))
}

/// Messages as server-sent events, each on one line.
pub(super) fn event_stream(messages: impl stream::Stream<Item = Value> + Send + 'static) -> Response {
    let events =
        messages.map(|message| Ok::<Event, Infallible>(Event::default().event("message").data(message.to_string())));
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}
