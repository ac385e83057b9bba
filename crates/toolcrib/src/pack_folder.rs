//! Agents in folders: an agent file, `tools/`, `skills/` and perhaps `instructions.md`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};
use toolcrib_api::ManifestEnvironment;
use toolcrib_definition::{Definition, Manifest};
use toolcrib_registry::Agent;
use toolcrib_skills::read_root;

use crate::files::{read_data, read_text};

/// The endings of files that hold data.
const ENDINGS: [&str; 4] = ["toml", "yaml", "yml", "json"];

/// A pack as it lies in a folder.
#[derive(Debug, Clone)]
pub(crate) struct PackFolder {
    pub(crate) id: String,
    /// `{agent, tools, skills}`.
    pub(crate) document: Value,
}

/// Reads all packs of a folder: the folder itself when it holds an `agent` file, else each folder in it that does. Each
/// problem says which file it is of.
pub(crate) fn read_packs(folder: &Path, environment: &ManifestEnvironment) -> anyhow::Result<Vec<PackFolder>> {
    if !folder.is_dir() {
        bail!("{} is no folder", folder.display());
    }
    if let Some(file) = data_file(folder, "agent")? {
        return Ok(vec![read_pack(folder, &file, environment)?]);
    }
    let (mut packs, mut wrong) = (Vec::new(), Vec::new());
    for inner in sorted(folder)? {
        if inner.is_dir()
            && let Some(file) = data_file(&inner, "agent")?
        {
            match read_pack(&inner, &file, environment) {
                Ok(pack) => packs.push(pack),
                Err(error) => wrong.push(format!("{error:#}")),
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    if packs.is_empty() {
        bail!(
            "there is no agent in {}: a folder with an agent.toml, agent.yaml or agent.json, beside tools/ and skills/",
            folder.display()
        );
    }
    let mut ids = HashSet::new();
    if let Some(twice) = packs.iter().find(|pack| !ids.insert(pack.id.as_str())) {
        bail!("two folders in {} are the agent {}; give one another id", folder.display(), twice.id);
    }
    Ok(packs)
}

/// Reads a pack, and says of all its files what is wrong with them.
fn read_pack(folder: &Path, file: &Path, environment: &ManifestEnvironment) -> anyhow::Result<PackFolder> {
    let mut wrong = Vec::new();
    let mut note = |error: anyhow::Error| wrong.push(format!("{error:#}"));
    let (id, profile) = match read_profile(folder, file) {
        Ok(read) => read,
        Err(error) => {
            note(error);
            Default::default()
        }
    };
    for stray in strays(folder)? {
        eprintln!("warning: {} is no part of an agent's folder, and is left out", stray.display());
    }
    let mut tools = Vec::new();
    let tools_folder = folder.join("tools");
    if is_there(&tools_folder, "a folder", Path::is_dir).map_err(&mut note).unwrap_or(false) {
        for file in sorted(&tools_folder)? {
            match read_tools(&file, environment) {
                Ok(read) => tools.extend(read),
                Err(error) => note(error),
            }
        }
    }
    let mut skills = Vec::new();
    let skills_folder = folder.join("skills");
    if is_there(&skills_folder, "a folder", Path::is_dir).map_err(&mut note).unwrap_or(false) {
        let (read, errors) = read_root(&skills_folder);
        errors.into_iter().for_each(|error| note(error.into()));
        skills.extend(read.iter().map(|skill| json!({ "name": skill.name(), "document": skill.document() })));
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(PackFolder { id, document: json!({ "agent": profile, "tools": tools, "skills": skills }) })
}

/// Whether something is there and is what it has to be. What is there and is something else, as a link that leads nowhere, is
/// a mistake and no absence.
fn is_there(path: &Path, kind: &str, is: fn(&Path) -> bool) -> anyhow::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("{} can't be read", path.display())),
        Ok(_) if is(path) => Ok(true),
        Ok(_) => bail!("{} is not {kind}, or leads nowhere", path.display()),
    }
}

/// What lies in an agent's folder and is none of its parts: a name that is spelt otherwise, say. Notes for people may.
fn strays(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let known = |name: &str| {
        let is_agent = ENDINGS.iter().any(|ending| name == format!("agent.{ending}"));
        is_agent || matches!(name, "tools" | "skills" | "instructions.md") || name.starts_with('.')
    };
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_note = |path: &Path| {
        let lower = name(path).to_lowercase();
        lower.ends_with(".md") && lower != "instructions.md"
    };
    Ok(sorted(folder)?.into_iter().filter(|path| !known(&name(path)) && !is_note(path)).collect())
}

/// The id of an agent and its profile, checked.
fn read_profile(folder: &Path, file: &Path) -> anyhow::Result<(String, Map<String, Value>)> {
    let place = || file.display().to_string();
    let mut profile = object(file)?;
    let named = profile.shift_remove("id").map(|id| id.as_str().map(str::to_owned).context("id is no text"));
    let id = match named.transpose().with_context(place)? {
        Some(id) => id,
        None => folder_name(folder)?,
    };
    let instructions = folder.join("instructions.md");
    if is_there(&instructions, "a file", Path::is_file)? {
        if profile.contains_key("instructions") {
            bail!("{} has instructions, and there is {} too; keep one", file.display(), instructions.display());
        }
        let text = read_text(&instructions)?;
        profile.insert("instructions".to_owned(), text.trim().into());
    }
    Agent::from_json(&Value::Object(profile.clone())).with_context(place)?;
    Ok((id, profile))
}

/// The tools of a file: one definition, or a manifest, which may read what `manifest.env` lets it.
fn read_tools(file: &Path, environment: &ManifestEnvironment) -> anyhow::Result<Vec<Value>> {
    if !is_data(file) {
        // Notes for people may lie there; what looks like more than that is not passed over in silence.
        let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let hidden = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !hidden && ending != "md" {
            eprintln!("warning: {} is no .toml, .yaml or .json file, and is left out", file.display());
        }
        return Ok(Vec::new());
    }
    let value = Value::Object(object(file)?);
    let place = || file.display().to_string();
    if value.get("tools").is_none() {
        Definition::from_value(&value).with_context(place)?;
        return Ok(vec![value]);
    }
    let manifest = Manifest::from_value(&value).with_context(place)?;
    let environment = |name: &str| environment(name);
    let expanded = manifest.expand(&environment, &|_| true);
    let wrong: Vec<String> = expanded
        .errors
        .iter()
        .map(|error| format!("{}: the tool {}: {}", file.display(), error.tool, error.problems))
        .collect();
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(expanded.tools.iter().map(Definition::to_json).collect())
}

fn object(file: &Path) -> anyhow::Result<Map<String, Value>> {
    match read_data(file)? {
        Value::Object(map) => Ok(map),
        _ => bail!("{} holds no keys with values", file.display()),
    }
}

/// The one file of this name, whatever its ending.
fn data_file(folder: &Path, stem: &str) -> anyhow::Result<Option<PathBuf>> {
    let mut found = Vec::new();
    for path in ENDINGS.iter().map(|ending| folder.join(format!("{stem}.{ending}"))) {
        if is_there(&path, "a file", Path::is_file)? {
            found.push(path);
        }
    }
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        [first, second, ..] => bail!("{} and {} say the same; keep one", first.display(), second.display()),
    }
}

fn is_data(file: &Path) -> bool {
    file.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| ENDINGS.contains(&ending))
}

fn sorted(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let unreadable = || format!("{} can't be read", folder.display());
    let entries = std::fs::read_dir(folder).with_context(unreadable)?;
    let mut paths =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().with_context(unreadable)?;
    paths.sort();
    Ok(paths)
}

fn folder_name(folder: &Path) -> anyhow::Result<String> {
    let whole = folder.canonicalize().with_context(|| format!("{} can't be read", folder.display()))?;
    let name = whole.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).with_context(|| format!("{} has no name for an agent", folder.display()))
}
