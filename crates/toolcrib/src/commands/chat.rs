//! `toolcrib chat AGENT`

use std::io::{IsTerminal, Write};

use anyhow::bail;
use clap::Args;
use http::Request;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use toolcrib_definition::json::parse;

use super::segment;
use crate::connection::Connection;
use crate::files::read_ctx;
use crate::output::{Output, cell, seen};

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The agent
    agent: String,
    /// What to say; without it, lines are read until the end of the input
    message: Option<String>,
    /// The session to go on with; a new one when left out
    #[arg(long)]
    session: Option<String>,
    /// A field of the turn context, key=value; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    ctx: Vec<String>,
}

impl ChatArgs {
    pub(crate) async fn run(self, api: &Connection, output: Output) -> anyhow::Result<()> {
        api.keep_own_turns();
        let ctx = read_ctx(&self.ctx)?;
        let mut session = self.session.clone();
        if let Some(message) = &self.message {
            return turn(api, output, &self.agent, message, &mut session, &ctx).await;
        }
        let terminal = std::io::stdin().is_terminal();
        loop {
            if terminal && !output.json {
                print!("> ");
                std::io::stdout().flush()?;
            }
            let line = tokio::task::spawn_blocking(|| {
                let mut line = String::new();
                std::io::stdin().read_line(&mut line).map(|read| (read > 0).then_some(line))
            });
            let Some(line) = line.await?? else { return Ok(()) };
            if line.trim().is_empty() {
                continue;
            }
            match turn(api, output, &self.agent, line.trim(), &mut session, &ctx).await {
                Err(error) if terminal => eprintln!("error: {error:#}"),
                done => done?,
            }
        }
    }
}

async fn turn(
    api: &Connection,
    output: Output,
    agent: &str,
    message: &str,
    session: &mut Option<String>,
    ctx: &Value,
) -> anyhow::Result<()> {
    let body = json!({ "message": message, "session": session, "ctx": ctx, "stream": true });
    let request = Request::post("/").header(CONTENT_TYPE, "application/json").body(body.to_string().into())?;
    let mut screen = Screen { json: output.json, ..Screen::default() };
    let path = format!("/v1/agents/{}/turns", segment(agent));
    api.stream(&path, request, |line| screen.line(line)).await?;
    if let Some(told) = screen.session.take() {
        if !output.json && session.as_ref() != Some(&told) {
            eprintln!("session {told}; go on with --session {told}");
        }
        *session = Some(told);
    }
    if let (Some(turn), false) = (&screen.turn, output.json) {
        eprintln!("turn {turn}; `toolcrib turns show {turn}` tells all of it");
    }
    match screen.ended {
        Some(_) if screen.failed.is_none() => Ok(()),
        Some(_) => bail!("{}", screen.failed.unwrap_or_default()),
        None => bail!("the stream ended before the turn; `toolcrib turns list` says how it goes on"),
    }
}

/// What a person sees of a turn.
#[derive(Default)]
struct Screen {
    json: bool,
    event: String,
    session: Option<String>,
    turn: Option<String>,
    /// Whether the last thing printed was a piece of text.
    in_text: bool,
    said: String,
    ended: Option<String>,
    failed: Option<String>,
}

impl Screen {
    fn line(&mut self, line: &str) {
        if let Some(event) = line.strip_prefix("event: ") {
            self.event = event.to_owned();
        } else if let Some(data) = line.strip_prefix("data: ")
            && let Ok(data) = parse(data.as_bytes())
        {
            self.take(&data);
        }
    }

    fn take(&mut self, data: &Value) {
        let event = self.event.clone();
        if event == "turn" {
            self.session = data["session"].as_str().map(str::to_owned);
            self.turn = data["id"].as_str().map(str::to_owned);
        }
        if event == "ended" {
            let outcome = &data["outcome"];
            self.ended = outcome["status"].as_str().map(str::to_owned);
            if outcome["error"].is_string() {
                self.failed = Some(format!("{} [{}]", cell(&outcome["error"]), cell(&outcome["code"])));
            }
        }
        if self.json {
            println!("{data}");
            return;
        }
        match event.as_str() {
            "text_delta" => {
                let text = cell(&data["text"]);
                print!("{text}");
                self.said.push_str(&text);
                self.in_text = true;
                // Where nobody reads, nothing has to come out.
                let _ = std::io::stdout().flush();
            }
            "started" if data["resumed"] == true => {
                self.said.clear();
                self.note("taken up again; what was not finished is said anew");
            }
            "queued" => self.note("waits for an earlier turn of this session"),
            "text_discarded" => {
                self.said.clear();
                self.note(&format!("begins anew with {} ({})", cell(&data["model"]), cell(&data["code"])));
            }
            "call_started" => {
                self.said.clear();
                self.note(&format!("calls {} {}", cell(&data["tool"]), seen(&data["arguments"].to_string())));
            }
            "call_finished" => {
                let code = data["code"].as_str().map(|code| format!(" ({code})")).unwrap_or_default();
                let text =
                    format!("{}: {}{code}, {} ms", cell(&data["tool"]), cell(&data["status"]), data["duration_ms"]);
                self.note(&text);
            }
            "skills_activated" => {
                let of = |skill: &Value| format!("{} ({})", cell(&skill["name"]), cell(&skill["reason"]));
                let skills: Vec<String> = data["skills"].as_array().into_iter().flatten().map(of).collect();
                self.note(&format!("skills: {}", skills.join(", ")));
            }
            "parked" => {
                for id in data["approvals"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                    self.note(&format!(
                        "waits for a person: `toolcrib approvals show {id}`, then approve, deny or answer"
                    ));
                }
            }
            "ended" => {
                let text = cell(&data["outcome"]["text"]);
                if self.in_text {
                    println!();
                    self.in_text = false;
                }
                if !text.is_empty() && text != self.said {
                    println!("{text}");
                }
            }
            _ => {}
        }
    }

    /// A line beside the conversation.
    fn note(&mut self, text: &str) {
        if self.in_text {
            println!();
            self.in_text = false;
        }
        // On one line, so that nobody's words can pass for another of these.
        println!("  [{}]", text.replace('\n', " "));
    }
}
