//! The frontmatter of a `SKILL.md`, read as tolerantly as it can be without guessing.

use serde_json::{Map, Value};

/// A document taken apart.
pub(crate) struct Split<'a> {
    pub(crate) fields: Map<String, Value>,
    pub(crate) body: &'a str,
    pub(crate) notes: Vec<String>,
}

/// Takes a document apart at the two lines `---`.
pub(crate) fn split(document: &str) -> Result<Split<'_>, String> {
    let text = document.trim_start_matches('\u{feff}').trim_start();
    let missing = || "a SKILL.md begins with a line ---, then name and description, then another line ---".to_owned();
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| is_fence(line)).ok_or_else(missing)?;
    let mut end = first.len();
    for line in lines {
        if is_fence(line) {
            let (head, body) = (&text[first.len()..end], text[end + line.len()..].trim());
            let (fields, notes) = fields_of(head)?;
            return Ok(Split { fields, body, notes });
        }
        end += line.len();
    }
    Err("the frontmatter has no second line ---".to_owned())
}

fn is_fence(line: &str) -> bool {
    let line = line.trim_end();
    line.len() >= 3 && line.bytes().all(|b| b == b'-')
}

fn fields_of(head: &str) -> Result<(Map<String, Value>, Vec<String>), String> {
    if head.trim().is_empty() {
        return Ok((Map::new(), Vec::new()));
    }
    let strict = match serde_saphyr::from_str::<Value>(head) {
        Ok(Value::Object(map)) => return Ok((map, Vec::new())),
        Ok(_) => "it is no list of keys".to_owned(),
        Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    // Authors write `description: Use when: …`, which is no YAML. A line says what it says.
    match by_lines(head) {
        Some(map) => Ok((map, vec![format!("the frontmatter is no strict YAML ({strict}); it was read line by line")])),
        None => Err(format!("the frontmatter can't be read as YAML: {strict}")),
    }
}

/// Keys with values on their line, on indented lines below, or in a list below.
fn by_lines(head: &str) -> Option<Map<String, Value>> {
    let mut map = Map::new();
    let mut last: Option<String> = None;
    for line in head.lines().map(str::trim_end) {
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let indented = content.len() < line.len();
        let entry = content.strip_prefix("- ").map(|item| Value::String(unquoted(item)));
        match (entry, indented, &last) {
            (Some(item), _, Some(key)) => match map.get_mut(key) {
                Some(Value::Array(items)) => items.push(item),
                Some(slot) if slot.as_str().is_some_and(str::is_empty) => *slot = Value::Array(vec![item]),
                _ => return None,
            },
            (None, true, Some(key)) => match map.get_mut(key) {
                Some(Value::String(text)) => {
                    if !text.is_empty() {
                        text.push(' ');
                    }
                    text.push_str(content);
                }
                _ => return None,
            },
            (None, false, _) => {
                let (key, value) = content.split_once(':')?;
                let is_key = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
                if !is_key || map.contains_key(key) {
                    return None;
                }
                map.insert(key.to_owned(), value_of(value.trim()));
                last = Some(key.to_owned());
            }
            _ => return None,
        }
    }
    Some(map)
}

fn value_of(text: &str) -> Value {
    if let Some(list) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return list.split(',').map(|item| Value::String(unquoted(item.trim()))).collect();
    }
    // What introduces a block of lines is no part of it.
    if matches!(text, "|" | ">" | "|-" | ">-" | "|+" | ">+") {
        return Value::String(String::new());
    }
    Value::String(unquoted(text))
}

fn unquoted(text: &str) -> String {
    let inner = |quote| text.strip_prefix(quote).and_then(|rest: &str| rest.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text).to_owned()
}
