//! Temporary trees with planted faults, for the tests of the checks.

use super::tree::Tree;
use super::{Finding, Severity};
use std::path::{Path, PathBuf};

/// A tree on disk that is removed again when the test ends, in whatever way.
pub struct Planted {
    root: PathBuf,
}

impl Planted {
    /// `test` names the tree; no two tests may use the same name. `files` are paths and what they hold.
    pub fn new(test: &str, files: &[(&str, &str)]) -> Planted {
        let root = std::env::temp_dir().join(format!("cenote-tidy-{}-{test}", std::process::id()));
        std::fs::create_dir(&root).expect("no other test plants a tree of this name");
        let planted = Planted { root };
        for (path, text) in files {
            planted.write(path, text.as_bytes());
        }
        planted
    }

    pub fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().expect("a file lies in a folder")).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn tree(&self) -> Tree {
        Tree::load(&self.root).unwrap()
    }

    /// What `check` finds here: `path:line: what`, without warnings.
    pub fn errors(&self, check: fn(&Tree) -> Vec<Finding>) -> Vec<String> {
        self.findings(check, Severity::Error)
    }

    pub fn warnings(&self, check: fn(&Tree) -> Vec<Finding>) -> Vec<String> {
        self.findings(check, Severity::Warning)
    }

    fn findings(&self, check: fn(&Tree) -> Vec<Finding>, severity: Severity) -> Vec<String> {
        let findings = check(&self.tree())
            .into_iter()
            .filter(|finding| finding.severity == severity);
        findings
            .map(|finding| format!("{}:{}: {}", finding.path, finding.line, finding.what))
            .collect()
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Asserts that there is exactly one finding and that it starts with `start` and holds `part`.
#[track_caller]
pub fn assert_one(findings: &[String], start: &str, part: &str) {
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(
        findings[0].starts_with(start),
        "{findings:#?} does not start with {start}"
    );
    assert!(findings[0].contains(part), "{findings:#?} does not hold {part}");
}
