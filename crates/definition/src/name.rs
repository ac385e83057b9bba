//! The name rule, shared by tools and by top-level parameters (which are placeholders too).

use std::fmt;
use std::str::FromStr;

/// The longest name, in characters.
pub const MAX_NAME: usize = 64;

/// Whether a text is a name: `^[a-z][a-z0-9_]*$`, 1 to 64 characters, to the very end of the text.
pub fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME
        && text.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// The name of a tool.
///
/// ```
/// use toolcrib_definition::ToolName;
/// assert!("search_products".parse::<ToolName>().is_ok());
/// assert!("Search".parse::<ToolName>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName(String);

/// A text that breaks the name rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name: begin with a lower-case letter, go on with a-z, 0-9 and _, at most 64")]
pub struct InvalidName(pub String);

impl ToolName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ToolName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if is_name(text) { Ok(Self(text.to_owned())) } else { Err(InvalidName(text.to_owned())) }
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ToolName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}
