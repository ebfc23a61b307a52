//! `deny.toml`: the part of cargo-deny's format that is judged here. An unknown field is an error, so that nobody
//! relies on a field that does nothing.

use std::path::Path;

use serde::Deserialize;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// What is looked at.
    pub graph: Graph,
    /// Which licences are fine.
    pub licenses: Licenses,
    /// Where packages may come from.
    pub sources: Sources,
    /// What may be there twice.
    pub bans: Bans,
    /// Judged by cargo-deny alone.
    #[serde(rename = "advisories")]
    pub _advisories: toml::Table,
}

/// What is looked at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Graph {
    /// The systems that it is built for.
    pub targets: Vec<String>,
    /// With all features.
    pub all_features: bool,
}

/// Which licences are fine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Licenses {
    /// Their SPDX identifiers.
    pub allow: Vec<String>,
    /// Packages that may have others: tools, of which nothing gets into what is built.
    #[serde(default)]
    pub exceptions: Vec<Exception>,
}

/// A package that may have a licence of its own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// Its name.
    #[serde(rename = "crate")]
    pub package: String,
    /// SPDX identifiers.
    pub allow: Vec<String>,
}

/// Where packages may come from; besides the workspace itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sources {
    /// Others are refused.
    #[serde(rename = "unknown-registry")]
    pub _unknown_registry: Deny,
    /// Repositories are refused.
    #[serde(rename = "unknown-git")]
    pub _unknown_git: Deny,
    /// Registries that are fine.
    pub allow_registry: Vec<String>,
}

/// What may be there twice.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bans {
    /// Two versions of one package.
    #[serde(rename = "multiple-versions")]
    pub _multiple_versions: Deny,
    /// Versions that do not count.
    pub skip: Vec<Skip>,
}

/// The only level that is understood; cargo-deny knows more. A person would have to read anything milder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deny {
    /// It is an error.
    Deny,
}

/// A version that does not count as a second one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// `NAME@VERSION`; the version may leave out its last numbers.
    #[serde(rename = "crate")]
    pub package: String,
    /// Who asks for it.
    #[serde(rename = "reason")]
    pub _reason: String,
}

impl Skip {
    /// Whether a package is meant.
    pub fn is(&self, name: &str, version: &str) -> bool {
        let Some((wanted, numbers)) = self.package.split_once('@') else {
            return false;
        };
        let rest = version.strip_prefix(numbers);
        wanted == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '+', '-']))
    }
}

/// Reads the file.
pub fn read(path: &Path) -> Result<Config, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}
