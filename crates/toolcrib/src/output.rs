//! What people read: tables, and JSON for programs.

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, ContentArrangement, Table};
use serde_json::Value;
use toolcrib_definition::visible;

/// How a command speaks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) json: bool,
}

impl Output {
    /// Prints the value for a program, or lets `people` print it.
    pub(crate) fn print(self, value: &Value, people: impl FnOnce(&Value)) {
        if self.json {
            println!("{value:#}");
        } else {
            people(value);
        }
    }
}

/// Prints rows below headers, as wide as the terminal.
pub(crate) fn table(headers: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if !std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        // A pipe has no width; whole lines are easier to search.
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    // Attributes are left out by the library when nobody looks at a terminal.
    table.set_header(headers.iter().map(|header| Cell::new(header.to_uppercase()).add_attribute(Attribute::Bold)));
    for row in rows {
        table.add_row(row);
    }
    for line in table.to_string().lines() {
        println!("{}", line.trim_end());
    }
}

/// A text of somebody else as a terminal can show it: what moves the cursor, hides or turns other text is written out.
pub(crate) fn seen(text: &str) -> String {
    visible(text).into_owned()
}

/// The text of a value in a table: nothing for null, lists with commas. It is shown as it is read, without what would act on a
/// terminal.
pub(crate) fn cell(value: &Value) -> String {
    seen(&plain(value))
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The list below a key, as rows of the keys given.
pub(crate) fn rows(value: &Value, list: &str, keys: &[&str]) -> Vec<Vec<String>> {
    let items = value.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|item| keys.iter().map(|key| cell(item.get(*key).unwrap_or(&Value::Null))).collect()).collect()
}

/// A time in ms since 1970 as UTC, to the second.
pub(crate) fn time(value: &Value) -> String {
    let timestamp = value.as_i64().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    timestamp.map(|timestamp| timestamp.strftime("%Y-%m-%d %H:%M:%SZ").to_string()).unwrap_or_default()
}
