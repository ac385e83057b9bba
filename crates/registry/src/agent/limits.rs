//! Limits of an agent's turns and calls.

use std::time::Duration;

use serde_json::{Value, json};

/// Limits of an agent's turns and calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The time of a turn, without the time in which it waits for a person. Default 300 s.
    pub turn_timeout: Duration,
    /// The time of a call whose tool names none. Default 60 s.
    pub tool_timeout: Duration,
    /// Calls of one batch that run at the same time. Default 1.
    pub tool_concurrency: usize,
    /// Calls of one turn, or of one batch that somebody else drives, that are run; those past it are answered, not run.
    /// Default 50.
    pub max_tool_calls: usize,
    /// How often one turn may make the same call with the same arguments. The next one is answered with a warning, the
    /// one after that ends the turn. Default 3.
    pub max_tool_repeat: usize,
    /// The longest prompt, in tokens as they are estimated (four bytes each). Default 100,000.
    pub context_budget: usize,
    /// How deep subagents may spawn subagents; 1 means that they may not. Default 1.
    pub subagent_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            turn_timeout: Duration::from_secs(300),
            tool_timeout: Duration::from_secs(60),
            tool_concurrency: 1,
            max_tool_calls: 50,
            max_tool_repeat: 3,
            context_budget: 100_000,
            subagent_depth: 1,
        }
    }
}

impl Limits {
    /// The longest `turn_timeout`: a day.
    pub const MAX_TURN_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

    /// Times in seconds.
    pub(super) fn to_json(self) -> Value {
        json!({
            "turn_timeout": self.turn_timeout.as_secs(),
            "tool_timeout": self.tool_timeout.as_secs(),
            "tool_concurrency": self.tool_concurrency,
            "max_tool_calls": self.max_tool_calls,
            "max_tool_repeat": self.max_tool_repeat,
            "context_budget": self.context_budget,
            "subagent_depth": self.subagent_depth,
        })
    }
}
