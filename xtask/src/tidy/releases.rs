//! In the pod, the indexes and the locks, whatever releases names who acquires it.
//!
//! That is each store, sequentially consistent or not, and read-modify-write of a word that others may read ([`OPERATIONS`]). It has a `PAIRS WITH` (see
//! [`pairs`](super::pairs)), or a `NO PAIR: kind` with one of the few [`KINDS`] that need no other side. The comment stands on a line of
//! the statement or of the arm, or directly above it. A wrapper has the comment for all of its calls.
//!
//! Exempt are tests, code that only a planted fault enters, and indexes made for comparison; and stores of owned words
//! and unpublished data, as others rely on them only once a word is published that is covered.

use super::source::Source;
use super::tree::{File, Tree};
use super::{Finding, LIBRARY, pairs};

const FOLDERS: &[&str] = &["pod", "index", "sync"];
/// Indexes made for comparison: they are built as their papers describe them, nobody keeps data in them, and the orders
/// that they need are the papers'. The simulator runs them all the same.
const LEFT_OUT: &str = "index/baseline/";

const MARK: &str = "NO PAIR:";

/// What needs no other side, and why.
const KINDS: &[(&str, &str)] = &[
    (
        "unshared",
        "nobody else looks at the word yet, or any more: what publishes or hides it pairs",
    ),
    (
        "count",
        "a number that is told or drawn: nothing else is read by it",
    ),
    (
        "hint",
        "who finds it old does something in vain, or leaves it to others: what holds is read elsewhere",
    ),
    (
        CLAIM,
        "an exchange that by contract releases nothing: its word alone says who does something, or how far that is; what is done is \
         published by words that pair",
    ),
    (
        "locked",
        "read and written under a lock alone, whose own functions pair",
    ),
];

/// The kind that is for [`ACQUIRES`] alone, and for words of the process.
const CLAIM: &str = "claim";
const ACQUIRES: &[&str] = &["compare_exchange_acquire", "exchange"];

/// Methods of words and of memory that release, with the least and the most arguments of such a call. A call with
/// another number is another method.
const OPERATIONS: &[(&str, usize, usize)] = &[
    ("store", 1, 2),
    ("store_line", 2, 2),
    ("store_seq_cst", 2, 2),
    ("swap", 2, 2),
    ("compare_exchange", 3, 3),
    ("compare_exchange_acquire", 3, 3),
    ("exchange_as_last_server", 3, 3),
    ("fence_and_exchange", 3, 3),
    ("fetch_add", 2, 2),
    ("fetch_or", 2, 2),
    ("fetch_and", 2, 2),
    // Words of the process.
    ("exchange", 2, 2),
    ("add", 1, 1),
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources()
        .filter(|(file, _)| is_covered(file))
        .flat_map(|(file, source)| Checked::new(source).findings(file))
        .collect()
}

/// Whether a file's releases must name who acquires them.
pub fn is_covered(file: &File) -> bool {
    let within = file
        .path
        .strip_prefix(LIBRARY)
        .and_then(|path| path.strip_prefix("/src/"));
    let is_in = |path: &str| {
        FOLDERS
            .iter()
            .any(|folder| path.split('/').next() == Some(folder))
    };
    within.is_some_and(|path| is_in(path) && !path.starts_with(LEFT_OUT)) && !file.is_test_only()
}

/// What a comment says of a release.
enum Says<'a> {
    Pair,
    Kind(&'a str),
}

struct Checked<'a> {
    source: &'a Source,
    comments: Vec<&'a str>,
    /// Whether a line has code.
    has_code: Vec<bool>,
    /// The token from which on there are tests.
    end: usize,
}

impl<'a> Checked<'a> {
    fn new(source: &'a Source) -> Self {
        let has_code = source.code.split('\n').map(|line| !line.trim().is_empty());
        Self {
            source,
            comments: source.comment_lines().collect(),
            has_code: has_code.collect(),
            end: tests_begin(source),
        }
    }

