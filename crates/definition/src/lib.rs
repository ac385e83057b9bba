//! A tool as a value.
//!
//! A *data tool* is a name, what the model reads, a JSON Schema and one HTTP call, all of it data.
//! This crate reads such a definition and says everything that is wrong with it at once, renders
//! the request of a call, and shapes the answer into what the model reads. It does no I/O, reads no
//! clock and no environment.
//!
//! ```
//! use toolcrib_definition::{Answer, Ctx, Definition, NoSecrets, PathParam, RenderInput, json};
//!
//! let tool = Definition::from_json(br#"{
//!     "name": "find_parcel",
//!     "description": "Where a parcel is",
//!     "parameters": [{"name": "number", "description": "The parcel number"}],
//!     "request": {"url": "https://api.example.com/parcels/{{number}}"},
//!     "response": {"extract": "json_path", "path": "$.place"}
//! }"#)?;
//!
//! let arguments = json::parse(br#"{"number": "K 1"}"#)?;
//! let arguments = arguments.as_object().unwrap();
//! tool.parameters.check(arguments)?;
//! let request = tool.render(RenderInput {
//!     arguments,
//!     ctx: &Ctx::default(),
//!     call_id: "call-1", key: "call-1",
//!     secrets: &NoSecrets,
//!     path_param: PathParam::Encode,
//! })?;
//! assert_eq!(request.url, "https://api.example.com/parcels/K%201");
//!
//! let shaped = tool.shape(Answer { status: 200, location: None, body: r#"{"place": "Lyon"}"# });
//! assert_eq!(shaped.result, "Lyon");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod json;
pub mod lowering;

mod answer;
mod approval;
mod approval_rule;
mod arguments;
mod body;
mod canonical;
mod context;
mod definition;
mod effect;
mod fields;
mod formats;
mod json_schema;
mod manifest;
mod mcp;
mod name;
mod parameters;
mod path;
mod problem;
mod render;
mod request;
mod response;
mod schema;
mod scrub;
mod sugar;
mod template;
mod url_template;
mod visible;

pub use answer::{
    Answer, Attachment, Halt, MAX_ATTACHMENT_URL, MAX_ATTACHMENTS, MAX_ERROR_JSON, MAX_ERROR_TEXT, MAX_ITEMS, MAX_LINE,
    Shaped,
};
pub use approval::Approval;
pub use approval_rule::{ApprovalRule, RuleAnswer, ToolFacts};
pub use arguments::{ArgumentError, MAX_PROBLEMS};
pub use body::BodyTemplate;
pub use canonical::canonical;
pub use context::{Ctx, CtxField};
pub use definition::{Definition, MAX_TIMEOUT};
pub use effect::{DEFAULT_KEY_LIFE, EffectMode};
pub use formats::{LeftOut, ProviderFormat, ToolList, ToolView};
pub use json_schema::{definition_schema, manifest_schema};
pub use manifest::{Environment, Expanded, Manifest, ManifestError, ToolError};
pub use mcp::McpTool;
pub use name::{InvalidName, MAX_NAME, ToolName, is_name};
pub use parameters::Parameters;
pub use path::{InvalidPath, ValuePath};
pub use problem::{Problem, ProblemCode, Problems, nearest};
pub use render::{MASK, NoSecrets, PathParam, RenderError, RenderInput, RenderedHeader, RenderedRequest, Secrets};
pub use request::{Method, Request};
pub use response::{Evidence, Extract, HaltWhen, Say};
pub use sugar::{parameters_from_text, parameters_to_text};
pub use template::{Piece, Slot, Template};
pub use url_template::UrlTemplate;
pub use visible::visible;
