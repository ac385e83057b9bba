//! Where values come from, one layer over the other, and which layer each came from.

use std::path::{Path, PathBuf};

use anyhow::bail;
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};

use super::Config;

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "toolcrib.toml";

/// Flags that stand above everything else.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `server.bind`.
    pub bind: Option<String>,
    /// `store.path`.
    pub database: Option<PathBuf>,
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
        None => figment.merge(Toml::file(DEFAULT_FILE)),
    };
    figment = figment.merge(environment());
    let flag = |key: &str, value: &str| Named("flag", Serialized::default(key, value.to_owned()));
    if let Some(bind) = &overrides.bind {
        figment = figment.merge(flag("server.bind", bind));
    }
    if let Some(path) = &overrides.database {
        figment = figment.merge(flag("store.path", &path.to_string_lossy()));
    }
    let mut problems = Vec::new();
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
    let known = [
        "TOOLCRIB_CONFIG",
        "TOOLCRIB_SERVER",
        "TOOLCRIB_TOKEN",
        "TOOLCRIB_EGRESS_HOSTS",
        "TOOLCRIB_EGRESS_ALLOW_HTTP",
        "TOOLCRIB_EGRESS_ALLOW_PRIVATE",
    ];
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
        .filter(|name| !known.contains(&name.as_str()) && !of_kubernetes(name))
        .collect()
}

/// `TOOLCRIB_SECTION__KEY`, and the short names of the main egress switches. Everything else that
/// begins with `TOOLCRIB_` belongs to somebody else: secrets, and the command line's own.
fn environment() -> Env {
    Env::raw()
        .filter_map(|key| {
            let key = key.as_str().to_ascii_uppercase();
            let rest = key.strip_prefix("TOOLCRIB_")?;
            let name = match rest {
                "EGRESS_HOSTS" | "EGRESS_ALLOW_HTTP" | "EGRESS_ALLOW_PRIVATE" => rest.replacen('_', ".", 1),
                _ if rest.starts_with("SECRET_") || !rest.contains("__") => return None,
                _ => rest.replacen("__", ".", 1),
            };
            Some(name.to_ascii_lowercase().into())
        })
        .ignore_empty_values()
}

trait IgnoreEmpty {
    fn ignore_empty_values(self) -> Self;
}

impl IgnoreEmpty for Env {
    /// A variable that is set to nothing is one that is not set: compose files write them so.
    fn ignore_empty_values(self) -> Self {
        let empty: Vec<String> =
            self.iter().filter(|(_, value)| value.is_empty()).map(|(key, _)| key.to_string()).collect();
        self.filter(move |key| !empty.iter().any(|name| key == name.as_str()))
    }
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
