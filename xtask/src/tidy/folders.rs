//! A layer's folders use only the folders below them, and cycles of files that use each other are small.
//!
//! [`FOLDERS`] has the order of the folders of a layer. The layer's `mod.rs` is above all of them: it hands to the lower ones what they need of the
//! upper ones. A name that it re-exports belongs to the folder that it comes from, and all folders may use it.

use super::Finding;
use super::layers::{in_library, library_sources, module_path};
use super::source::{Path, Source};
use super::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// Layers that are divided into folders, bottom first. `ARCHITECTURE.md` shows the same: change both together.
pub const FOLDERS: &[(&str, &[&str])] = &[(
    "pod",
    &[
        "format", "instance", "lock", "alloc", "reclaim", "commit", "names", "group", "death", "hosts",
        "tasks",
    ],
)];

/// Files in one cycle, at most: two or three that are one concept.
const CIRCLE: usize = 3;

/// Cycles that may be larger: one file of each, and why it is left.
const LEFT: &[(&str, &str)] = &[
    (
        "sync/held.rs",
        "a wait, its place in a queue, what a death leaves of both and a removal are steps of one protocol",
    ),
    (
        "store/pool.rs",
        "a pool starts its background thread, which gives back memory of that pool",
    ),
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let files = Files::new(tree);
    let mut findings = files.order();
    findings.extend(files.circles());
    findings
}

/// Which files of the library name which others.
struct Files {
    /// Modules by their path from the crate's root, and the files that they are.
    modules: BTreeMap<Vec<String>, String>,
    /// For each file the others that it names, and the first line where it does.
    uses: BTreeMap<String, BTreeMap<String, usize>>,
}

impl Files {
    fn new(tree: &Tree) -> Self {
        let mut modules = BTreeMap::new();
        for (file, _) in library_sources(tree) {
            let module = module_path(&file.path).unwrap_or_default();
            modules.insert(module.into_iter().map(str::to_owned).collect(), file.path.clone());
        }
        let mut files = Self {
            modules,
            uses: BTreeMap::new(),
        };
        for (file, source) in library_sources(tree) {
            let module = module_path(&file.path).unwrap_or_default();
            let used = files.used_by(&file.path, &module, source);
            files.uses.insert(file.path.clone(), used);
        }
        files
    }

    fn used_by(&self, file: &str, module: &[&str], source: &Source) -> BTreeMap<String, usize> {
        let mut used = BTreeMap::new();
        for path in source.paths() {
            let Some(absolute) = absolute(&path, module) else {
                continue;
            };
            // The longest beginning that is a file; a name of the crate's root or of a layer alone says nothing.
            let found = (2..=absolute.len())
                .rev()
                .find_map(|len| self.modules.get(&absolute[..len]));
            if let Some(found) = found
                && found != file
            {
                used.entry(found.clone()).or_insert(path.line);
            }
        }
        used
    }

    /// Uses of higher folders of the same layer.
    fn order(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (file, used) in &self.uses {
            for (other, line) in used {
                let (Some((layer, own, height)), Some((of, name, above))) = (place(file), place(other))
                else {
                    continue;
                };
                if layer == of && above > height {
                    findings.push(Finding::error(
                        file,
                        *line,
                        format!("`{other}` is in the folder `{name}`, which is above `{own}`"),
                        format!(
                            "move what both need down into `{own}` or below, or let `{layer}/mod.rs` hand it in (see `instance/hooks.rs`)"
                        ),
                    ));
                }
            }
        }
        findings
    }

    /// Cycles that are too large.
    fn circles(&self) -> Vec<Finding> {
        let reached: BTreeMap<&String, BTreeSet<&String>> =
            self.uses.keys().map(|file| (file, self.reached(file))).collect();
        let mut findings = Vec::new();
        let mut seen = BTreeSet::new();
        for (file, all) in &reached {
            let circle: Vec<&str> = all
                .iter()
                .filter(|other| reached[*other].contains(file))
                .map(|other| other.as_str())
                .collect();
            let is_left = LEFT
                .iter()
                .any(|(of, _)| circle.iter().any(|file| file.ends_with(of)));
            if circle.len() > CIRCLE && !is_left && seen.insert(circle.clone()) {
                findings.push(Finding::error(
                    file,
                    1,
                    format!(
                        "{} files use each other in a circle: {}",
                        circle.len(),
                        circle.join(", ")
                    ),
                    "move what they share down into a file of its own, or have one of them handed in",
                ));
            }
        }
        findings
    }

