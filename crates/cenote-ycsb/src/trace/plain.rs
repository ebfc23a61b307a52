//! The plain forms that libCacheSim reads: one object id a line, CSV with a choice of columns, and `oracleGeneral`.
//!
//! They record requests, not operations: every record is a read. Where a size is missing it is
//! [`UNKNOWN_VALUE_SIZE`]; where a time is missing it is 0. The formats are those of
//! <https://github.com/1a1a11a/libCacheSim>.
//!
//! An `oracleGeneral` record has 24 bytes, little-endian, without padding:
//!
//! | bytes | what |
//! |---|---|
//! | 0–3 | time in seconds |
//! | 4–11 | object id |
//! | 12–15 | object size |
//! | 16–23 | number of the request that next asks for the object, signed; −1 for none, −2 for not known |

use std::io::{self, BufRead, Read};

use super::columns::Columns;
use super::error::{Flaw, number, quoted};
use super::lines::{Lines, Stop};
use super::record::Record;

/// Bytes of a value where the format does not say: that of the paper's microbenchmarks.
pub const UNKNOWN_VALUE_SIZE: u32 = 8;

/// Sets a key; it is as long as it was recorded.
fn set_key(record: &mut Record, key: &[u8]) -> Result<(), Flaw> {
    record.key_size = u32::try_from(key.len())
        .map_err(|_| Flaw::new("object id", format!("it has {} bytes", key.len())))?;
    record.key.clear();
    record.key.extend_from_slice(key);
    Ok(())
}

/// A read of an empty key; the buffer of the key is kept.
fn clear(record: &mut Record) {
    let mut key = std::mem::take(&mut record.key);
    key.clear();
    *record = Record {
        key,
        value_size: UNKNOWN_VALUE_SIZE,
        ..Record::default()
    };
}

/// One object id a line; empty lines are left out.
pub(super) struct Text<'r> {
    input: Box<dyn BufRead + 'r>,
    line: Vec<u8>,
    number: u64,
}

impl<'r> Text<'r> {
    pub fn new(input: Box<dyn BufRead + 'r>) -> Self {
        Self {
            input,
            line: Vec::new(),
            number: 0,
        }
    }

    pub fn next(&mut self, record: &mut Record) -> Result<bool, Stop> {
        loop {
            self.line.clear();
            if self.input.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(false);
            }
            self.number += 1;
            let id = self.line.trim_ascii();
            if !id.is_empty() {
                clear(record);
                set_key(record, id).map_err(|flaw| Stop::Flaw(self.number, flaw))?;
                return Ok(true);
            }
        }
    }
}

/// CSV with a choice of columns; fields may be quoted.
pub(super) struct Csv<'r> {
    lines: Lines<'r>,
    columns: Columns,
}

impl<'r> Csv<'r> {
    pub fn new(input: Box<dyn BufRead + 'r>, columns: &Columns) -> Self {
        Self {
            lines: Lines::new(input, columns.delimiter, columns.header, true),
            columns: columns.clone(),
        }
    }

    pub fn next(&mut self, record: &mut Record) -> Result<bool, Stop> {
        let Some((line, fields)) = self.lines.next()? else {
            return Ok(false);
        };
        self.columns
            .parse(fields, record)
            .map_err(|flaw| Stop::Flaw(line, flaw))?;
        Ok(true)
    }
}

impl Columns {
    fn parse(&self, fields: &csv::ByteRecord, record: &mut Record) -> Result<(), Flaw> {
        let field = |name, column: usize| {
            fields.get(column.wrapping_sub(1)).ok_or_else(|| {
                let has = fields.len();
                Flaw::new(name, format!("it is column {column}, the line has {has}"))
            })
        };
        clear(record);
        let id = field("object id", self.id)?.trim_ascii();
        if self.numeric {
            set_key(record, &number::<u64>("object id", id)?.to_be_bytes())?;
        } else if id.is_empty() {
            return Err(Flaw::new("object id", "it is empty"));
        } else {
            set_key(record, id)?;
        }
        if let Some(column) = self.time {
            record.time = seconds(field("time", column)?)?;
        }
        if let Some(column) = self.size {
            record.value_size = number("object size", field("object size", column)?)?;
        }
        Ok(())
    }
}

/// Seconds; a fraction is left out.
fn seconds(field: &[u8]) -> Result<u64, Flaw> {
    number("time", field).or_else(|flaw| {
        std::str::from_utf8(field)
            .ok()
            .and_then(|text| text.trim().parse::<f64>().ok())
            .filter(|seconds| (0.0..2f64.powi(63)).contains(seconds))
            .map(|seconds| seconds as u64)
            .ok_or(Flaw {
                why: format!("{} is no number of seconds", quoted(field)),
                ..flaw
            })
    })
}

/// `oracleGeneral`: records of 24 bytes. A key is the id, the most significant byte first, so that an ordered map has
/// ids in their order.
pub(super) struct Oracle<'r> {
    input: Box<dyn BufRead + 'r>,
    number: u64,
}

const ORACLE_BYTES: usize = 24;

impl<'r> Oracle<'r> {
    pub fn new(input: Box<dyn BufRead + 'r>) -> Self {
        Self { input, number: 0 }
    }

    pub fn next(&mut self, record: &mut Record) -> Result<bool, Stop> {
        let mut bytes = [0; ORACLE_BYTES];
        let read = fill(&mut self.input, &mut bytes)?;
        if read == 0 {
            return Ok(false);
        }
        self.number += 1;
        if read < ORACLE_BYTES {
            let why = format!("the file ends after {read} of its {ORACLE_BYTES} bytes");
            return Err(Stop::Flaw(self.number, Flaw::new("record", why)));
        }
        clear(record);
        record.time = u32::from_le_bytes(part(&bytes, 0)).into();
        let id = u64::from_le_bytes(part(&bytes, 4));
        record.value_size = u32::from_le_bytes(part(&bytes, 12));
        let next = i64::from_le_bytes(part(&bytes, 16));
        set_key(record, &id.to_be_bytes()).map_err(|flaw| Stop::Flaw(self.number, flaw))?;
        if next < -2 {
            let why = format!("{next} is neither the number of a request nor -1 or -2");
            return Err(Stop::Flaw(self.number, Flaw::new("next access", why)));
        }
        Ok(true)
    }
}

/// `N` bytes from a place on; callers know that they are there.
fn part<const N: usize>(bytes: &[u8; ORACLE_BYTES], from: usize) -> [u8; N] {
    std::array::from_fn(|n| bytes[from + n])
}

/// Reads until the bytes are filled or the input ends; how many were read.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match input.read(&mut bytes[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
