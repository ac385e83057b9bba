//! Runs vector files, the truth for the definition as data, through the public functions.
//!
//! The kind of a file is its name up to the first dot or dash (`render.jsonl`, `render-more.jsonl`),
//! so a folder of new cases needs no code.

mod checks;

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;
use toolcrib_definition::json;

/// A row that did not hold.
pub struct Failure {
    /// The id of the row.
    pub id: String,
    /// What the row says.
    pub expected: String,
    /// What came out.
    pub got: String,
}

/// What a file of vectors came to.
pub struct FileReport {
    /// The file name.
    pub name: String,
    /// Rows that held.
    pub passed: usize,
    /// Rows that did not.
    pub failures: Vec<Failure>,
}

/// What a check found: nothing, or what was expected and what came.
pub type Verdict = Result<(), (String, String)>;

/// A check of one row.
pub type Check<'a> = Box<dyn Fn(&Value) -> Verdict + 'a>;

/// Runs every vector file of a folder.
///
/// # Errors
/// When the folder or a file can't be read, or a file is of a kind that no check knows.
pub fn run(folder: &Path) -> anyhow::Result<Vec<FileReport>> {
    run_folder(folder, |name| checks::for_kind(name).map(|check| Box::new(check) as Check<'_>))
}

/// Runs every `.jsonl` file of a folder, in the order of their names, through the check that
/// `check_for` gives for its name.
pub fn run_folder<'a>(folder: &Path, check_for: impl Fn(&str) -> Option<Check<'a>>) -> anyhow::Result<Vec<FileReport>> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .with_context(|| format!("the folder {} can't be read", folder.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("the folder {} holds no .jsonl file", folder.display());
    }
    files.iter().map(|file| run_file(file, &check_for)).collect()
}

fn run_file<'a>(path: &Path, check_for: &impl Fn(&str) -> Option<Check<'a>>) -> anyhow::Result<FileReport> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let check = check_for(&name).with_context(|| format!("{name}: no check knows this kind of file"))?;
    let text = fs::read(path).with_context(|| format!("{name} can't be read"))?;
    let mut report = FileReport { name, passed: 0, failures: Vec::new() };
    for (i, line) in text.split(|b| *b == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty()) {
        let row = json::parse(line).with_context(|| format!("{} line {}", report.name, i + 1))?;
        let id = row.get("id").and_then(Value::as_str).map_or_else(|| format!("line {}", i + 1), str::to_owned);
        match check(&row) {
            Ok(()) => report.passed += 1,
            Err((expected, got)) => report.failures.push(Failure { id, expected, got }),
        }
    }
    Ok(report)
}

/// Prints the reports as every runner does, and tells whether all rows held.
pub fn print(reports: &[FileReport]) -> bool {
    for report in reports {
        for Failure { id, expected, got } in &report.failures {
            println!("FAILED {id}\n  expected {expected}\n  got      {got}");
        }
    }
    for report in reports {
        println!("{}: {} passed, {} failed", report.name, report.passed, report.failures.len());
    }
    reports.iter().all(|report| report.failures.is_empty())
}
