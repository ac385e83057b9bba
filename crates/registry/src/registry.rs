//! The registry: the writing side of the catalog, and its current snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio::sync::{Mutex, watch};
use toolcrib_definition::{Definition, json};
use toolcrib_store::{
    AgentRow, Expect, PackApplied, PackRows, Revision, Store, StoreError, ToolRow, WriteKind, Written,
};

use crate::agent::{Agent, AgentId};
use crate::code_tool::{CodeTool, RegisteredCodeTool, TransactionalTool};
use crate::entry::{Entry, read_row};
use crate::error::RegistryError;
use crate::search::{Hit, Search};
use crate::snapshot::{BrokenRow, Snapshot};

/// How many changed rows are read at once.
const ROWS_AT_ONCE: u32 = 2_000;

/// Tools of the turn itself, which no other tool may be called like.
pub const SYSTEM_TOOLS: [&str; 3] = ["tool_search", "load_skill", "spawn_subagents"];

/// The live catalog. Share it behind an [`Arc`].
pub struct Registry {
    store: Store,
    code: BTreeMap<String, Arc<RegisteredCodeTool>>,
    snapshot: ArcSwap<Snapshot>,
    search: Search,
    refreshing: Mutex<()>,
    revision: watch::Sender<Revision>,
}

/// What an import did, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Tools that are new.
    pub created: Vec<String>,
    /// Tools that changed.
    pub updated: Vec<String>,
    /// Tools that said the same already.
    pub unchanged: Vec<String>,
}

/// Collects code tools before the catalog opens.
pub struct RegistryBuilder {
    store: Store,
    code: Vec<Result<RegisteredCodeTool, RegistryError>>,
}

impl RegistryBuilder {
    /// Adds a tool written in Rust.
    #[must_use]
    pub fn code_tool<T: CodeTool>(mut self, tool: T) -> Self {
        self.code.push(RegisteredCodeTool::new(tool));
        self
    }

    /// Adds the tool `ask_question`, by which an agent that names it asks an operator.
    #[must_use]
    pub fn ask_question(mut self) -> Self {
        self.code.push(RegisteredCodeTool::ask_question());
        self
    }

    /// Adds a tool written in Rust whose effect is in the store's own database.
    #[must_use]
    pub fn transactional_tool<T: TransactionalTool>(mut self, tool: T) -> Self {
        self.code.push(RegisteredCodeTool::transactional(tool));
        self
    }

    /// Reads the rows and opens the catalog.
    ///
    /// # Errors
    /// [`RegistryError`] when a code tool breaks a rule, or the rows can't be read.
    pub async fn open(self) -> Result<Arc<Registry>, RegistryError> {
        let mut code = BTreeMap::new();
        let mut snapshot = Snapshot::default();
        let search = Search::default();
        for tool in self.code {
            let tool = Arc::new(tool?);
            let name = tool.name().to_string();
            let of_the_turn = SYSTEM_TOOLS.contains(&name.as_str());
            if of_the_turn || code.insert(name.clone(), Arc::clone(&tool)).is_some() {
                return Err(RegistryError::SameName { name });
            }
            search.put(tool.view(), tool.group(), &[]);
            snapshot.put_tool(Entry::code(tool));
        }
        let registry = Registry {
            store: self.store,
            code,
            snapshot: ArcSwap::from_pointee(snapshot),
            search,
            refreshing: Mutex::new(()),
            revision: watch::Sender::new(Revision::default()),
        };
        registry.refresh().await?;
        Ok(Arc::new(registry))
    }
}

impl Registry {
    /// Begins a registry over these rows.
    pub fn builder(store: Store) -> RegistryBuilder {
        RegistryBuilder { store, code: Vec::new() }
    }

    /// The rows underneath.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The catalog as it is now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Follows the revision of the catalog.
    pub fn changes(&self) -> watch::Receiver<Revision> {
        self.revision.subscribe()
    }

