//! A tool of the catalog, whether it is code or data.

use std::sync::{Arc, OnceLock};

use toolcrib_definition::{Definition, EffectMode, Problem, ProblemCode, Problems, ToolName, ToolView};
use toolcrib_store::Revision;

use crate::code_tool::RegisteredCodeTool;

/// Where a tool comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Compiled into the program.
    Code,
    /// A row.
    Data,
}

impl Origin {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Code => "code",
            Origin::Data => "data",
        }
    }
}

/// A tool of the catalog.
///
/// A data tool is kept as its JSON text and read on first use: a hundred thousand parsed
/// definitions would take many times their text.
pub struct Entry {
    name: ToolName,
    group: Option<Box<str>>,
    tags: Box<[Box<str>]>,
    /// Why it can't be used now.
    disabled: Option<Box<str>>,
    body: Body,
}

enum Body {
    Code(Arc<RegisteredCodeTool>),
    Data { json: Box<str>, revision: Revision, version: i64, updated_at: i64, read: OnceLock<Option<Arc<Definition>>> },
}

impl Entry {
    pub(crate) fn code(tool: Arc<RegisteredCodeTool>) -> Self {
        Self {
            name: tool.name().clone(),
            group: tool.group().map(Into::into),
            tags: Box::default(),
            disabled: None,
            body: Body::Code(tool),
        }
    }

    pub(crate) fn data(definition: &Definition, json: &str, revision: Revision, version: i64, updated_at: i64) -> Self {
        Self {
            name: definition.name.clone(),
            group: definition.group.as_deref().map(Into::into),
            tags: definition.tags.iter().map(|tag| tag.as_str().into()).collect(),
            disabled: definition.mcp.as_ref().and_then(|mcp| mcp.disabled.as_deref()).map(Into::into),
            body: Body::Data { json: json.into(), revision, version, updated_at, read: OnceLock::new() },
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The group.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// The free labels.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().map(AsRef::as_ref)
    }

    /// Why it can't be used now, when it can't.
    pub fn disabled(&self) -> Option<&str> {
        self.disabled.as_deref()
    }

    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        match self.body {
            Body::Code(_) => Origin::Code,
            Body::Data { .. } => Origin::Data,
        }
    }

    /// The revision of the row; none for code.
    pub fn revision(&self) -> Option<Revision> {
        match &self.body {
            Body::Code(_) => None,
            Body::Data { revision, .. } => Some(*revision),
        }
    }

    /// The version of the row; none for code.
    pub fn version(&self) -> Option<i64> {
        match &self.body {
            Body::Code(_) => None,
            Body::Data { version, .. } => Some(*version),
        }
    }

    /// When the row was last written, in ms since 1970; none for code.
    pub fn updated_at(&self) -> Option<i64> {
        match &self.body {
            Body::Code(_) => None,
            Body::Data { updated_at, .. } => Some(*updated_at),
        }
    }

    /// The stored form of a data tool.
    pub fn json(&self) -> Option<&str> {
        match &self.body {
            Body::Code(_) => None,
            Body::Data { json, .. } => Some(json),
        }
    }

    /// The code tool, when it is one.
    pub fn as_code(&self) -> Option<&Arc<RegisteredCodeTool>> {
        match &self.body {
            Body::Code(tool) => Some(tool),
            Body::Data { .. } => None,
        }
    }

    /// The definition of a data tool, read on first use and kept.
    pub fn as_data(&self) -> Option<&Arc<Definition>> {
        match &self.body {
            Body::Code(_) => None,
            Body::Data { json, read, .. } => {
                // The text was read once before it came into the catalog, so it reads again.
                read.get_or_init(|| Definition::from_json(json.as_bytes()).ok().map(Arc::new)).as_ref()
            }
        }
    }

    /// What a crash may do to a call.
    pub fn effect(&self) -> EffectMode {
        match &self.body {
            Body::Code(tool) => tool.effect(),
            Body::Data { .. } => self.as_data().map_or(EffectMode::AtMostOnce, |definition| definition.effect()),
        }
    }

    /// What a provider is told of the tool.
    pub fn view(&self) -> Option<ToolView<'_>> {
        match &self.body {
            Body::Code(tool) => Some(tool.view()),
            Body::Data { .. } => self.as_data().map(|definition| ToolView::from(definition.as_ref())),
        }
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .field("origin", &self.origin())
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}

/// Reads a stored definition, whose name must be that of its row.
pub(crate) fn read_row(name: &str, json: &str) -> Result<Definition, Problems> {
    let definition = Definition::from_json(json.as_bytes())?;
    if definition.name.as_str() == name {
        Ok(definition)
    } else {
        let message = format!("the row is called {name:?} and its definition {:?}", definition.name.as_str());
        Err(Problems::from_iter([Problem { pointer: "/name".to_owned(), code: ProblemCode::Name, message }]))
    }
}
