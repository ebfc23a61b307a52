//! A layer of the library uses only itself and the layers below it, and only the memory layer touches the hardware.
//!
//! A folder of `crates/cenote/src` is a layer; so is a file of that name beside it. Other files there (`error.rs`) are
//! helpers: a helper stands as high as the highest thing that it names, so that nothing reaches up through it. The same
//! holds for what `lib.rs` re-exports: `crate::Map` counts as the module that `Map` comes from. Tests are not exempt
//! from the order of layers; a test that needs a higher layer belongs to that layer or to `crates/cenote/tests`.

use super::source::{Path, Source};
use super::tree::{File, Tree};
use super::{Finding, LIBRARY};
use std::collections::BTreeMap;

/// Bottom first. `ARCHITECTURE.md` shows the same table: change both together.
pub const LAYERS: &[&str] = &["memory", "pod", "sync", "index", "store"];

/// The layer that may name raw atomics, instructions and mappings.
const HARDWARE_LAYER: &str = "memory";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let library = Library::new(tree);
    let mut findings = library.unknown_folders(tree);
    for (file, source) in library_sources(tree) {
        findings.extend(library.order(file, source));
    }
    for (file, source) in tree.sources() {
        if file.path.starts_with(&format!("{LIBRARY}/")) && !file.is_test_only() {
            findings.extend(hardware(file, source));
        }
    }
    findings
}

/// The files that lie in some layer.
pub fn files(tree: &Tree) -> impl Iterator<Item = &File> {
    library_sources(tree)
        .map(|(file, _)| file)
        .filter(|file| layer_of(&file.path).is_some())
}

fn library_sources(tree: &Tree) -> impl Iterator<Item = (&File, &Source)> {
    tree.sources()
        .filter(|(file, _)| in_library(&file.path).is_some())
}

/// The path below the library's `src/`, if the file lies there.
pub(super) fn in_library(path: &str) -> Option<&str> {
    below_src(path, LIBRARY)
}

/// The path below a crate's `src/`, if the file lies there.
pub(super) fn below_src<'p>(path: &'p str, of: &str) -> Option<&'p str> {
    path.strip_prefix(of)?.strip_prefix("/src/")
}

/// The place of the file's layer in [`LAYERS`].
fn layer_of(path: &str) -> Option<usize> {
    layer_named(module_path(path, LIBRARY)?.first()?)
}

fn layer_named(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == name)
}

/// The modules that a file of a crate stands for: `src/pod/group.rs` gives `pod`, `group`; `src/lib.rs` nothing.
pub(super) fn module_path<'p>(path: &'p str, of: &str) -> Option<Vec<&'p str>> {
    let mut parts: Vec<&str> = below_src(path, of)?.strip_suffix(".rs")?.split('/').collect();
    let is_root = parts.len() == 1 && matches!(parts[0], "lib" | "main");
    if is_root || parts.last() == Some(&"mod") {
        parts.pop();
    }
    Some(parts)
}

/// What can be named behind `crate::`.
struct Library {
    /// Helper modules: the place of the highest layer that each reaches, `None` if it reaches none.
    helpers: BTreeMap<String, Option<usize>>,
    /// Names that `lib.rs` re-exports, with the module that each comes from.
    exports: BTreeMap<String, String>,
}

impl Library {
    fn new(tree: &Tree) -> Library {
        let mut library = Library {
            helpers: BTreeMap::new(),
            exports: BTreeMap::new(),
        };
        let mut named: Vec<(String, Vec<String>)> = Vec::new();
        for (file, source) in library_sources(tree) {
            let module = module_path(&file.path, LIBRARY).unwrap_or_default();
            match module.first() {
                None => library.exports.extend(exports(source)),
                Some(name) if layer_named(name).is_none() => {
                    library.helpers.insert((*name).to_owned(), None);
                    let targets = source
                        .paths()
                        .iter()
                        .filter_map(|path| target(path, &module))
                        .collect();
                    named.push(((*name).to_owned(), targets));
                }
                Some(_) => {}
            }
        }
        // Helpers may name each other, even in a cycle: raise them until nothing changes.
        loop {
            let before = library.helpers.clone();
            for (helper, targets) in &named {
                let height = targets.iter().filter_map(|name| library.height(name)).max();
                let place = library.helpers.entry(helper.clone()).or_default();
                *place = (*place).max(height);
            }
            if library.helpers == before {
                return library;
            }
        }
    }

    /// The layer that a use of `crate::name` reaches; `None` if it reaches none.
    fn height(&self, name: &str) -> Option<usize> {
        if let Some(layer) = layer_named(name) {
            return Some(layer);
        }
        if let Some(helper) = self.helpers.get(name) {
            return *helper;
        }
        let module = self.exports.get(name)?;
        layer_named(module).or_else(|| self.helpers.get(module).copied().flatten())
    }

