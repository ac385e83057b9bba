//! What a turn begins with, and what its row keeps of that.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use toolcrib_definition::json::{MAX_DEPTH, ReadOptions, read};
use toolcrib_definition::{Ctx, CtxField};
use toolcrib_registry::Agent;

use crate::message::Message;

/// What a turn begins with.
#[derive(Debug, Clone, Default)]
pub struct NewMessage {
    /// What the user says.
    pub text: String,
    /// The session; a new one when none.
    pub session: Option<String>,
    /// The turn context, set by the trusted caller.
    pub ctx: Ctx,
    /// What was said before in a conversation that the caller keeps. It stands after what the session keeps.
    pub before: Vec<Message>,
}

/// The session of a message: the one that is named, else the chat of its context. Without either a turn begins one.
pub fn session_or_chat(named: Option<String>, ctx: &Ctx) -> Option<String> {
    named.or_else(|| ctx.get(CtxField::ChatId).map(str::to_owned))
}

/// What the row keeps: the turn runs under it however often it is taken up.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) text: String,
    pub(crate) ctx: Ctx,
    /// The agent as it was when the turn began.
    pub(crate) agent: Arc<Agent>,
    /// How many turns stand above it.
    pub(crate) depth: usize,
    pub(crate) before: Vec<Message>,
}

impl Input {
    pub(crate) fn to_json(&self) -> String {
        let Self { text, ctx, agent, depth, before } = self;
        json!({ "text": text, "ctx": ctx.to_json(), "agent": agent.to_json(), "depth": depth, "before": before })
            .to_string()
    }

    /// What a row keeps; none when it can't be read.
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        let value = stored_json(text)?;
        Some(Self {
            text: value.get("text")?.as_str()?.to_owned(),
            ctx: Ctx::from_json(value.get("ctx").unwrap_or(&Value::Null)).ok()?,
            agent: Arc::new(Agent::from_json(value.get("agent")?).ok()?),
            depth: usize::try_from(value.get("depth")?.as_u64()?).ok()?,
            before: Vec::deserialize(value.get("before")?).ok()?,
        })
    }
}

/// JSON that a row keeps: what was written is read, however long it became. None when it is none.
pub(crate) fn stored_json(text: &str) -> Option<Value> {
    let options = ReadOptions { max_bytes: usize::MAX, max_depth: 4 * MAX_DEPTH, ..ReadOptions::default() };
    read(text.as_bytes(), options).ok()
}
