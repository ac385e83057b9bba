//! The prompt: what a model is told, within a budget.
//!
//! Its beginning is the same bytes from turn to turn, so that providers' caches work: who the agent is, the skills it has
//! always, the list of the others, the list of deferred tools, then the conversation, which only grows. What a message
//! brings (skills by their triggers) stands with that message.
//!
//! What is given up when the budget is short, in this order: the deferred list, the list of skills, the texts that the
//! message brought (the last first), the texts that the agent has always (the last first), the oldest turns. Never who the
//! agent is, what the user says now, and what this turn has done.

use std::fmt::Write as _;
use std::sync::Arc;

use toolcrib_skills::{Active, Skill};

use crate::message::Message;
use crate::model::ToolOffer;

/// Bytes a token is taken to have.
pub(crate) const BYTES_OF_A_TOKEN: usize = 4;
/// What a provider's form costs beside a text, in bytes.
const FRAME: usize = 16;

/// Turns that are given up together, by their places in the session: the beginning of a prompt then stays the same for as
/// many turns, and not for one only.
const BLOCK: i64 = 8;

/// What a prompt is made of.
pub(crate) struct PromptParts<'a> {
    pub(crate) identity: &'a str,
    pub(crate) eager: Vec<Active>,
    pub(crate) listed: Vec<&'a Arc<Skill>>,
    /// Name and description.
    pub(crate) deferred: Vec<(&'a str, &'a str)>,
    /// The messages of each turn before, oldest first.
    pub(crate) history: &'a [Past],
    pub(crate) now: Now<'a>,
    pub(crate) tools: &'a [ToolOffer],
    /// In tokens.
    pub(crate) budget: usize,
}

/// The turn that the prompt is for.
pub(crate) enum Now<'a> {
    /// It begins with this, and with what it brings.
    Begins { user: &'a str, triggered: Vec<Active> },
    /// It has come so far.
    Goes { messages: &'a [Message] },
}

/// What a turn before left to read.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Past {
    pub(crate) messages: Vec<Message>,
    /// The skills whose texts are in them.
    #[serde(default)]
    pub(crate) skills: Vec<String>,
    /// Its place among the turns of its session, from 1.
    #[serde(skip)]
    pub(crate) place: i64,
}

impl Past {
    /// Whether what is read may begin here, when something before it is left out.
    pub(crate) fn begins_a_block(&self) -> bool {
        self.place % BLOCK == 1
    }
}

/// What a prompt is made of, in tokens as they are estimated: four bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct PromptTokens {
    /// Who the agent is.
    pub instructions: usize,
    /// The texts of eager skills, and of those that the message brought.
    pub skills: usize,
    /// The lists of other skills and of deferred tools.
    pub lists: usize,
    /// The turns before.
    pub history: usize,
    /// The message, and what this turn has done.
    pub turn: usize,
    /// The tools that can be called.
    pub tools: usize,
    /// The most that all of it may be.
    pub budget: usize,
}

/// A prompt that fits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prompt {
    pub(crate) system: String,
    pub(crate) messages: Vec<Message>,
    /// The first message of the turn, when it begins.
    pub(crate) user: Option<Message>,
    /// The skills whose texts are in it for this turn's sake: eager, then triggered.
    pub(crate) active: Vec<Active>,
    /// What was given up beside turns, in words.
    pub(crate) given_up: Vec<String>,
    /// How many of the oldest turns were given up.
    pub(crate) dropped: usize,
    pub(crate) tokens: PromptTokens,
}

/// The prompt can't be made short enough.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the prompt needs about {needed} tokens without anything that could be left out, and context_budget is {budget}; \
     shorten the instructions or the message, or raise the budget"
)]
pub(crate) struct TooLong {
    pub(crate) needed: usize,
    pub(crate) budget: usize,
}

pub(crate) fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_OF_A_TOKEN)
}