    /// Folders beside the layers that the table does not know.
    fn unknown_folders(&self, tree: &Tree) -> Vec<Finding> {
        let mut findings: Vec<Finding> = Vec::new();
        for (file, _) in library_sources(tree) {
            let Some((folder, _)) = in_library(&file.path).and_then(|path| path.split_once('/')) else {
                continue;
            };
            let what = format!("the folder `{folder}` is not in the table of layers");
            if folder != "bin"
                && layer_named(folder).is_none()
                && findings.iter().all(|other| other.what != what)
            {
                let remedy = "put it into LAYERS (xtask/src/tidy/layers.rs) and ARCHITECTURE.md at its height, or make it one file";
                findings.push(Finding::error(&file.path, 1, what, remedy));
            }
        }
        findings
    }

    /// Uses of higher layers in one file.
    fn order(&self, file: &File, source: &Source) -> Vec<Finding> {
        let (Some(module), Some(layer)) = (module_path(&file.path, LIBRARY), layer_of(&file.path)) else {
            return Vec::new();
        };
        let mut findings = Vec::new();
        for path in source.paths() {
            let Some(name) = target(&path, &module) else {
                continue;
            };
            let Some(height) = self.height(&name).filter(|height| *height > layer) else {
                continue;
            };
            let (own, other) = (LAYERS[layer], LAYERS[height]);
            let through = if name == other {
                String::new()
            } else {
                format!(", reached through `{name}`")
            };
            findings.push(Finding::error(
                &file.path,
                path.line,
                format!("`{}` uses the layer `{other}`{through}, which is above `{own}`", path.segments.join("::")),
                format!(
                    "move what both need down into `{own}` or below, or let `{other}` hand it in (a type parameter, a closure)"
                ),
            ));
        }
        findings
    }
}

/// What `lib.rs` makes nameable as `crate::name`: its re-exports, each with the module it comes from.
fn exports(source: &Source) -> Vec<(String, String)> {
    let of_root = |path: &Path| {
        let first = path
            .segments
            .iter()
            .find(|segment| !matches!(segment.as_str(), "crate" | "self"))?;
        (path.is_public_use && path.modules.is_empty()).then(|| (path.name.clone(), first.clone()))
    };
    source.paths().iter().filter_map(of_root).collect()
}

/// The name in the crate's root that a path goes through, if it goes through the root.
fn target(path: &Path, file_module: &[&str]) -> Option<String> {
    let segments: Vec<&str> = path.segments.iter().map(String::as_str).collect();
    let first = *segments.first()?;
    if first == "crate" || first == "cenote" {
        return segments.get(1).map(|name| (*name).to_owned());
    }
    // `super::super::store` leads to the root as well.
    let relative: Vec<&str> = segments
        .iter()
        .skip_while(|segment| **segment == "self")
        .copied()
        .collect();
    let ups = relative.iter().take_while(|segment| **segment == "super").count();
    let depth = file_module.len() + path.modules.len();
    (ups > 0 && ups == depth).then(|| relative.get(ups).map(|name| (*name).to_owned()))?
}

/// Raw atomics, processor instructions and mappings outside the layer that owns them.
fn hardware(file: &File, source: &Source) -> Vec<Finding> {
    if module_path(&file.path, LIBRARY).is_some_and(|module| module.first() == Some(&HARDWARE_LAYER)) {
        return Vec::new();
    }
    let mut findings: Vec<Finding> = Vec::new();
    for path in source.paths() {
        let Some((what, remedy)) = hardware_in(&path.segments) else {
            continue;
        };
        let what = format!("`{}`: {what} outside the memory layer", path.segments.join("::"));
        findings.push(Finding::error(&file.path, path.line, what, remedy));
    }
    findings
}

fn hardware_in(segments: &[String]) -> Option<(&'static str, &'static str)> {
    let has_pair = |first: &str, second: &str| {
        segments
            .windows(2)
            .any(|pair| pair[0] == first && pair[1] == second)
    };
    let has = |test: fn(&str) -> bool| segments.iter().any(|segment| test(segment));
    if has_pair("sync", "atomic") || has(is_atomic) {
        let remedy =
            "use a sync word or a fence of `crate::memory`; a host-local counter or flag belongs there too";
        return Some(("raw atomics", remedy));
    }
    if has_pair("core", "arch")
        || has_pair("std", "arch")
        || has(|segment| matches!(segment, "asm" | "global_asm"))
    {
        return Some((
            "processor instructions",
            "add an operation to the contract in `crate::memory` and call that",
        ));
    }
    if has(|segment| {
        ["mmap", "munmap", "mremap"]
            .iter()
            .any(|call| segment.to_lowercase().contains(call))
    }) {
        return Some((
            "a mapping",
            "open a segment through `crate::memory`; nothing else maps memory",
        ));
    }
    None
}

fn is_atomic(segment: &str) -> bool {
    let sizes = ["8", "16", "32", "64", "128", "size"];
    match segment.strip_prefix("Atomic") {
        Some("Bool" | "Ptr") => true,
        Some(kind) => kind
            .strip_prefix(['I', 'U'])
            .is_some_and(|size| sizes.contains(&size)),
        None => matches!(segment, "portable_atomic" | "compiler_fence"),
    }
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
