//! The program: configuration, composition and the command line around the crates.
//!
//! Everything that reads the environment, parses arguments or installs a process-wide subscriber is
//! here, and nothing that another program would want to embed.

pub mod cli;
pub mod config;
pub mod config_reference;

mod commands;
mod compose;
mod connection;
mod files;
mod logging;
mod output;
mod pack_folder;
mod quickstart;
mod secrets;
mod serve;
mod signals;
mod tls;

pub use files::read_json;
