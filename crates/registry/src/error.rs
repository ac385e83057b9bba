//! What can go wrong with the catalog.

use toolcrib_definition::Problems;
use toolcrib_store::StoreError;

/// A change of the catalog that was refused, or a catalog that can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The rows could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The name belongs to a code tool, which wins every collision.
    #[error("the name {name} belongs to a tool compiled into the program; choose another")]
    ShadowsCode {
        /// The name.
        name: String,
    },
    /// A code tool can't be registered.
    #[error("the code tool {name} can't be registered: {problems}")]
    CodeTool {
        /// The name it gives.
        name: String,
        /// What is wrong with its name, description or schema.
        problems: Problems,
    },
    /// Two code tools have the same name, or one has that of a tool of the turn itself.
    #[error("two code tools are called {name}, or it is a name that the turn itself uses")]
    SameName {
        /// The name.
        name: String,
    },
    /// An agent's profile can't be read.
    #[error("the agent's profile is not valid: {0}")]
    Profile(Problems),
}

/// The codes of [`RegistryError`] with what they mean, for the reference.
pub const REGISTRY_CODES: &[(&str, &str)] = &[
    ("tool.shadows_code", "The name belongs to a tool compiled into the program; choose another."),
    ("tool.code_invalid", "A code tool has a bad name, description or schema; the program can't start with it."),
    ("agent.invalid", "An agent's profile has an unknown key or a value of the wrong type."),
];

impl RegistryError {
    /// Whether the same change may succeed a moment later.
    pub fn retryable(&self) -> bool {
        match self {
            RegistryError::Store(error) => error.retryable(),
            RegistryError::ShadowsCode { .. }
            | RegistryError::CodeTool { .. }
            | RegistryError::SameName { .. }
            | RegistryError::Profile(_) => false,
        }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            RegistryError::Store(error) => error.code(),
            RegistryError::ShadowsCode { .. } => "tool.shadows_code",
            RegistryError::CodeTool { .. } | RegistryError::SameName { .. } => "tool.code_invalid",
            RegistryError::Profile(_) => "agent.invalid",
        }
    }
}
