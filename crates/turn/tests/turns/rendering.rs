//! What happened, as a person reads it.

use scripted_model::Recorded;
use serde_json::Value;
use toolcrib_turn::{TurnEvent, TurnOutcome};

/// A scenario that was played.
pub struct Told {
    pub happened: String,
    pub prompts: String,
}

/// An event as lines; ids and times are left out.
pub fn event_line(event: &TurnEvent, turn: &str) -> Vec<String> {
    let line = match event {
        TurnEvent::Queued => "queued".to_owned(),
        TurnEvent::Started { resumed: false } => "started".to_owned(),
        TurnEvent::Started { resumed: true } => "resumed".to_owned(),
        TurnEvent::SkillsActivated { skills } => {
            let skills: Vec<_> = skills.iter().map(|skill| format!("{} ({})", skill.name, skill.reason)).collect();
            format!("skills: {}", skills.join(", "))
        }
        TurnEvent::ContextCut { given_up } => format!("gives up: {}", given_up.join(", ")),
        TurnEvent::ModelAnswered { .. } | TurnEvent::TextDelta { .. } => return Vec::new(),
        TurnEvent::TextDiscarded { model, code } => format!("discards what it said: {code}; asks {model}"),
        TurnEvent::CallStarted { tool, arguments, .. } => format!("calls {tool} {arguments}"),
        TurnEvent::CallFinished { tool, status, code, approval, .. } => {
            let code = code.as_deref().map(|code| format!(" [{code}]")).unwrap_or_default();
            let waits = if approval.is_some() { ", waits for a person" } else { "" };
            format!("{tool} is {status}{code}{waits}")
        }
        TurnEvent::ToolsEnabled { tools } => format!("enables {}", tools.join(", ")),
        TurnEvent::Parked { .. } => "parked".to_owned(),
        TurnEvent::Ended { outcome } => return outcome_lines(outcome, turn),
    };
    vec![format!("  {line}")]
}

fn outcome_lines(outcome: &TurnOutcome, turn: &str) -> Vec<String> {
    let TurnOutcome {
        status, text, code, error, attachments, evidence, skills, model, usage, steps, tool_calls, ..
    } = outcome;
    let mut lines = vec![format!("  ended: {}", serde_json::to_string(status).unwrap_or_default().trim_matches('"'))];
    let mut add = |line: String| lines.push(format!("    {}", line.replace(turn, "<turn>")));
    match text {
        Some(text) => add(format!("publishes {text:?}")),
        None => add("publishes nothing".to_owned()),
    }
    if let (Some(code), Some(error)) = (code, error) {
        // The words of a provider differ from wire to wire.
        add(if code.starts_with("model.") { format!("[{code}]") } else { format!("{error} [{code}]") });
    }
    for attachment in attachments {
        add(format!("attaches {} {} {:?}", attachment.kind, attachment.url, attachment.caption));
    }
    for cited in evidence {
        add(format!("may cite {} {}", cited.kind, cited.id));
    }
    for skill in skills {
        add(format!("had the skill {} ({})", skill.name, skill.reason));
    }
    let model = model.as_deref().unwrap_or("no model");
    let counted = if *steps > 0 && usage.output_tokens > 0 { "tokens counted" } else { "no tokens" };
    add(format!("{model}, {steps} step(s), {tool_calls} tool call(s), {counted}"));
    lines
}

/// The prompts of the first wire, as the model reads them. The last `most` of them.
pub fn prompts(requests: &[Recorded], most: Option<usize>) -> String {
    let mut out = Vec::new();
    let skip = requests.len().saturating_sub(most.unwrap_or(usize::MAX));
    for (number, request) in requests.iter().enumerate().skip(skip) {
        let Some(messages) = request.body["messages"].as_array() else { continue };
        out.push(format!("=== prompt {} ===", number + 1));
        let tools = request.body["tools"].as_array().cloned().unwrap_or_default();
        let names: Vec<_> = tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect();
        out.push(format!("tools: {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") }));
        out.extend(messages.iter().map(message));
    }
    out.join("\n")
}

fn message(message: &Value) -> String {
    let mut text = message["content"].as_str().unwrap_or_default().to_owned();
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        text += &format!(
            "\n-> {} {}",
            function["name"].as_str().unwrap_or_default(),
            function["arguments"].as_str().unwrap_or_default()
        );
    }
    format!("--- {}\n{}", message["role"].as_str().unwrap_or_default(), text.trim())
}
