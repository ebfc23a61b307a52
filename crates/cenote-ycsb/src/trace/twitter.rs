//! The CSV form of Twitter's cache traces: one request a line, seven fields, no header, no quotes.
//!
//! ```text
//! timestamp,anonymized key,key size,value size,client id,operation,TTL
//! ```
//!
//! Timestamps and TTLs are seconds; the TTL is 0 for all but writes. The format is that of
//! <https://github.com/twitter/cache-trace>.

use std::io::{self, BufRead, Write};

use csv::ByteRecord;

use super::error::{Flaw, number, quoted};
use super::lines::{Lines, Stop};
use super::record::Record;

const FIELDS: usize = 7;

/// Reads requests.
pub(super) struct Twitter<'r>(Lines<'r>);

impl<'r> Twitter<'r> {
    pub fn new(input: Box<dyn BufRead + 'r>) -> Self {
        Self(Lines::new(input, b',', false, false))
    }

    pub fn next(&mut self, record: &mut Record) -> Result<bool, Stop> {
        let Some((line, fields)) = self.0.next()? else {
            return Ok(false);
        };
        parse(fields, record).map_err(|flaw| Stop::Flaw(line, flaw))?;
        Ok(true)
    }
}

fn parse(fields: &ByteRecord, record: &mut Record) -> Result<(), Flaw> {
    let mut each = fields.iter();
    let mut field = |name| {
        each.next().ok_or_else(|| {
            let why = format!("the line has {} fields, {FIELDS} are wanted", fields.len());
            Flaw::new(name, why)
        })
    };
    record.time = number("timestamp", field("timestamp")?)?;
    let key = field("key")?;
    record.key_size = number("key size", field("key size")?)?;
    record.value_size = number("value size", field("value size")?)?;
    record.client = number("client id", field("client id")?)?;
    let operation = field("operation")?;
    record.operation = std::str::from_utf8(operation)
        .map_err(|_| format!("{} is no operation", quoted(operation)))
        .and_then(|name| name.trim().parse())
        .map_err(|why| Flaw::new("operation", why))?;
    record.ttl = number("TTL", field("TTL")?)?;
    if fields.len() > FIELDS {
        let why = format!("the line has {} fields, {FIELDS} are wanted", fields.len());
        return Err(Flaw::new("TTL", why));
    }
    if key.is_empty() {
        return Err(Flaw::new("key", "it is empty"));
    }
    record.key.clear();
    record.key.extend_from_slice(key);
    Ok(())
}

/// Writes a request as a line, which [`Reader`](super::Reader) reads as the same request if its key is neither empty
/// nor holds a comma or a line end.
///
/// # Errors
/// Those of the writer.
pub fn write_line(record: &Record, to: &mut impl Write) -> io::Result<()> {
    write!(to, "{},", record.time)?;
    to.write_all(&record.key)?;
    writeln!(
        to,
        ",{},{},{},{},{}",
        record.key_size, record.value_size, record.client, record.operation, record.ttl
    )
}
