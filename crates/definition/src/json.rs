//! Reading JSON text exactly (RFC 8259): number text is kept to the letter (`1.10`, `1E5`, any
//! length), key order is kept, a key that stands twice is refused, and depth and size are bounded.
//!
//! `serde_json` alone rewrites exponents and keeps the last of two equal keys. A tool call must
//! carry what was sent, and a definition must not mean two things, so text enters here.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Number, Value};

/// The deepest nesting that is read by default: arrays and objects inside each other.
pub const MAX_DEPTH: usize = 96;
/// The longest text that is read by default, in bytes (4 MiB).
pub const MAX_BYTES: usize = 4 << 20;

/// What to do about an object key that stands twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DuplicateKeys {
    /// Refuse the text: the default for everything a person or a program writes to us.
    Refuse,
    /// Keep the last value, as most readers do: for the answers of other people's servers.
    KeepLast,
}

/// Bounds and rules for [`read`].
#[derive(Debug, Clone, Copy)]
pub struct ReadOptions {
    /// The deepest nesting that is accepted.
    pub max_depth: usize,
    /// The longest text that is accepted, in bytes.
    pub max_bytes: usize,
    /// What to do about a key that stands twice.
    pub duplicates: DuplicateKeys,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { max_depth: MAX_DEPTH, max_bytes: MAX_BYTES, duplicates: DuplicateKeys::Refuse }
    }
}

impl ReadOptions {
    /// For the answers of other people's servers, whose size is bounded elsewhere.
    pub fn for_answers() -> Self {
        Self { max_bytes: usize::MAX, duplicates: DuplicateKeys::KeepLast, ..Self::default() }
    }
}

/// Why a text is not JSON that we read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonFault {
    /// The text breaks the grammar of RFC 8259; the words say what was expected.
    Syntax(&'static str),
    /// The bytes are not UTF-8.
    NotUtf8,
    /// An object has this key twice.
    DuplicateKey(String),
    /// Arrays and objects are nested deeper than the limit.
    TooDeep(usize),
    /// The text is longer than the limit, in bytes.
    TooLarge(usize),
}

/// A text that could not be read, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct JsonError {
    /// What is wrong.
    pub fault: JsonFault,
    /// The JSON Pointer (RFC 6901) of the value that was being read.
    pub pointer: String,
    /// Line of the fault, from 1.
    pub line: usize,
    /// Byte column of the fault in its line, from 1.
    pub column: usize,
}

impl JsonError {
    /// The stable code of the fault.
    pub fn code(&self) -> &'static str {
        match self.fault {
            JsonFault::Syntax(_) => "json.syntax",
            JsonFault::NotUtf8 => "json.not_utf8",
            JsonFault::DuplicateKey(_) => "json.duplicate_key",
            JsonFault::TooDeep(_) => "json.too_deep",
            JsonFault::TooLarge(_) => "json.too_large",
        }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            JsonFault::Syntax(expected) => write!(f, "not JSON: expected {expected}")?,
            JsonFault::NotUtf8 => write!(f, "not UTF-8 text")?,
            JsonFault::DuplicateKey(key) => {
                write!(f, "the key {key:?} stands twice; keep one")?;
            }
            JsonFault::TooDeep(limit) => write!(f, "nested deeper than {limit} levels")?,
            JsonFault::TooLarge(limit) => write!(f, "longer than {limit} bytes")?,
        }
        write!(f, " (line {}, column {}", self.line, self.column)?;
        if !self.pointer.is_empty() {
            write!(f, ", at {}", self.pointer)?;
        }
        write!(f, ")")
    }
}

/// Reads a JSON text with the default bounds, refusing duplicate keys.
///
/// ```
/// let value = toolcrib_definition::json::parse(br#"{"price": 1.10}"#)?;
/// assert_eq!(value.to_string(), r#"{"price":1.10}"#);
/// assert!(toolcrib_definition::json::parse(br#"{"a": 1, "a": 2}"#).is_err());
/// # Ok::<(), toolcrib_definition::json::JsonError>(())
/// ```
///
/// # Errors
/// [`JsonError`] when the text is not JSON or passes a bound.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    read(text, ReadOptions::default())
}

