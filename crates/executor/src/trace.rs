//! The readable record of one call.

use std::io;

use serde::{Serialize, Serializer};
use serde_json::Value;
use tokio::time::Instant;
use toolcrib_definition::{Method, RenderedHeader, RenderedRequest};
use toolcrib_egress::{Blocked, Timings};
use toolcrib_store::TraceRow;

use crate::dispatch::UpstreamAnswer;
use crate::outcome::Outcome;

/// How much of a value a trace keeps, in bytes of its JSON text.
const MAX_VALUE: usize = 16 << 10;

/// A finished trace that is not yet text: that is made off the path of the call.
pub(crate) struct FinishedTrace {
    row: TraceRow,
    parts: Parts,
    result: Kept,
    /// What the halt says, when the call halted.
    halt: Option<Option<String>>,
    /// Roughly how many bytes it holds.
    pub(crate) weight: usize,
}

impl FinishedTrace {
    /// The row, with its document as text.
    pub(crate) fn into_row(self) -> TraceRow {
        let Self { row, parts, result, halt, weight } = self;
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
            halt: halt.as_ref().map(|say| HaltPart { say: say.as_deref() }),
            blocked: parts.blocked.as_ref().map(BlockedPart::from),
        };
        let mut text = Vec::with_capacity(weight);
        if let Err(error) = serde_json::to_writer(&mut text, &document) {
            // All of it is texts, numbers and JSON values, which always can be written; should that ever change,
            // the row stays without its document rather than not at all.
            tracing::error!(error = %error, trace = %row.id, "a trace could not be written out");
            text.clear();
        }
        let document = String::from_utf8(text).unwrap_or_default();
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
    halt: Option<HaltPart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<BlockedPart<'a>>,
}

#[derive(Serialize)]
struct HaltPart<'a> {
    say: Option<&'a str>,
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
    arguments: Kept,
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
    content_type: Option<String>,
    location: Option<String>,
    /// None when it is the result to the letter.
    body: Option<Kept>,
    body_is_result: bool,
    body_bytes: usize,
    complete: bool,
}

#[derive(Serialize)]
struct EvidencePart {
    kind: String,
    ids: Vec<String>,
}

#[derive(Serialize)]
struct ErrorPart {
    code: &'static str,
    reason: Option<String>,
}

fn phases<S: Serializer>(phases: &[(&'static str, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(phases.iter().map(|(name, ms)| (name, (ms * 1e3).round() / 1e3)))
}

fn method<S: Serializer>(method: &Method, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(method.as_str())
}

/// A value as it is, or the beginning of its JSON text with its length in bytes.
#[derive(Serialize)]
#[serde(untagged)]
enum Kept {
    Text(String),
    Value(Value),
    Cut { cut: String, bytes: usize },
}

impl Default for Kept {
    fn default() -> Self {
        Self::Value(Value::Null)
    }
}

impl Kept {
    /// What is kept of a value, and how many bytes that is.
    fn of(value: &Value) -> (Self, usize) {
        match value {
            Value::String(text) => (Self::of_text(text), text.len().min(MAX_VALUE)),
            Value::Null | Value::Bool(_) | Value::Number(_) => (Self::Value(value.clone()), 32),
            Value::Array(_) | Value::Object(_) => {
                // Most values fit: they are measured, and their text is made once, off the path of the call.
                let mut measure = Measure(0);
                match serde_json::to_writer(&mut measure, value) {
                    Ok(()) => (Self::Value(value.clone()), measure.0),
                    Err(_) => (Self::of_text(&value.to_string()), MAX_VALUE),
                }
            }
        }
    }

    fn of_text(text: &str) -> Self {
        if text.len() <= MAX_VALUE {
            return Self::Text(text.to_owned());
        }
        let end = text.floor_char_boundary(MAX_VALUE);
        Self::Cut { cut: text[..end].to_owned(), bytes: text.len() }
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
        let parts = Parts { origin: self.parts.origin, ..Parts::default() };
        Self { started_at: self.started_at, started: self.started, parts, weight: 1_024 }
    }

    /// The same trace, with its clock started anew.
    pub(crate) fn restarted(self) -> Self {
        Self { started: Instant::now(), ..self }
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
        self.parts.arguments = self.bounded(arguments);
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
        self.parts.evidence = Some(EvidencePart { kind: kind.to_owned(), ids: ids.to_vec() });
    }

    /// The egress policy refused the call.
    pub(crate) fn blocked(&mut self, blocked: Blocked) {
        self.parts.blocked = Some(blocked);
    }

    fn bounded(&mut self, value: &Value) -> Kept {
        let (kept, bytes) = Kept::of(value);
        self.weight += bytes;
        kept
    }

    fn bounded_text(&mut self, text: &str) -> Kept {
        self.weight += text.len().min(MAX_VALUE);
        Kept::of_text(text)
    }

    /// Keeps a request with its secrets masked.
    pub(crate) fn request(&mut self, request: &RenderedRequest) {
        let kept =
            |header: &RenderedHeader| HeaderPart { name: header.name.clone(), value: Kept::of_text(&header.masked) };
        let body = request.body.as_ref().map(|body| self.bounded_text(body));
        self.parts.request = Some(RequestPart {
            method: request.method,
            url: Kept::of_text(&request.url),
            headers: request.headers.iter().map(kept).collect(),
            body,
        });
    }

    /// Keeps an answer. A body that is the result to the letter is kept once, as the result.
    pub(crate) fn answer(&mut self, answer: &UpstreamAnswer, result: &Value) {
        let same = result.as_str() == Some(answer.body.as_str());
        let body = (!same).then(|| self.bounded_text(&answer.body));
        self.parts.response = Some(ResponsePart {
            status: answer.status,
            content_type: answer.content_type.clone(),
            location: answer.location.clone(),
            body,
            body_is_result: same,
            body_bytes: answer.body.len(),
            complete: answer.cut.is_none(),
        });
    }

    pub(crate) fn error(&mut self, code: &'static str, reason: Option<&str>) {
        self.parts.error = Some(ErrorPart { code, reason: reason.map(str::to_owned) });
    }

    /// The trace of the finished call.
    pub(crate) fn finish(mut self, outcome: &Outcome, agent: &str, session: &str) -> FinishedTrace {
        let result = self.bounded(&outcome.result);
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
        let halt = outcome.halt.as_ref().map(|halt| halt.say.clone());
        FinishedTrace { row, parts: self.parts, result, halt, weight: self.weight }
    }
}

/// Counts the bytes of a JSON text without keeping them, and ends the writing when they are too many.
struct Measure(usize);

impl io::Write for Measure {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        if self.0 > MAX_VALUE { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
