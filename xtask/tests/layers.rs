//! Arrows point down only, and the workspace keeps its rules.

use std::collections::BTreeSet;
use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Every allowed arrow: a crate and those below it.
const BELOW: &[(&str, &[&str])] = &[
    ("toolcrib-definition", &[]),
    ("toolcrib-import", &["definition"]),
    ("toolcrib-egress", &["definition"]),
    ("toolcrib-store", &["definition"]),
    ("toolcrib-registry", &["definition", "store"]),
    ("toolcrib-mcp-ingest", &["definition", "egress", "store"]),
    ("toolcrib-executor", &["definition", "egress", "mcp-ingest", "registry", "store"]),
    ("toolcrib-skills", &["definition", "registry", "store"]),
    ("toolcrib-turn", &["definition", "egress", "executor", "registry", "skills", "store"]),
    ("toolcrib-api", &["definition", "egress", "executor", "mcp-ingest", "registry", "skills", "store", "turn"]),
    ("toolcrib-studio", &["definition", "import"]),
    (
        "toolcrib",
        &[
            "definition",
            "egress",
            "executor",
            "mcp-ingest",
            "registry",
            "skills",
            "store",
            "turn",
            "api",
            "import",
            "studio",
        ],
    ),
];

#[test]
fn arrows_point_down() {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let mut seen = BTreeSet::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        if matches!(
            name,
            "xtask" | "embedding" | "mcp-conformance" | "scripted-model" | "support-agent" | "transactional-tool"
        ) {
            continue;
        }
        let (_, below) =
            BELOW.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name} has no place"));
        seen.insert(name.to_owned());
        for dependency in package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal) {
            if let Some(lower) = dependency.name.strip_prefix("toolcrib-") {
                assert!(below.contains(&lower), "{name} may not depend on {}", dependency.name);
            }
            let binary_only = ["anyhow", "clap", "figment", "tracing-subscriber"];
            assert!(
                name == "toolcrib" || !binary_only.contains(&dependency.name.as_str()),
                "{} belongs to the binary, and {name} has it",
                dependency.name
            );
        }
    }
    assert_eq!(seen.len(), BELOW.len());
}

#[test]
fn packages_share_the_workspace() {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    for package in &metadata.packages {
        let manifest = std::fs::read_to_string(&package.manifest_path).unwrap();
        assert!(manifest.contains("edition.workspace = true"), "{}", package.name);
        if package.name.as_str() != "embedding" {
            assert!(manifest.contains("[lints]\nworkspace = true"), "{} has lints of its own", package.name);
        }
    }
}

#[test]
fn files_have_one_subject() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders = vec![root.join("crates"), root.join("xtask/src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 100);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.lines().count() <= 600, "{} is longer than 600 lines", file.display());
        assert!(file.file_name().unwrap() != "mod.rs", "{}", file.display());
        assert!(text.starts_with("//!"), "{} does not say what it is", file.display());
    }
}