/// Reads a JSON text with the bounds and rules given.
///
/// # Errors
/// [`JsonError`] when the text is not JSON or passes a bound.
pub fn read(text: &[u8], options: ReadOptions) -> Result<Value, JsonError> {
    let mut reader = Reader { text, at: 0, depth: 0, path: Vec::new(), options };
    if text.len() > options.max_bytes {
        return Err(reader.fault(JsonFault::TooLarge(options.max_bytes)));
    }
    if let Err(error) = std::str::from_utf8(text) {
        reader.at = error.valid_up_to();
        return Err(reader.fault(JsonFault::NotUtf8));
    }
    reader.skip_blanks();
    let value = reader.value()?;
    reader.skip_blanks();
    if reader.at < text.len() {
        return Err(reader.syntax("the end of the text"));
    }
    Ok(value)
}

/// The text of a scalar: a string as it is, a number with its exact digits, `true` or `false`.
/// `None` for null, lists and objects.
pub fn scalar_text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(true) => Some(Cow::Borrowed("true")),
        Value::Bool(false) => Some(Cow::Borrowed("false")),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The text a value has inside other text: scalars as [`scalar_text`], null as nothing, lists and
/// objects as compact JSON.
pub fn inline_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::Array(_) | Value::Object(_) => Cow::Owned(value.to_string()),
        scalar => scalar_text(scalar).unwrap_or_default(),
    }
}

/// What a value is, with its article, for messages that people and models read.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A step added to a JSON Pointer, escaped as RFC 6901 says.
pub fn child_pointer(pointer: &str, step: &str) -> String {
    let mut out = String::with_capacity(pointer.len() + step.len() + 1);
    out.push_str(pointer);
    out.push('/');
    for ch in step.chars() {
        match ch {
            '~' => out.push_str("~0"),
            '/' => out.push_str("~1"),
            other => out.push(other),
        }
    }
    out
}

/// A number with exactly this text, which must be a number of the JSON grammar.
///
/// `serde_json` has no public way to keep `1E5` as it is written; its own parser turns it into
/// `1e+5`. The constructor used here is the one its tests use, and `tests::exponents_survive`
/// fails should it ever change.
fn exact_number(text: &str) -> Number {
    Number::from_string_unchecked(text.to_owned())
}

