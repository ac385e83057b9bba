//! An agent's tools as MCP lists them, and results as MCP content.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use toolcrib_definition::{Extract, ProviderFormat};
use toolcrib_executor::{Outcome, Status};
use toolcrib_registry::{Agent, Entry, Snapshot};
use toolcrib_store::Revision;

use super::rpc::RpcError;

/// Tools of one page.
const PAGE: usize = 1_000;
/// Bytes of one page: whichever comes first.
const PAGE_BYTES: usize = 8 << 20;
/// How many agents' lists are kept.
const MAX_LISTS: usize = 1_000;

/// The tools of an agent, each written out once per revision of the catalog.
pub(super) struct List {
    revision: Revision,
    names: Vec<String>,
    texts: Vec<String>,
    /// Tells whether two lists say the same.
    pub(super) mark: u64,
}

/// The lists of agents.
#[derive(Default)]
pub(crate) struct ListCache(Mutex<HashMap<String, Arc<List>>>);

impl ListCache {
    /// The list of an agent as the snapshot has both; none when there is no such agent any more.
    pub(super) fn list(&self, snapshot: &Snapshot, id: &str) -> Option<Arc<List>> {
        let agent = snapshot.agent(id)?;
        let revision = snapshot.revision();
        let known = self.0.lock().ok().and_then(|lists| lists.get(id).cloned());
        if let Some(list) = known.filter(|list| list.revision == revision) {
            return Some(list);
        }
        let list = Arc::new(List::of(snapshot, agent));
        if let Ok(mut lists) = self.0.lock() {
            if lists.len() >= MAX_LISTS {
                lists.clear();
            }
            lists.insert(id.to_owned(), Arc::clone(&list));
        }
        Some(list)
    }
}

impl List {
    fn of(snapshot: &Snapshot, agent: &Agent) -> Self {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut tools: Vec<(String, String)> = Vec::new();
        for entry in snapshot.allowed(agent).into_iter().filter(|entry| agent.offers(entry)) {
            if let Some(tool) = tool_of(entry) {
                tools.push((entry.name().to_owned(), tool.to_string()));
            }
        }
        tools.sort();
        let mut hasher = DefaultHasher::new();
        tools.hash(&mut hasher);
        let (names, texts) = tools.into_iter().unzip();
        Self { revision: snapshot.revision(), names, texts, mark: hasher.finish() }
    }

    /// The page after a cursor as the text of `"tools":[…]` with its `"nextCursor"`, without braces.
    pub(super) fn page(&self, cursor: Option<&Value>) -> Result<String, RpcError> {
        let begin = match cursor {
            None | Some(Value::Null) => 0,
            Some(Value::String(text)) => {
                let wrong = || RpcError::params("the cursor is none that tools/list gave");
                let name = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                let name = name.filter(|name| !name.is_empty()).ok_or_else(wrong)?;
                // The tool may be gone meanwhile: the list goes on where it would stand.
                self.names.partition_point(|known| *known <= name)
            }
            Some(_) => return Err(RpcError::params("the cursor is a string")),
        };
        let mut out = String::from("\"tools\":[");
        let mut end = begin;
        while end < self.texts.len() && end - begin < PAGE && (end == begin || out.len() < PAGE_BYTES) {
            if end > begin {
                out.push(',');
            }
            out.push_str(&self.texts[end]);
            end += 1;
        }
        out.push(']');
        if end < self.texts.len() {
            let cursor = URL_SAFE_NO_PAD.encode(&self.names[end - 1]);
            out.push_str(&format!(",\"nextCursor\":\"{cursor}\""));
        }
        Ok(out)
    }
}

/// One tool. What the server of an adopted tool says of its results is passed on.
fn tool_of(entry: &Entry) -> Option<Value> {
    let mut tool = ProviderFormat::Mcp.tool(entry.view()?).ok()?;
    let map = tool.as_object_mut()?;
    // A schema without a type is one of an object, which MCP wants to read.
    if let Some(schema) = map.get_mut("inputSchema").and_then(Value::as_object_mut) {
        schema.entry("type").or_insert_with(|| "object".into());
    }
    if let Some(mcp) = entry.as_data().and_then(|definition| definition.mcp.as_ref()) {
        if let Some(title) = &mcp.title {
            map.insert("title".into(), title.as_str().into());
        }
        let is_object = |schema: &&Value| schema.get("type").is_some_and(|kind| kind == "object");
        if let Some(schema) = mcp.output_schema.as_ref().filter(is_object) {
            map.insert("outputSchema".into(), schema.clone());
        }
    }
    Some(tool)
}

/// The result of a call as MCP gives it: `content`, `structuredContent`, `isError`.
pub(super) fn call_result(outcome: Outcome, is_current: bool, gives_content: bool) -> Map<String, Value> {
    let Outcome { status, result, trace_id, halt, approval, ledger_id, .. } = outcome;
    let is_error = !matches!(status, Status::Ok | Status::Halted);
    let mut out = match result {
        Value::Object(map) if gives_content && is_content(&map) => map,
        result => {
            let text = match (&result, result.get("error").and_then(Value::as_str)) {
                (Value::String(text), _) => text.clone(),
                (Value::Object(map), Some(error)) if map.len() == 1 => error.to_owned(),
                _ => result.to_string(),
            };
            let mut out = Map::new();
            out.insert("content".into(), json!([{ "type": "text", "text": text }]));
            // Legacy clients take objects only.
            if !is_error && (result.is_object() || (is_current && !result.is_string())) {
                out.insert("structuredContent".into(), result);
            }
            out
        }
    };
    if is_error {
        out.insert("isError".into(), true.into());
    }
    let mut meta = Map::new();
    meta.insert("toolcrib/trace_id".into(), trace_id.into());
    meta.insert("toolcrib/status".into(), status.as_str().into());
    for (key, id) in [("toolcrib/approval_id", approval), ("toolcrib/ledger_id", ledger_id)] {
        if let Some(id) = id {
            meta.insert(key.into(), id.into());
        }
    }
    if let Some(halt) = halt {
        meta.insert("toolcrib/halt".into(), json!({ "say": halt.say }));
    }
    out.insert("_meta".into(), Value::Object(meta));
    out
}

/// Whether the results of a tool may be MCP content already.
pub(super) fn gives_content(entry: &Entry) -> bool {
    entry.as_code().is_some() || entry.as_data().is_some_and(|definition| definition.extract == Extract::McpContent)
}

/// Whether a result is MCP content: a list of blocks of its types.
fn is_content(map: &Map<String, Value>) -> bool {
    let blocks = map.get("content").and_then(Value::as_array);
    let known = |block: &Value| {
        let kind = block.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| matches!(kind, "text" | "image" | "audio" | "resource" | "resource_link"))
    };
    blocks.is_some_and(|blocks| blocks.iter().all(known))
}
