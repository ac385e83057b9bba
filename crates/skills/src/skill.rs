//! A skill as a value.

use std::collections::HashSet;

use serde_json::{Map, Value};
use toolcrib_definition::json::kind_of;
use toolcrib_definition::{Problem, ProblemCode, Problems};

use crate::frontmatter;
use crate::words::fold;

/// The longest `SKILL.md`, in bytes (256 KiB).
pub const MAX_DOCUMENT: usize = 256 << 10;
/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 1_024;
/// The longest trigger, in characters.
const MAX_TRIGGER: usize = 200;
/// Triggers and companions of one skill.
const MAX_ENTRIES: usize = 100;

/// Keys of the frontmatter that other programs use; they are kept and not read.
const FOREIGN: [&str; 7] = ["license", "compatibility", "metadata", "allowed-tools", "version", "author", "tags"];

/// Whether a text can be the name of a skill: 1 to 64 of `a-z`, `0-9`, `-` and `_`, the first no sign.
pub fn is_skill_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b))
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
}

/// A playbook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    name: String,
    description: String,
    triggers: Vec<String>,
    companions: Vec<String>,
    body: String,
    document: String,
    notes: Vec<String>,
    says_eager: bool,
}

impl Skill {
    /// Reads a `SKILL.md` that belongs to the folder or row `name`. What can be understood is: a byte order mark, either
    /// line end, values with colons that strict YAML refuses, lists as one line, unknown keys.
    ///
    /// # Errors
    /// [`Problems`] when there is no frontmatter, the name is another, a description or a text is missing, or a field is
    /// of the wrong type; all at once.
    pub fn from_markdown(name: &str, document: &str) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let mut add = |pointer: &str, code, message: String| {
            problems.push(Problem { pointer: pointer.to_owned(), code, message });
        };
        if document.len() > MAX_DOCUMENT {
            let message = format!("a SKILL.md has at most {MAX_DOCUMENT} bytes, and this has {}", document.len());
            add("", ProblemCode::SkillBody, message);
            return Err(Problems::from_iter(problems));
        }
        let read = match frontmatter::split(document) {
            Ok(read) => read,
            Err(message) => {
                add("", ProblemCode::SkillFrontmatter, message);
                return Err(Problems::from_iter(problems));
            }
        };
        let mut notes = read.notes;
        let mut fields = read.fields;
        if !is_skill_name(name) {
            let message = format!("{name:?} is no name of a skill: 1 to 64 of a-z, 0-9, - and _");
            add("/name", ProblemCode::SkillName, message);
        }
        match fields.shift_remove("name") {
            None | Some(Value::Null) => notes.push(format!("the frontmatter names no skill; its place does: {name}")),
            Some(Value::String(own)) if own.trim() == name => {}
            Some(own) => {
                let message = format!("the frontmatter says {own} and its place {name:?}; let both say the same");
                add("/name", ProblemCode::SkillName, message);
            }
        }
        let description = match fields.shift_remove("description") {
            Some(Value::String(text)) if !text.trim().is_empty() => one_line(&text),
            None | Some(Value::Null | Value::String(_)) => {
                let message = "a skill needs a description; it is what the model reads to choose it".to_owned();
                add("/description", ProblemCode::SkillDescription, message);
                String::new()
            }
            Some(other) => {
                let message = format!("the description is a text, not {}", kind_of(&other));
                add("/description", ProblemCode::SkillDescription, message);
                String::new()
            }
        };
        if description.chars().count() > MAX_DESCRIPTION {
            let message = format!("the description is longer than {MAX_DESCRIPTION} characters");
            add("/description", ProblemCode::SkillDescription, message);
        }
        let triggers = list_of(&mut fields, "triggers", &mut add);
        for (i, trigger) in triggers.iter().enumerate() {
            if fold(trigger).is_empty() {
                let message = format!("{trigger:?} holds no word that a message could hold");
                add(&format!("/triggers/{i}"), ProblemCode::SkillField, message);
            } else if trigger.chars().count() > MAX_TRIGGER {
                let message = format!("a trigger has at most {MAX_TRIGGER} characters");
                add(&format!("/triggers/{i}"), ProblemCode::SkillField, message);
            }
        }
        let companions = list_of(&mut fields, "companions", &mut add);
        for (i, companion) in companions.iter().enumerate() {
            if companion == name || !is_skill_name(companion) {
                let message = format!("{companion:?} is no name of another skill");
                add(&format!("/companions/{i}"), ProblemCode::SkillField, message);
            }
        }
        let says_eager = fields.shift_remove("eager").is_some();
        if says_eager {
            notes.push("eager is the agent's to say (skills_eager); here it says nothing".to_owned());
        }
        for key in fields.keys().filter(|key| !FOREIGN.contains(&key.as_str())) {
            notes.push(format!("the frontmatter's {key} is not read"));
        }
        if read.body.is_empty() {
            let message = "a skill needs a text below its frontmatter".to_owned();
            add("", ProblemCode::SkillBody, message);
        }
        if !problems.is_empty() {
            return Err(Problems::from_iter(problems));
        }
        let (name, body, document) = (name.to_owned(), read.body.to_owned(), document.to_owned());
        Ok(Self { name, description, triggers, companions, body, document, notes, says_eager })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is for, in one line: what the model reads to choose it.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Words and phrases of a message that bring it, as they were written.
    pub fn triggers(&self) -> &[String] {
        &self.triggers
    }

    /// Skills that come with it.
    pub fn companions(&self) -> &[String] {
        &self.companions
    }

    /// The text below the frontmatter.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// The whole `SKILL.md`, as it was written.
    pub fn document(&self) -> &str {
        &self.document
    }

    /// What was understood though it is not as it should be.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether its frontmatter claims to be eager, which only an agent can say.
    pub fn says_eager(&self) -> bool {
        self.says_eager
    }
}

/// A list of texts; one text is taken apart at its commas.
fn list_of(fields: &mut Map<String, Value>, key: &str, add: &mut impl FnMut(&str, ProblemCode, String)) -> Vec<String> {
    let mut entries: Vec<String> = match fields.shift_remove(key) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => {
            text.split(',').map(|entry| entry.trim().trim_matches(['"', '\'']).to_owned()).collect()
        }
        Some(Value::Array(items)) => {
            let mut entries = Vec::with_capacity(items.len());
            for (i, item) in items.into_iter().enumerate() {
                match item {
                    Value::String(text) => entries.push(text),
                    Value::Number(number) => entries.push(number.to_string()),
                    other => {
                        let message = format!("expected a text, got {}", kind_of(&other));
                        add(&format!("/{key}/{i}"), ProblemCode::SkillField, message);
                    }
                }
            }
            entries
        }
        Some(other) => {
            let message = format!("expected a list of texts, got {}", kind_of(&other));
            add(&format!("/{key}"), ProblemCode::SkillField, message);
            Vec::new()
        }
    };
    let mut seen = HashSet::new();
    entries = entries.iter().map(|entry| one_line(entry)).filter(|entry| !entry.is_empty()).collect();
    entries.retain(|entry| seen.insert(entry.clone()));
    if entries.len() > MAX_ENTRIES {
        add(&format!("/{key}"), ProblemCode::SkillField, format!("there are at most {MAX_ENTRIES} {key}"));
    }
    entries
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
