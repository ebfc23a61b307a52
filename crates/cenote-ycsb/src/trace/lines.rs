//! Lines of fields: what the two CSV formats have in common.
//!
//! The parser skips empty lines, and counts them to the record that follows. So the number of a record's line is the
//! line number behind its end, less the line ends in it. This is exact because a line feed ends every record: the last
//! record gets one if it has none. Carriage returns are left at the end of the last field, where they are trimmed.

use std::io::{self, BufRead, Chain, Read};

use csv::{ByteRecord, Reader, ReaderBuilder, Terminator};

use super::error::Flaw;

/// Why the next record cannot be had.
#[derive(Debug)]
pub(super) enum Stop {
    /// The input cannot be read any further.
    Io(io::Error),
    /// The record of this number is bad; the next one may be good.
    Flaw(u64, Flaw),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads lines and parts them into fields.
pub(super) struct Lines<'r> {
    reader: Reader<Chain<Box<dyn BufRead + 'r>, &'static [u8]>>,
    fields: ByteRecord,
}

impl<'r> Lines<'r> {
    /// Without `quoting`, a quote is a byte like any other, so that a stray one spoils its own line only.
    pub fn new(input: Box<dyn BufRead + 'r>, delimiter: u8, header: bool, quoting: bool) -> Self {
        let reader = ReaderBuilder::new()
            .has_headers(header)
            .flexible(true)
            .delimiter(delimiter)
            .quoting(quoting)
            .terminator(Terminator::Any(b'\n'))
            .from_reader(input.chain(&b"\n"[..]));
        Self {
            reader,
            fields: ByteRecord::new(),
        }
    }

    /// The next line's number and fields; none at the end. Empty lines are left out.
    pub fn next(&mut self) -> Result<Option<(u64, &ByteRecord)>, Stop> {
        loop {
            let more =
                self.reader
                    .read_byte_record(&mut self.fields)
                    .map_err(|error| match error.into_kind() {
                        csv::ErrorKind::Io(error) => Stop::Io(error),
                        other => Stop::Io(io::Error::other(format!("{other:?}"))),
                    })?;
            if !more {
                return Ok(None);
            }
            if self.fields.len() > 1 || !self.fields.as_slice().trim_ascii().is_empty() {
                break;
            }
        }
        let within = self
            .fields
            .as_slice()
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count() as u64;
        let line = self.reader.position().line().saturating_sub(1 + within);
        Ok(Some((line, &self.fields)))
    }
}
