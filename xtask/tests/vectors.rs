//! The vectors and egress cases of the repository, through the runners that take any folder; and that
//! a changed expectation fails.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn run(command: &str, folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).arg(command).arg(folder).output().unwrap()
}

fn check_folder(command: &str, folder: &Path, files: usize) {
    let output = run(command, folder);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().filter(|line| line.ends_with(" passed, 0 failed")).collect();
    assert_eq!(lines.len(), files, "{text}");
    assert!(lines.iter().all(|line| !line.contains(": 0 passed")), "{text}");
}

#[test]
fn every_vector_passes() {
    check_folder("vectors", &root().join("tests/vectors"), 7);
}

#[test]
fn every_egress_case_passes() {
    check_folder("egress-cases", &root().join("tests/egress"), 1);
}

/// The truth beside the repository, when it is there, is what the repository holds.
#[test]
fn the_copies_are_the_truth() {
    for (truth, copy) in [("../shared/vectors", "tests/vectors"), ("../shared/egress", "tests/egress")] {
        let truth = root().join(truth);
        if !truth.is_dir() {
            eprintln!("SKIPPED: {} is not here", truth.display());
            continue;
        }
        for entry in std::fs::read_dir(&truth).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                let copy = root().join(copy).join(path.file_name().unwrap());
                assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&copy).unwrap(), "{}", copy.display());
            }
        }
    }
}

#[test]
fn a_changed_expectation_fails() {
    let changes = [
        ("vectors", "tests/vectors/definition.jsonl", r#""expect": "accept""#, r#""expect": "reject""#),
        ("vectors", "tests/vectors/arguments.jsonl", "expected integer", "expected an integer"),
        ("vectors", "tests/vectors/render.jsonl", "red%20shoe", "red+shoe"),
        ("vectors", "tests/vectors/response.jsonl", r#""halt": true"#, r#""halt": false"#),
        ("vectors", "tests/vectors/manifest.jsonl", r#""created": ["#, r#""created": ["ghost", "#),
        ("vectors", "tests/vectors/evidence.jsonl", r#""ids": ["#, r#""ids": ["ghost", "#),
        ("vectors", "tests/vectors/sugar_text.jsonl", r#""expect": "accept""#, r#""expect": "reject""#),
        ("egress-cases", "tests/egress/cases.jsonl", r#""expect": "deny""#, r#""expect": "allow""#),
        (
            "egress-cases",
            "tests/egress/cases.jsonl",
            r#""connects_to": ["93.184.215.14"]"#,
            r#""connects_to": ["8.8.8.8"]"#,
        ),
    ];
    for (command, file, from, to) in changes {
        let folder = tempfile::tempdir().unwrap();
        let path = root().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let changed = text.replacen(from, to, 1);
        assert_ne!(text, changed, "{file} holds {from}");
        std::fs::write(folder.path().join(path.file_name().unwrap()), changed).unwrap();
        let output = run(command, folder.path());
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "{file}: {text}");
        assert!(text.contains("FAILED ") && text.contains(", 1 failed"), "{file}: {text}");
    }
}
