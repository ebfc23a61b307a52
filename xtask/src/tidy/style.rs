//! The form of files: headers, length, where a module with a folder lies, whitespace, leftovers, reasons for `unsafe`
//! and for ignored tests.

use super::Finding;
use super::source::{Source, is_word};
use super::tree::{File, Kind, Tree};

const LINES_MAX: usize = 1000;
const LINES_TO_WARN_AT: usize = 600;

/// How far above an `unsafe` its reason may start.
const SAFETY_LINES: usize = 3;

/// Words that mark unfinished work. Spelled in halves, or this line would be one.
const MARKERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Macros that must not stay in the tree.
const LEFTOVER_MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Folders whose Rust files open with a header.
const WITH_HEADERS: &[&str] = &["crates/", "xtask/", "examples/", "fuzz/"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        findings.extend(whitespace(file));
        findings.extend(markers(file));
        if let Some(source) = file.source() {
            findings.extend(header(file));
            findings.extend(module_beside_folder(file, tree));
            findings.extend(length(file));
            findings.extend(leftovers(file, source));
            findings.extend(reasons_for_unsafe(file, source));
            findings.extend(reasons_for_ignoring(file, source));
        }
    }
    findings
}

fn whitespace(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.split('\n').enumerate() {
        if line.contains('\t') {
            let remedy = "indent with spaces; in a string write \\t";
            findings.push(Finding::error(&file.path, index + 1, "a tab character", remedy));
        }
        if line.ends_with(char::is_whitespace) {
            findings.push(Finding::error(
                &file.path,
                index + 1,
                "whitespace at the end of the line",
                "remove it",
            ));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        let line = file.text.split('\n').count();
        findings.push(Finding::error(
            &file.path,
            line,
            "the last line has no line end",
            "add one",
        ));
    }
    findings
}

fn header(file: &File) -> Option<Finding> {
    if !WITH_HEADERS.iter().any(|folder| file.path.starts_with(folder)) {
        return None;
    }
    let first = file.text.lines().next().unwrap_or("");
    let says_something = first
        .strip_prefix("//!")
        .is_some_and(|words| !words.trim().is_empty());
    (!says_something).then(|| {
        let remedy =
            "say on the first line, after `//!`, what the file is; then its state, protocol and invariants";
        Finding::error(&file.path, 1, "the file does not open with a module doc", remedy)
    })
}

/// A module that has a folder lies in it, as `mod.rs`. The roots of tests are no modules: they lie where cargo looks
/// for them.
fn module_beside_folder(file: &File, tree: &Tree) -> Option<Finding> {
    let stem = file.path.strip_suffix(".rs")?;
    let folder = format!("{stem}/");
    let has_folder = tree.sources().any(|(other, _)| other.path.starts_with(&folder));
    let is_root = stem.rsplit('/').nth(1) == Some("tests");
    (has_folder && !is_root).then(|| {
        let remedy = format!("move it to `{folder}mod.rs`");
        Finding::error(&file.path, 1, "the module lies beside its folder", remedy)
    })
}

fn length(file: &File) -> Option<Finding> {
    let lines = file.text.lines().count();
    let what = format!("the file has {lines} lines");
    if lines > LINES_MAX {
        Some(Finding::error(
            &file.path,
            lines,
            what,
            format!("split it: {LINES_MAX} is the most, 300 is usual"),
        ))
    } else if lines > LINES_TO_WARN_AT {
        Some(Finding::warning(
            &file.path,
            lines,
            what,
            "look for the second concept in it, and give it a file",
        ))
    } else {
        None
    }
}

/// Marks of unfinished work, where they are words and not quoted.
fn markers(file: &File) -> Vec<Finding> {
    let spoken: String = match &file.kind {
        Kind::Rust(source) => source.comments.clone(),
        Kind::Markdown | Kind::Toml => file.text.clone(),
    };
    let mut findings = Vec::new();
    for (index, line) in spoken.split('\n').enumerate() {
        let line = without_code_spans(line);
        let mut words = line.split(|character| !is_word(character));
        if let Some(marker) = words.find(|word| MARKERS.contains(word)) {
            let remedy = "finish it, or say what is missing as a known limit where a user reads it";
            findings.push(Finding::error(
                &file.path,
                index + 1,
                format!("a `{marker}` is left"),
                remedy,
            ));
        }
    }
    findings
}

/// The line without what stands between backticks.
pub fn without_code_spans(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let closed = parts.len() - usize::from(parts.len().is_multiple_of(2));
    let outside =
        |(index, part): (usize, &&str)| (index % 2 == 0 || index >= closed).then(|| (*part).to_owned());
    parts
        .iter()
        .enumerate()
        .filter_map(outside)
        .collect::<Vec<_>>()
        .join("`")
}

fn leftovers(file: &File, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for index in 0..source.tokens.len() {
        let name = source.word(index);
        if LEFTOVER_MACROS.contains(&name) && source.word(index + 1) == "!" {
            let remedy = match name {
                "dbg" => "remove it, or trace what is worth knowing",
                _ => "write it, or return an error that says what is not supported",
            };
            findings.push(Finding::error(
                &file.path,
                source.line(index),
                format!("`{name}!` is left"),
                remedy,
            ));
        }
    }
    findings
}

fn reasons_for_unsafe(file: &File, source: &Source) -> Vec<Finding> {
    let comments: Vec<&str> = source.comment_lines().collect();
    let mut findings = Vec::new();
    for index in 0..source.tokens.len() {
        if source.word(index) != "unsafe" || !matches!(source.word(index + 1), "{" | "impl") {
            continue;
        }
        let line = source.line(index);
        if !has_safety_comment(&comments, line) {
            let what = format!("`unsafe {}` without a reason", source.word(index + 1));
            let remedy = "write `// SAFETY: …` right above it: why what it needs holds here";
            findings.push(Finding::error(&file.path, line, what, remedy));
        }
    }
    findings
}

/// Searches the line itself, the few above it, and the whole of a comment that starts higher and reaches into them.
fn has_safety_comment(comments: &[&str], line: usize) -> bool {
    let own = line - 1;
    let mut first = own.saturating_sub(SAFETY_LINES);
    while first > 0 && !comments[first].trim().is_empty() && !comments[first - 1].trim().is_empty() {
        first -= 1;
    }
    comments[first..=own]
        .iter()
        .any(|comment| comment.contains("SAFETY:"))
}

fn reasons_for_ignoring(file: &File, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut index = 0;
    while index < source.tokens.len() {
        let opens = source.word(index) == "#" && source.word(index + 1) == "[";
        let attribute = source.word(index + 2);
        index += 1;
        if !opens || !matches!(attribute, "ignore" | "cfg_attr") {
            continue;
        }
        let mut depth = 0;
        loop {
            match source.word(index) {
                "[" => depth += 1,
                "]" => depth -= 1,
                "ignore" if !has_reason(file, source, index) => {
                    let remedy = "write `#[ignore = \"why, and when it is run\"]`";
                    let what = "an ignored test without a reason";
                    findings.push(Finding::error(&file.path, source.line(index), what, remedy));
                }
                _ => {}
            }
            index += 1;
            if depth == 0 || index >= source.tokens.len() {
                break;
            }
        }
    }
    findings
}

/// Whether `= "…"` follows the token and is not empty. The blanked code has no insides of strings, so this reads the
/// text.
fn has_reason(file: &File, source: &Source, index: usize) -> bool {
    let (Some(open), Some(close)) = (source.tokens.get(index + 2), source.tokens.get(index + 3)) else {
        return false;
    };
    source.word(index + 1) == "=" && file.text[open.end..close.start].contains(char::is_alphanumeric)
}

#[cfg(test)]
#[path = "style_tests.rs"]
mod tests;
