//! The command line.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use toolcrib_store::Location;

use crate::commands::{
    agents, apply, approvals, call, calls, chat, config as config_command, doctor, events, import, mcp, migrate,
    skills, tokens, tools, traces, turns,
};
use crate::config::{self, Config, Loaded, Overrides};
use crate::connection::Connection;
use crate::output::Output;
use crate::{logging, quickstart, serve};

/// Tools for LLM agents, served from rows.
#[derive(Debug, Parser)]
#[command(name = "toolcrib", version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct Global {
    /// The configuration file; toolcrib.toml in this folder when it is there
    #[arg(long, global = true, env = "TOOLCRIB_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The SQLite file, over the configuration
    #[arg(long, global = true, value_name = "FILE")]
    db: Option<PathBuf>,
    /// The database, over the configuration: postgres://user:password@host/database, or sqlite:FILE
    #[arg(long, global = true, value_name = "URL", conflicts_with = "db")]
    database_url: Option<String>,
    /// A server to talk to; without one, commands work on the database file in this process
    #[arg(long, global = true, env = "TOOLCRIB_SERVER", value_name = "URL")]
    server: Option<String>,
    /// The token for the server
    #[arg(long, global = true, env = "TOOLCRIB_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Print JSON for programs
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API until a signal
    Serve(ServeArgs),
    /// A tour on this machine: a server, a small upstream, a few tools, four calls
    Quickstart(quickstart::QuickstartArgs),
    /// Say what is broken, and how to mend it; the exit status is 1 when there is an error
    Doctor(doctor::DoctorArgs),
    /// Tools: list, show, put, rm, validate, import, versions, restore, search, try
    #[command(subcommand)]
    Tools(tools::ToolsCommand),
    /// Make tools of an OpenAPI document or a curl command
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Agents: list, show, put, rm, tools
    #[command(subcommand)]
    Agents(agents::AgentsCommand),
    /// Write agents with their tools and skills from files: shows what changes, then writes it
    Apply(apply::ApplyArgs),
    /// Talk with an agent; what it calls is shown as it happens
    Chat(chat::ChatArgs),
    /// Skills: list, show, put, rm, versions
    #[command(subcommand)]
    Skills(skills::SkillsCommand),
    /// Turns of agents: list, show, cancel
    #[command(subcommand)]
    Turns(turns::TurnsCommand),
    /// Call a tool as an agent
    Call(call::CallArgs),
    /// Calls with side effects: list, show, verdict, cancel
    #[command(subcommand)]
    Calls(calls::CallsCommand),
    /// What waits for a person: list, show, approve, deny, answer, link
    #[command(subcommand)]
    Approvals(approvals::ApprovalsCommand),
    /// Traces: list, show
    #[command(subcommand)]
    Traces(traces::TracesCommand),
    /// MCP servers: add, list, show, ingest, diff, accept, export, import, rm, ping, login, stdio
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    /// Follow what happens on a server
    Events,
    /// Tokens: list, create, revoke
    #[command(subcommand)]
    Tokens(tokens::TokensCommand),
    /// Make the database when it is not there, and bring its schema up to date; or copy one into another
    Migrate(MigrateArgs),
    /// Configuration of this process: show
    #[command(subcommand)]
    Config(config_command::ConfigCommand),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
