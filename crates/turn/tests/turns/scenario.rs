//! A scenario: what is given, and what is said.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use scripted_model::{Script, Turn};
use serde::Deserialize;
use serde_json::{Value, json};
use toolcrib_definition::{Ctx, Definition};
use toolcrib_executor::Say;
use toolcrib_registry::Agent;
use toolcrib_skills::Skill;
use toolcrib_store::{ApprovalFilter, ApprovalState, Expect, LedgerFilter, TurnFilter};
use toolcrib_turn::{NewMessage, TurnEvent, TurnHandle};

use crate::app::App;
use crate::rendering::{Told, event_line, prompts};
use crate::upstream::Answer;

/// One rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The rule, in a sentence.
    pub about: String,
    /// The agent's profile; provider and model are set where it names none.
    #[serde(default)]
    agent: Value,
    /// Tools by name.
    #[serde(default)]
    tools: BTreeMap<String, Tool>,
    /// Shared skills by name: the text of SKILL.md below its name.
    #[serde(default)]
    skills: BTreeMap<String, String>,
    /// The agent's own skills.
    #[serde(default)]
    own_skills: BTreeMap<String, String>,
    /// What the user says, one turn each.
    says: Vec<String>,
    /// What the model says.
    #[serde(default)]
    model: Vec<Turn>,
    /// What people say, one for each thing that they are asked.
    #[serde(default)]
    people: Vec<People>,
    #[serde(default)]
    ctx: Value,
    /// When the turn is ended from outside: at this event.
    cancel_at: Option<String>,
    /// The wires it is tried on; all when left out.
    pub only: Option<Vec<String>>,
    /// How many of the last prompts are shown; all when left out.
    prompts: Option<usize>,
    /// Whether the calls that the upstream got are shown; a call that is given up may get there or not.
    upstream: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    #[serde(default)]
    answer: Answer,
    /// Keys of its definition.
    #[serde(default)]
    with: serde_json::Map<String, Value>,
    /// The names of its arguments, all of them texts.
    #[serde(default)]
    takes: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum People {
    Approve,
    Deny,
    Answer(Value),
    /// The turn is ended while it waits.
    Cancel,
}

impl Scenario {
    /// Plays it with the model asked in this form.
    pub async fn run(&self, format: &str) -> Told {
        let app = App::start(Script { turns: self.model.clone() }, format).await;
        let agent = self.prepare(&app).await;
        let mut happened = Vec::new();
        let mut people = self.people.iter().cloned();
        let ctx = if self.ctx.is_null() { Ctx::default() } else { Ctx::from_json(&self.ctx).unwrap() };
        for says in &self.says {
            happened.push(format!("> {says}"));
            let message = NewMessage {
                text: says.clone(),
                session: Some("session".to_owned()),
                ctx: ctx.clone(),
                before: Vec::new(),
            };
            let mut turn = app.engine.begin("clerk", &agent, message).await.unwrap();
            let followed = self.follow(&app, &mut turn, &mut people, &mut happened);
            if tokio::time::timeout(Duration::from_secs(60), followed).await.is_err() {
                happened.push("(it did not end)".to_owned());
            }
        }
        let mut calls = app.upstream.calls();
        if agent.limits().tool_concurrency > 1 {
            // Which of several connections is taken first is nobody's to say.
            calls.sort();
        }
        if !calls.is_empty() && self.upstream != Some(false) {
            happened.push("upstream:".to_owned());
            happened.extend(calls.into_iter().map(|call| format!("  {call}")));
        }
        happened.extend(left_behind(&app).await);
        Told { happened: happened.join("\n"), prompts: prompts(&app.model.requests(), self.prompts) }
    }

