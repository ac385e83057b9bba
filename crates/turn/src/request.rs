//! What the model is asked next: the prompt within its budget, and the tools that it may ask for.

use std::sync::Arc;

use serde_json::json;
use toolcrib_executor::EventKind;
use toolcrib_registry::{Entry, Snapshot};
use toolcrib_skills::Active;

use crate::checkpoint::ActiveSkill;
use crate::event::TurnEvent;
use crate::model::{ModelRequest, ToolOffer};
use crate::outcome::TurnStatus;
use crate::prompt::{self, Now, PromptParts, PromptTokens};
use crate::run::{Run, Stop};
use crate::system_tools::{
    LOAD_SKILL, SPAWN_SUBAGENTS, TOOL_SEARCH, load_skill_offer, spawn_subagents_offer, tool_search_offer,
};

impl Run {
    /// The request for the next answer, and what its prompt is made of. The first one decides which skills are in the prompt.
    pub(crate) fn request(&mut self) -> Result<(ModelRequest, PromptTokens), Stop> {
        let (agent, snapshot, catalog) =
            (Arc::clone(&self.agent), Arc::clone(&self.snapshot), Arc::clone(&self.skills));
        let skills = catalog.of(&self.agent_id, &agent);
        let allowed = snapshot.allowed(&agent);
        let mut deferred: Vec<(&str, &str)> = allowed
            .iter()
            .filter(|tool| !agent.offers(tool))
            .filter_map(|tool| Some((tool.name(), tool.view()?.description)))
            .collect();
        let eager = skills.eager();
        let is_eager = |name: &str| eager.iter().any(|active| active.skill.name() == name);
        let mut listed = skills.list();
        listed.retain(|skill| !is_eager(skill.name()));
        let search = !deferred.is_empty() && !agent.denies(TOOL_SEARCH);
        let load = !listed.is_empty() && !agent.denies(LOAD_SKILL);
        // A list of what can't be had is none.
        deferred.retain(|_| search);
        listed.retain(|_| load);
        let tools = self.offers(&snapshot, &allowed, search, load);
        let mut dropped = 0;
        let prompt = loop {
            let now = match self.at.messages.is_empty() {
                true => {
                    let present = eager
                        .iter()
                        .map(|active| active.skill.name().to_owned())
                        .chain(self.history.iter().flat_map(|past| past.skills.iter().cloned()));
                    let triggered = skills.activate(&self.input.text, &present.collect());
                    Now::Begins { user: &self.input.text, triggered }
                }
                false => Now::Goes { messages: &self.at.messages },
            };
            let prompt = prompt::build(PromptParts {
                identity: agent.instructions().unwrap_or_default(),
                eager: eager.clone(),
                listed: listed.clone(),
                deferred: deferred.clone(),
                history: &self.history,
                now,
                tools: &tools,
                budget: agent.limits().context_budget,
            });
            let prompt = prompt
                .map_err(|error| self.end(TurnStatus::Failed, None, "turn.context_budget", &error.to_string()))?;
            if prompt.dropped == 0 {
                break prompt;
            }
            // The skills of turns that were given up are not in the prompt any more, and may come again; and what else
            // was given up may find room.
            dropped += prompt.dropped;
            self.history.drain(..prompt.dropped);
        };
        let mut given_up = prompt.given_up.clone();
        if dropped > 0 {
            given_up.push(format!("the oldest {dropped} turn(s)"));
        }
        // Told once, and again when it is something else.
        if !given_up.is_empty() && given_up != self.given_up {
            self.given_up.clone_from(&given_up);
            self.log.push(TurnEvent::ContextCut { given_up });
        }
        // An eager text that was given up meanwhile is not there any more either.
        let is_there = |name: &str| prompt.active.iter().any(|active| active.skill.name() == name);
        self.at.skills.retain(|skill| !is_eager(&skill.name) || is_there(&skill.name));
        if let Some(user) = prompt.user {
            self.at.messages.push(user);
            self.activated(&prompt.active);
        }
        let request = ModelRequest {
            model: String::new(),
            system: prompt.system,
            messages: prompt.messages,
            tools,
            temperature: agent.temperature(),
            max_output_tokens: agent.max_output_tokens(),
        };
        Ok((request, prompt.tokens))
    }

    /// Skills came into the prompt.
    pub(crate) fn activated(&mut self, active: &[Active]) {
        if active.is_empty() {
            return;
        }
        let skills: Vec<ActiveSkill> = active
            .iter()
            .map(|active| ActiveSkill { name: active.skill.name().to_owned(), reason: active.reason.to_string() })
            .collect();
        self.at.skills.extend(skills.iter().cloned());
        let (turn, session) = (&self.lease.id, &self.session);
        self.engine.publish(
            EventKind::SkillsActivated,
            &self.agent_id,
            || json!({ "turn": turn, "session": session, "skills": skills }),
        );
        self.log.push(TurnEvent::SkillsActivated { skills });
    }

    /// What the model may ask for: always in the same order, what was found later at the end.
    fn offers(&self, snapshot: &Snapshot, allowed: &[&Arc<Entry>], search: bool, load: bool) -> Vec<ToolOffer> {
        let mut offers = Vec::new();
        if search {
            offers.push(tool_search_offer());
        }
        if load {
            offers.push(load_skill_offer());
        }
        if self.may_spawn() {
            offers.push(spawn_subagents_offer());
        }
        let found = self.at.enabled.iter().filter_map(|name| snapshot.tool(name));
        let shown = allowed.iter().copied().filter(|tool| self.agent.offers(tool));
        offers.extend(shown.chain(found).filter_map(|tool| {
            let view = tool.view()?;
            Some(ToolOffer {
                name: view.name.to_string(),
                description: view.description.to_owned(),
                parameters: view.parameters.schema().clone().into(),
            })
        }));
        offers
    }

    /// Whether it may spawn subagents: only an agent that names the tool, and not too deep.
    pub(crate) fn may_spawn(&self) -> bool {
        self.agent.names_tool(SPAWN_SUBAGENTS) && self.input.depth < self.agent.limits().subagent_depth
    }
}
