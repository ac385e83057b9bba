//! What was asked for, what came of it, and what could not be carried over.

use std::collections::BTreeSet;

use serde::Serialize;
use toolcrib_definition::Definition;

/// How an API is imported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The address that paths are appended to, in the place of the document's own.
    pub base_url: Option<String>,
    /// Where the document came from: a relative server is resolved against it.
    pub source: Option<String>,
    /// The group of the tools; the title of the document when left out.
    pub group: Option<String>,
    /// What every name begins with.
    pub prefix: Option<String>,
    /// Only these operations, each by its id, as `GET /path`, or by a tag; all when left out.
    pub only: Option<BTreeSet<String>>,
}

/// What came of an import.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// The tools, in the order of the document.
    pub tools: Vec<Definition>,
    /// One entry for each operation that was asked for.
    pub operations: Vec<OperationReport>,
    /// The secrets that the tools refer to.
    pub secrets: Vec<SecretNeeded>,
}

/// What came of one operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OperationReport {
    /// The method, in capitals.
    pub method: String,
    /// The path as the document writes it.
    pub path: String,
    /// The id that the document gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// The tool that it became; none when it could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Why it became none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// What its tool does otherwise than the operation could.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl OperationReport {
    /// Of an operation of which nothing is said yet.
    pub(crate) fn of(method: &str, path: &str) -> Self {
        Self {
            method: method.to_ascii_uppercase(),
            path: path.to_owned(),
            operation_id: None,
            tool: None,
            problems: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// A secret that has to be configured before the tools can be called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SecretNeeded {
    /// Its name, as in `TOOLCRIB_SECRET_<NAME>`.
    pub name: String,
    /// The header that holds it.
    pub header: String,
    /// What to put there.
    pub holds: String,
}

/// Nothing can be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The document is no OpenAPI document of a version that is read.
    #[error("this is no OpenAPI 3.0 or 3.1 document: {reason}")]
    NotOpenApi {
        /// What is there instead.
        reason: String,
    },
    /// No address is known that the paths could be appended to.
    #[error("the document names no server with a whole address ({found}); give the base URL of the API")]
    NoServer {
        /// What the document says.
        found: String,
    },
    /// The command can't be read.
    #[error("the curl command can't be read: {reason}")]
    Curl {
        /// Why.
        reason: String,
    },
    /// The command asks for what a tool can't do.
    #[error("a tool can't do what this curl command does: {reason}")]
    Unsupported {
        /// What that is.
        reason: String,
    },
}
