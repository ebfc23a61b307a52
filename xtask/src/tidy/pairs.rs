//! `// PAIRS WITH: index::hash::get` names something that exists, and is answered from there.
//!
//! Several names are separated by commas; words behind a name explain it. A name is a module path from the root of the
//! crate that the comment is in, or of the library; the parts behind the deepest module are types and functions, and
//! all of them must occur in the code of that module. The named function has a comment that leads back to the function
//! of the first comment: an error where [releases](super::releases) must have pairs, elsewhere a warning.

use super::functions::{Function, function_at, functions};
use super::source::{Source, is_word};
use super::tree::{File, Tree};
use super::{Finding, LIBRARY, releases};

use std::rc::Rc;

const MARK: &str = "PAIRS WITH:";

struct Pair<'a> {
    file: &'a File,
    line: usize,
    /// The name as segments; empty if the comment names nothing.
    name: Vec<&'a str>,
    /// The function that the comment is in.
    function: Option<&'a str>,
    /// All functions of its file.
    functions: Rc<Vec<Function<'a>>>,
}

impl Pair<'_> {
    /// Whether `name` leads to where the comment stands in its file: to all of it, if the last part of `name` is none
    /// of the file's functions.
    fn is_at(&self, name: &[&str]) -> bool {
        let (Some(function), Some(last)) = (self.function, name.last()) else {
            return true;
        };
        function == *last || self.functions.iter().all(|function| function.name != *last)
    }
}

pub fn check(tree: &Tree) -> Vec<Finding> {
    let pairs: Vec<Pair> = tree
        .sources()
        .flat_map(|(file, source)| pairs_in(file, source))
        .collect();
    let mut findings = Vec::new();
    for pair in &pairs {
        let name = pair.name.join("::");
        if name.is_empty() {
            let remedy =
                "write `// PAIRS WITH: module::item`, the path of the other side from the crate's root";
            findings.push(Finding::error(
                &pair.file.path,
                pair.line,
                "PAIRS WITH names nothing",
                remedy,
            ));
            continue;
        }
        let others = resolve(tree, pair);
        if others.is_empty() {
            let what = format!("PAIRS WITH names `{name}`, which is not there");
            let remedy = "name the function that has the other side, by its path from the crate's root";
            findings.push(Finding::error(&pair.file.path, pair.line, what, remedy));
            continue;
        }
        // A comment is no answer to itself.
        let leads_back = |other: &Pair| {
            !std::ptr::eq(other, pair)
                && others.iter().any(|file| file.path == other.file.path)
                && other.is_at(&pair.name)
                && pair.is_at(&other.name)
                && resolve(tree, other)
                    .iter()
                    .any(|file| file.path == pair.file.path)
        };
        if !pairs.iter().any(leads_back) {
            let what = format!("`{name}` has no PAIRS WITH that leads back here");
            let remedy = format!(
                "write one in that function too, with the path of this one; it would lie in {}",
                paths_of(&others)
            );
            let finding = match releases::is_covered(pair.file) {
                true => Finding::error,
                false => Finding::warning,
            };
            findings.push(finding(&pair.file.path, pair.line, what, remedy));
        }
    }
    findings
}

fn paths_of(files: &[&File]) -> String {
    files
        .iter()
        .map(|file| file.path.as_str())
        .collect::<Vec<_>>()
        .join(" or ")
}

fn pairs_in<'a>(file: &'a File, source: &'a Source) -> Vec<Pair<'a>> {
    let mut pairs = Vec::new();
    let functions = Rc::new(functions(source));
    for (index, comment) in source.comment_lines().enumerate() {
        let Some(names) = names_behind_mark(comment) else {
            continue;
        };
        for name in names_in(names) {
            pairs.push(Pair {
                file,
                line: index + 1,
                name,
                function: function_at(&functions, index + 1),
                functions: Rc::clone(&functions),
            });
        }
    }
    pairs
}

/// Whether a line of comment names another side.
pub fn is_pair(comment: &str) -> bool {
    names_behind_mark(comment).is_some()
}

fn names_behind_mark(comment: &str) -> Option<&str> {
    let (before, names) = comment.split_once(MARK)?;
    // Docs that speak of the mark quote it.
    let is_quoted = before.ends_with('`') || before.trim_start().starts_with("//!");
    (!is_quoted).then_some(names)
}

/// The names in what follows the mark; one empty name if there is none.
fn names_in(text: &str) -> Vec<Vec<&str>> {
    let mut names = Vec::new();
    for part in text.split(',') {
        let part = part.trim_start_matches([' ', '`']);
        let end = part
            .find(|character| !is_word(character) && character != ':')
            .unwrap_or(part.len());
        let name: Vec<&str> = part[..end]
            .split("::")
            .map(|segment| segment.trim_matches(':'))
            .collect();
        let name = name.into_iter().filter(|segment| !segment.is_empty()).collect();
        names.push(name);
        // Words behind the name: what comes after their commas are words too.
        if !part[end..].trim_matches(['`', ' ', '.']).is_empty() {
            break;
        }
    }
    names
}

