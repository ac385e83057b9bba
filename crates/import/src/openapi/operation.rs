//! One operation.

use serde_json::{Map, Value, json};
use toolcrib_definition::Definition;
use toolcrib_definition::lowering::lower;

use super::parameters::Places;
use super::{Api, METHODS, server};
use crate::names::snake;
use crate::report::{OperationReport, Options, SecretNeeded};

/// The longest description, in characters; a model reads each of them.
const MAX_DESCRIPTION: usize = 1_000;

/// The schemas that the tools of one import may carry along together, in bytes (256 MiB).
const MOST_CARRIED: usize = 256 << 20;

/// An operation with where it stands.
pub(super) struct Operation<'d, 'a> {
    api: &'d Api<'a>,
    path: &'a str,
    item: &'a Map<String, Value>,
    method: &'a str,
    body: &'a Map<String, Value>,
}

impl<'d, 'a> Operation<'d, 'a> {
    pub(super) fn read(api: &'d Api<'a>, path: &'a str, item: &'a Map<String, Value>, method: &'a str) -> Option<Self> {
        let body = item.get(method)?.as_object()?;
        Some(Self { api, path, item, method, body })
    }

    /// The report of this operation, with nothing said yet.
    pub(super) fn report(&self) -> OperationReport {
        OperationReport { operation_id: self.id().map(str::to_owned), ..OperationReport::of(self.method, self.path) }
    }

