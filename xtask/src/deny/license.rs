//! Licence expressions as packages state them: SPDX, and the older form in which a slash is an `OR`.

/// Whether allowed licences satisfy an expression; an error says what cannot be understood. Calls `used` with each
/// licence that was needed.
pub fn is_satisfied(expression: &str, allowed: &[String], used: &mut Vec<String>) -> Result<bool, String> {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader {
        words: &words,
        allowed,
        used,
    };
    let satisfied = reader.or()?;
    match reader.words {
        [] => Ok(satisfied),
        [word, ..] => Err(format!("`{word}` is not expected in `{expression}`")),
    }
}

struct Reader<'r> {
    words: &'r [&'r str],
    allowed: &'r [String],
    used: &'r mut Vec<String>,
}

impl<'r> Reader<'r> {
    fn next(&mut self) -> Option<&'r str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.words.first() == Some(&word);
        if is_next {
            self.next();
        }
        is_next
    }

    fn or(&mut self) -> Result<bool, String> {
        let mut satisfied = self.and()?;
        while self.takes("OR") {
            satisfied |= self.and()?;
        }
        Ok(satisfied)
    }

    fn and(&mut self) -> Result<bool, String> {
        let mut satisfied = self.one()?;
        while self.takes("AND") {
            satisfied &= self.one()?;
        }
        Ok(satisfied)
    }

    fn one(&mut self) -> Result<bool, String> {
        match self.next() {
            Some("(") => {
                let satisfied = self.or()?;
                match self.takes(")") {
                    true => Ok(satisfied),
                    false => Err("a bracket is not closed".to_owned()),
                }
            }
            None | Some(")" | "OR" | "AND" | "WITH") => Err("a licence is missing".to_owned()),
            Some(name) => {
                let mut name = name.to_owned();
                if self.takes("WITH") {
                    let exception = self.next().ok_or("an exception is missing")?;
                    name = format!("{name} WITH {exception}");
                }
                let is_allowed = self.allowed.contains(&name);
                if is_allowed {
                    self.used.push(name);
                }
                Ok(is_allowed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_satisfied;

    fn judged(expression: &str) -> Result<bool, String> {
        is_satisfied(
            expression,
            &["MIT".into(), "Zlib".into(), "Apache-2.0".into()],
            &mut Vec::new(),
        )
    }

    #[test]
    fn alternatives_and_demands_are_told_apart() {
        for fine in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 / MIT",
            "MIT AND Zlib",
            "(GPL-3.0 OR MIT) AND Zlib",
            "GPL-3.0 AND Zlib OR MIT",
            "Apache-2.0 WITH LLVM-exception OR MIT",
        ] {
            assert_eq!(judged(fine), Ok(true), "{fine}");
        }
        for refused in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR Zlib) AND GPL-3.0",
            "MIT AND (GPL-3.0 OR LGPL-3.0)",
            "Apache-2.0 WITH LLVM-exception",
            "mit",
        ] {
            assert_eq!(judged(refused), Ok(false), "{refused}");
        }
        for wrong in ["", "MIT OR", "(MIT", "MIT)", "MIT Zlib", "AND MIT", "MIT WITH"] {
            assert!(judged(wrong).is_err(), "{wrong}");
        }
    }
}