    async fn prepare(&self, app: &App) -> Arc<Agent> {
        for (name, tool) in &self.tools {
            app.upstream.set(name, tool.answer.clone());
            let properties: BTreeMap<_, _> = tool.takes.iter().map(|name| (name, json!({"type": "string"}))).collect();
            let mut request = json!({"method": "GET", "url": format!("http://{}/{name}", app.upstream.address)});
            let fields: BTreeMap<_, _> =
                tool.takes.iter().map(|name| (name, Value::from(format!("{{{{{name}}}}}")))).collect();
            if tool.with.get("side_effect") == Some(&Value::Bool(true)) {
                request["method"] = "POST".into();
                request["body"] = json!(fields);
            } else {
                request["query"] = json!(fields);
            }
            let mut definition = json!({
                "name": name, "description": format!("The tool {name}"),
                "parameters": {"type": "object", "properties": properties, "required": tool.takes},
                "request": request,
            });
            for (key, value) in &tool.with {
                definition[key] = value.clone();
            }
            let definition = Definition::from_value(&definition).unwrap();
            app.executor.registry().put_tool(&definition, Expect::Anything, "test").await.unwrap();
        }
        for (scope, skills) in [("", &self.skills), ("clerk", &self.own_skills)] {
            for (name, text) in skills {
                let skill = Skill::from_markdown(name, &format!("---\nname: {name}\n{text}")).unwrap();
                app.skills.put(scope, &skill, Expect::Anything, "test").await.unwrap();
            }
        }
        let mut profile = self.agent.clone();
        if profile.is_null() {
            profile = json!({});
        }
        if profile.get("provider").is_none() {
            profile["provider"] = "main".into();
            profile["model"] = "script".into();
        }
        let agent = Arc::new(Agent::from_json(&profile).unwrap());
        app.executor.registry().put_agent(&"clerk".parse().unwrap(), &agent, Expect::Anything).await.unwrap();
        agent
    }

    async fn follow(
        &self,
        app: &App,
        turn: &mut TurnHandle,
        people: &mut impl Iterator<Item = People>,
        happened: &mut Vec<String>,
    ) {
        let mut said = String::new();
        while let Some(event) = turn.next().await.unwrap() {
            if let TurnEvent::TextDelta { text } = &*event {
                said.push_str(text);
            } else {
                if !said.is_empty() {
                    happened.push(format!("  says {:?}", std::mem::take(&mut said)));
                }
                happened.extend(event_line(&event, turn.id()));
            }
            if self.cancel_at.as_deref() == Some(event.name()) {
                app.engine.cancel(turn.id()).await.unwrap();
            }
            if let TurnEvent::Parked { .. } = &*event {
                self.decide(app, turn.id(), people, happened).await;
            }
        }
    }

    async fn decide(
        &self,
        app: &App,
        turn: &str,
        people: &mut impl Iterator<Item = People>,
        happened: &mut Vec<String>,
    ) {
        let filter = ApprovalFilter { state: Some(ApprovalState::Open), ..ApprovalFilter::default() };
        let open = app.store.approvals(&filter, None, 50).await.unwrap();
        for approval in open.items {
            let Some(what) = people.next() else { continue };
            let tool = app.store.ledger_row(&approval.ledger_id).await.unwrap().unwrap().tool;
            happened.push(format!("  a person, of {tool}: {}", format!("{what:?}").to_lowercase()));
            let say = match what {
                People::Approve => Say::Approve,
                People::Deny => Say::Deny,
                People::Answer(value) => Say::Answer(value),
                People::Cancel => {
                    app.engine.cancel(turn).await.unwrap();
                    continue;
                }
            };
            app.executor.decide(&approval.id, say, "ann", None).await.unwrap();
        }
    }
}

/// What stands in the store when all is over: the calls of the ledger, and turns that others spawned.
async fn left_behind(app: &App) -> Vec<String> {
    let calls = app.store.ledger_rows(&LedgerFilter::default(), None, 50).await.unwrap();
    let mut left: Vec<String> =
        calls.items.iter().map(|row| format!("ledger: {} is {}", row.tool, row.state.as_str())).collect();
    left.sort();
    let turns = app.store.turns(&TurnFilter::default(), None, 50).await.unwrap();
    let children = turns.items.iter().filter(|turn| turn.parent.is_some());
    left.extend(children.map(|turn| format!("a subagent is {}", turn.state.as_str())));
    left
}
