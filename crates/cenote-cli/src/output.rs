//! What commands print to standard output: text for people, or JSON for scripts.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use serde::Serialize;

use crate::complaint::complain;
use crate::failure::Failure;

/// How results are printed.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// One JSON value a line instead of text.
    pub json: bool,
}

impl Output {
    /// JSON or text.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether standard output is a terminal.
    pub fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Whether a person watches: standard error is a terminal, and results are not JSON.
    pub fn is_watched(&self) -> bool {
        !self.json && io::stderr().is_terminal()
    }

    /// A buffered standard output; flush it, with [`Failure::stdout`] for its errors.
    pub fn writer(&self) -> BufWriter<StdoutLock<'static>> {
        BufWriter::with_capacity(1 << 16, io::stdout().lock())
    }

    /// Prints a result: with `--json` the value on one line, else what `text` makes of it, and a line end.
    pub fn result<T: Serialize>(&self, value: &T, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
        if self.json {
            self.json_line(value)
        } else {
            self.line(text(value))
        }
    }

    /// Prints a value as one line of JSON.
    pub fn json_line<T: Serialize>(&self, value: &T) -> Result<(), Failure> {
        let text = serde_json::to_string(value)
            .map_err(|error| Failure::failed(format!("the result cannot be written as JSON: {error}")))?;
        self.line(text)
    }

    /// Prints a line, at once.
    pub fn line(&self, text: impl AsRef<str>) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let mut write = |bytes: &[u8]| stdout.write_all(bytes).map_err(Failure::stdout);
        write(text.as_ref().as_bytes())?;
        if !text.as_ref().ends_with('\n') {
            write(b"\n")?;
        }
        stdout.flush().map_err(Failure::stdout)
    }

    /// Tells the person at standard error something that is no result; nothing with `--json`.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.json {
            complain!("{}", text.as_ref());
        }
    }
}

/// A number of bytes for people: `1.5 MiB`.
pub fn bytes(number: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = number as f64;
    let mut unit = "bytes";
    for larger in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    if unit == "bytes" {
        format!("{number} bytes")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// A number for people: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(64 << 20), "64.0 MiB");
        assert_eq!(bytes(5000 << 40), "5000.0 TiB");
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
    }
}
