//! Rust source, taken apart as far as the checks need it: code without comments and without the text of strings,
//! comments without code, tokens, and paths with their `use` groups spelled out.
//!
//! This is not a parser. It knows strings, raw strings, characters, lifetimes and nested comments exactly; everything
//! else is a stream of tokens, so that source that does not compile is still checked.

/// A token of the code: a word, `::`, or a single other character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub start: usize,
    pub end: usize,
}

/// A path as written, `use` groups spelled out: `use a::{b, c as d}` gives `a::b` and `a::c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Counted from 1.
    pub line: usize,
    pub segments: Vec<String>,
    /// The name that it gets by `as`, else its last segment.
    pub name: String,
    /// The inline modules around it, outermost first.
    pub modules: Vec<String>,
    /// It stands in a `use` item that starts with `pub`.
    pub is_public_use: bool,
}

pub struct Source {
    /// The text with comments, and the insides of strings, blanked; every byte keeps its place.
    pub code: String,
    /// The text with everything but comments blanked.
    pub comments: String,
    pub tokens: Vec<Token>,
    line_starts: Vec<usize>,
}

impl Source {
    pub fn new(text: &str) -> Source {
        let (code, comments) = separate(text);
        let tokens = tokenize(&code);
        let line_starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        Source {
            code,
            comments,
            tokens,
            line_starts,
        }
    }

    /// The line that byte `at` lies in, counted from 1.
    pub fn line_of(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }

    /// The text of token `index`; empty behind the last one.
    pub fn word(&self, index: usize) -> &str {
        self.tokens
            .get(index)
            .map_or("", |token| &self.code[token.start..token.end])
    }

    /// The line of token `index`.
    pub fn line(&self, index: usize) -> usize {
        self.tokens
            .get(index)
            .map_or(self.line_starts.len(), |token| self.line_of(token.start))
    }

    /// The comments of each line, first line first.
    pub fn comment_lines(&self) -> impl Iterator<Item = &str> {
        self.comments.split('\n')
    }

    /// Whether `name` occurs in the code as a whole word.
    pub fn names(&self, name: &str) -> bool {
        (0..self.tokens.len()).any(|index| self.word(index) == name)
    }

    /// Every path in the code, single words among them.
    pub fn paths(&self) -> Vec<Path> {
        Paths {
            source: self,
            found: Vec::new(),
            modules: Vec::new(),
            depth: 0,
            is_use: false,
            is_public_use: false,
        }
        .collect()
    }
}

/// Splits the text into code and comments, each with the other's bytes blanked.
fn separate(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let mut code = blank(bytes);
    let mut comments = blank(bytes);
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = if rest.starts_with(b"//") {
            at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            block_comment_end(bytes, at)
        } else {
            let end = code_end(text, at);
            // A literal leaves a quote where it starts and one where it ends, unless the text ends before it does.
            if is_literal(bytes, at, end) {
                code[at] = b'"';
                if bytes[end - 1].is_ascii_graphic() {
                    code[end - 1] = b'"';
                }
            } else {
                code[at..end].copy_from_slice(&bytes[at..end]);
            }
            at = end;
            continue;
        };
        comments[at..end].copy_from_slice(&bytes[at..end]);
        at = end;
    }
    let text_of = |bytes: Vec<u8>| String::from_utf8(bytes).expect("whole characters were kept or blanked");
    (text_of(code), text_of(comments))
}