/// Builds a prompt within its budget.
pub(crate) fn build(mut parts: PromptParts<'_>) -> Result<Prompt, TooLong> {
    let mut given_up = Vec::new();
    let tools = tools_bytes(parts.tools);
    let turn = match &parts.now {
        Now::Begins { user, .. } => user.len() + FRAME,
        Now::Goes { messages } => bytes(messages),
    };
    let mut eager = std::mem::take(&mut parts.eager);
    let mut triggered = match &mut parts.now {
        Now::Begins { triggered, .. } => std::mem::take(triggered),
        Now::Goes { .. } => Vec::new(),
    };
    let mut history = parts.history;
    let (mut listed, mut deferred) = (!parts.listed.is_empty(), !parts.deferred.is_empty());
    let mut past: usize = history.iter().map(|past| bytes(&past.messages)).sum();
    let mut system = system_of(&parts, &eager, listed, deferred);
    loop {
        let brought: usize = triggered.iter().map(section_bytes).sum();
        let needed = tokens(system.len() + brought + past + turn + tools);
        if needed <= parts.budget {
            let always: usize = eager.iter().map(section_bytes).sum();
            let identity = parts.identity.trim().len();
            let tokens = PromptTokens {
                instructions: tokens(identity),
                skills: tokens(always + brought),
                lists: tokens(system.len().saturating_sub(identity + always)),
                history: tokens(past),
                turn: tokens(turn),
                tools: tokens(tools),
                budget: parts.budget,
            };
            let (user, turn) = match parts.now {
                Now::Begins { user, .. } => {
                    let message = Message::User { text: user_text(user, &triggered) };
                    (Some(message.clone()), vec![message])
                }
                Now::Goes { messages } => (None, messages.to_vec()),
            };
            let messages = history.iter().flat_map(|past| past.messages.clone()).chain(turn).collect();
            let active = eager.into_iter().chain(triggered).collect();
            let dropped = parts.history.len() - history.len();
            return Ok(Prompt { system, messages, user, active, given_up, dropped, tokens });
        }
        if deferred || listed {
            given_up.push(if deferred { "the list of deferred tools" } else { "the list of skills" }.to_owned());
            listed = listed && deferred;
            deferred = false;
            system = system_of(&parts, &eager, listed, deferred);
        } else if let Some(active) = triggered.pop() {
            given_up.push(format!("the skill {} ({})", active.skill.name(), active.reason));
        } else if let Some(active) = eager.pop() {
            given_up.push(format!("the skill {} ({})", active.skill.name(), active.reason));
            system = system_of(&parts, &eager, listed, deferred);
        } else if !history.is_empty() {
            let kept = history.iter().skip(1).position(Past::begins_a_block).map_or(history.len(), |place| place + 1);
            let (gone, rest) = history.split_at(kept);
            past -= gone.iter().map(|past| bytes(&past.messages)).sum::<usize>();
            history = rest;
        } else {
            return Err(TooLong { needed, budget: parts.budget });
        }
    }
}

fn bytes(messages: &[Message]) -> usize {
    messages.iter().map(|message| message.bytes() + FRAME).sum()
}

fn tools_bytes(tools: &[ToolOffer]) -> usize {
    let of = |tool: &ToolOffer| tool.name.len() + tool.description.len() + tool.parameters.to_string().len() + FRAME;
    tools.iter().map(of).sum()
}

fn system_of(parts: &PromptParts<'_>, eager: &[Active], listed: bool, deferred: bool) -> String {
    let mut sections = vec![parts.identity.trim().to_owned()];
    sections.extend(eager.iter().map(section));
    if listed {
        let mut list = String::from(
            "<available_skills>\nBefore you work on something that one of these describes, call load_skill with its \
             name and follow what it says.\n",
        );
        for skill in &parts.listed {
            let _ = writeln!(list, "- {}: {}", skill.name(), skill.description());
        }
        sections.push(list + "</available_skills>");
    }
    if deferred {
        let mut list = String::from(
            "<deferred_tools>\nThese tools exist and can't be called yet. Call tool_search with what you want to do; the \
             tools that it finds can be called for the rest of your turn.\n",
        );
        for (name, description) in &parts.deferred {
            let first = description.lines().next().unwrap_or_default();
            let _ = writeln!(list, "- {name}: {first}");
        }
        sections.push(list + "</deferred_tools>");
    }
    sections.retain(|section| !section.is_empty());
    sections.join("\n\n")
}

/// A skill's text as the model reads it.
fn section(active: &Active) -> String {
    format!("<skill name=\"{}\">\n{}\n</skill>", active.skill.name(), active.skill.body())
}

fn section_bytes(active: &Active) -> usize {
    FRAME + active.skill.name().len() + active.skill.body().len() + 2 * FRAME
}

fn user_text(user: &str, triggered: &[Active]) -> String {
    let mut sections: Vec<String> = triggered.iter().map(section).collect();
    sections.push(user.to_owned());
    sections.join("\n\n")
}