struct MigrateArgs {
    /// A database to copy everything from: sqlite:FILE or postgres://…; stop the servers on it first
    #[arg(long, value_name = "URL", requires = "to")]
    from: Option<Location>,
    /// An empty database to copy into
    #[arg(long, value_name = "URL", requires = "from")]
    to: Option<Location>,
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// The address and port to listen on, over the configuration
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// What went wrong, in words that say what to do next.
    pub async fn run(self) -> anyhow::Result<()> {
        let Cli { global, command } = self;
        let output = Output { json: global.json };
        let bind = match &command {
            Command::Serve(args) => args.bind.clone(),
            _ => None,
        };
        match command {
            Command::Completions { shell } => {
                clap_complete::generate(shell, &mut Self::command_for_docs(), "toolcrib", &mut std::io::stdout());
                Ok(())
            }
            Command::Quickstart(args) => quickstart::run(args, output).await,
            Command::Serve(_) => {
                let loaded = global.load(bind)?;
                logging::install(&loaded.config.log)?;
                serve::run(&loaded).await
            }
            Command::Config(command) => command.run(&global.load(bind)?, output),
            Command::Migrate(MigrateArgs { from: Some(from), to: Some(to) }) => migrate::copy(&from, &to, output).await,
            Command::Migrate(_) => {
                let config = global.load(bind)?.config;
                let location = config.location();
                Connection::local(&config, &location).await?.close().await;
                println!("{} is up to date", location.shown());
                Ok(())
            }
            Command::Tools(tools::ToolsCommand::Validate(args)) => {
                // A definition is checked without a database: nothing is read or made.
                let config = global.load(bind)?.config;
                let connection = global.connect(&config, &Location::Memory).await?;
                let done = args.run(&connection, output).await;
                connection.close().await;
                done
            }
            command => {
                let config = global.load(bind)?.config;
                let makes_it = match &command {
                    Command::Tokens(_) => true,
                    Command::Apply(args) => args.writes(),
                    Command::Import(command) => command.writes(),
                    _ => false,
                };
                let mut location = config.location();
                let missing = matches!(&location, Location::File(path) if !path.is_file());
                // What would be written is known without a database, and none is made.
                let only_shows = match &command {
                    Command::Apply(args) => !args.writes(),
                    Command::Import(command) => !command.writes(),
                    _ => false,
                };
                if missing && only_shows {
                    location = Location::Memory;
                }
                let missing = missing && !matches!(location, Location::Memory);
                if global.server.as_ref().is_none_or(String::is_empty) && !makes_it && missing {
                    bail!(
                        "there is no database at {}; name one with --db, make one with `toolcrib migrate`, or name a server \
                         with --server",
                        location.shown()
                    );
                }
                let connection = global.connect(&config, &location).await?;
                let done = match command {
                    Command::Doctor(args) => doctor::run(args, &connection, output).await,
                    Command::Tools(command) => command.run(&connection, output).await,
                    Command::Import(command) => command.run(&config, &connection, output).await,
                    Command::Agents(command) => command.run(&connection, output).await,
                    Command::Apply(args) => args.run(&config, &connection, output).await,
                    Command::Chat(args) => args.run(&connection, output).await,
                    Command::Skills(command) => command.run(&connection, output).await,
                    Command::Turns(command) => command.run(&connection, output).await,
                    Command::Call(args) => args.run(&connection, output).await,
                    Command::Calls(command) => command.run(&connection, output).await,
                    Command::Approvals(command) => command.run(&connection, output).await,
                    Command::Traces(command) => command.run(&connection, output).await,
                    Command::Mcp(command) => command.run(&config, &connection, output).await,
                    Command::Events => events::run(&connection).await,
                    Command::Tokens(command) => command.run(&connection, output).await,
                    Command::Serve(_)
                    | Command::Quickstart(_)
                    | Command::Migrate(_)
                    | Command::Config(_)
                    | Command::Completions { .. } => Ok(()),
                };
                connection.close().await;
                done
            }
        }
    }

    /// The whole command line, for completions and the reference.
    pub fn command_for_docs() -> clap::Command {
        <Self as clap::CommandFactory>::command()
    }
}

impl Global {
    fn load(&self, bind: Option<String>) -> anyhow::Result<Loaded> {
        for name in config::unknown_variables() {
            eprintln!("warning: {name} is no setting; is it a typo? docs/reference/configuration.md lists all");
        }
        let overrides = Overrides { bind, database: self.db.clone(), database_url: self.database_url.clone() };
        config::load(self.config.as_deref(), &overrides)
    }

    async fn connect(&self, config: &Config, location: &Location) -> anyhow::Result<Connection> {
        match &self.server {
            Some(server) if !server.is_empty() => {
                Connection::remote(server, self.token.clone().filter(|token| !token.is_empty()))
            }
            _ => Connection::local(config, location).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command_for_docs().debug_assert();
    }
}
