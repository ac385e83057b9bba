//! The readable record of one call.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;
use toolcrib_definition::{Method, RenderedRequest};
use toolcrib_egress::{Blocked, Timings};
use toolcrib_store::TraceRow;

use crate::dispatch::UpstreamAnswer;
use crate::outcome::Outcome;

/// How much of a text, or of the JSON text of a value, a trace keeps, in bytes.
const MAX_VALUE: usize = 16 << 10;

/// A finished trace that is not yet text: that is made off the path of the call.
pub(crate) struct FinishedTrace {
    row: TraceRow,
    parts: Parts,
    result: Kept,
    halt: Option<HaltPart>,
    /// Roughly how many bytes it holds.
    pub(crate) weight: usize,
}

impl FinishedTrace {
    /// The row, with its document as text.
    pub(crate) fn into_row(self) -> TraceRow {
        let Self { row, parts, result, halt, weight: _ } = self;
        let document = Document {
            id: &row.id,
            session: &row.session,
            agent: &row.agent,
            tool: &row.tool,
            call_id: &row.call_id,
            status: &row.status,
            started_at: row.started_at,
            duration_ms: row.duration_ms,
            parts: &parts,
            result: &result,
            halt: halt.as_ref(),
            blocked: parts.blocked.as_ref().map(BlockedPart::from),
        };
        let document = serde_json::to_string(&document).unwrap_or_else(|error| {
            // All of it is texts, numbers and JSON, which always can be written; should that ever change, the
            // trace says so instead of not being there.
            tracing::error!(error = %error, trace = %row.id, "a trace could not be written out");
            serde_json::json!({ "id": row.id, "problem": error.to_string() }).to_string()
        });
        TraceRow { document, ..row }
    }
}

/// The document of a trace, in the order in which it is read.
#[derive(Serialize)]
struct Document<'a> {
    id: &'a str,
    session: &'a str,
    agent: &'a str,
    tool: &'a str,
    call_id: &'a str,
    status: &'a str,
    started_at: i64,
    duration_ms: i64,
    #[serde(flatten)]
    parts: &'a Parts,
    result: &'a Kept,
    #[serde(skip_serializing_if = "Option::is_none")]
    halt: Option<&'a HaltPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<BlockedPart<'a>>,
}

#[derive(Serialize)]
struct HaltPart {
    say: Option<Kept>,
}

#[derive(Serialize)]
struct BlockedPart<'a> {
    code: &'static str,
    subject: &'a str,
    detail: &'a str,
}

impl<'a> From<&'a Blocked> for BlockedPart<'a> {
    fn from(blocked: &'a Blocked) -> Self {
        Self { code: blocked.reason.code(), subject: &blocked.subject, detail: blocked.detail }
    }
}