/// The files that a pair's name may mean: all whose code holds every part of it that is not a module.
fn resolve<'a>(tree: &'a Tree, pair: &Pair) -> Vec<&'a File> {
    let own = pair
        .file
        .path
        .split_once("/src/")
        .map_or(LIBRARY, |(root, _)| root);
    let from_root = match pair.name.first() {
        Some(&("crate" | "cenote")) => &pair.name[1..],
        _ => &pair.name[..],
    };
    for root in [own, LIBRARY] {
        let depth = (0..=from_root.len())
            .rev()
            .find(|depth| is_module(tree, root, &from_root[..*depth]))
            .unwrap_or(0);
        let (module, items) = from_root.split_at(depth);
        let holds = |file: &&File| {
            is_in_module(&file.path, root, module)
                && file
                    .source()
                    .is_some_and(|source| items.iter().all(|item| source.names(item)))
        };
        let found: Vec<&File> = tree.files.iter().filter(holds).collect();
        if !found.is_empty() && !from_root.is_empty() {
            return found;
        }
    }
    Vec::new()
}

fn is_module(tree: &Tree, root: &str, module: &[&str]) -> bool {
    tree.files
        .iter()
        .any(|file| is_in_module(&file.path, root, module))
}

/// Whether the file is the module's own or lies in its folder.
fn is_in_module(path: &str, root: &str, module: &[&str]) -> bool {
    let mut place = format!("{root}/src");
    for name in module {
        place.push('/');
        place.push_str(name);
    }
    path.strip_prefix(&place)
        .is_some_and(|rest| rest == ".rs" || (rest.starts_with('/') && rest.ends_with(".rs")))
}

#[cfg(test)]
mod tests {
    use super::super::planted::{Planted, assert_one};
    use super::*;

    const GET: &str = "crates/cenote/src/memory/hash/get.rs";
    const PUT: &str = "crates/cenote/src/memory/put.rs";

    #[test]
    fn names_that_exist_and_answer_are_fine() {
        let planted = Planted::new(
            "pairs-good",
            &[
                (
                    GET,
                    "// PAIRS WITH: memory::put::insert\nimpl Table { fn get() {} }\n",
                ),
                (
                    PUT,
                    "// PAIRS WITH: memory::hash::get::Table::get (its load, then its fence), say\n// PAIRS WITH: memory::put::insert\nfn insert() {}\n\
                     // PAIRS WITH: `crate::memory::hash::Table::get`, memory::put::insert.\n\
                     //! PAIRS WITH: none::at_all\n// the mark `PAIRS WITH: nothing`\n",
                ),
                (
                    "crates/cenote-cli/src/top.rs",
                    "// PAIRS WITH: top::draw\n// PAIRS WITH: memory::put\n// PAIRS WITH: top::draw\nfn draw() {}\n",
                ),
            ],
        );
        assert_eq!(planted.errors(check), Vec::<String>::new());
        let warnings = planted.warnings(check);
        assert_one(&warnings, "crates/cenote-cli/src/top.rs:2: ", "leads back");
    }

    #[test]
    fn names_of_nothing_are_found() {
        let names = [
            "memory::put::gone",
            "memory::gone::insert",
            "gone::insert",
            "gone",
            "memory::put::insert, memory::put::gone",
            "memory::put::only_in_a_comment",
            "",
            "…",
        ];
        for (index, name) in names.iter().enumerate() {
            let get = format!("//! Get.\n// PAIRS WITH: {name}\nfn get() {{}}\n");
            let put = "// PAIRS WITH: memory::hash::get\nfn insert() {} // only_in_a_comment\n";
            let planted = Planted::new(&format!("pairs-bad-{index}"), &[(GET, &get), (PUT, put)]);
            assert_one(
                &planted.errors(check),
                "crates/cenote/src/memory/hash/get.rs:2: ",
                "PAIRS WITH names",
            );
        }
    }

    #[test]
    fn a_side_that_does_not_answer_is_warned_of() {
        let get = "// PAIRS WITH: memory::put::insert\nfn get() {}\n";
        let planted = Planted::new("pairs-one-sided", &[(GET, get), (PUT, "fn insert() {}\n")]);
        assert_eq!(planted.errors(check), Vec::<String>::new());
        assert_one(
            &planted.warnings(check),
            "crates/cenote/src/memory/hash/get.rs:1: ",
            "leads back",
        );
    }

    #[test]
    fn a_side_that_does_not_answer_is_an_error_where_releases_must_be_named() {
        let put = "crates/cenote/src/sync/put.rs";
        let insert = "fn insert() {\n    // PAIRS WITH: sync::get::get\n}\n";
        let answers = [
            ("", true),
            ("// PAIRS WITH: sync::put::insert\n", false),
            ("// PAIRS WITH: sync::put\n", false),
            // Another function of the same file.
            ("// PAIRS WITH: sync::put::remove\n", true),
        ];
        for (n, (answer, is_error)) in answers.iter().enumerate() {
            let get = format!("fn get() {{\n{answer}}}\nfn look() {{}}\n");
            let insert = format!("{insert}fn remove() {{\n// PAIRS WITH: sync::get::get\n}}\n");
            let planted = Planted::new(
                &format!("pairs-two-sided-{n}"),
                &[("crates/cenote/src/sync/get.rs", &get), (put, &insert)],
            );
            let errors = planted.errors(check);
            let start = format!("{put}:2: ");
            let found = errors
                .iter()
                .any(|error| error.starts_with(&start) && error.contains("leads back"));
            assert_eq!(found, *is_error, "{answer:?}: {errors:#?}");
        }
        // The answer is not in the named function.
        let get = "fn get() {}\nfn look() {\n// PAIRS WITH: sync::put::insert\n}\n";
        let planted = Planted::new(
            "pairs-elsewhere",
            &[("crates/cenote/src/sync/get.rs", get), (put, insert)],
        );
        let errors = planted.errors(check);
        assert!(
            errors
                .iter()
                .any(|error| error.starts_with(&format!("{put}:2: "))),
            "{errors:#?}"
        );
    }
}
