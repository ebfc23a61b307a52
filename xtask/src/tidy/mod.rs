//! `cargo xtask tidy`: rules of this project that the compiler and clippy do not know.
//!
//! A check is one file here. It reads a [`Tree`] of loaded files and returns [`Finding`]s; it writes nothing and starts
//! nothing. Each has tests that plant a fault in a temporary tree and demand that it is found: a check that cannot fail
//! is none.

mod folders;
mod functions;
mod layers;
mod links;
mod pairs;
#[cfg(test)]
mod planted;
mod releases;
mod source;
mod statics;
mod style;
mod tree;
mod words;

use std::fmt;
use std::path::Path;
use tree::Tree;

/// Where the library lies; its layers are checked, and it is where `PAIRS WITH` looks last.
const LIBRARY: &str = "crates/cenote";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    /// Printed, and nothing more.
    Warning,
    /// Makes `tidy` fail.
    Error,
}

/// One thing that is wrong: where, what, and what to do about it.
#[derive(Debug)]
struct Finding {
    severity: Severity,
    path: String,
    /// Counted from 1.
    line: usize,
    what: String,
    remedy: String,
}

impl Finding {
    fn error(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding {
            severity: Severity::Error,
            path: path.into(),
            line,
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    fn warning(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding {
            severity: Severity::Warning,
            ..Finding::error(path, line, what, remedy)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(
            f,
            "{}:{}: {severity}: {}\n    {}",
            self.path, self.line, self.what, self.remedy
        )
    }
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = tree.unreadable();
    findings.extend(layers::check(tree));
    findings.extend(folders::check(tree));
    findings.extend(style::check(tree));
    findings.extend(links::check(tree));
    findings.extend(pairs::check(tree));
    findings.extend(releases::check(tree));
    findings.extend(statics::check(tree));
    findings.extend(words::check(tree));
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    findings
}

/// Checks the tree below `root` and prints what it finds; true if nothing is an error.
pub fn run(root: &Path) -> bool {
    let tree = match Tree::load(root) {
        Ok(tree) => tree,
        Err(error) => {
            println!("tidy: cannot read {}: {error}", root.display());
            return false;
        }
    };
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    let in_layers = layers::files(&tree).count();
    let mut errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    let warnings = findings.len() - errors;
    if in_layers == 0 {
        println!(
            "{LIBRARY}/src: error: no file lies in a layer, so nothing was checked against the table of layers"
        );
        errors += 1;
    }
    println!(
        "tidy: {} files, {in_layers} of them in layers; errors: {errors}, warnings: {warnings}",
        tree.files.len()
    );
    errors == 0
}

#[cfg(test)]
mod tests {
    use super::planted::Planted;
    use super::*;

    const GOOD: &str = "//! The bottom.\n";

    #[test]
    fn all_checks_take_part() {
        let good = Planted::new("tidy-good", &[("crates/cenote/src/memory/mod.rs", GOOD)]);
        assert!(run(good.root()));
        let faults = [
            (
                "crates/cenote/src/memory/a.rs",
                "//! A.\nuse crate::store::Map;\n",
            ),
            (
                "crates/cenote/src/memory/a.rs",
                "//! A.\n// PAIRS WITH: store::gone\n",
            ),
            ("crates/cenote/src/memory/a.rs", "fn f() {}\n"),
            ("docs/a.md", "[a](gone.md)\n"),
            (
                "crates/cenote/src/pod/format/a.rs",
                "//! A.\nuse crate::pod::tasks::b;\n",
            ),
            (
                "crates/cenote/src/pod/format/a.rs",
                "//! A.\nfn f() {\n    word.store(mem, 1);\n}\n",
            ),
            (
                "crates/cenote/src/pod/format/a.rs",
                "//! A.\nstatic A: Mutex<u8> = Mutex::new(0);\n",
            ),
        ];
        for (index, fault) in faults.iter().enumerate() {
            let files = [
                ("crates/cenote/src/memory/mod.rs", GOOD),
                ("crates/cenote/src/pod/tasks/b.rs", GOOD),
                *fault,
            ];
            let planted = Planted::new(&format!("tidy-fault-{index}"), &files);
            assert!(!run(planted.root()), "{fault:?} passed");
        }
    }

    #[test]
    fn a_tree_without_layers_does_not_pass() {
        assert!(!run(Planted::new("tidy-empty", &[("README.md", "# A\n")]).root()));
        assert!(!run(Path::new("/no/such/folder/anywhere")));
    }
}
