//! Files of records: TSV, CSV and JSON lines, read into pairs and written from them.
//!
//! Formats differ in [what they can hold](crate::bytes); a file that was written here is read as the same pairs.

mod csv;
mod jsonl;
mod layout;
mod tsv;

use std::io::{self, BufRead, Write};
use std::path::Path;

pub use layout::Columns;

use cenote_ycsb::trace::Bound;

use crate::failure::Failure;

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Fields between tabs, one record a line; \\, \t, \n, \r and \xHH are escapes
    Tsv,
    /// Fields between commas, quoted where needed, any bytes
    Csv,
    /// A JSON object a line
    Jsonl,
}

impl Format {
    /// What is asked for, or what a file's name says; standard input and output (`None`) are TSV if nothing else is
    /// said.
    pub fn choose(asked: Option<Self>, file: Option<&Path>) -> Result<Self, Failure> {
        let (None, Some(file)) = (asked, file) else {
            return Ok(asked.unwrap_or(Self::Tsv));
        };
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        let packed = [".gz", ".zst", ".zstd"]
            .iter()
            .find_map(|end| name.strip_suffix(end));
        let name = packed.unwrap_or(&name);
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("tsv" | "tab") => Ok(Self::Tsv),
            Some("csv") => Ok(Self::Csv),
            Some("jsonl" | "ndjson") => Ok(Self::Jsonl),
            _ => Err(Failure::misuse(format!(
                "{}: its name does not say which format it has; say --format tsv, csv or jsonl",
                file.display()
            ))),
        }
    }
}

/// Whether a file's name says that it is compressed by gzip.
pub fn is_gzip(file: &Path) -> bool {
    file.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}

/// A key and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// What came next in a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A record, which is in the pair given.
    Pair,
    /// Something that is no record, and the next call goes on behind it.
    Bad {
        /// Its line, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The end.
    End,
}

/// A file of records that is read.
pub trait Source {
    /// Reads the next record.
    fn next(&mut self, pair: &mut Pair) -> Result<Next, Failure>;
}

/// Bytes that a record of a file has at most, about.
pub const RECORD_MAX: u64 = 1 << 30;

/// A file whose records have an end.
struct Ending<'r> {
    source: Box<dyn Source + 'r>,
    bound: Bound,
}

impl Source for Ending<'_> {
    fn next(&mut self, pair: &mut Pair) -> Result<Next, Failure> {
        self.bound.renew();
        self.source.next(pair)
    }
}

/// Begins to read records, of at most [`RECORD_MAX`].
pub fn read<'r>(
    format: Format,
    columns: &Columns,
    raw: bool,
    input: Box<dyn BufRead + 'r>,
) -> Result<Box<dyn Source + 'r>, Failure> {
    let bound = Bound::new(RECORD_MAX);
    let source = parse(format, columns, raw, Box::new(bound.of(input)))?;
    Ok(Box::new(Ending { source, bound }))
}

fn parse<'r>(
    format: Format,
    columns: &Columns,
    raw: bool,
    input: Box<dyn BufRead + 'r>,
) -> Result<Box<dyn Source + 'r>, Failure> {
    Ok(match format {
        Format::Tsv => Box::new(tsv::Reader::new(columns, raw, input)?),
        Format::Csv => Box::new(csv::Reader::new(columns, input)?),
        Format::Jsonl => Box::new(jsonl::Reader::new(columns, input)?),
    })
}

/// A file of pairs that is written.
pub enum Sink<W: Write> {
    /// One of TSV.
    Tsv(W, Vec<u8>),
    /// One of CSV.
    Csv(Box<::csv::Writer<W>>),
    /// One of JSON lines.
    Jsonl(W),
}

impl<W: Write> Sink<W> {
    /// Begins to write pairs.
    pub fn new(format: Format, to: W) -> Self {
        match format {
            Format::Tsv => Self::Tsv(to, Vec::new()),
            Format::Csv => Self::Csv(Box::new(csv::writer(to))),
            Format::Jsonl => Self::Jsonl(to),
        }
    }

    /// Writes a pair.
    pub fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        match self {
            Self::Tsv(to, line) => {
                line.clear();
                crate::bytes::escape(key, false, line);
                line.push(b'\t');
                crate::bytes::escape(value, false, line);
                line.push(b'\n');
                to.write_all(line)
            }
            Self::Csv(to) => to.write_record([key, value]).map_err(io::Error::other),
            Self::Jsonl(to) => {
                serde_json::to_writer(&mut *to, &crate::bytes::pair_to_json(key, value))?;
                to.write_all(b"\n")
            }
        }
    }

    /// Ends the file, and gives back where it was written to.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::Tsv(to, _) | Self::Jsonl(to) => Ok(to),
            Self::Csv(to) => to
                .into_inner()
                .map_err(|error| io::Error::new(error.error().kind(), error.to_string())),
        }
    }
}

/// Reads a line without its end into `line`; false at the end. A byte order mark before the first line is left out.
fn read_line(input: &mut dyn BufRead, line: &mut Vec<u8>, number: &mut u64) -> Result<bool, Failure> {
    line.clear();
    let read = input
        .read_until(b'\n', line)
        .map_err(Failure::io("reading the records"))?;
    *number += 1;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    if *number == 1 && line.starts_with("\u{feff}".as_bytes()) {
        line.drain(..3);
    }
    Ok(read > 0)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