    /// Writes a tool. The next call sees it.
    ///
    /// # Errors
    /// [`RegistryError::ShadowsCode`] for a name in use by code, and the store's errors.
    pub async fn put_tool(&self, tool: &Definition, expect: Expect, actor: &str) -> Result<Written, RegistryError> {
        self.refuse_code_name(tool.name.as_str())?;
        let written = self.store.put_tool(tool, expect, actor).await?;
        self.refresh_after_write().await;
        Ok(written)
    }

    /// Writes many tools in one transaction. The names of code tools must be taken out before.
    ///
    /// # Errors
    /// [`RegistryError::ShadowsCode`] for a name in use by code, and the store's errors.
    pub async fn put_tools(&self, tools: &[Definition], actor: &str) -> Result<Imported, RegistryError> {
        for tool in tools {
            self.refuse_code_name(tool.name.as_str())?;
        }
        let written = self.store.put_tools(tools, actor).await?;
        self.refresh_after_write().await;
        let mut imported = Imported::default();
        for (tool, written) in tools.iter().zip(written) {
            let list = match written.kind {
                WriteKind::Created => &mut imported.created,
                WriteKind::Updated => &mut imported.updated,
                WriteKind::Unchanged => &mut imported.unchanged,
            };
            list.push(tool.name.to_string());
        }
        Ok(imported)
    }

    /// Writes many tools in one transaction, each with what the writer believes of its row.
    ///
    /// # Errors
    /// [`RegistryError::ShadowsCode`] for a name in use by code, and the store's errors, a stale revision
    /// among them.
    pub async fn put_tools_expecting(
        &self,
        tools: &[(Definition, Expect)],
        actor: &str,
    ) -> Result<Vec<Written>, RegistryError> {
        for (tool, _) in tools {
            self.refuse_code_name(tool.name.as_str())?;
        }
        let written = self.store.put_tools_expecting(tools, actor).await?;
        self.refresh_after_write().await;
        Ok(written)
    }

    /// Deletes a tool. `Ok(None)` when there is none.
    ///
    /// # Errors
    /// [`RegistryError::ShadowsCode`] for a code tool, and the store's errors.
    pub async fn delete_tool(&self, name: &str, expect: Expect) -> Result<Option<Revision>, RegistryError> {
        // A row below a code tool may go: that is how doctor's finding is mended.
        let has_row = self.snapshot().shadowed().any(|shadowed| shadowed == name);
        if !has_row {
            self.refuse_code_name(name)?;
        }
        let revision = self.store.delete_tool(name, expect).await?;
        self.refresh_after_write().await;
        Ok(revision)
    }

    /// Writes an agent with its tools and its own skills in one transaction. The next call sees it. With `dry`, nothing is
    /// written, and the answer is what would be.
    ///
    /// # Errors
    /// [`RegistryError::ShadowsCode`] for a tool's name in use by code, and the store's errors.
    pub async fn apply_pack(
        &self,
        pack: &PackRows,
        expect: Expect,
        actor: &str,
        dry: bool,
    ) -> Result<PackApplied, RegistryError> {
        for tool in &pack.tools {
            self.refuse_code_name(tool.name.as_str())?;
        }
        let applied = self.store.apply_pack(pack, expect, actor, dry).await?;
        self.refresh_after_write().await;
        Ok(applied)
    }

