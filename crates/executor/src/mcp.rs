//! Calls of MCP tools, through the MCP client.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolcrib_definition::{EffectMode, McpTool, json as definition_json};
use toolcrib_egress::{EgressError, Phase, Policy, Sent, Timings};
use toolcrib_mcp_ingest::{Endpoint, McpClient, McpError, McpFailure, McpRequest, Mode, Transport, param_headers};

use crate::breaker::{BreakerReport, Breakers};
use crate::dispatch::{Dispatch, DispatchFailure, Dispatched, FailureKind, PreparedCall, UpstreamAnswer};
use crate::http::HttpDispatch;
use crate::retry::{MAX_SENDS, RetryBudget, wait_before};

/// Calls over plain HTTP, and over MCP where the tool is one of an MCP server.
pub struct ProtocolDispatch {
    http: HttpDispatch,
    mcp: McpClient,
    breakers: Breakers,
    budget: RetryBudget,
}

impl ProtocolDispatch {
    /// Calls over these clients, which are under one policy.
    pub fn new(http: HttpDispatch, mcp: McpClient) -> Self {
        Self { http, mcp, breakers: Breakers::default(), budget: RetryBudget::default() }
    }

    async fn call(&self, call: PreparedCall<'_>, tool: &McpTool) -> Dispatched {
        let unsent = |failure| Dispatched { result: Err(failure), timings: Timings::default(), sends: 0 };
        let transport = if tool.sse { Transport::Sse } else { Transport::Http };
        let endpoint = match Endpoint::of_request(call.request, self.mcp.policy(), &tool.server, transport) {
            Ok(endpoint) => endpoint,
            Err(error) => return unsent(failure_of(&McpFailure::before(error), call)),
        };
        let host = endpoint.target.authority().clone();
        if let Err(pause) = self.breakers.admit(&host, Instant::now()) {
            return unsent(DispatchFailure::paused(&host, pause));
        }
        let params = params_of(call);
        let arguments = params.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default();
        let listener = |params: &Value| {
            let number = |key: &str| params.get(key).and_then(Value::as_f64);
            let message = params.get("message").and_then(Value::as_str);
            let message = message.map(|message| call.request.scrub(message));
            call.client.progress(number("progress").unwrap_or_default(), number("total"), message.as_deref());
        };
        let mode = match call.definition.effect() {
            EffectMode::Idempotent => Mode::Repeatable,
            EffectMode::AtMostOnce | EffectMode::Transactional => Mode::Once(call.barrier),
        };
        self.budget.earn();
        let mut sends = 0;
        loop {
            let request = McpRequest {
                method: "tools/call",
                params: params.clone(),
                param_headers: param_headers(&tool.input_schema, &arguments),
                mode,
                deadline: call.deadline,
                progress: call.client.wants_progress().then_some(&listener),
            };
            let failure = match self.mcp.call_tool(&endpoint, request).await {
                Ok(done) => {
                    self.breakers.succeeded(&host);
                    let (answer, sends) = (answer_of(done.result, call), sends + done.sends);
                    return Dispatched { result: Ok(answer), timings: done.timings, sends };
                }
                Err(failure) => failure,
            };
            let was_sent = failure.sent == Sent::InDoubt;
            sends += u32::from(was_sent);
            let may_repeat = call.is_repeatable() && failure.error.retryable() && sends < MAX_SENDS;
            let wait = wait_before(sends.max(1), None).filter(|wait| Instant::now() + *wait < call.deadline);
            if let Some(wait) = wait.filter(|_| may_repeat)
                && self.budget.spend()
            {
                tokio::time::sleep(wait).await;
                continue;
            }
            self.note(&host, &failure);
            let timings = failure.timings;
            let result = match &failure.error {
                // The server answered and said no: the model reads it like any error of a tool.
                McpError::Rpc { message, .. } if was_sent => Ok(answer_of(error_content(message), call)),
                _ => Err(failure_of(&failure, call)),
            };
            return Dispatched { result, timings, sends };
        }
    }

    fn note(&self, host: &str, failure: &McpFailure) {
        match &failure.error {
            McpError::Egress(
                EgressError::Blocked(_)
                | EgressError::Request { .. }
                | EgressError::Withheld { .. }
                | EgressError::Timeout { phase: Phase::Queue, .. },
            ) => self.breakers.unasked(host),
            McpError::Egress(_) | McpError::Timeout | McpError::Http { status: 502..=504, .. } => {
                self.breakers.failed(host, Instant::now());
            }
            _ => self.breakers.succeeded(host),
        }
    }
}

#[async_trait]
impl Dispatch for ProtocolDispatch {
    async fn dispatch(&self, call: PreparedCall<'_>) -> Dispatched {
        match &call.definition.mcp {
            Some(tool) => self.call(call, tool).await,
            None => self.http.dispatch(call).await,
        }
    }

    fn policy(&self) -> &Policy {
        self.http.policy()
    }

    fn breakers(&self) -> Vec<BreakerReport> {
        let mut all = self.http.breakers();
        all.extend(self.breakers.report(Instant::now()));
        all
    }
}

/// The parameters of the rendered `tools/call`.
fn params_of(call: PreparedCall<'_>) -> Map<String, Value> {
    let body = call.request.body.as_deref().unwrap_or_default();
    match definition_json::parse(body.as_bytes()) {
        Ok(Value::Object(mut body)) => match body.shift_remove("params") {
            Some(Value::Object(params)) => params,
            _ => Map::new(),
        },
        _ => Map::new(),
    }
}

fn error_content(message: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": message }], "isError": true })
}

/// The result as the body of an answer, without what only the protocol reads.
fn answer_of(mut result: Value, call: PreparedCall<'_>) -> UpstreamAnswer {
    if let Some(map) = result.as_object_mut() {
        map.shift_remove("resultType");
        map.shift_remove("_meta");
    }
    let text = result.to_string();
    UpstreamAnswer {
        status: 200,
        location: None,
        content_type: Some("application/json".to_owned()),
        body: call.request.scrub(&text).into_owned(),
        cut: None,
    }
}

fn failure_of(failure: &McpFailure, call: PreparedCall<'_>) -> DispatchFailure {
    let McpFailure { error, sent, .. } = failure;
    let kind = match error {
        McpError::Egress(EgressError::Blocked(blocked)) => FailureKind::Blocked(blocked.clone()),
        // Of these two nobody knows whether the server did something first.
        McpError::Http { status: 408 | 429, .. } if *sent == Sent::InDoubt => FailureKind::InDoubt,
        McpError::Auth { .. } | McpError::Http { status: 400..=499, .. } => FailureKind::NotSent,
        _ if *sent == Sent::Nothing => FailureKind::NotSent,
        _ => FailureKind::InDoubt,
    };
    let (message, reason) = match error {
        McpError::Egress(EgressError::Blocked(blocked)) => {
            (format!("blocked by the egress policy ({})", blocked.reason.code()), Some(blocked.to_string()))
        }
        McpError::Egress(EgressError::Protocol { .. }) => {
            ("the MCP server broke off or sent no valid HTTP".to_owned(), Some(error.to_string()))
        }
        McpError::Egress(other) => (other.to_string(), other.reason().map(str::to_owned)),
        McpError::Http { body, .. } => (error.to_string(), Some(body.clone())),
        other => (other.to_string(), None),
    };
    DispatchFailure {
        kind,
        code: error.code(),
        message: call.request.scrub(&message).into_owned().into(),
        reason: reason.map(|reason| call.request.scrub(&reason).into_owned()),
    }
}
