//! Where values come from, one layer over the other, and which layer each came from.

use std::path::{Path, PathBuf};

use anyhow::bail;
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};

use super::Config;

/// Names without a section, for the switches that people set most.
const SHORT_NAMES: [&str; 3] = ["TOOLCRIB_EGRESS_HOSTS", "TOOLCRIB_EGRESS_ALLOW_HTTP", "TOOLCRIB_EGRESS_ALLOW_PRIVATE"];

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "toolcrib.toml";

/// Flags that stand above everything else.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `server.bind`.
    pub bind: Option<String>,
    /// `store.path`; it stands before a `store.url` that comes from elsewhere.
    pub database: Option<PathBuf>,
    /// `store.url`.
    pub database_url: Option<String>,
}

/// A configuration with where each value came from.
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    figment: Figment,
}

impl Loaded {
    /// Where the value of a key such as `server.bind` came from, in words.
    pub fn origin(&self, key: &str) -> String {
        match self.figment.find_metadata(key) {
            Some(metadata) => match &metadata.source {
                Some(figment::Source::File(path)) => path.display().to_string(),
                _ => metadata.name.to_string(),
            },
            None => "default".to_owned(),
        }
    }
}

/// Reads the configuration.
///
/// # Errors
/// Every key that is unknown or of the wrong type, and every value that makes no sense, at once.
pub fn load(file: Option<&Path>, overrides: &Overrides) -> anyhow::Result<Loaded> {
    let mut figment = Figment::from(Named("default", Serialized::defaults(Config::default())));
    figment = match file {
        Some(path) if !path.is_file() => bail!("the configuration file {} is not there", path.display()),
        Some(path) => figment.merge(Toml::file_exact(path)),
        // Exactly here, and not in a folder above, where anybody may have put one.
        None if Path::new(DEFAULT_FILE).is_file() => figment.merge(Toml::file_exact(DEFAULT_FILE)),
        None => figment,
    };
    let mut problems = Vec::new();
    figment = figment.merge(environment(&mut problems));
    let flag = |key: &str, value: &str| Named("flag", Serialized::default(key, value.to_owned()));
    if let Some(bind) = &overrides.bind {
        figment = figment.merge(flag("server.bind", bind));
    }
    if let Some(path) = &overrides.database {
        figment = figment.merge(flag("store.path", &path.to_string_lossy()));
        figment = figment.merge(Named("flag", Serialized::default("store.url", None::<String>)));
    }
    if let Some(url) = &overrides.database_url {
        figment = figment.merge(flag("store.url", url));
    }
    if let Err(error) = figment.extract::<serde_json::Map<String, serde_json::Value>>() {
        // A file that can't be read at all would otherwise be said once for every section.
        bail!("the configuration can't be read: {error}");
    }
    let config = sections(&figment, &mut problems);
    problems.extend(config.problems());
    if !problems.is_empty() {
        bail!("the configuration has problems:\n  {}", problems.join("\n  "));
    }
    Ok(Loaded { config, figment })
}

/// Reads each section for itself, so that a fault in one does not hide those of the others.
fn sections(figment: &Figment, problems: &mut Vec<String>) -> Config {
    fn section<T: Default + serde::de::DeserializeOwned>(
        figment: &Figment,
        name: &str,
        problems: &mut Vec<String>,
    ) -> T {
        figment.extract_inner(name).unwrap_or_else(|errors| {
            problems.extend(errors.into_iter().map(|error| error.to_string()));
            T::default()
        })
    }
    let config = Config {
        server: section(figment, "server", problems),
        store: section(figment, "store", problems),
        egress: section(figment, "egress", problems),
        secrets: section(figment, "secrets", problems),
        traces: section(figment, "traces", problems),
        ledger: section(figment, "ledger", problems),
        approvals: section(figment, "approvals", problems),
        providers: section(figment, "providers", problems),
        skills: section(figment, "skills", problems),
        turns: section(figment, "turns", problems),
        manifest: section(figment, "manifest", problems),
        log: section(figment, "log", problems),
    };
    if let Ok(known) = serde_json::to_value(&config)
        && let Ok(all) = figment.extract::<serde_json::Map<String, serde_json::Value>>()
    {
        for name in all.keys().filter(|name| known.get(name).is_none()) {
            problems.push(format!("there is no section {name:?}"));
        }
    }
    config
}

/// Variables that look like ours and are none: a typo in a safety switch should not pass in silence.
pub fn unknown_variables() -> Vec<String> {
    let known = ["TOOLCRIB_CONFIG", "TOOLCRIB_SERVER", "TOOLCRIB_TOKEN"];
    // Kubernetes gives these to every pod beside a service called toolcrib.
    let of_kubernetes = |name: &str| {
        name.contains("_SERVICE_")
            || name == "TOOLCRIB_PORT"
            || name.starts_with("TOOLCRIB_PORT_")
            || name.contains("_TCP")
    };
    crate::secrets::variables()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("TOOLCRIB_") && !name.contains("__") && !name.starts_with("TOOLCRIB_SECRET_"))
        .filter(|name| !known.contains(&name.as_str()) && !SHORT_NAMES.contains(&name.as_str()) && !of_kubernetes(name))
        .collect()
}

/// `TOOLCRIB_SECTION__KEY`, and the short names of the main egress switches. Everything else that
/// begins with `TOOLCRIB_` belongs to somebody else: secrets, and the command line's own. A variable that
/// is set to nothing is one that is not set: compose files write them so.
fn environment(problems: &mut Vec<String>) -> Env {
    let set = |name: &str| crate::secrets::variables().any(|(known, value)| known == name && !value.is_empty());
    for short in SHORT_NAMES {
        let long = short.replacen("EGRESS_", "EGRESS__", 1);
        if set(short) && set(&long) {
            problems.push(format!("{short} and {long} are the same key and both set; keep one"));
        }
    }
    Env::raw().filter_map(move |key| {
        let name = key.as_str().to_ascii_uppercase();
        let rest = name.strip_prefix("TOOLCRIB_")?;
        let key = if SHORT_NAMES.contains(&name.as_str()) {
            rest.replacen('_', ".", 1)
        } else if rest.starts_with("SECRET_") || !rest.contains("__") {
            return None;
        } else if rest.starts_with("PROVIDERS__") {
            // The name of the provider stands between.
            rest.replace("__", ".")
        } else {
            rest.replacen("__", ".", 1)
        };
        let empty = crate::secrets::variables().any(|(known, value)| known == name && value.is_empty());
        (!empty).then(|| key.to_ascii_lowercase().into())
    })
}

/// A provider under another name, for `config show`.
struct Named<P>(&'static str, P);

impl<P: figment::Provider> figment::Provider for Named<P> {
    fn metadata(&self) -> figment::Metadata {
        figment::Metadata::named(self.0)
    }

    fn data(&self) -> Result<figment::value::Map<figment::Profile, figment::value::Dict>, figment::Error> {
        self.1.data()
    }
}
