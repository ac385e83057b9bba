//! Secrets from the environment and from a folder, in memory.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context;
use secrecy::SecretString;
use toolcrib_definition::Secrets;

/// The secrets of one moment. Reading them again makes another value.
pub(crate) struct ConfiguredSecrets {
    values: HashMap<String, SecretString>,
}

const PREFIX: &str = "TOOLCRIB_SECRET_";

impl ConfiguredSecrets {
    /// Reads `TOOLCRIB_SECRET_<NAME>` and the files of the folder, which stand before them.
    pub(crate) fn read(folder: Option<&Path>) -> anyhow::Result<Self> {
        let mut values = HashMap::new();
        for (name, value) in variables() {
            if let Some(name) = name.strip_prefix(PREFIX) {
                insert(&mut values, name, &value);
            }
        }
        if let Some(folder) = folder {
            let unreadable = || format!("the folder of secrets {} can't be read", folder.display());
            for entry in std::fs::read_dir(folder).with_context(unreadable)? {
                let path = entry.with_context(unreadable)?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                // Containers keep their own folders and links beside the files, behind two dots.
                if name.starts_with('.') || !path.is_file() {
                    continue;
                }
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("the secret file {} can't be read as text", path.display()))?;
                insert(&mut values, &name, &text);
            }
        }
        Ok(Self { values })
    }

    /// How many there are, for the log.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

/// A line break at the end belongs to the editor, and a secret of nothing is none.
fn insert(values: &mut HashMap<String, SecretString>, name: &str, text: &str) {
    let value = text.trim_end_matches(['\n', '\r']);
    if !value.is_empty() {
        values.insert(key_of(name), SecretString::from(value));
    }
}

#[expect(clippy::disallowed_methods, reason = "the binary is where the environment is read")]
pub(crate) fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Names have no case, and a dot is an underscore: a variable can spell neither.
fn key_of(name: &str) -> String {
    name.to_ascii_lowercase().replace('.', "_")
}

impl Secrets for ConfiguredSecrets {
    fn secret(&self, name: &str) -> Option<SecretString> {
        self.values.get(&key_of(name)).cloned()
    }
}

/// What manifests may read of the environment.
pub(crate) fn manifest_environment(allowed: Vec<String>) -> toolcrib_api::ManifestEnvironment {
    std::sync::Arc::new(move |name: &str| {
        let allows = allowed.iter().any(|entry| entry == "*" || entry == name);
        if !allows || name.to_ascii_uppercase().starts_with("TOOLCRIB_") {
            return None;
        }
        variables().find(|(known, _)| known == name).map(|(_, value)| value)
    })
}
