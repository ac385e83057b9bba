//! Reading what a person hands to a command: a file, standard input, or text.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;
use toolcrib_definition::json::{ReadOptions, read};

/// Reads JSON from a file, or from standard input when the path is `-`, exactly.
///
/// # Errors
/// When the file can't be read, or is not JSON: with line and column.
pub fn read_json(path: &Path) -> anyhow::Result<Value> {
    let (name, bytes) = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("standard input can't be read")?;
        ("standard input".to_owned(), bytes)
    } else {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).with_context(|| format!("{name} can't be read"))?;
        (name, bytes)
    };
    let options = ReadOptions { max_bytes: toolcrib_api::MAX_MANIFEST, ..ReadOptions::default() };
    read(&bytes, options).with_context(|| name)
}

/// The longest file of a pack, in bytes (4 MiB).
const LONGEST: u64 = 4 << 20;

/// Reads a text file of a bounded length. What is no file, as a pipe or a device, is refused and not waited for.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    let name = || path.display().to_string();
    let metadata = std::fs::metadata(path).with_context(|| format!("{} can't be read", name()))?;
    if !metadata.is_file() {
        bail!("{} is no file", name());
    }
    if metadata.len() > LONGEST {
        bail!("{} is longer than {LONGEST} bytes", name());
    }
    std::fs::read_to_string(path).with_context(|| format!("{} can't be read", name()))
}

/// Reads a file of TOML, YAML or JSON, by its ending.
///
/// # Errors
/// When the file can't be read, or is not what its ending says: with line and column.
pub(crate) fn read_data(path: &Path) -> anyhow::Result<Value> {
    let name = || path.display().to_string();
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if ending == "json" {
        return read(read_text(path)?.as_bytes(), ReadOptions::default()).with_context(name);
    }
    let text = read_text(path)?;
    match ending {
        "toml" => toml::from_str(&text).with_context(name),
        "yaml" | "yml" => serde_saphyr::from_str(&text).with_context(name),
        _ => bail!("{} is no file of TOML, YAML or JSON by its ending", name()),
    }
}

/// Reads arguments: JSON text, or `@file`.
pub(crate) fn read_arguments(text: &str) -> anyhow::Result<Value> {
    match text.strip_prefix('@') {
        Some(path) => read_json(Path::new(path)),
        None => read(text.as_bytes(), ReadOptions::default()).context("the arguments"),
    }
}

/// Reads `key=value` pairs into a ctx.
pub(crate) fn read_ctx(pairs: &[String]) -> anyhow::Result<Value> {
    let pair = |pair: &String| {
        let (key, value) = pair.split_once('=').with_context(|| format!("ctx {pair:?} is no key=value"))?;
        Ok((key.to_owned(), Value::from(value)))
    };
    Ok(Value::Object(pairs.iter().map(pair).collect::<anyhow::Result<_>>()?))
}