/// As many spaces as there are bytes; line ends stay.
fn blank(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .map(|byte| if *byte == b'\n' { b'\n' } else { b' ' })
        .collect()
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Whether the piece of code from `at` to `end` is a string or character literal.
fn is_literal(bytes: &[u8], at: usize, end: usize) -> bool {
    let quote = at + prefix_length(bytes, at);
    end - at >= 2 && (matches!(bytes[quote], b'"' | b'\'') || is_raw_start(bytes, at))
}

/// 1 where the `b` or `c` of a literal like `b"…"` stands, else 0.
fn prefix_length(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    usize::from(
        [&b"b\""[..], b"b'", b"c\""]
            .iter()
            .any(|start| rest.starts_with(start)),
    )
}

/// Whether a raw string starts here: `r"`, `br#"`, `cr##"` and so on.
fn is_raw_start(bytes: &[u8], at: usize) -> bool {
    let rest = &bytes[at..];
    let prefix = if rest.starts_with(b"br") || rest.starts_with(b"cr") {
        2
    } else {
        usize::from(rest.starts_with(b"r"))
    };
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    prefix > 0 && rest.get(prefix + hashes) == Some(&b'"')
}

/// The end of the piece of code at `at`: a word, a literal or one character.
fn code_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    if is_raw_start(bytes, at) {
        let quote = at + bytes[at..].iter().position(|byte| *byte == b'"').unwrap_or(0);
        let hashes = bytes[at..quote].iter().filter(|byte| **byte == b'#').count();
        let close = format!("\"{}", "#".repeat(hashes));
        return text[quote + 1..]
            .find(&close)
            .map_or(bytes.len(), |found| quote + 1 + found + close.len());
    }
    let quote = at + prefix_length(bytes, at);
    if bytes[quote] == b'"' || (bytes[quote] == b'\'' && is_character(text, quote)) {
        return quoted_end(bytes, quote, bytes[quote]);
    }
    let first = text[at..].chars().next().unwrap_or(' ');
    if is_word(first) {
        return at
            + text[at..]
                .find(|character| !is_word(character))
                .unwrap_or(text.len() - at);
    }
    at + first.len_utf8()
}

/// `'a'` and `'\n'` are characters; `'a` is a lifetime.
fn is_character(text: &str, quote: usize) -> bool {
    let mut following = text[quote + 1..].chars();
    following.next() == Some('\\') || following.next() == Some('\'')
}

fn quoted_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

pub fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn tokenize(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut start = 0;
    while let Some(first) = code[start..].chars().next() {
        let length = if is_word(first) {
            code[start..]
                .find(|character| !is_word(character))
                .unwrap_or(code.len() - start)
        } else if code[start..].starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            tokens.push(Token {
                start,
                end: start + length,
            });
        }
        start += length;
    }
    tokens
}

/// Walks over the tokens and collects paths, keeping track of inline modules.
struct Paths<'a> {
    source: &'a Source,
    found: Vec<Path>,
    /// Each inline module with the depth of braces at which it ends.
    modules: Vec<(String, usize)>,
    depth: usize,
    is_use: bool,
    is_public_use: bool,
}

