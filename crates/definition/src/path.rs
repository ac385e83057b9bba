//! Paths into a JSON value: RFC 9535 when they start with `$`, else dotted names.

use std::fmt;

use serde_json::Value;
use serde_json_path::JsonPath;

/// The longest path, in bytes.
const MAX_PATH: usize = 1_024;
/// How deep brackets and parentheses may nest: the time to parse doubles with each level.
const MAX_NESTING: usize = 8;
/// How many brackets, parentheses and negations there may be in all.
const MAX_BRACKETS: usize = 64;
/// How many `..` there may be: each multiplies the values that are looked at.
const MAX_DESCENTS: usize = 2;

/// A path that was checked when it was written.
#[derive(Clone)]
pub struct ValuePath {
    text: String,
    steps: Steps,
}

#[derive(Clone)]
enum Steps {
    JsonPath(JsonPath),
    Dotted,
}

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// A dotted path with nothing between two dots, or no name at all.
    #[error("the dotted path {0:?} has an empty segment; write names with single dots between them")]
    EmptySegment(String),
    /// A path that is larger than any answer needs, and would cost every call.
    #[error(
        "the path is longer than {MAX_PATH} bytes, nests deeper than {MAX_NESTING}, has more than {MAX_BRACKETS} brackets \
         and negations, or more than {MAX_DESCENTS} times `..`"
    )]
    TooLarge,
    /// A path that starts with `$` and is not RFC 9535.
    #[error("the path {path:?} is not RFC 9535 JSONPath: {reason}")]
    JsonPath {
        /// The path.
        path: String,
        /// What the parser says.
        reason: String,
    },
}

impl ValuePath {
    /// Reads a path.
    ///
    /// # Errors
    /// [`InvalidPath`] for a dotted path with an empty segment and for a `$…` that does not parse.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        if !is_modest(text) {
            return Err(InvalidPath::TooLarge);
        }
        let steps = if text.starts_with('$') {
            Steps::JsonPath(
                JsonPath::parse(text)
                    .map_err(|error| InvalidPath::JsonPath { path: text.to_owned(), reason: error.to_string() })?,
            )
        } else if text.split('.').any(|segment| segment.trim().is_empty()) {
            return Err(InvalidPath::EmptySegment(text.to_owned()));
        } else {
            Steps::Dotted
        };
        Ok(Self { text: text.to_owned(), steps })
    }

    /// The first value that the path leads to. An all-digit dotted segment indexes a list and names
    /// a key of an object.
    ///
    /// ```
    /// use toolcrib_definition::ValuePath;
    /// let body = serde_json::json!({"rows": [{"sku": "K1"}, {"sku": "K2"}]});
    /// assert_eq!(ValuePath::parse("rows.1.sku").unwrap().find(&body).unwrap(), "K2");
    /// assert_eq!(ValuePath::parse("$.rows[-1].sku").unwrap().find(&body).unwrap(), "K2");
    /// ```
    pub fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match &self.steps {
            Steps::JsonPath(path) => path.query(value).first(),
            Steps::Dotted => self.text.split('.').try_fold(value, |value, segment| match value {
                Value::Object(map) => map.get(segment),
                Value::Array(items) if segment.bytes().all(|b| b.is_ascii_digit()) => {
                    items.get(segment.parse::<usize>().ok()?)
                }
                _ => None,
            }),
        }
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Whether a path is of a size that costs little to parse and to follow. Quoted text counts too: a path
/// that needs that many brackets in a name can be told apart by nobody.
fn is_modest(text: &str) -> bool {
    let (mut depth, mut deepest, mut all) = (0usize, 0, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' => {
                depth += 1;
                all += 1;
            }
            b')' | b']' => depth = depth.saturating_sub(1),
            b'!' => all += 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    let descents = text.matches("..").count();
    text.len() <= MAX_PATH
        && deepest <= MAX_NESTING
        && all <= MAX_BRACKETS
        && (descents <= MAX_DESCENTS || !text.starts_with('$'))
}

impl fmt::Debug for ValuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ValuePath({:?})", self.text)
    }
}

impl PartialEq for ValuePath {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for ValuePath {}
