//! Editing a definition: fields and back, problems at their fields, and what the tool would be.

pub(crate) mod draft;
pub(crate) mod fields;
pub(crate) mod preview;

pub(crate) use draft::Draft;
