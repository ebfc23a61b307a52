//! Relative links in Markdown lead to files that exist.
//!
//! Links are `[text](target)`, `![image](target)` and `[label]: target`, outside code. A target that starts with `/` is
//! taken from the root of the tree. Addresses of other sites and anchors within the page are not followed.

use super::Finding;
use super::style::without_code_spans;
use super::tree::{File, Kind, Tree};
use std::path::Path;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let documents = tree
        .files
        .iter()
        .filter(|file| matches!(file.kind, Kind::Markdown));
    documents.flat_map(|file| broken(&tree.root, file)).collect()
}

fn broken(root: &Path, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in targets(&file.text) {
        let Some(relative) = local(&target) else { continue };
        let start = match relative.strip_prefix('/') {
            Some(from_root) => root.join(from_root),
            None => root.join(&file.path).parent().unwrap_or(root).join(&relative),
        };
        if !start.exists() {
            let remedy = "correct the path, relative to this document, or remove the link";
            findings.push(Finding::error(
                &file.path,
                line,
                format!("the link `{target}` leads nowhere"),
                remedy,
            ));
        }
    }
    findings
}

/// Every link target of the document with its line, code left out.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let marker = ["```", "~~~"]
            .into_iter()
            .find(|marker| start.starts_with(marker));
        match (fence, marker) {
            (None, Some(_)) => fence = marker,
            (Some(open), Some(close)) if open == close => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                found.extend(targets_in(&without_code_spans(line)).map(|target| (index + 1, target)))
            }
        }
    }
    found
}

fn targets_in(line: &str) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("](") {
        found.extend(first_target(&line[at + 2..], ')'));
    }
    let definition = line
        .trim_start()
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]:"));
    if let Some((label, target)) = definition
        && !label.contains(']')
        && !label.starts_with('^')
    {
        found.extend(first_target(target.trim_start(), ' '));
    }
    found.into_iter()
}

/// The target at the start of `text`: in angle brackets, or up to a space (a title follows) or to `end`.
fn first_target(text: &str, end: char) -> Option<String> {
    if let Some(bracketed) = text.strip_prefix('<') {
        return bracketed.split_once('>').map(|(target, _)| target.to_owned());
    }
    // A target may hold balanced brackets: `a_(b).md`.
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ if character == end || character.is_whitespace() => return Some(text[..at].to_owned()),
            _ => {}
        }
    }
    (end == ' ').then(|| text.to_owned())
}

/// The path of a target within the tree; `None` if it leads elsewhere.
fn local(target: &str) -> Option<String> {
    let path = target.split(['#', '?']).next().unwrap_or("");
    let scheme = path.split_once(':').map(|(scheme, _)| scheme);
    let is_foreign = scheme.is_some_and(|scheme| !scheme.is_empty() && !scheme.contains(['/', '.']));
    (!path.is_empty() && !is_foreign && !path.starts_with("//")).then(|| path.replace("%20", " "))
}

#[cfg(test)]
mod tests {
    use super::super::planted::{Planted, assert_one};
    use super::*;

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let document = "[a](../README.md) ![b](b.svg \"title\") [c](../README.md#part) [d](#here) [e](https://x.org/y)\n\
            [f](mailto:x@y.org) [g](</docs/with space.md>) [h](with%20space.md) [i](/docs) [j](a_(b).md) [k][label]\n\
            `[code](none.md)` and [nested ![image](b.svg)](../README.md)\n\
            ```\n[fenced](none.md)\n```\n\n[label]: b.svg\n[^note]: not a link\n";
        let planted = Planted::new(
            "links-good",
            &[
                ("docs/a.md", document),
                ("docs/b.svg", ""),
                ("docs/with space.md", ""),
                ("docs/a_(b).md", ""),
                ("README.md", "[docs](docs/) [a](./docs/a.md)\n"),
            ],
        );
        assert_eq!(planted.errors(check), Vec::<String>::new());
    }

    #[test]
    fn every_spelling_of_a_broken_link_is_found() {
        let spellings = [
            "[a](none.md)",
            "![a](none.png)",
            "[a](<none.md>)",
            "[a](none.md \"title\")",
            "[a](none.md#part)",
            "[a](/none.md)",
            "[a](../none.md)",
            "[a]: none.md",
            "`code` [a](none.md) `more`",
            "[`code`](none.md)",
            "~~~\n```\n~~~\n[a](none.md)",
        ];
        for (index, spelling) in spellings.iter().enumerate() {
            let text = format!("# Title\n\n{spelling}\n");
            let planted = Planted::new(&format!("links-broken-{index}"), &[("docs/a.md", &text)]);
            let errors = planted.errors(check);
            let line = 3 + spelling.matches('\n').count();
            assert_one(&errors, &format!("docs/a.md:{line}: "), "leads nowhere");
        }
    }
}
