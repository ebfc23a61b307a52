//! No lock of a process in the library: a child that is forked while another thread has it would wait for ever.
//!
//! A value that a process makes once is a `once_cell::race::OnceBox`, or a word of the memory layer.

use super::source::Source;
use super::tree::{File, Tree};
use super::{Finding, layers};

/// What a thread can wait in.
const BLOCKING: &[&str] = &["Condvar", "LazyLock", "Mutex", "Once", "OnceLock", "RwLock"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree
        .sources()
        .filter(|(file, _)| layers::in_library(&file.path).is_some() && !file.is_test_only());
    sources
        .flat_map(|(file, source)| blocking(file, source))
        .collect()
}

fn blocking(file: &File, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for index in 0..source.tokens.len() {
        let words = [0, 1, 2].map(|n| source.word(index + n));
        match words {
            // What follows is no part of the library.
            ["mod", "tests", "{"] => break,
            ["static", name, ":"] => {
                let mut of = (index + 3..source.tokens.len()).map(|n| source.word(n));
                let found = of
                    .by_ref()
                    .take_while(|word| !matches!(*word, "=" | ";"))
                    .find(|word| BLOCKING.contains(word));
                if let Some(found) = found {
                    let what =
                        format!("`static {name}` is a `{found}`, which the child of a fork may find taken");
                    let remedy = "use `once_cell::race::OnceBox`, or a word of `crate::memory`";
                    findings.push(Finding::error(&file.path, source.line(index), what, remedy));
                }
            }
            _ => {}
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::planted::{Planted, assert_one};
    use super::*;

    const FILE: &str = "crates/cenote/src/a.rs";

    #[test]
    fn a_lock_of_the_process_is_found() {
        let spellings = [
            "static A: Mutex<u64> = Mutex::new(0);",
            "fn f() {\n    static A: std::sync::OnceLock<u64> = OnceLock::new();\n}",
            "static A: LazyLock<Vec<u8>> = LazyLock::new(Vec::new);",
            "static A: [RwLock<u8>; 2] = [RwLock::new(0), RwLock::new(1)];",
        ];
        for (index, text) in spellings.iter().enumerate() {
            let planted = Planted::new(&format!("statics-{index}"), &[(FILE, text)]);
            assert_one(
                &planted.errors(check),
                "crates/cenote/src/a.rs:",
                "`static A` is a",
            );
        }
    }

    #[test]
    fn other_values_tests_and_other_crates_are_free() {
        let good = "static A: OnceBox<u64> = OnceBox::new();\nstruct S { a: Mutex<u64>, b: &'static Mutex<u64> }\n\
                    mod tests {\n    static ALONE: Mutex<()> = Mutex::new(());\n}\n";
        let other = "static A: Mutex<u64> = Mutex::new(0);\n";
        let files = [
            (FILE, good),
            ("crates/cenote-cli/src/a.rs", other),
            ("crates/cenote/tests/a.rs", other),
        ];
        assert_eq!(
            Planted::new("statics-good", &files).errors(check),
            Vec::<String>::new()
        );
    }
}
