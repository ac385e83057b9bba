//! Documents and commands, and the tools that they become.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod curl;
mod openapi;
