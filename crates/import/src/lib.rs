//! Tools from what an API's owner has already: an OpenAPI document, or a curl command.
//!
//! [`openapi()`] reads OpenAPI 3.0 and 3.1 and makes a tool of each operation; [`curl()`] makes one of a command. Neither
//! asks anybody: a document arrives as a value, and what comes out are definitions to be written. What could not be
//! carried over is said, operation by operation, and never left out in silence.
//!
//! ```
//! use toolcrib_import::{Options, openapi};
//!
//! let document = serde_json::json!({
//!     "openapi": "3.1.0",
//!     "info": {"title": "Shop", "version": "1"},
//!     "servers": [{"url": "https://api.example.com/v1"}],
//!     "paths": {"/orders/{orderId}": {"get": {
//!         "operationId": "getOrder", "summary": "Read an order",
//!         "parameters": [{"name": "orderId", "in": "path", "required": true, "schema": {"type": "string"}}],
//!         "responses": {},
//!     }}},
//! });
//! let imported = openapi(&document, &Options::default())?;
//! assert_eq!(imported.tools[0].name.as_str(), "get_order");
//! assert_eq!(imported.operations[0].tool.as_deref(), Some("get_order"));
//! # Ok::<(), toolcrib_import::ImportError>(())
//! ```

mod curl;
mod names;
mod openapi;
mod report;

pub use curl::curl;
pub use openapi::openapi;
pub use report::{ImportError, Imported, OperationReport, Options, SecretNeeded};