impl Paths<'_> {
    fn collect(mut self) -> Vec<Path> {
        let mut at = 0;
        while at < self.source.tokens.len() {
            match self.source.word(at) {
                "{" => self.depth += 1,
                "}" => {
                    self.depth = self.depth.saturating_sub(1);
                    self.modules.retain(|(_, ends_at)| *ends_at < self.depth + 1);
                }
                "mod" if self.source.word(at + 2) == "{" => {
                    self.modules
                        .push((self.source.word(at + 1).to_owned(), self.depth + 1));
                    at += 1;
                }
                "use" => (self.is_use, self.is_public_use) = (true, self.is_public_before(at)),
                ";" => (self.is_use, self.is_public_use) = (false, false),
                word if word.starts_with(is_word) => {
                    at = self.tree(at, &[]);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        self.found
    }

    /// Whether the `use` at `at` follows `pub` or `pub(…)`.
    fn is_public_before(&self, at: usize) -> bool {
        let mut before = at;
        if before > 0 && self.source.word(before - 1) == ")" {
            while before > 0 && self.source.word(before) != "(" {
                before -= 1;
            }
        }
        before > 0 && self.source.word(before - 1) == "pub"
    }

    /// Reads a path, or a group of them behind `prefix`, from token `at` on; returns the token behind it.
    fn tree(&mut self, mut at: usize, prefix: &[String]) -> usize {
        let line = self.source.line(at);
        let mut segments = prefix.to_vec();
        loop {
            if self.source.word(at) == "{" && segments.len() > prefix.len() {
                return self.group(at + 1, &segments);
            }
            segments.push(self.source.word(at).to_owned());
            at += 1;
            let goes_on = self.source.word(at + 1);
            if self.source.word(at) != "::"
                || !(goes_on.starts_with(is_word) || goes_on == "{" || goes_on == "*")
            {
                break;
            }
            at += 1;
        }
        let mut name = segments.last().cloned().unwrap_or_default();
        // Outside `use` this would be a cast, with a path of its own behind it.
        if self.is_use && self.source.word(at) == "as" {
            name = self.source.word(at + 1).to_owned();
            at += 2;
        }
        let modules = self.modules.iter().map(|(module, _)| module.clone()).collect();
        self.found.push(Path {
            line,
            segments,
            name,
            modules,
            is_public_use: self.is_public_use,
        });
        at
    }

    /// Reads the members of `prefix::{…}` from behind its brace; returns the token behind the closing one.
    fn group(&mut self, mut at: usize, prefix: &[String]) -> usize {
        while at < self.source.tokens.len() {
            let word = self.source.word(at);
            if word == "}" {
                return at + 1;
            }
            at = match word.starts_with(is_word) || word == "*" {
                true => self.tree(at, prefix),
                false => at + 1,
            };
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new(text).code
    }

    fn paths(text: &str) -> Vec<String> {
        Source::new(text)
            .paths()
            .into_iter()
            .map(|path| path.segments.join("::"))
            .collect()
    }

    #[test]
    fn blanks_comments_and_strings_and_keeps_every_byte_in_place() {
        let text = "let a = \"unsafe {\"; // todo é\n/* a /* b */ c */ let b = r#\"x\" \\\"#; let c = 1;";
        let source = Source::new(text);
        assert_eq!(source.code.len(), text.len());
        assert_eq!(source.comments.len(), text.len());
        assert!(
            !source.code.contains("unsafe") && !source.code.contains("todo") && !source.code.contains('x')
        );
        assert!(source.comments.contains("todo é") && source.comments.contains("/* a /* b */ c */"));
        assert!(source.code.ends_with("let c = 1;"));
    }

    #[test]
    fn tells_characters_from_lifetimes() {
        assert!(code("let a = '\"'; dbg").contains("dbg"));
        assert!(code("let a = '\\''; dbg").contains("dbg"));
        assert!(code("let a = b'\\\\'; dbg").contains("dbg"));
        assert!(code("fn f<'a>(x: &'a str) { dbg }").contains("dbg"));
        assert!(code("let a = 'é'; dbg").contains("dbg"));
    }

    #[test]
    fn knows_every_kind_of_string() {
        for string in [
            r#""a\"b""#,
            r##"r"b""##,
            r##"br#"b"#"##,
            r#"b"b""#,
            r#"c"b""#,
            r###"cr##"b"# "##"###,
        ] {
            let code = code(&format!("x({string}); end"));
            assert!(
                code.starts_with("x(") && code.ends_with("); end"),
                "{string} gives {code}"
            );
            assert!(!Source::new(&code).names("b"), "{string} gives {code}");
        }
        assert!(Source::new("let r#type = 1; end").names("end"));
    }

    #[test]
    fn survives_source_that_ends_too_early() {
        for text in [
            "\"",
            "'",
            "'\\",
            "r#\"",
            "/* /*",
            "use a::{b",
            "use a::",
            "mod",
            "b'",
            "\"\\",
            "\"é",
            "\"\n",
        ] {
            let source = Source::new(text);
            source.paths();
            assert_eq!(source.code.len(), text.len());
        }
    }

    #[test]
    fn spells_out_use_groups() {
        assert_eq!(
            paths("use a::{b, c::{self, d as e, *}, f};\nx::y::<z::W>() as v::U"),
            [
                "a::b",
                "a::c::self",
                "a::c::d",
                "a::c::*",
                "a::f",
                "x::y",
                "z::W",
                "as",
                "v::U"
            ]
        );
        let mut found = Source::new("use a::{\n    b,\n    c as d,\n};\npub(crate) use e::f;").paths();
        found.retain(|path| path.segments.len() > 1);
        assert_eq!(found.iter().map(|path| path.line).collect::<Vec<_>>(), [2, 3, 5]);
        assert_eq!(
            found.iter().map(|path| path.name.as_str()).collect::<Vec<_>>(),
            ["b", "d", "f"]
        );
        assert_eq!(
            found.iter().map(|path| path.is_public_use).collect::<Vec<_>>(),
            [false, false, true]
        );
    }

    #[test]
    fn knows_the_inline_modules_around_a_path() {
        let found = Source::new("a; mod m { b; mod n { fn f() { c } } d } e").paths();
        let modules = |name: &str| {
            found
                .iter()
                .find(|path| path.name == name)
                .unwrap()
                .modules
                .join("::")
        };
        assert_eq!(
            (modules("a"), modules("b"), modules("c")),
            ("".into(), "m".into(), "m::n".into())
        );
        assert_eq!((modules("d"), modules("e")), ("m".into(), "".into()));
    }
}
