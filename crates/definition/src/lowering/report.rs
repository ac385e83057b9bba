//! What lowering did, step by step.

use std::fmt;

use serde::Serialize;

/// One step of a lowering.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoweringStep {
    /// Where in the original, as a JSON Pointer.
    pub pointer: String,
    /// What was done.
    pub kind: StepKind,
    /// The same in words.
    pub message: String,
}

/// The kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A local reference was replaced by what it refers to.
    RefInlined,
    /// A schema that contains itself was cut to a free object.
    RecursionCut,
    /// A reference leads nowhere, or out of the schema: any value.
    RefUnresolved,
    /// Null was taken out, and the property is not required.
    Nullable,
    /// Objects of a union became one object.
    UnionMerged,
    /// A union became text.
    UnionText,
    /// `allOf`, or keywords beside a reference, became one schema.
    AllOfMerged,
    /// A tuple became a list.
    TupleList,
    /// Any value became a string of JSON.
    AnyText,
    /// Something missing was filled in.
    Filled,
    /// A property has another name, which every provider takes.
    Renamed,
    /// A keyword outside the safe subset was dropped.
    KeywordDropped,
    /// The original is too large: the rest of it is any value.
    TooLarge,
}

impl fmt::Display for LoweringStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "the schema" } else { &self.pointer };
        write!(f, "{place}: {}", self.message)
    }
}

/// Gathers steps; the same step at the same place is noted once.
#[derive(Debug, Default)]
pub(super) struct Steps(Vec<LoweringStep>);

/// How many steps a report holds; an endless report helps nobody.
const MAX_STEPS: usize = 200;

impl Steps {
    pub(super) fn add(&mut self, pointer: &str, kind: StepKind, message: impl Into<String>) {
        if self.0.len() >= MAX_STEPS || self.0.iter().any(|step| step.pointer == pointer && step.kind == kind) {
            return;
        }
        self.0.push(LoweringStep { pointer: pointer.to_owned(), kind, message: message.into() });
    }

    pub(super) fn into_list(self) -> Vec<LoweringStep> {
        self.0
    }
}
