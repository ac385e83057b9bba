//! Operations of an OpenAPI document (3.0 and 3.1) become tools.
//!
//! The document is read as it comes: a part that is odd costs the operations that need it, and no other.

mod body;
mod document;
mod operation;
mod parameters;
mod schema;
mod security;
mod server;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use self::document::Document;
use self::operation::{Carried, Operation};
use crate::names::{Names, snake};
use crate::report::{ImportError, Imported, OperationReport, Options, SecretNeeded};

/// The methods that OpenAPI knows and a tool can have.
const METHODS: [&str; 6] = ["get", "head", "post", "put", "patch", "delete"];
/// The longest title that is a group, in bytes.
const LONGEST_GROUP: usize = 24;
/// Those that no tool has.
const OTHER_METHODS: [&str; 2] = ["options", "trace"];

/// Path, path item and method of an operation.
type Place<'a> = (&'a str, &'a Map<String, Value>, &'a str);

/// What holds for every operation of a document.
struct Api<'a> {
    document: Document<'a>,
    options: &'a Options,
    group: Option<String>,
    base_url: Result<String, ImportError>,
}

/// Makes a tool of each operation of an OpenAPI document.
///
/// # Errors
/// [`ImportError::NotOpenApi`] when it is no such document, [`ImportError::NoServer`] when no operation has a whole address. What is wrong with one
/// operation stands in its report.
pub fn openapi(document: &Value, options: &Options) -> Result<Imported, ImportError> {
    let document = Document::read(document)?;
    let base_url = server::base_url(&document, document.root.get("servers"), options);
    let group = options.group.clone().or_else(|| group_of(document.text("/info/title"), base_url.as_deref().ok()));
    let api = Api { document, options, group, base_url };
    let mut names = Names::default();
    let mut imported = Imported::default();
    let mut secrets = BTreeSet::new();
    let mut without_server = None;
    let mut carried = Carried::default();
    for place in api.places() {
        let (path, item, method) = match place {
            Ok(place) => place,
            Err(report) => {
                if options.only.is_none() {
                    imported.operations.push(report);
                }
                continue;
            }
        };
        let Some(operation) = Operation::read(&api, path, item, method) else { continue };
        // Whatever is picked of a document, its operations have the same names.
        let name = names.take(&operation.name());
        if !operation.is_wanted(options) {
            continue;
        }
        let mut report = operation.report();
        let mut needed: Vec<SecretNeeded> = Vec::new();
        match operation.tool(name, &mut needed, &mut report.notes, &mut carried) {
            Ok(tool) => {
                report.tool = Some(tool.name.as_str().to_owned());
                imported.tools.push(tool);
                secrets.extend(needed);
            }
            Err(problems) => {
                if let (Err(error), true) = (&api.base_url, options.base_url.is_none()) {
                    without_server.get_or_insert_with(|| error.clone());
                }
                report.problems = problems;
            }
        }
        imported.operations.push(report);
    }
    imported.secrets = secrets.into_iter().collect();
    match without_server {
        Some(error) if imported.tools.is_empty() => Err(error),
        _ => Ok(imported),
    }
}

/// The title as a name, or the site where the title is a sentence.
fn group_of(title: Option<&str>, base_url: Option<&str>) -> Option<String> {
    let title = title.map(snake).unwrap_or_default();
    let site = || base_url.map(server::site).filter(|site| !site.is_empty());
    match title.len() {
        1..=LONGEST_GROUP => Some(title),
        0 => site(),
        _ => site().or(Some(title)),
    }
}

impl<'a> Api<'a> {
    /// Each operation's place, or why a path has none that could be read.
    fn places(&self) -> Vec<Result<Place<'a>, OperationReport>> {
        let root: &'a Value = self.document.root;
        let paths = root.get("paths").and_then(Value::as_object).into_iter().flatten();
        let mut found = Vec::new();
        for (path, item) in paths.filter(|(path, _)| path.starts_with('/')) {
            let read =
                self.document.resolve(item).and_then(|item| item.as_object().ok_or("it is no object".to_owned()));
            match read {
                Ok(item) => {
                    let known = |key: &str| METHODS.contains(&key) || OTHER_METHODS.contains(&key);
                    let methods = item.keys().map(String::as_str).filter(|key| known(key));
                    found.extend(methods.map(|method| Ok((path.as_str(), item, method))));
                }
                Err(problem) => {
                    let problem = format!("its operations can't be read: {problem}");
                    found.push(Err(OperationReport { problems: vec![problem], ..OperationReport::of("*", path) }));
                }
            }
        }
        found
    }
}
