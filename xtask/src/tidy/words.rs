//! Words and widths: a private word that [decision 0036](../../../docs/decisions/0036-the-fields-words.md) replaced
//! does not come back, and a comment is no wider than a reader's window.

use super::Finding;
use super::tree::{File, Kind, Tree};

/// What is refused as a whole word, or as a part of a name, and what stands for it.
const REFUSED: &[(&str, &str)] = &[
    ("abandon", "give up, orphan, or poison"),
    ("annex", "worker area"),
    ("arbiter", "election"),
    ("burial", "death notice"),
    ("bury", "reap"),
    ("errand", "background work"),
    ("errands", "background work"),
    ("executioner", "fencer"),
    ("foremost", "first waiter"),
    ("heir", "adopter"),
    ("mourner", "death notice"),
    ("mourners", "death notices"),
    ("patience", "timeout"),
    ("settle", "what is done: finish, close, quiesce"),
    ("settles", "what is done: finishes, closes, quiesces"),
    ("tether", "die with parent"),
    ("warden", "failover controller"),
    ("whoever", "the actor: the client that, the thread that"),
];

/// Records of what was, and the list above.
const EXEMPT: &[&str] = &["docs/decisions/", "CHANGELOG.md", "xtask/src/tidy/words.rs"];

/// Columns of a line of a comment. A table's row, a link and a `PAIRS WITH` may be longer.
const WIDTH: usize = 120;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree
        .files
        .iter()
        .filter(|file| !EXEMPT.iter().any(|exempt| file.path.starts_with(exempt)));
    files
        .flat_map(|file| refused(file).into_iter().chain(wide(file)))
        .collect()
}

fn refused(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for word in words(line) {
            if let Some((refused, instead)) = REFUSED.iter().find(|(refused, _)| *refused == word) {
                let what = format!("`{refused}` is a word that was replaced");
                findings.push(Finding::error(
                    &file.path,
                    index + 1,
                    what,
                    format!("write {instead}"),
                ));
            }
        }
    }
    findings
}

/// The words of a line, in small letters; of names, their parts.
fn words(line: &str) -> impl Iterator<Item = String> + '_ {
    line.split(|c: char| !c.is_ascii_alphabetic()).flat_map(|name| {
        let mut parts: Vec<String> = Vec::new();
        let mut was_upper = true;
        for c in name.chars() {
            if parts.is_empty() || c.is_ascii_uppercase() && !was_upper {
                parts.push(String::new());
            }
            was_upper = c.is_ascii_uppercase();
            if let Some(part) = parts.last_mut() {
                part.push(c.to_ascii_lowercase());
            }
        }
        parts
    })
}

fn wide(file: &File) -> Vec<Finding> {
    let Kind::Rust(_) = file.kind else {
        return Vec::new();
    };
    let is_wide = |line: &str| {
        let comment = line.trim_start();
        let text = comment.trim_start_matches('/').trim_start_matches('!');
        let is_drawn =
            text.starts_with("     ") || text.trim_start().starts_with('|') || text.contains("  | ");
        let may_be_long = is_drawn
            || ["PAIRS WITH", "](", "`cargo"]
                .iter()
                .any(|long| text.contains(long));
        comment.starts_with("//") && line.chars().count() > WIDTH && !may_be_long
    };
    let lines = file.text.lines().enumerate().filter(|(_, line)| is_wide(line));
    lines
        .map(|(index, _)| {
            let what = format!("a comment is wider than {WIDTH} columns");
            Finding::error(&file.path, index + 1, what, "break the line")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::planted::Planted;
    use super::*;

    const FILE: &str = "crates/cenote/src/a.rs";

    fn errors_in(test: &str, path: &str, text: &str) -> Vec<String> {
        Planted::new(test, &[(path, text)]).errors(check)
    }

    #[test]
    fn words_that_were_replaced_are_found_in_names_and_in_prose() {
        for (index, text) in [
            "fn settle_all() {}\n",
            "struct NextHeir;\n",
            "//! The foremost.\n",
            "const PATIENCE: u32 = 1;\n",
        ]
        .iter()
        .enumerate()
        {
            assert_eq!(
                errors_in(&format!("words-{index}"), FILE, text).len(),
                1,
                "{text}"
            );
        }
        assert_eq!(errors_in("words-docs", "docs/a.md", "Whoever it is.\n").len(), 1);
        assert_eq!(
            errors_in("words-old", "docs/decisions/0036.md", "A heir.\n"),
            [""; 0]
        );
        assert_eq!(
            errors_in("words-good", FILE, "fn theirs() {} // settlement\n"),
            [""; 0]
        );
    }

    #[test]
    fn wide_comments_are_found_and_tables_are_not() {
        let wide = format!("    /// {}\n", "word ".repeat(30).trim_end());
        assert_eq!(errors_in("words-wide", FILE, &wide).len(), 1);
        let table = format!("//! | {} |\n", "word ".repeat(30));
        assert_eq!(errors_in("words-table", FILE, &table), [""; 0]);
        let code = format!("let a = \"{}\";\n", "word ".repeat(30));
        assert_eq!(errors_in("words-code", FILE, &code), [""; 0]);
    }
}
