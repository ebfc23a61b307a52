//! A layer's folders use only the folders below them, and cycles of files that use each other are small.
//!
//! [`FOLDERS`] has the order of the folders of a layer. The layer's `mod.rs`, and files beside it, are above all of
//! them: they hand to the lower ones what these need of the upper ones. A name that `mod.rs` re-exports belongs to the
//! folder that it comes from, and all folders may use it.
//!
//! Cycles are looked for in all crates.

use super::layers::{below_src, in_library, module_path};
use super::source::{Path, Source};
use super::tree::{File, Tree};
use super::{Finding, LIBRARY};
use std::collections::{BTreeMap, BTreeSet};

/// Layers that are divided into folders, bottom first; folders side by side do not use each other. `ARCHITECTURE.md`
/// shows the same: change both together.
pub const FOLDERS: &[(&str, &[&[&str]])] = &[
    (
        "pod",
        &[
            &["format"],
            &["instance"],
            &["lock"],
            &["alloc"],
            &["reclaim"],
            &["commit"],
            &["names"],
            &["group"],
            &["death"],
            &["hosts"],
            &["tasks"],
        ],
    ),
    (
        "index",
        &[&["common"], &["hash", "ordered", "baseline"], &["objects"]],
    ),
];

/// Files in one cycle, at most: two or three that are one concept.
const CIRCLE: usize = 3;

/// Cycles that may be larger: one file of each, how many it has, and why it is left. A number is a limit: a cycle that
/// grows is an error again.
const LEFT: &[(&str, usize, &str)] = &[(
    "store/pool.rs",
    4,
    "a pool starts its background thread, which gives back memory of that pool",
)];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for of in crates(tree) {
        let files = Files::new(tree, of);
        findings.extend(files.order());
        findings.extend(files.circles());
    }
    findings
}

/// The folders of all crates.
fn crates(tree: &Tree) -> BTreeSet<&str> {
    tree.sources()
        .filter_map(|(file, _)| file.path.split_once("/src/"))
        .map(|(of, _)| of)
        .collect()
}

/// The sources of a crate.
fn sources<'t>(tree: &'t Tree, of: &str) -> impl Iterator<Item = (&'t File, &'t Source)> {
    tree.sources()
        .filter(move |(file, _)| below_src(&file.path, of).is_some())
}

/// Which files of a crate name which others.
struct Files {
    /// What the crate's own name is in paths.
    name: String,
    /// How many names lead to a file, at least.
    depth: usize,
    /// Modules by their path from the crate's root, and the files that they are.
    modules: BTreeMap<Vec<String>, String>,
    /// For each file the others that it names, and the first line where it does.
    uses: BTreeMap<String, BTreeMap<String, usize>>,
}

impl Files {
    fn new(tree: &Tree, of: &str) -> Self {
        let mut modules = BTreeMap::new();
        for (file, _) in sources(tree, of) {
            let module = module_path(&file.path, of).unwrap_or_default();
            modules.insert(module.into_iter().map(str::to_owned).collect(), file.path.clone());
        }
        let mut files = Self {
            name: of.rsplit('/').next().unwrap_or_default().replace('-', "_"),
            // In the library the name of a layer alone says nothing.
            depth: if of == LIBRARY { 2 } else { 1 },
            modules,
            uses: BTreeMap::new(),
        };
        for (file, source) in sources(tree, of) {
            let module = module_path(&file.path, of).unwrap_or_default();
            let used = files.used_by(&file.path, &module, source);
            files.uses.insert(file.path.clone(), used);
        }
        files
    }

