//! A model whose answers are written down: for trying agents without a provider, and for tests.
//!
//! It serves OpenAI Chat Completions (`/v1/chat/completions`), OpenAI Responses (`/v1/responses`), Anthropic Messages
//! (`/v1/messages`) and Gemini (`/v1beta/models/<model>:streamGenerateContent`), streaming. Which answer comes next depends
//! on the conversation alone: the turn is found by what the user said last, the step by how often the model has answered
//! since. So a client that was killed and comes back goes on where it was.

mod anthropic;
mod conversation;
mod gemini;
mod openai_chat;
mod openai_responses;
mod script;
mod server;
mod wire;

pub use conversation::{Conversation, Said};
pub use script::{Call, Fault, Script, Step, Turn};
pub use server::{Recorded, ScriptedModel};
pub use wire::Wire;