    pub(super) fn id(&self) -> Option<&'a str> {
        self.body.get("operationId").and_then(Value::as_str)
    }

    fn tags(&self) -> impl Iterator<Item = &'a str> {
        self.body.get("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    pub(super) fn is_wanted(&self, options: &Options) -> bool {
        let Some(only) = &options.only else { return true };
        let place = format!("{} {}", self.method.to_ascii_uppercase(), self.path);
        only.contains(&place)
            || self.id().is_some_and(|id| only.contains(id))
            || self.tags().any(|tag| only.contains(tag))
    }

    /// The tool, or why there is none.
    pub(super) fn tool(
        &self,
        name: String,
        needed: &mut Vec<SecretNeeded>,
        notes: &mut Vec<String>,
        carried: &mut Carried,
    ) -> Result<Definition, Vec<String>> {
        let one = |problem: String| vec![problem];
        if !METHODS.contains(&self.method) {
            return Err(one(format!("a tool can't be called with {}", self.method.to_ascii_uppercase())));
        }
        let mut places = Places::of(&self.api.document);
        for parameter in self.parameters() {
            places.parameter(parameter, notes).map_err(one)?;
        }
        let body = match self.body.get("requestBody") {
            Some(_) if matches!(self.method, "get" | "head") => {
                notes.push(format!("a body of a {} is left out", self.method.to_ascii_uppercase()));
                None
            }
            Some(body) => places.body(body, notes).map_err(one)?,
            None => None,
        };
        let url = self.url(&mut places, notes).map_err(one)?;
        let original = original(&mut places);
        let Places { query, mut headers, cookies, .. } = places;
        if !cookies.is_empty() {
            headers.insert("Cookie".to_owned(), cookies.join("; ").into());
        }
        let security = self.body.get("security").or_else(|| self.api.document.root.get("security"));
        let secret_headers = self.api.secure(security, &url, &mut headers, needed, notes);
        let mut request = json!({ "method": self.method.to_ascii_uppercase(), "url": url });
        for (key, map) in [("headers", headers), ("query", query)] {
            if !map.is_empty() {
                request[key] = Value::Object(map);
            }
        }
        if let Some(body) = body {
            request["body"] = body;
        }
        carried.add(&original)?;
        let lowered = lower(&original);
        let mut definition = json!({
            "name": name,
            "description": self.description(),
            "parameters": lowered.parameters(),
            "request": request,
        });
        if !lowered.changes_nothing() {
            definition["lowered_from"] = original;
        }
        if !secret_headers.is_empty() {
            definition["secret_headers"] = secret_headers.into();
        }
        if let Some(group) = &self.api.group {
            definition["group"] = group.as_str().into();
        }
        let mut tags: Vec<&str> = self.tags().filter(|tag| !tag.trim().is_empty()).collect();
        tags.dedup();
        if !tags.is_empty() {
            definition["tags"] = tags.into();
        }
        Definition::from_value(&definition).map_err(|problems| {
            problems.iter().map(|problem| format!("{}: {}", problem.pointer, problem.message)).collect()
        })
    }

    /// Those of the path, and the operation's own in their place.
    fn parameters(&self) -> Vec<&'a Value> {
        let document = &self.api.document;
        let key = |parameter: &'a Value| {
            let resolved = document.resolve(parameter).unwrap_or(parameter);
            (resolved.get("name").and_then(Value::as_str), resolved.get("in").and_then(Value::as_str))
        };
        let of = |map: &'a Map<String, Value>| map.get("parameters").and_then(Value::as_array).into_iter().flatten();
        let own: Vec<&'a Value> = of(self.body).collect();
        let shared = of(self.item).filter(|shared| own.iter().all(|own| key(own) != key(shared)));
        shared.chain(own.iter().copied()).collect()
    }

    /// The address, with the argument of each place in the path.
    fn url(&self, places: &mut Places<'_, '_>, notes: &mut Vec<String>) -> Result<String, String> {
        let servers = self.body.get("servers").or_else(|| self.item.get("servers"));
        let own = servers.map(|servers| server::base_url(&self.api.document, Some(servers), self.api.options));
        let base = own.unwrap_or_else(|| self.api.base_url.clone()).map_err(|error| error.to_string())?;
        let mut path = String::new();
        // What follows a question mark or a hash tells operations of one path apart, and is not sent.
        let mut rest = self.path.split(['?', '#']).next().unwrap_or_default();
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else {
                return Err(format!("the path {} has an open brace", self.path));
            };
            path.push_str(before);
            let place = match places.path.get(name).and_then(Value::as_str) {
                Some(place) => place.to_owned(),
                None => {
                    notes.push(format!("the document describes no path parameter {name}; it is taken as text"));
                    let place = places.argument(name, json!({ "type": "string" }), true);
                    places.path.insert(name.to_owned(), place.clone().into());
                    place
                }
            };
            path.push_str(&place);
            rest = after;
        }
        path.push_str(rest);
        Ok(base + &path)
    }

    pub(super) fn name(&self) -> String {
        let by_place = || snake(&format!("{} {}", self.method, self.path));
        let name = self.id().map(snake).filter(|name| !name.is_empty()).unwrap_or_else(by_place);
        match self.api.options.prefix.as_deref().map(snake) {
            Some(prefix) if !prefix.is_empty() => format!("{prefix}_{name}"),
            _ => name,
        }
    }

    fn description(&self) -> String {
        let text =
            |key: &str| self.body.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
        let whole = match (text("summary"), text("description")) {
            (Some(summary), Some(description)) if !description.starts_with(summary) => {
                format!("{summary}\n\n{description}")
            }
            (_, Some(description)) => description.to_owned(),
            (Some(summary), None) => summary.to_owned(),
            (None, None) => format!("{} {}", self.method.to_ascii_uppercase(), self.path),
        };
        match whole.char_indices().nth(MAX_DESCRIPTION) {
            Some((end, _)) => format!("{}…", whole[..end].trim_end()),
            None => whole,
        }
    }
}

/// How much of schemas the tools of a document carry along together.
#[derive(Debug, Default)]
pub(super) struct Carried {
    bytes: usize,
}

impl Carried {
    fn add(&mut self, schema: &Value) -> Result<(), Vec<String>> {
        self.bytes += schema.to_string().len();
        if self.bytes > MOST_CARRIED {
            return Err(vec![format!(
                "the tools before it carry schemas of more than {} MiB; import fewer operations at once",
                MOST_CARRIED >> 20
            )]);
        }
        Ok(())
    }
}

/// The schema of all arguments, in the words of the document.
fn original(places: &mut Places<'_, '_>) -> Value {
    let mut schema = json!({ "type": "object", "properties": places.properties });
    if !places.required.is_empty() {
        schema["required"] = places.required.clone().into();
    }
    let mut definitions = places.schemas.definitions();
    if !definitions.is_empty() {
        definitions.insert("_any".to_owned(), json!({}));
        schema["$defs"] = Value::Object(definitions);
    }
    schema
}
