//! The files that `tidy` reads, loaded once: every `.rs`, `.md` and `.toml` file that is not generated.

use super::Finding;
use super::source::Source;
use std::io;
use std::path::{Path, PathBuf};

/// Folders that hold nothing of ours, wherever they lie.
const SKIPPED: &[&str] = &[".git", "target", "node_modules", ".venv", "__pycache__"];

pub enum Kind {
    Rust(Source),
    Markdown,
    Toml,
}

pub struct File {
    /// Relative to the root, with `/` between the parts.
    pub path: String,
    pub text: String,
    pub kind: Kind,
}

impl File {
    /// The parts of a Rust file that checks look at; `None` for other files.
    pub fn source(&self) -> Option<&Source> {
        match &self.kind {
            Kind::Rust(source) => Some(source),
            Kind::Markdown | Kind::Toml => None,
        }
    }

    /// A file that holds tests and nothing else: beside the code as `tests.rs` or `…_tests.rs`, or below `tests/`.
    pub fn is_test_only(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.split('/').any(|part| part == "tests")
    }
}

pub struct Tree {
    pub root: PathBuf,
    /// Ordered by path.
    pub files: Vec<File>,
    not_text: Vec<String>,
}

impl Tree {
    pub fn load(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree {
            root: root.to_path_buf(),
            files: Vec::new(),
            not_text: Vec::new(),
        };
        tree.load_folder(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn load_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            // A link is not followed: it could lead out of the tree or into a cycle.
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.load_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                self.load_file(&entry.path(), path)?;
            }
        }
        Ok(())
    }

    fn load_file(&mut self, from: &Path, path: String) -> io::Result<()> {
        let extension = from
            .extension()
            .and_then(|extension| extension.to_str())
            .unwrap_or("");
        if !matches!(extension, "rs" | "md" | "toml") {
            return Ok(());
        }
        let Ok(text) = String::from_utf8(std::fs::read(from)?) else {
            self.not_text.push(path);
            return Ok(());
        };
        let kind = match extension {
            "rs" => Kind::Rust(Source::new(&text)),
            "md" => Kind::Markdown,
            _ => Kind::Toml,
        };
        self.files.push(File { path, text, kind });
        Ok(())
    }

    /// A finding for each file that could not be checked.
    pub fn unreadable(&self) -> Vec<Finding> {
        let finding = |path: &String| Finding::error(path, 1, "is not UTF-8", "write text files in UTF-8");
        self.not_text.iter().map(finding).collect()
    }

    /// The Rust files with what the checks look at.
    pub fn sources(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files
            .iter()
            .filter_map(|file| file.source().map(|source| (file, source)))
    }
}
