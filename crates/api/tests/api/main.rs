//! The real router over a real SQLite file, with a small upstream on loopback.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod app;
mod approvals;
mod bad_input;
mod calls;
mod catalog;
mod doctor;
mod events;
mod ledger;
mod packs;
mod spec;
mod storage;
mod turns;
mod usage;
