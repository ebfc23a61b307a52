//! An input of records with a limit on their length. Without it, a record that never ends (a device, a file of another
//! kind) would be read until memory runs out.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

/// How much of one record may be read yet.
#[derive(Clone, Debug)]
pub struct Bound {
    left: Rc<Cell<u64>>,
    limit: u64,
}

impl Bound {
    /// None is longer than this many bytes, about: what is read ahead counts to the record before.
    pub fn new(limit: u64) -> Self {
        let left = Rc::new(Cell::new(limit));
        Self { left, limit }
    }

    /// The next record begins.
    pub fn renew(&self) {
        self.left.set(self.limit);
    }

    /// An input that fails at a record that is longer.
    pub fn of<R: BufRead>(&self, input: R) -> Bounded<R> {
        Bounded {
            input,
            bound: self.clone(),
        }
    }

    fn check(&self) -> io::Result<()> {
        if self.left.get() > 0 {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "a record of more than {} MiB: is this a file of records?",
                self.limit >> 20
            ),
        ))
    }

    fn take(&self, bytes: usize) {
        self.left.set(self.left.get().saturating_sub(bytes as u64));
    }
}

/// See [`Bound::of`].
pub struct Bounded<R> {
    input: R,
    bound: Bound,
}

impl<R: BufRead> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.bound.check()?;
        let read = self.input.read(buffer)?;
        self.bound.take(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Bounded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.bound.check()?;
        self.input.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.bound.take(bytes);
        self.input.consume(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_without_an_end_is_an_error() {
        let bound = Bound::new(100);
        let mut input = bound.of(io::BufReader::with_capacity(10, io::repeat(7)));
        let mut line = Vec::new();
        let error = input.read_until(b'\n', &mut line).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(line.len() <= 110, "{} bytes were kept", line.len());
        assert!(input.read(&mut [0]).is_err());
    }

    #[test]
    fn records_that_are_shorter_are_read() {
        let text = [[b'x'; 59].as_slice(), b"\n"].concat().repeat(50);
        let bound = Bound::new(100);
        let mut input = bound.of(&text[..]);
        let mut line = Vec::new();
        for _ in 0..50 {
            bound.renew();
            line.clear();
            assert_eq!(input.read_until(b'\n', &mut line).unwrap(), 60);
        }
        assert_eq!(input.read_until(b'\n', &mut line).unwrap(), 0);
    }
}