/// What is gathered of a call while it runs, each part under its name in the document.
#[derive(Default, Serialize)]
struct Parts {
    #[serde(serialize_with = "phases")]
    phases_ms: Vec<(&'static str, f64)>,
    origin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Kept>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<BatchPlace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<RequestPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sends: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<ResponsePart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<EvidencePart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_as: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorPart>,
    /// Has its own place, after the result.
    #[serde(skip)]
    blocked: Option<Blocked>,
}

/// Where in a batch a call stands.
#[derive(Clone, Serialize)]
pub(crate) struct BatchPlace {
    pub(crate) id: String,
    pub(crate) index: usize,
    pub(crate) size: usize,
}

#[derive(Serialize)]
struct RequestPart {
    #[serde(serialize_with = "method")]
    method: Method,
    url: Kept,
    headers: Vec<HeaderPart>,
    body: Option<Kept>,
}

#[derive(Serialize)]
struct HeaderPart {
    name: String,
    value: Kept,
}

#[derive(Serialize)]
struct ResponsePart {
    status: u16,
    content_type: Option<Kept>,
    location: Option<Kept>,
    /// None when it is the result to the letter.
    body: Option<Kept>,
    body_is_result: bool,
    body_bytes: usize,
    complete: bool,
}

#[derive(Serialize)]
struct EvidencePart {
    kind: String,
    ids: Vec<Kept>,
}

#[derive(Serialize)]
struct ErrorPart {
    code: Cow<'static, str>,
    reason: Option<Kept>,
}

fn phases<S: Serializer>(phases: &[(&'static str, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(phases.iter().map(|(name, ms)| (name, (ms * 1e3).round() / 1e3)))
}

fn method<S: Serializer>(method: &Method, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(method.as_str())
}

/// A value as it is, or the beginning of its text with its length in bytes.
#[derive(Serialize)]
#[serde(untagged)]
enum Kept {
    Text(String),
    Json(Box<RawValue>),
    Scalar(Value),
    Cut { cut: String, bytes: usize },
}

impl Kept {
    fn of(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::of_text(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::Scalar(value.clone()),
            // As text it is one piece of memory, and its length is what it weighs.
            Value::Array(_) | Value::Object(_) => match to_raw_value(value) {
                Ok(json) if json.get().len() <= MAX_VALUE => Self::Json(json),
                Ok(json) => Self::of_text(json.get()),
                Err(_) => Self::Scalar(Value::Null),
            },
        }
    }

    fn of_text(text: &str) -> Self {
        if text.len() <= MAX_VALUE {
            return Self::Text(text.to_owned());
        }
        let end = text.floor_char_boundary(MAX_VALUE);
        Self::Cut { cut: text[..end].to_owned(), bytes: text.len() }
    }

    /// How many bytes of text it holds.
    fn weight(&self) -> usize {
        match self {
            Self::Text(text) | Self::Cut { cut: text, .. } => text.len(),
            Self::Json(json) => json.get().len(),
            Self::Scalar(_) => 32,
        }
    }
}

/// What is gathered of a call while it runs. No secret ever enters: requests come masked, answers
/// scrubbed.
pub(crate) struct TraceBuilder {
    started_at: i64,
    started: Instant,
    parts: Parts,
    weight: usize,
}

impl TraceBuilder {
    pub(crate) fn new(started_at: i64, origin: &'static str) -> Self {
        let parts = Parts { phases_ms: Vec::with_capacity(8), origin, ..Parts::default() };
        Self { started_at, started: Instant::now(), parts, weight: 1_024 }
    }

    /// A trace with the same clock that holds nothing yet.
    pub(crate) fn emptied(&self) -> Self {
        let parts = Parts { origin: self.parts.origin, batch: self.parts.batch.clone(), ..Parts::default() };
        Self { started_at: self.started_at, started: self.started, parts, weight: 1_024 }
    }

    /// How long the call has run, in ms.
    pub(crate) fn elapsed_ms(&self) -> f64 {
        self.started.elapsed().as_secs_f64() * 1e3
    }

    /// Notes how long a phase took that began at `since`.
    pub(crate) fn phase(&mut self, name: &'static str, since: Instant) {
        self.parts.phases_ms.push((name, since.elapsed().as_secs_f64() * 1e3));
    }

    pub(crate) fn timings(&mut self, timings: Timings) {
        let all = [
            ("queue", timings.queue),
            ("connect", timings.connect),
            ("first_byte", timings.first_byte),
            ("body", timings.body),
        ];
        self.parts.phases_ms.extend(all.map(|(name, time)| (name, time.as_secs_f64() * 1e3)));
    }

    pub(crate) fn arguments(&mut self, arguments: &Value) {
        self.parts.arguments = Some(self.value(arguments));
    }

    /// Where in its batch the call stands.
    pub(crate) fn batch(&mut self, place: BatchPlace) {
        self.parts.batch = Some(place);
    }

    /// The how-manieth call of its batch to end it was, from 1.
    pub(crate) fn ended_as(&mut self, place: usize) {
        self.parts.ended_as = Some(place);
    }

    /// How often the request was sent.
    pub(crate) fn sends(&mut self, sends: u32) {
        self.parts.sends = Some(sends);
    }

    /// The ids that a session may cite from now on.
    pub(crate) fn evidence(&mut self, kind: &str, ids: &[String]) {
        let ids = ids.iter().map(|id| self.text(id)).collect();
        self.parts.evidence = Some(EvidencePart { kind: kind.to_owned(), ids });
    }

    /// The egress policy refused the call.
    pub(crate) fn blocked(&mut self, blocked: Blocked) {
        self.parts.blocked = Some(blocked);
    }

    /// Keeps a value. Whatever a caller or an upstream may make long goes through here or [`Self::text`].
    fn value(&mut self, value: &Value) -> Kept {
        self.weighed(Kept::of(value))
    }

    fn text(&mut self, text: &str) -> Kept {
        self.weighed(Kept::of_text(text))
    }

    fn weighed(&mut self, kept: Kept) -> Kept {
        self.weight += kept.weight();
        kept
    }

    /// Keeps a request with its secrets masked.
    pub(crate) fn request(&mut self, request: &RenderedRequest) {
        let headers = request.headers.iter();
        let headers = headers.map(|header| HeaderPart { name: header.name.clone(), value: self.text(&header.masked) });
        let headers = headers.collect();
        self.parts.request = Some(RequestPart {
            method: request.method,
            url: self.text(&request.url),
            headers,
            body: request.body.as_ref().map(|body| self.text(body)),
        });
    }

    /// Keeps an answer. A body that is the result to the letter is kept once, as the result.
    pub(crate) fn answer(&mut self, answer: &UpstreamAnswer, result: &Value) {
        let same = result.as_str() == Some(answer.body.as_str());
        let body = (!same).then(|| self.text(&answer.body));
        self.parts.response = Some(ResponsePart {
            status: answer.status,
            content_type: answer.content_type.as_deref().map(|text| self.text(text)),
            location: answer.location.as_deref().map(|text| self.text(text)),
            body,
            body_is_result: same,
            body_bytes: answer.body.len(),
            complete: answer.cut.is_none(),
        });
    }

    pub(crate) fn error(&mut self, code: impl Into<Cow<'static, str>>, reason: Option<&str>) {
        self.parts.error = Some(ErrorPart { code: code.into(), reason: reason.map(|reason| self.text(reason)) });
    }

    /// The trace of the finished call.
    pub(crate) fn finish(mut self, outcome: &Outcome, agent: &str, session: &str) -> FinishedTrace {
        let result = self.value(&outcome.result);
        self.parts.ledger_id = outcome.ledger_id.clone();
        let row = TraceRow {
            id: outcome.trace_id.clone(),
            session: session.to_owned(),
            agent: agent.to_owned(),
            tool: outcome.tool.clone(),
            call_id: outcome.call_id.clone(),
            status: outcome.status.as_str().to_owned(),
            blocked: self.parts.blocked.as_ref().map(|blocked| blocked.reason.code().to_owned()),
            started_at: self.started_at,
            duration_ms: i64::try_from(outcome.duration_ms).unwrap_or(i64::MAX),
            document: String::new(),
        };
        let halt = outcome.halt.as_ref();
        let halt = halt.map(|halt| HaltPart { say: halt.say.as_deref().map(|say| self.text(say)) });
        FinishedTrace { row, parts: self.parts, result, halt, weight: self.weight }
    }
}
