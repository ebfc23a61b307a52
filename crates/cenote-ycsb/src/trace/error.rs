//! Why a trace could not be read: which file, which line, which field, and what to do.

use std::io;

/// What is wrong with a trace, or with what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read, or what it is packed with is damaged. Reading again fails again.
    #[error("{file}: {source}; check that the file is complete and that its name says how it is packed")]
    Io {
        /// Which file.
        file: String,
        /// What the operating system or the unpacker says.
        source: io::Error,
    },
    /// One record is not what the format says. The next call goes on behind it.
    #[error("{file}, {unit} {number}, {field}: {why}; correct it, leave it out, or choose the format it has")]
    Bad {
        /// Which file.
        file: String,
        /// What is counted: lines of text, records of binary formats.
        unit: &'static str,
        /// Which one, from 1.
        number: u64,
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// What was asked for cannot be: a column, a ratio, a size.
    #[error("{0}")]
    Unfit(String),
}

impl Error {
    /// Whether only one record is bad, and the next call reads the one behind it.
    pub fn is_one_record(&self) -> bool {
        matches!(self, Self::Bad { .. })
    }
}

/// What is wrong with one record: which field, and why. Readers make an [`Error::Bad`] of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    pub field: &'static str,
    pub why: String,
}

impl Flaw {
    pub fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self {
            field,
            why: why.into(),
        }
    }
}

/// A field for a message: quoted, escaped, and cut after a few dozen bytes.
pub(super) fn quoted(field: &[u8]) -> String {
    let shown = field.get(..40).unwrap_or(field);
    let dots = if shown.len() < field.len() { "…" } else { "" };
    format!("\"{}{dots}\"", shown.escape_ascii())
}

/// A whole number in a field.
pub(super) fn number<N: std::str::FromStr>(name: &'static str, field: &[u8]) -> Result<N, Flaw> {
    std::str::from_utf8(field)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| {
            let bits = 8 * size_of::<N>();
            Flaw::new(
                name,
                format!("{} is not a whole number of {bits} bits", quoted(field)),
            )
        })
}
