//! The packages that are linked or run in a build, by `cargo metadata`.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::config::Graph;
use crate::test::cargo;

/// A package.
#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its identity, as cargo has it.
    pub id: String,
    /// An expression; none if it states none.
    pub license: Option<String>,
    /// Where it comes from; `None` for the workspace's own.
    pub source: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
}

/// Asks cargo, which may have to fetch what was never built here.
pub fn packages(root: &Path, graph: &Graph) -> Result<Vec<Package>, String> {
    let mut command = Command::new(cargo());
    command.current_dir(root);
    command.args(["metadata", "--format-version", "1", "--locked"]);
    if graph.all_features {
        command.arg("--all-features");
    }
    for target in &graph.targets {
        command.args(["--filter-platform", target]);
    }
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", output.status));
    }
    parse(&output.stdout)
}

/// The packages that a build uses.
pub fn parse(metadata: &[u8]) -> Result<Vec<Package>, String> {
    let metadata: Metadata =
        serde_json::from_slice(metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let used: HashSet<String> = metadata.resolve.nodes.into_iter().map(|node| node.id).collect();
    let packages = metadata.packages.into_iter();
    Ok(packages.filter(|package| used.contains(&package.id)).collect())
}
