//! Which function a line of a file is in.

use super::source::{Source, is_word};

/// A function with a body: its name and its first and last line, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function<'a> {
    pub name: &'a str,
    first: usize,
    last: usize,
}

/// All functions of a file; of nested ones the outer one first.
pub fn functions(source: &Source) -> Vec<Function<'_>> {
    let is_named = |at: &usize| source.word(*at) == "fn" && source.word(at + 1).starts_with(is_word);
    (0..source.tokens.len())
        .filter(is_named)
        .filter_map(|at| {
            Some(Function {
                name: source.word(at + 1),
                first: source.line(at),
                last: source.line(body_end(source, at)?),
            })
        })
        .collect()
}

/// The innermost function around a line.
pub fn function_at<'a>(functions: &[Function<'a>], line: usize) -> Option<&'a str> {
    let around = functions
        .iter()
        .rev()
        .find(|function| (function.first..=function.last).contains(&line));
    around.map(|function| function.name)
}

/// The brace that closes the body of the function that begins at token `at`; `None` if it has no body.
fn body_end(source: &Source, at: usize) -> Option<usize> {
    let mut depth = 0;
    for at in at..source.tokens.len() {
        match source.word(at) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" => depth -= 1,
            "}" if depth == 1 => return Some(at),
            "}" => depth -= 1,
            ";" if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_in_the_innermost_function() {
        let text = "//! A.\nimpl A {\n    fn f(x: [u8; 2]) {\n        fn g() {}\n        f(); }\n}\ntrait T {\n    fn h();\n    fn i() {\n    }\n}\nlet p: fn(u8) = f;\n";
        let source = Source::new(text);
        let functions = functions(&source);
        let at = |line| function_at(&functions, line);
        assert_eq!(
            (at(2), at(3), at(4), at(5)),
            (None, Some("f"), Some("g"), Some("f"))
        );
        assert_eq!((at(6), at(8), at(9), at(10)), (None, None, Some("i"), Some("i")));
        assert_eq!((at(11), at(12)), (None, None));
    }

    #[test]
    fn survives_source_that_ends_too_early() {
        for text in ["fn", "fn f", "fn f(", "fn f() {", "fn f() }"] {
            functions(&Source::new(text));
        }
    }
}