    fn used_by(&self, file: &str, module: &[&str], source: &Source) -> BTreeMap<String, usize> {
        let mut used = BTreeMap::new();
        for path in source.paths() {
            let Some(absolute) = absolute(&path, module, &self.name) else {
                continue;
            };
            // The longest beginning that is a file; a name of the crate's root says nothing.
            let found = (self.depth..=absolute.len())
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

    /// Uses of folders of the same layer that are not below.
    fn order(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (file, used) in &self.uses {
            for (other, line) in used {
                let (Some(own), Some(of)) = (place(file), place(other)) else {
                    continue;
                };
                if own.layer != of.layer || own.folder == of.folder || own.height > of.height {
                    continue;
                }
                let relation = if own.height == of.height {
                    "beside"
                } else {
                    "above"
                };
                findings.push(Finding::error(
                    file,
                    *line,
                    format!(
                        "`{other}` is in the folder `{}`, which is {relation} `{}`",
                        of.folder, own.folder
                    ),
                    format!(
                        "move what both need down into a folder below both, or let `{}/mod.rs` hand it in (see `instance/hooks.rs`)",
                        own.layer
                    ),
                ));
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
            let limit = LEFT
                .iter()
                .find(|(of, ..)| circle.iter().any(|file| file.ends_with(of)))
                .map_or(CIRCLE, |&(_, count, _)| count);
            if circle.len() > limit && seen.insert(circle.clone()) {
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

    /// All files that a file leads to, directly or not. The `mod.rs` of a folder leads only out of it: it names all
    /// that is in it.
    fn reached(&self, file: &String) -> BTreeSet<&String> {
        let mut reached = BTreeSet::new();
        let mut left: Vec<&String> = self.led_to(file).collect();
        while let Some(next) = left.pop() {
            if reached.insert(next) {
                left.extend(self.led_to(next));
            }
        }
        reached
    }

    /// The files that a file names, but for those in its folder if it is a `mod.rs`.
    fn led_to(&self, file: &String) -> impl Iterator<Item = &String> {
        let folder = file.strip_suffix("mod.rs").map(str::to_owned);
        let named = self.uses.get(file).into_iter().flat_map(BTreeMap::keys);
        named.filter(move |other| folder.as_ref().is_none_or(|folder| !other.starts_with(&**folder)))
    }
}

/// Where a file of a divided layer lies.
struct Place {
    layer: &'static str,
    folder: &'static str,
    /// How high the folder is.
    height: usize,
}

/// A file's place; `None` for a file beside the folders.
fn place(file: &str) -> Option<Place> {
    let mut parts = in_library(file)?.split('/');
    let (layer, folder) = (parts.next()?, parts.next()?);
    let (layer, ranks) = FOLDERS.iter().find(|(name, _)| *name == layer)?;
    let of_rank = |(height, rank): (usize, &&'static [&'static str])| {
        let folder = rank.iter().find(|name| **name == folder)?;
        Some(Place {
            layer,
            folder,
            height,
        })
    };
    ranks.iter().enumerate().find_map(of_rank)
}

/// What a path names, from the crate's root.
fn absolute(path: &Path, module: &[&str], name: &str) -> Option<Vec<String>> {
    let segments = &path.segments;
    let first = segments.first()?;
    if first == "crate" || first == name {
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
                (HIGH, "use crate::pod::lock::redo::Redo;\nuse super::frames;\n"),
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
    fn folders_side_by_side_do_not_use_each_other() {
        const HASH: &str = "crates/cenote/src/index/hash/probe.rs";
        const PAIR: &str = "crates/cenote/src/index/common/pair.rs";
        const ORDERED: &str = "crates/cenote/src/index/ordered/page.rs";
        let planted = Planted::new(
            "folders-beside-good",
            &[
                (PAIR, "//! crate::index::hash::probe\n"),
                (HASH, "use crate::index::common::pair;\n"),
                (ORDERED, "use super::super::common::pair::read;\n"),
                (
                    "crates/cenote/src/index/compared.rs",
                    "use super::hash::probe;\nuse super::ordered::page;\n",
                ),
            ],
        );
        assert_eq!(planted.errors(check), Vec::<String>::new());
        let violations = [
            (ORDERED, "use crate::index::hash::probe::f;", "beside `ordered`"),
            (HASH, "use crate::index::ordered::page;", "beside `hash`"),
            (
                "crates/cenote/src/index/baseline/mod.rs",
                "use super::hash::probe;",
                "beside `baseline`",
            ),
            (PAIR, "use crate::index::hash::probe;", "above `common`"),
        ];
        for (n, (file, text, part)) in violations.into_iter().enumerate() {
            let mut texts = vec![(HASH, "//! x\n"), (ORDERED, "//! x\n")];
            texts.retain(|(path, _)| *path != file);
            texts.push((file, text));
            let planted = Planted::new(&format!("folders-beside-{n}"), &texts);
            assert_one(&planted.errors(check), &format!("{file}:1: "), part);
        }
    }

    #[test]
    fn a_circle_of_many_files_is_found_once() {
        for (n, folder) in [
            "cenote/src/sync",
            "cenote-cli/src",
            "cenote-sim/src/exec",
            "cenote-new/src",
        ]
        .into_iter()
        .enumerate()
        {
            a_circle_in(folder, n);
        }
    }

    fn a_circle_in(folder: &str, n: usize) {
        let file = |name: &str| format!("crates/{folder}/{name}.rs");
        let uses = |name: &str| format!("use super::{name}::x;\n");
        let of_four = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")].map(|(of, to)| (file(of), uses(to)));
        let texts: Vec<(&str, &str)> = of_four
            .iter()
            .map(|(file, text)| (&file[..], &text[..]))
            .collect();
        let planted = Planted::new(&format!("folders-circle-{n}"), &texts);
        assert_one(&planted.errors(check), &format!("{}:1: ", file("a")), "4 files");
        let planted = Planted::new(&format!("folders-small-{n}"), &texts[..3]);
        assert_eq!(planted.errors(check), Vec::<String>::new());
    }

    #[test]
    fn an_excused_circle_that_grows_is_found() {
        let (name, count, _) = LEFT.iter().find(|(of, ..)| of.starts_with("store/")).unwrap();
        let own = format!("crates/cenote/src/{name}");
        let own_module = name.trim_end_matches(".rs").replace('/', "::");
        let circle = |others: usize| -> Vec<(String, String)> {
            let file = |n: usize| format!("crates/cenote/src/store/other{n}.rs");
            let mut texts: Vec<(String, String)> = (1..=others)
                .map(|n| match n == others {
                    true => (file(n), format!("use crate::{own_module}::x;\n")),
                    false => (file(n), format!("use super::other{}::x;\n", n + 1)),
                })
                .collect();
            texts.push((own.clone(), "use super::other1::x;\n".to_owned()));
            texts
        };
        let errors = |name: &str, texts: &[(String, String)]| {
            let texts: Vec<(&str, &str)> = texts.iter().map(|(file, text)| (&file[..], &text[..])).collect();
            Planted::new(name, &texts).errors(check)
        };
        assert_eq!(
            errors("folders-excused", &circle(count - 1)),
            Vec::<String>::new()
        );
        assert_one(
            &errors("folders-grown", &circle(*count)),
            "crates/cenote/src/store/other1.rs:1: ",
            &format!("{} files", count + 1),
        );
    }

    #[test]
    fn a_circle_through_a_folder_of_another_place_is_found() {
        let texts = [
            ("crates/cenote-cli/src/a/mod.rs", "mod own;\nuse crate::b::x;\n"),
            ("crates/cenote-cli/src/a/own.rs", "use super::x;\n"),
            ("crates/cenote-cli/src/b.rs", "use crate::c::x;\n"),
            ("crates/cenote-cli/src/c.rs", "use crate::d::x;\n"),
            ("crates/cenote-cli/src/d.rs", "use crate::a::x;\n"),
        ];
        let planted = Planted::new("folders-circle-mod", &texts);
        assert_one(
            &planted.errors(check),
            "crates/cenote-cli/src/a/mod.rs:1: ",
            "4 files",
        );
        let planted = Planted::new("folders-circle-own", &texts[..4]);
        assert_eq!(planted.errors(check), Vec::<String>::new());
    }
}
