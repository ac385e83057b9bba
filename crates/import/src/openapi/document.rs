//! A document, and what its references mean.

use serde_json::Value;

use crate::report::ImportError;

/// References that lead to references, at the most.
const MAX_STEPS: usize = 32;

/// An OpenAPI document.
pub(super) struct Document<'a> {
    pub(super) root: &'a Value,
    /// Whether schemas are those of OpenAPI 3.0, which are not quite JSON Schema.
    pub(super) is_3_0: bool,
}

impl<'a> Document<'a> {
    pub(super) fn read(root: &'a Value) -> Result<Self, ImportError> {
        let not = |reason: String| ImportError::NotOpenApi { reason };
        let version = match (root.get("openapi"), root.get("swagger")) {
            (Some(Value::String(version)), _) => version.as_str(),
            (_, Some(version)) => {
                let version = version.as_str().unwrap_or("2.0");
                return Err(not(format!("it is Swagger {version}; convert it to OpenAPI 3 first")));
            }
            _ => return Err(not("it has no \"openapi\" with a version".to_owned())),
        };
        if !(version.starts_with("3.0") || version.starts_with("3.1")) {
            return Err(not(format!("its version is {version:?}")));
        }
        Ok(Self { root, is_3_0: version.starts_with("3.0") })
    }

    pub(super) fn text(&self, pointer: &str) -> Option<&'a str> {
        self.root.pointer(pointer)?.as_str()
    }

    /// What a value means, when it is a reference to another part of the document.
    pub(super) fn resolve(&self, mut value: &'a Value) -> Result<&'a Value, String> {
        for _ in 0..MAX_STEPS {
            match value.get("$ref").and_then(Value::as_str) {
                None => return Ok(value),
                Some(reference) => value = self.target(reference)?,
            }
        }
        Err("a reference leads round in a circle".to_owned())
    }

    /// The part that a reference names.
    pub(super) fn target(&self, reference: &str) -> Result<&'a Value, String> {
        let Some(pointer) = reference.strip_prefix('#') else {
            return Err(format!("the reference {reference} leads to another document; bundle the document first"));
        };
        let pointer = percent_decoded(pointer);
        self.root.pointer(&pointer).ok_or_else(|| format!("the reference {reference} leads nowhere"))
    }
}

/// A fragment is percent-encoded (RFC 6901 section 6).
fn percent_decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}
