//! The readable record of one call.

use std::io;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolcrib_definition::RenderedRequest;
use toolcrib_egress::{Blocked, Timings};
use toolcrib_store::TraceRow;

use crate::dispatch::UpstreamAnswer;
use crate::outcome::Outcome;

/// How much of a value a trace keeps, in bytes of its JSON text.
const MAX_VALUE: usize = 16 << 10;

/// A finished trace that is not yet text: that is made off the path of the call.
pub(crate) struct FinishedTrace {
    row: TraceRow,
    document: Map<String, Value>,
    /// Roughly how many bytes it holds.
    pub(crate) weight: usize,
}

impl FinishedTrace {
    /// The row, with its document as text.
    pub(crate) fn into_row(self) -> TraceRow {
        TraceRow { document: Value::Object(self.document).to_string(), ..self.row }
    }
}

/// What is gathered of a call while it runs. No secret ever enters: requests come masked, answers
/// scrubbed.
pub(crate) struct TraceBuilder {
    started_at: i64,
    started: Instant,
    phases: Vec<(&'static str, f64)>,
    parts: Map<String, Value>,
    pub(crate) blocked: Option<Blocked>,
    weight: usize,
}

impl TraceBuilder {
    pub(crate) fn new(started_at: i64) -> Self {
        Self {
            started_at,
            started: Instant::now(),
            phases: Vec::new(),
            parts: Map::with_capacity(12),
            blocked: None,
            weight: 1_024,
        }
    }

    /// A trace with the same clock that holds nothing yet.
    pub(crate) fn emptied(&self) -> Self {
        Self { started: self.started, ..Self::new(self.started_at) }
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
        self.phases.push((name, since.elapsed().as_secs_f64() * 1e3));
    }

    pub(crate) fn timings(&mut self, timings: Timings) {
        let all = [
            ("queue", timings.queue),
            ("connect", timings.connect),
            ("first_byte", timings.first_byte),
            ("body", timings.body),
        ];
        self.phases.extend(all.map(|(name, time)| (name, time.as_secs_f64() * 1e3)));
    }

    pub(crate) fn put(&mut self, key: &str, value: Value) {
        self.parts.insert(key.to_owned(), value);
    }

    pub(crate) fn arguments(&mut self, arguments: &Value) {
        let value = self.bounded(arguments);
        self.put("arguments", value);
    }

    /// A value as it is, or the beginning of its JSON text when that is too long.
    fn bounded(&mut self, value: &Value) -> Value {
        let (value, bytes) = bounded(value);
        self.weight += bytes;
        value
    }

    fn bounded_text(&mut self, text: &str) -> Value {
        self.weight += text.len().min(MAX_VALUE);
        cut(text)
    }

    /// Keeps a request with its secrets masked.
    pub(crate) fn request(&mut self, request: &RenderedRequest) {
        let headers: Vec<Value> =
            request.headers.iter().map(|header| json!({ "name": header.name, "value": cut(&header.masked) })).collect();
        let body = request.body.as_ref().map(|body| self.bounded_text(body));
        let shown =
            json!({ "method": request.method.as_str(), "url": cut(&request.url), "headers": headers, "body": body });
        self.put("request", shown);
    }

    /// Keeps an answer. A body that is the result to the letter is kept once, as the result.
    pub(crate) fn answer(&mut self, answer: &UpstreamAnswer, result: &Value) {
        let same = result.as_str() == Some(answer.body.as_str());
        let body = if same { Value::Null } else { self.bounded_text(&answer.body) };
        self.put(
            "response",
            json!({
                "status": answer.status,
                "content_type": answer.content_type,
                "location": answer.location,
                "body": body,
                "body_is_result": same,
                "body_bytes": answer.body.len(),
                "complete": answer.cut.is_none(),
            }),
        );
    }

    pub(crate) fn error(&mut self, code: &str, reason: Option<&str>) {
        self.put("error", json!({ "code": code, "reason": reason }));
    }

    /// The trace of the finished call.
    pub(crate) fn finish(mut self, outcome: &Outcome, agent: &str, session: &str) -> FinishedTrace {
        let result = self.bounded(&outcome.result);
        let mut document = Map::with_capacity(24);
        document.insert("id".into(), outcome.trace_id.as_str().into());
        document.insert("session".into(), session.into());
        document.insert("agent".into(), agent.into());
        document.insert("tool".into(), outcome.tool.as_str().into());
        document.insert("call_id".into(), outcome.call_id.as_str().into());
        document.insert("status".into(), outcome.status.as_str().into());
        document.insert("started_at".into(), self.started_at.into());
        document.insert("duration_ms".into(), outcome.duration_ms.into());
        let phases = self.phases.iter().map(|(name, ms)| ((*name).to_owned(), json!((ms * 1e3).round() / 1e3)));
        document.insert("phases_ms".into(), Value::Object(phases.collect()));
        document.extend(self.parts);
        document.insert("result".into(), result);
        if let Some(halt) = &outcome.halt {
            document.insert("halt".into(), json!({ "say": halt.say }));
        }
        if let Some(blocked) = &self.blocked {
            document.insert(
                "blocked".into(),
                json!({ "code": blocked.reason.code(), "subject": blocked.subject, "detail": blocked.detail }),
            );
        }
        let row = TraceRow {
            id: outcome.trace_id.clone(),
            session: session.to_owned(),
            agent: agent.to_owned(),
            tool: outcome.tool.clone(),
            call_id: outcome.call_id.clone(),
            status: outcome.status.as_str().to_owned(),
            blocked: self.blocked.map(|blocked| blocked.reason.code().to_owned()),
            started_at: self.started_at,
            duration_ms: i64::try_from(outcome.duration_ms).unwrap_or(i64::MAX),
            document: String::new(),
        };
        FinishedTrace { row, document, weight: self.weight }
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

/// A value that is short enough, or the beginning of its JSON text; and how many bytes that is.
fn bounded(value: &Value) -> (Value, usize) {
    match value {
        Value::String(text) => (cut(text), text.len().min(MAX_VALUE)),
        Value::Null | Value::Bool(_) | Value::Number(_) => (value.clone(), 32),
        Value::Array(_) | Value::Object(_) => {
            // Most values fit: they are measured, and their text is made once, off the path of the call.
            let mut measure = Measure(0);
            match serde_json::to_writer(&mut measure, value) {
                Ok(()) => (value.clone(), measure.0),
                Err(_) => (cut(&value.to_string()), MAX_VALUE),
            }
        }
    }
}

/// A text, or its beginning with its length in bytes.
fn cut(text: &str) -> Value {
    if text.len() <= MAX_VALUE {
        return text.into();
    }
    let end = (0..=MAX_VALUE).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    json!({ "cut": &text[..end], "bytes": text.len() })
}