    /// All files that a file leads to, directly or not; but not through the `mod.rs` of a folder, which names all that is in it.
    fn reached(&self, file: &String) -> BTreeSet<&String> {
        let mut reached = BTreeSet::new();
        let mut left: Vec<&String> = self.uses[file].keys().collect();
        while let Some(next) = left.pop() {
            if !next.ends_with("/mod.rs") && reached.insert(next) {
                left.extend(self.uses.get(next).into_iter().flat_map(BTreeMap::keys));
            }
        }
        reached
    }
}

/// A file's layer, its folder in that, and how high the folder is; `None` for a file beside the folders.
fn place(file: &str) -> Option<(&'static str, &'static str, usize)> {
    let mut parts = in_library(file)?.split('/');
    let (layer, folder) = (parts.next()?, parts.next()?);
    let (layer, folders) = FOLDERS.iter().find(|(name, _)| *name == layer)?;
    let height = folders.iter().position(|name| *name == folder)?;
    Some((layer, folders[height], height))
}

/// What a path names, from the crate's root.
fn absolute(path: &Path, module: &[&str]) -> Option<Vec<String>> {
    let segments = &path.segments;
    let first = segments.first()?;
    if first == "crate" || first == "cenote" {
        return Some(segments[1..].to_vec());
    }
    let ups = segments.iter().take_while(|segment| *segment == "super").count();
    let skipped = segments.iter().take_while(|segment| *segment == "self").count();
    if ups + skipped == 0 {
        return None;
    }
    let own: Vec<String> = module
        .iter()
        .map(|name| (*name).to_owned())
        .chain(path.modules.iter().cloned())
        .collect();
    let base = own.len().checked_sub(ups)?;
    Some([&own[..base], &segments[ups + skipped..]].concat())
}

#[cfg(test)]
mod tests {
    use super::super::planted::{Planted, assert_one};
    use super::*;

    const LOW: &str = "crates/cenote/src/pod/lock/redo.rs";
    const HIGH: &str = "crates/cenote/src/pod/alloc/heap.rs";

    #[test]
    fn lower_folders_are_fine() {
        let planted = Planted::new(
            "folders-good",
            &[
                (LOW, "use crate::pod::format::record;\nuse crate::pod::Worker;\n"),
                (HIGH, "use crate::pod::lock::redo::Redo;\nuse super::units;\n"),
                ("crates/cenote/src/pod/alloc/frames.rs", "use super::heap::x;\n"),
                (
                    "crates/cenote/src/pod/format/record.rs",
                    "//! crate::pod::alloc::heap\n",
                ),
                (
                    "crates/cenote/src/pod/mod.rs",
                    "pub use alloc::heap::Heap;\nuse self::lock::redo;\n",
                ),
            ],
        );
        assert_eq!(planted.errors(check), Vec::<String>::new());
    }

    #[test]
    fn a_use_of_a_higher_folder_is_found_however_it_is_spelled() {
        let spellings = [
            "use crate::pod::alloc::heap::allocate;",
            "use super::super::alloc::heap;",
            "fn f() { crate::pod::alloc::heap::f() }",
            "use crate::{memory, pod::{format, alloc::heap}};",
            "mod tests { use super::super::super::alloc::heap; }",
        ];
        for (n, spelling) in spellings.into_iter().enumerate() {
            let planted = Planted::new(
                &format!("folders-up-{n}"),
                &[(LOW, &format!("{spelling}\n")), (HIGH, "//! x\n")],
            );
            assert_one(
                &planted.errors(check),
                &format!("{LOW}:1: "),
                "the folder `alloc`",
            );
        }
    }

    #[test]
    fn a_circle_of_many_files_is_found_once() {
        let file = |name: &str| format!("crates/cenote/src/index/{name}.rs");
        let uses = |name: &str| format!("use super::{name}::x;\n");
        let of_four = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")].map(|(of, to)| (file(of), uses(to)));
        let texts: Vec<(&str, &str)> = of_four
            .iter()
            .map(|(file, text)| (&file[..], &text[..]))
            .collect();
        let planted = Planted::new("folders-circle", &texts);
        assert_one(&planted.errors(check), &format!("{}:1: ", file("a")), "4 files");
        let planted = Planted::new("folders-small", &texts[..3]);
        assert_eq!(planted.errors(check), Vec::<String>::new());
    }
}
