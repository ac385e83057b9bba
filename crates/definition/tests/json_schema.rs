//! The schemas for editors agree with the checker on the vectors.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use serde_json::Value;
use toolcrib_definition::json::parse;
use toolcrib_definition::{definition_schema, manifest_schema};

fn rows(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors").join(file);
    std::fs::read_to_string(path).unwrap().lines().map(|line| parse(line.as_bytes()).unwrap()).collect()
}

#[test]
fn every_accepted_definition_fits() {
    let schema = jsonschema::validator_for(&definition_schema()).unwrap();
    let mut checked = 0;
    for row in rows("definition.jsonl") {
        for key in ["input", "normalized"] {
            if row["expect"] == "accept" && row.get(key).is_some() {
                let errors: Vec<String> = schema.iter_errors(&row[key]).map(|error| error.to_string()).collect();
                assert_eq!(errors, Vec::<String>::new(), "{} {key}", row["id"]);
                checked += 1;
            }
        }
    }
    assert!(checked > 80, "{checked}");
}

#[test]
fn every_sound_manifest_fits() {
    let schema = jsonschema::validator_for(&manifest_schema()).unwrap();
    for row in rows("manifest.jsonl") {
        let sound =
            row["expect"]["structural_error"] == false && row["expect"]["errors"].as_array().unwrap().is_empty();
        if sound {
            let errors: Vec<String> = schema.iter_errors(&row["manifest"]).map(|error| error.to_string()).collect();
            assert_eq!(errors, Vec::<String>::new(), "{}", row["id"]);
        }
    }
}
