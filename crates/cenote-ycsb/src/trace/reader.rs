//! Reading a trace, whatever its format: one record at a time, in constant memory.
//!
//! A bad record is an error that says where, and the next call reads the record behind it, so a caller may skip bad
//! records. After an error of the input itself the reader is at its end.

use std::io::BufRead;
use std::path::Path;

use super::bounded::Bound;
use super::columns::Columns;
use super::error::Error;
use super::lines::Stop;
use super::plain::{Csv, Oracle, Text};
use super::record::{Record, Step};
use super::twitter::Twitter;
use super::unpack;

/// Bytes that a record has at most: keys have 64 KiB.
const RECORD_MAX: u64 = 16 << 20;

/// What a trace is written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// Twitter's CSV.
    Twitter,
    /// libCacheSim's `oracleGeneral`: records of 24 bytes.
    Oracle,
    /// CSV with a choice of columns, as libCacheSim takes it.
    Csv(Columns),
    /// One object id a line.
    Text,
}

enum Source<'r> {
    Twitter(Twitter<'r>),
    Oracle(Oracle<'r>),
    Csv(Csv<'r>),
    Text(Text<'r>),
}

/// Reads a trace. As an iterator it makes a record of its own for each request; [`read`](Self::read) does not.
pub struct Reader<'r> {
    source: Source<'r>,
    file: String,
    ended: bool,
    bound: Bound,
}

impl Reader<'static> {
    /// Opens a file, which may be packed; its name says how ([`Packing`](super::Packing)).
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be opened.
    pub fn open(path: &Path, format: &Format) -> Result<Self, Error> {
        let file = path.display().to_string();
        match unpack::open(path) {
            Ok(input) => Ok(Self::new(input, format, file)),
            Err(source) => Err(Error::Io { file, source }),
        }
    }
}

impl<'r> Reader<'r> {
    /// Reads what is not packed (any more); `file` is the name in errors.
    pub fn new(input: Box<dyn BufRead + 'r>, format: &Format, file: impl Into<String>) -> Self {
        let bound = Bound::new(RECORD_MAX);
        let input: Box<dyn BufRead + 'r> = Box::new(bound.of(input));
        let source = match format {
            Format::Twitter => Source::Twitter(Twitter::new(input)),
            Format::Oracle => Source::Oracle(Oracle::new(input)),
            Format::Csv(columns) => Source::Csv(Csv::new(input, columns)),
            Format::Text => Source::Text(Text::new(input)),
        };
        Self {
            source,
            file: file.into(),
            ended: false,
            bound,
        }
    }

    /// Reads the next request into a record, whose buffer is reused; false at the end.
    ///
    /// # Errors
    /// [`Error::Bad`] if this request is not what the format says: the record is then of no use, and the next call
    /// goes on behind it. [`Error::Io`] if the input cannot be read: then the reader is at its end.
    pub fn read(&mut self, record: &mut Record) -> Result<bool, Error> {
        if self.ended {
            return Ok(false);
        }
        self.bound.renew();
        let read = match &mut self.source {
            Source::Twitter(source) => source.next(record),
            Source::Oracle(source) => source.next(record),
            Source::Csv(source) => source.next(record),
            Source::Text(source) => source.next(record),
        };
        read.map_err(|stop| match stop {
            Stop::Io(source) => {
                self.ended = true;
                Error::Io {
                    file: self.file.clone(),
                    source,
                }
            }
            Stop::Flaw(number, flaw) => Error::Bad {
                file: self.file.clone(),
                unit: match self.source {
                    Source::Oracle(_) => "record",
                    _ => "line",
                },
                number,
                field: flaw.field,
                why: flaw.why,
            },
        })
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut record = Record::default();
        match self.read(&mut record) {
            Ok(true) => Some(Ok(record)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// The requests of a trace as steps on keys of 8 bytes, for a replay that has no room for more (the simulator's). One
/// record is reused for all of them.
pub fn operations(mut reader: Reader<'_>) -> impl Iterator<Item = Result<Step, Error>> {
    let mut record = Record::default();
    std::iter::from_fn(move || match reader.read(&mut record) {
        Ok(true) => Some(Ok(record.step())),
        Ok(false) => None,
        Err(error) => Some(Err(error)),
    })
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
