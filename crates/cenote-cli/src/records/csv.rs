//! CSV (RFC 4180, any bytes in quotes). A value of one column is that column's content; one of several columns is a
//! CSV record of them, without a line end.

use std::io::{BufRead, Write};

use super::layout::{Columns, Layout};
use super::{Next, Pair, Source};
use crate::failure::Failure;

/// Reads CSV.
pub struct Reader<'r> {
    input: csv::Reader<Box<dyn BufRead + 'r>>,
    layout: Layout,
    record: csv::ByteRecord,
}

fn failed(error: csv::Error) -> Failure {
    Failure::failed(format!("reading the records: {error}"))
}

impl<'r> Reader<'r> {
    /// Reads the header, if there is one.
    pub fn new(columns: &Columns, input: Box<dyn BufRead + 'r>) -> Result<Self, Failure> {
        let mut input = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(input);
        let mut record = csv::ByteRecord::new();
        let mut header = None;
        if columns.has_header() {
            input.read_byte_record(&mut record).map_err(failed)?;
            header = Some(record.iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
        }
        let layout = Layout::find(columns, header.as_deref())?;
        Ok(Self {
            input,
            layout,
            record,
        })
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
        if !self.input.read_byte_record(&mut self.record).map_err(failed)? {
            return Ok(Next::End);
        }
        pair.key.clear();
        pair.value.clear();
        Ok(match self.parse(pair) {
            Ok(()) => Next::Pair,
            Err(why) => Next::Bad {
                line: self.record.position().map_or(0, csv::Position::line),
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
