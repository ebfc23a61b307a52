//! TSV: fields between tabs, a record a line. A value of several columns keeps the tabs between them. Empty lines
//! are no records.

use std::io::BufRead;

use super::layout::{Columns, Layout};
use super::{Next, Pair, Source, read_line};
use crate::bytes::unescape;
use crate::failure::Failure;

/// Reads TSV.
pub struct Reader<'r> {
    input: Box<dyn BufRead + 'r>,
    layout: Layout,
    /// Backslashes are no escapes.
    raw: bool,
    line: Vec<u8>,
    number: u64,
}

impl<'r> Reader<'r> {
    /// Reads the header, if there is one.
    pub fn new(columns: &Columns, raw: bool, mut input: Box<dyn BufRead + 'r>) -> Result<Self, Failure> {
        let (mut line, mut number) = (Vec::new(), 0);
        let mut header = None;
        if columns.has_header() {
            read_line(&mut input, &mut line, &mut number)?;
            header = Some(
                line.split(|byte| *byte == b'\t')
                    .map(<[u8]>::to_vec)
                    .collect::<Vec<_>>(),
            );
        }
        let layout = Layout::find(columns, header.as_deref())?;
        Ok(Self {
            input,
            layout,
            raw,
            line,
            number,
        })
    }

    fn parse(&self, pair: &mut Pair) -> Result<(), String> {
        let fields: Vec<&[u8]> = self.line.split(|byte| *byte == b'\t').collect();
        let (key, values) = self.layout.pick(&fields)?;
        self.append(key, &mut pair.key)?;
        for (n, value) in values.into_iter().enumerate() {
            if n > 0 {
                pair.value.push(b'\t');
            }
            self.append(value, &mut pair.value)?;
        }
        Ok(())
    }

    fn append(&self, field: &[u8], to: &mut Vec<u8>) -> Result<(), String> {
        if self.raw {
            to.extend_from_slice(field);
            return Ok(());
        }
        unescape(field, to)
    }
}

impl Source for Reader<'_> {
    fn next(&mut self, pair: &mut Pair) -> Result<Next, Failure> {
        loop {
            if !read_line(&mut self.input, &mut self.line, &mut self.number)? {
                return Ok(Next::End);
            }
            if !self.line.is_empty() {
                break;
            }
        }
        pair.key.clear();
        pair.value.clear();
        Ok(match self.parse(pair) {
            Ok(()) => Next::Pair,
            Err(why) => Next::Bad {
                line: self.number,
                why,
            },
        })
    }
}
