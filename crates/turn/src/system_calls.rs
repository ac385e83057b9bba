//! Running the turn's own tools.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::time::Instant;
use toolcrib_executor::Status;

use crate::calls::{finished, no_such_tool, started};
use crate::checkpoint::EndedCall;
use crate::event::TurnEvent;
use crate::message::ModelCall;
use crate::run::Run;
use crate::system_tools::{self, LOAD_SKILL, SPAWN_SUBAGENTS, SystemEnd, TOOL_SEARCH};

impl Run {
    /// Runs a call of the turn's own tools.
    pub(crate) async fn run_system(&mut self, place: usize) {
        let call = self.at.pending[place].call.clone();
        if !self.may_run_system(&call.tool) {
            return self.answer(place, Status::Denied, "call.denied", &no_such_tool(&call.tool));
        }
        let most = self.agent.limits().max_tool_calls;
        if self.at.system_calls >= most {
            let message =
                format!("not run: this turn has called its own tools {most} times (max_tool_calls); answer now");
            return self.answer(place, Status::Skipped, "call.limit", &message);
        }
        self.at.system_calls += 1;
        let began = Instant::now();
        self.log.push(started(&call));
        let ended = match call.tool.as_str() {
            TOOL_SEARCH => self.search_tools(&call),
            LOAD_SKILL => self.load_skill(&call),
            _ => self.spawn_subagents(&call).await,
        };
        self.log.push(finished(&call, ended.status, ended.code, began.elapsed()));
        self.at.pending[place].ended = Some(EndedCall::answered(ended.status, ended.result));
    }

    /// Whether a call of one of the turn's own tools is run: what the agent is not offered is refused as well.
    pub(crate) fn may_run_system(&self, tool: &str) -> bool {
        match tool {
            SPAWN_SUBAGENTS => self.may_spawn(),
            tool => !self.agent.denies(tool),
        }
    }

    fn search_tools(&mut self, call: &ModelCall) -> SystemEnd {
        let registry = self.engine.registry();
        let (ended, new) =
            system_tools::search(&call.arguments, registry, &self.snapshot, &self.agent, &self.at.enabled);
        if !new.is_empty() {
            self.at.enabled.extend(new.iter().cloned());
            self.log.push(TurnEvent::ToolsEnabled { tools: new });
        }
        ended
    }

    fn load_skill(&mut self, call: &ModelCall) -> SystemEnd {
        let catalog = Arc::clone(&self.skills);
        let agent = Arc::clone(&self.agent);
        let present: HashSet<String> = self
            .at
            .skills
            .iter()
            .map(|skill| skill.name.clone())
            .chain(self.history.iter().flat_map(|past| past.skills.iter().cloned()))
            .collect();
        let (ended, active) = system_tools::load(&call.arguments, &catalog.of(&self.agent_id, &agent), &present);
        self.activated(&active);
        ended
    }
}
