//! All triggers of all skills in one automaton.

use std::collections::HashMap;
use std::sync::Arc;

use aho_corasick::AhoCorasick;

use crate::catalog::SkillKey;
use crate::words::fold;

/// Finds the triggers that a message holds. What it costs grows with the message and with what is found, not with the
/// number of skills.
#[derive(Default)]
pub(crate) struct Triggers {
    automaton: Option<AhoCorasick>,
    /// For each pattern, whose it is and how it was written.
    holders: Vec<Vec<(SkillKey, Arc<str>)>>,
}

/// A trigger that was found.
pub(crate) struct Found<'a> {
    pub(crate) skill: &'a SkillKey,
    pub(crate) phrase: &'a str,
}

impl Triggers {
    /// Builds the automaton anew.
    pub(crate) fn of<'a>(skills: impl Iterator<Item = (&'a SkillKey, &'a [String])>) -> Self {
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut patterns = Vec::new();
        let mut holders: Vec<Vec<(SkillKey, Arc<str>)>> = Vec::new();
        for (key, triggers) in skills {
            for trigger in triggers {
                // The spaces are what makes it match whole words only.
                let pattern = format!(" {} ", fold(trigger));
                let place = *places.entry(pattern).or_insert_with_key(|pattern| {
                    patterns.push(pattern.clone());
                    holders.push(Vec::new());
                    patterns.len() - 1
                });
                holders[place].push((key.clone(), trigger.as_str().into()));
            }
        }
        // A builder fails on more patterns than memory could hold; there are fewer skills than that.
        let automaton = AhoCorasick::new(&patterns)
            .inspect_err(|error| tracing::error!(error = %error, "skills.triggers.build failed; no trigger fires"));
        Self { automaton: automaton.ok().filter(|_| !patterns.is_empty()), holders }
    }

    /// The triggers in a message, in the order of their ends; of two that end together the longer one first.
    pub(crate) fn find<'a>(&'a self, message: &str) -> Vec<Found<'a>> {
        let Some(automaton) = &self.automaton else { return Vec::new() };
        let text = format!(" {} ", fold(message));
        let mut seen = vec![false; self.holders.len()];
        let mut found = Vec::new();
        for hit in automaton.find_overlapping_iter(&text) {
            let place = hit.pattern().as_usize();
            if !std::mem::replace(&mut seen[place], true) {
                found.extend(self.holders[place].iter().map(|(skill, phrase)| Found { skill, phrase }));
            }
        }
        found
    }
}