    /// Writes an agent's profile. The next call sees it.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn put_agent(&self, id: &AgentId, agent: &Agent, expect: Expect) -> Result<Written, RegistryError> {
        let written = self.store.put_agent(id.as_str(), &agent.to_json().to_string(), expect).await?;
        self.refresh_after_write().await;
        Ok(written)
    }

    /// Deletes an agent. `Ok(None)` when there is none.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn delete_agent(&self, id: &str, expect: Expect) -> Result<Option<Revision>, RegistryError> {
        let revision = self.store.delete_agent(id, expect).await?;
        self.refresh_after_write().await;
        Ok(revision)
    }

    /// The best tools for a query that `accept` lets through, best first.
    pub fn search(&self, query: &str, most: usize, accept: impl Fn(&Entry) -> bool) -> Vec<Hit> {
        let snapshot = self.snapshot();
        self.search.find(query, most, |name| snapshot.tool(name).is_some_and(|tool| accept(tool)))
    }

    /// Whether a name belongs to a tool that is compiled in: a code tool, or one of the turn itself.
    pub fn is_code(&self, name: &str) -> bool {
        self.code.contains_key(name) || SYSTEM_TOOLS.contains(&name)
    }

    /// Shows what was written. That it can't be read now is no fault of the write; whoever looks next takes it over.
    async fn refresh_after_write(&self) {
        if let Err(error) = self.refresh().await {
            tracing::warn!(error = %error, reason = error.reason(), "registry.refresh failed after a write");
        }
    }

    /// Takes over what changed in the rows since the snapshot, whoever changed it.
    ///
    /// # Errors
    /// The store's errors; the snapshot stays as it was.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.refreshing.lock().await;
        let known = self.snapshot.load_full();
        // Rows above this revision are another refresh's: the snapshot never claims to show more than
        // it read.
        let revision = self.store.revision().await?;
        if revision == known.revision() {
            return Ok(());
        }
        let mut next = Snapshot::clone(&known);
        let mut since = known.revision();
        loop {
            let rows = self.store.tools_changed(since, revision, ROWS_AT_ONCE).await?;
            let full = rows.len() == ROWS_AT_ONCE as usize;
            let rows = readable(rows, &mut next);
            let read = read_rows(&rows);
            for (row, definition) in rows.iter().zip(read) {
                self.apply_tool(&mut next, row, definition);
            }
            match rows.last() {
                Some(last) if full => since = last.revision,
                _ => break,
            }
        }
        let rows = self.store.agents_changed(known.revision(), revision).await?;
        for row in readable(rows, &mut next) {
            apply_agent(&mut next, &row);
        }
        next.set_revision(revision);
        self.snapshot.store(Arc::new(next));
        self.revision.send_replace(revision);
        Ok(())
    }

    fn refuse_code_name(&self, name: &str) -> Result<(), RegistryError> {
        if self.is_code(name) { Err(RegistryError::ShadowsCode { name: name.to_owned() }) } else { Ok(()) }
    }

    fn apply_tool(&self, next: &mut Snapshot, row: &ToolRow, read: Option<Result<Definition, BrokenRow>>) {
        if self.is_code(&row.name) {
            match row.definition {
                Some(_) => next.put_shadowed(&row.name),
                None => next.remove_shadowed(&row.name),
            }
            return;
        }
        match read {
            None => {
                self.search.remove(&row.name);
                next.remove_tool(&row.name);
            }
            Some(Ok(definition)) => {
                self.search.put((&definition).into(), definition.group.as_deref(), &definition.tags);
                let json = row.definition.as_deref().unwrap_or_default();
                next.put_tool(Entry::data(&definition, json, row.revision, row.version, row.updated_at));
            }
            Some(Err(broken)) => {
                self.search.remove(&row.name);
                next.put_broken(&row.name, broken);
            }
        }
    }
}

/// The rows that can be read; the others are kept in mind for doctor.
fn readable<T>(rows: Vec<Result<T, StoreError>>, next: &mut Snapshot) -> Vec<T> {
    let mut good = Vec::with_capacity(rows.len());
    for row in rows {
        match row {
            Ok(row) => good.push(row),
            Err(error) => next.put_unreadable(error.to_string()),
        }
    }
    good
}

/// Reads the definitions of rows; none for a deleted one.
fn read_rows(rows: &[ToolRow]) -> Vec<Option<Result<Definition, BrokenRow>>> {
    let read = |row: &ToolRow| {
        let definition = row.definition.as_ref()?;
        Some(read_row(&row.name, definition).map_err(|problems| BrokenRow { revision: row.revision, problems }))
    };
    rows.iter().map(read).collect()
}

fn apply_agent(next: &mut Snapshot, row: &AgentRow) {
    let Some(profile) = &row.profile else {
        next.remove_agent(&row.id);
        return;
    };
    let value = json::parse(profile.as_bytes()).unwrap_or(Value::Null);
    match Agent::from_json(&value) {
        Ok(agent) => next.put_agent(&row.id, agent, row.revision),
        Err(problems) => next.put_broken_agent(&row.id, BrokenRow { revision: row.revision, problems }),
    }
}
