//! Any bytes as a definition: nothing panics, and what is accepted reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_definition::{Definition, Manifest, json, parameters_from_text};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(definition) = Definition::from_json(bytes) {
        let stored = definition.to_json().to_string();
        let again = Definition::from_json(stored.as_bytes()).expect("the stored form reads back");
        assert_eq!(again, definition);
    }
    if let Ok(value) = json::parse(bytes)
        && let Ok(manifest) = Manifest::from_value(&value)
    {
        manifest.expand(&|name: &str| Some(name.to_owned()), &|_| true);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = parameters_from_text(text);
    }
});
