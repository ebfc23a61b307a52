//! CSV (RFC 4180, any bytes in quotes). A value of one column is that column's content; one of several columns is a
//! CSV record of them, without a line end.

use std::cell::RefCell;
use std::io::{self, BufRead, Read, Write};
use std::rc::Rc;

use super::layout::{Columns, Layout};
use super::{Next, Pair, Source};
use crate::failure::Failure;

/// Bytes that may be behind before they are forgotten.
const BEHIND: u64 = 1 << 16;

/// What was read last. The parser passes empty lines over, and counts them only to the record behind.
#[derive(Default)]
struct Recent {
    bytes: Vec<u8>,
    /// Where in the input the first of them is.
    from: u64,
}

impl Recent {
    /// What is before that is not asked for again.
    fn forget(&mut self, before: u64) {
        let behind = before.saturating_sub(self.from);
        if behind > BEHIND {
            self.bytes.drain(..self.bytes.len().min(behind as usize));
            self.from = before;
        }
    }

    /// Line ends from there on before anything else comes.
    fn line_ends(&self, at: u64) -> u64 {
        let rest = self.bytes.get(at.saturating_sub(self.from) as usize..);
        let rest = rest.unwrap_or_default();
        let rest = match at {
            0 => rest.strip_prefix("\u{feff}".as_bytes()).unwrap_or(rest),
            _ => rest,
        };
        let empty = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
        empty.filter(|byte| **byte == b'\n').count() as u64
    }
}

/// An input of which the last bytes are kept.
struct Kept<'r> {
    input: Box<dyn BufRead + 'r>,
    recent: Rc<RefCell<Recent>>,
}

impl Read for Kept<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.recent.borrow_mut().bytes.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}

/// Reads CSV.
pub struct Reader<'r> {
    input: csv::Reader<Kept<'r>>,
    recent: Rc<RefCell<Recent>>,
    layout: Layout,
    record: csv::ByteRecord,
}

fn failed(error: csv::Error) -> Failure {
    Failure::failed(format!("reading the records: {error}"))
}

impl<'r> Reader<'r> {
    /// Reads the header, if there is one.
    pub fn new(columns: &Columns, input: Box<dyn BufRead + 'r>) -> Result<Self, Failure> {
        let recent = Rc::<RefCell<Recent>>::default();
        let kept = Kept {
            input,
            recent: recent.clone(),
        };
        let mut input = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(kept);
        let mut record = csv::ByteRecord::new();
        let mut header = None;
        if columns.has_header() {
            input.read_byte_record(&mut record).map_err(failed)?;
            header = Some(record.iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
        }
        let layout = Layout::find(columns, header.as_deref())?;
        Ok(Self {
            input,
            recent,
            layout,
            record,
        })
    }

    /// The line that the record begins in.
    fn line(&self) -> u64 {
        let Some(position) = self.record.position() else {
            return 0;
        };
        position.line() + self.recent.borrow().line_ends(position.byte())
    }

    fn parse(&self, pair: &mut Pair) -> Result<(), String> {
        let fields: Vec<&[u8]> = self.record.iter().collect();
        let (key, values) = self.layout.pick(&fields)?;
        pair.key.extend_from_slice(key);
        match values[..] {
            [] => {}
            [value] => pair.value.extend_from_slice(value),
            _ => {
                let mut joined = csv::Writer::from_writer(&mut pair.value);
                joined.write_record(values).map_err(|error| error.to_string())?;
                drop(joined);
                pair.value.pop();
            }
        }
        Ok(())
    }
}

impl Source for Reader<'_> {
    fn next(&mut self, pair: &mut Pair) -> Result<Next, Failure> {
        self.recent.borrow_mut().forget(self.input.position().byte());
        if !self.input.read_byte_record(&mut self.record).map_err(failed)? {
            return Ok(Next::End);
        }
        pair.key.clear();
        pair.value.clear();
        Ok(match self.parse(pair) {
            Ok(()) => Next::Pair,
            Err(why) => Next::Bad {
                line: self.line(),
                why,
            },
        })
    }
}

/// Writes CSV. All but numbers is quoted, so that nothing at the start of a file is taken for a byte order mark.
pub fn writer<W: Write>(to: W) -> csv::Writer<W> {
    csv::WriterBuilder::new()
        .quote_style(csv::QuoteStyle::NonNumeric)
        .from_writer(to)
}