    fn findings(&self, file: &File) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut used = vec![false; self.comments.len() + 1];
        for at in (0..self.end).filter(|at| self.is_release(*at)) {
            let line = self.source.line(at);
            let about = self.about(at);
            let said = about.iter().filter_map(|n| Some((*n, self.says(*n)?)));
            let mut is_said = self.is_planted(at);
            for (n, says) in said {
                is_said = true;
                used[n] = true;
                let Says::Kind(kind) = says else { continue };
                let what = match kind {
                    _ if KINDS.iter().all(|(known, _)| *known != kind) => {
                        format!("{MARK} says `{kind}`, which is no kind of release")
                    }
                    CLAIM if !ACQUIRES.contains(&self.source.word(at)) => {
                        format!("`{}` releases, and is no claim", self.source.word(at))
                    }
                    _ => continue,
                };
                findings.push(Finding::error(&file.path, n, what, kinds()));
            }
            if !is_said {
                let what = format!("`{}` does not say who acquires it", self.source.word(at));
                let remedy = format!(
                    "write `// PAIRS WITH: module::function` above the statement, and there one that leads back; or `// {MARK}` and {}",
                    names_of_kinds()
                );
                findings.push(Finding::error(&file.path, line, what, remedy));
            }
        }
        // A mark without an operation is left over from code that went elsewhere.
        let last = self.source.line(self.end);
        for (index, comment) in self.comments.iter().enumerate().take(last) {
            if !used[index + 1]
                && comment.contains(MARK)
                && matches!(self.says(index + 1), Some(Says::Kind(_)))
            {
                let what = format!("{MARK} stands at nothing that releases");
                let remedy = "put it directly above the statement that it is about, or remove it";
                findings.push(Finding::error(&file.path, index + 1, what, remedy));
            }
        }
        findings
    }

    fn says(&self, line: usize) -> Option<Says<'a>> {
        let comment = self.comments[line - 1];
        if pairs::is_pair(comment) {
            return Some(Says::Pair);
        }
        let (before, kind) = comment.split_once(MARK)?;
        let is_quoted = before.ends_with('`') || before.trim_start().starts_with("//!");
        let kind = kind.trim().split([' ', '.', ',', ';', ':']).next().unwrap_or("");
        (!is_quoted).then_some(Says::Kind(kind))
    }

    /// Whether token `at` names an operation in a call of it, but not of a wrapper of the caller's own type.
    fn is_release(&self, at: usize) -> bool {
        let word = |at| self.source.word(at);
        if at < 2 || word(at - 1) != "." || word(at + 1) != "(" {
            return false;
        }
        let is_own = word(at - 2) == "self" && (at < 3 || word(at - 3) != ".");
        // Much else is called that; words of the process count one by one.
        let is_other = word(at) == "add" && !word(at + 2).starts_with(|first: char| first.is_ascii_digit());
        let count = self.arguments(at + 1);
        !is_own
            && !is_other
            && OPERATIONS
                .iter()
                .any(|(name, least, most)| word(at) == *name && (*least..=*most).contains(&count))
    }

    /// How many arguments stand between the parenthesis at `at` and the one that ends it.
    fn arguments(&self, at: usize) -> usize {
        let (mut depth, mut count, mut is_begun) = (0, 0, false);
        for at in at..self.source.tokens.len() {
            match self.source.word(at) {
                "(" | "[" | "{" => {
                    is_begun |= depth > 0;
                    depth += 1;
                }
                ")" | "]" | "}" => depth -= 1,
                "," if depth == 1 => {
                    count += usize::from(is_begun);
                    is_begun = false;
                }
                _ => is_begun = true,
            }
            if depth == 0 {
                break;
            }
        }
        count + usize::from(is_begun)
    }

    /// The lines whose comments are about token `at`: its arm or statement up to it, and the comments directly above
    /// these and above the statement that the arm is in.
    fn about(&self, at: usize) -> Vec<usize> {
        let begins = self.begins(at);
        let mut lines: Vec<usize> = (self.source.line(begins[0])..=self.source.line(at)).collect();
        for begin in begins {
            let first = self.source.line(begin);
            let above = (1..first).rev();
            lines.extend(above.take_while(|line| self.is_comment(*line)));
        }
        lines
    }

    fn is_comment(&self, line: usize) -> bool {
        !self.has_code[line - 1] && !self.comments[line - 1].trim().is_empty()
    }

    /// The first tokens of the arms that token `at` is in, the innermost first, and then that of the statement. The
    /// braces of a `match` end no statement.
    fn begins(&self, at: usize) -> Vec<usize> {
        let (mut begins, mut begin) = (Vec::new(), at);
        let mut comma = None;
        while begin > 0 {
            match self.source.word(begin - 1) {
                ";" => break,
                "{" if self.is_of_match(begin - 1) => {
                    begins.push(comma.take().unwrap_or(begin));
                    begin -= 1;
                }
                "{" => break,
                "}" if !self.goes_on(begin) => break,
                "(" | "[" => {
                    comma = None;
                    begin -= 1;
                }
                ")" | "]" | "}" => begin = self.opening(begin - 1),
                "," => {
                    comma = comma.or(Some(begin));
                    begin -= 1;
                }
                _ => begin -= 1,
            }
        }
        begins.push(begin);
        begins
    }

    /// Whether the word behind a closing brace is of the same statement.
    fn goes_on(&self, at: usize) -> bool {
        matches!(self.source.word(at), "else" | "." | "?" | ")" | "," | "=" | "|")
    }

    /// Whether the opening brace at `at` is that of a `match`.
    fn is_of_match(&self, at: usize) -> bool {
        let mut header = (0..at)
            .rev()
            .map(|at| self.source.word(at))
            .take_while(|word| !matches!(*word, ";" | "{" | "}"));
        header.any(|word| word == "match") && self.source.word(at - 1) != ">"
    }

    /// The opening token that belongs to the closing one at `close`.
    fn opening(&self, close: usize) -> usize {
        let mut depth = 0;
        for at in (0..=close).rev() {
            match self.source.word(at) {
                ")" | "]" | "}" => depth += 1,
                "(" | "[" | "{" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        0
    }

    /// Whether token `at` is what a planted fault alone does: in a block after `if mutant::is(Mutant::A)`, or in
    /// `mutant::also(Mutant::A, …)`.
    fn is_planted(&self, at: usize) -> bool {
        self.is_in_planted_block(at) || self.is_in_planted_call(at)
    }

    fn is_in_planted_call(&self, at: usize) -> bool {
        let mut depth = 0;
        for at in (0..at).rev() {
            match self.source.word(at) {
                ")" | "}" => depth += 1,
                "(" | "{" if depth > 0 => depth -= 1,
                "(" if at >= 3
                    && (1..=3).all(|n| self.source.word(at - n) == ["also", "::", "mutant"][n - 1]) =>
                {
                    return true;
                }
                // The block of a closure.
                "{" if depth == 0 && at > 0 && matches!(self.source.word(at - 1), "||" | "|") => {}
                "{" | ";" if depth == 0 => return false,
                _ => {}
            }
        }
        false
    }

    fn is_in_planted_block(&self, at: usize) -> bool {
        let Some(open) = self.block(at) else {
            return false;
        };
        let header = ["if", "mutant", "::", "is", "(", "Mutant", "::"];
        open > header.len() + 1
            && self.source.word(open - 1) == ")"
            && header
                .iter()
                .enumerate()
                .all(|(n, word)| self.source.word(open - 2 - header.len() + n) == *word)
    }

    /// The brace that opens the innermost block around token `at`.
    fn block(&self, at: usize) -> Option<usize> {
        let mut depth = 0;
        for at in (0..at).rev() {
            match self.source.word(at) {
                "}" => depth += 1,
                "{" if depth == 0 => return Some(at),
                "{" => depth -= 1,
                _ => {}
            }
        }
        None
    }
}

fn kinds() -> String {
    let kinds: Vec<String> = KINDS
        .iter()
        .map(|(kind, why)| format!("`{kind}` ({why})"))
        .collect();
    format!("name the other side, or one of {}", kinds.join(", "))
}

fn names_of_kinds() -> String {
    let kinds: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
    format!("one of the kinds {} (`KINDS` in {})", kinds.join(", "), file!())
}

/// The token at which a module of tests begins, as tests are the last thing in a file; the number of tokens if there is
/// none.
fn tests_begin(source: &Source) -> usize {
    let mark = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let is_mark = |at: usize| {
        mark.iter()
            .enumerate()
            .all(|(n, word)| source.word(at + n) == *word)
    };
    (0..source.tokens.len())
        .find(|at| is_mark(*at))
        .unwrap_or(source.tokens.len())
}

#[cfg(test)]
#[path = "releases_tests.rs"]
mod tests;