enum Step {
    Key(String),
    Index(usize),
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    path: Vec<Step>,
    options: ReadOptions,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Value, JsonError> {
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.syntax("a value")),
        }
    }

    fn object(&mut self) -> Result<Value, JsonError> {
        self.enter()?;
        let mut map = Map::new();
        if self.next_is(b'}') {
            self.depth -= 1;
            return Ok(Value::Object(map));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.syntax("a key in quotes"));
            }
            let key = self.string()?;
            if self.options.duplicates == DuplicateKeys::Refuse && map.contains_key(&key) {
                return Err(self.fault(JsonFault::DuplicateKey(key)));
            }
            if !self.next_is(b':') {
                return Err(self.syntax("a colon after the key"));
            }
            self.path.push(Step::Key(key));
            let value = self.value()?;
            if let Some(Step::Key(key)) = self.path.pop() {
                map.insert(key, value);
            }
            if self.next_is(b',') {
                continue;
            }
            if self.next_is(b'}') {
                self.depth -= 1;
                return Ok(Value::Object(map));
            }
            return Err(self.syntax("a comma or a closing brace"));
        }
    }

    fn array(&mut self) -> Result<Value, JsonError> {
        self.enter()?;
        let mut items = Vec::new();
        if self.next_is(b']') {
            self.depth -= 1;
            return Ok(Value::Array(items));
        }
        loop {
            self.path.push(Step::Index(items.len()));
            let value = self.value()?;
            self.path.pop();
            items.push(value);
            if self.next_is(b',') {
                continue;
            }
            if self.next_is(b']') {
                self.depth -= 1;
                return Ok(Value::Array(items));
            }
            return Err(self.syntax("a comma or a closing bracket"));
        }
    }

    /// Passes the opening bracket and the blanks behind it, counting the depth.
    fn enter(&mut self) -> Result<(), JsonError> {
        self.depth += 1;
        if self.depth > self.options.max_depth {
            return Err(self.fault(JsonFault::TooDeep(self.options.max_depth)));
        }
        self.at += 1;
        self.skip_blanks();
        Ok(())
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let start = self.at;
        self.at += 1;
        let mut escaped = false;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += 2;
                }
                Some(0..=0x1f) => return Err(self.syntax("a control character to be escaped")),
                Some(_) => self.at += 1,
                None => return Err(self.syntax("the closing quote of a string")),
            }
        }
        self.at += 1;
        let quoted = &self.text[start..self.at];
        let text = if escaped {
            serde_json::from_slice(quoted).map_err(|_| {
                self.at = start;
                self.syntax("a string with valid escapes")
            })?
        } else {
            // The whole text was checked to be UTF-8, and quotes are single bytes.
            String::from_utf8_lossy(&quoted[1..quoted.len() - 1]).into_owned()
        };
        self.skip_blanks();
        Ok(text)
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.syntax("a digit")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.at_least_one_digit()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.at_least_one_digit()?;
        }
        let number = exact_number(&String::from_utf8_lossy(&self.text[start..self.at]));
        self.skip_blanks();
        Ok(Value::Number(number))
    }

    fn at_least_one_digit(&mut self) -> Result<(), JsonError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.syntax("a digit"));
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &'static str, value: Value) -> Result<Value, JsonError> {
        if !self.text[self.at..].starts_with(word.as_bytes()) {
            return Err(self.syntax("true, false or null"));
        }
        self.at += word.len();
        self.skip_blanks();
        Ok(value)
    }

    fn next_is(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.at += 1;
            self.skip_blanks();
        }
        found
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn syntax(&self, expected: &'static str) -> JsonError {
        self.fault(JsonFault::Syntax(expected))
    }

    fn fault(&self, fault: JsonFault) -> JsonError {
        let before = &self.text[..self.at.min(self.text.len())];
        let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        JsonError {
            fault,
            pointer: self.path.iter().fold(String::new(), |pointer, step| match step {
                Step::Key(key) => child_pointer(&pointer, key),
                Step::Index(index) => child_pointer(&pointer, &index.to_string()),
            }),
            line: before.iter().filter(|b| **b == b'\n').count() + 1,
            column: before.len() - line_start + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn exponents_survive() {
        for text in ["1E5", "1e2", "-0.50", "2.500", "1e+5", "12345678901234567890123", "-0"] {
            assert_eq!(parse(text.as_bytes()).unwrap().to_string(), text);
        }
    }

    #[test]
    fn faults_say_where() {
        let check = |text: &str, code: &str, pointer: &str| {
            let error = parse(text.as_bytes()).unwrap_err();
            assert_eq!((error.code(), error.pointer.as_str()), (code, pointer), "{text}");
        };
        check(r#"{"a": {"b": 1, "b": 2}}"#, "json.duplicate_key", "/a");
        check(r#"{"a": [1, }"#, "json.syntax", "/a/1");
        check("01", "json.syntax", "");
        check("[1] 2", "json.syntax", "");
        check("\"a\u{1}\"", "json.syntax", "");
        check(r#""\ud800""#, "json.syntax", "");
        check(r#"{"a/b": +1}"#, "json.syntax", "/a~1b");
        check(&"[".repeat(200), "json.too_deep", &"/0".repeat(MAX_DEPTH));
        let error = parse(b"{\"a\": \"\xff\"}").unwrap_err();
        assert_eq!((error.code(), error.line, error.column), ("json.not_utf8", 1, 8));
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(text in r#"[\[\]{}:,"\\a-c0-9eE+.\- tfnulrs]{0,40}"#) {
            let ours = read(text.as_bytes(), ReadOptions { duplicates: DuplicateKeys::KeepLast, ..Default::default() });
            let theirs = serde_json::from_str::<Value>(&text);
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{}", text);
        }
    }
}
