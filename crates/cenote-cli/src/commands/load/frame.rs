//! The messages between the parent and its worker processes, over pipes.
//!
//! | from | bytes |
//! |---|---|
//! | parent, a chunk | records (4), bytes that follow (8), records: key length (4), value length (8), key, value |
//! | worker, done | 0 (1): the oldest chunk not answered yet is in the pool, all of it |
//! | worker, failed | 1 (1), bytes that follow (4), why, in words |
//!
//! Numbers are little-endian. Both ends are the same program.

use std::io::{self, Read, Write};

/// Bytes before a chunk's records.
const CHUNK_HEADER: usize = 12;
/// Bytes before a record's key.
const RECORD_HEADER: usize = 12;

/// Records on their way to a worker, as they go through the pipe.
pub struct Chunk {
    bytes: Vec<u8>,
    records: u32,
}

impl Chunk {
    /// No records.
    pub fn new() -> Self {
        Self {
            bytes: vec![0; CHUNK_HEADER],
            records: 0,
        }
    }

    /// Adds a record.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.records += 1;
        self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    /// How many there are.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Whether it is worth sending.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= 1 << 16
    }

    /// Sends it.
    pub fn send(&mut self, to: &mut impl Write) -> io::Result<()> {
        let len = (self.bytes.len() - CHUNK_HEADER) as u64;
        self.bytes[..4].copy_from_slice(&self.records.to_le_bytes());
        self.bytes[4..CHUNK_HEADER].copy_from_slice(&len.to_le_bytes());
        to.write_all(&self.bytes)?;
        to.flush()
    }
}

/// What a worker says of a chunk.
pub enum Answer {
    /// It is in the pool.
    Done,
    /// It is not, and why.
    Failed(String),
}

impl Answer {
    /// Sends it.
    pub fn send(&self, to: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Done => to.write_all(&[0])?,
            Self::Failed(why) => {
                to.write_all(&[1])?;
                to.write_all(&(why.len() as u32).to_le_bytes())?;
                to.write_all(why.as_bytes())?;
            }
        }
        to.flush()
    }

    /// Waits for one.
    pub fn receive(from: &mut impl Read) -> io::Result<Self> {
        let mut tag = [0];
        from.read_exact(&mut tag)?;
        if tag == [0] {
            return Ok(Self::Done);
        }
        let mut len = [0; 4];
        from.read_exact(&mut len)?;
        let mut why = Vec::new();
        from.take(u32::from_le_bytes(len).into()).read_to_end(&mut why)?;
        Ok(Self::Failed(String::from_utf8_lossy(&why).into_owned()))
    }
}

/// Receives chunks.
#[derive(Default)]
pub struct Receiver {
    bytes: Vec<u8>,
    records: u32,
}

impl Receiver {
    /// Waits for a chunk; false when the parent has no more, or is gone.
    pub fn receive(&mut self, from: &mut impl Read) -> io::Result<bool> {
        let mut header = [0; CHUNK_HEADER];
        match from.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
        let (records, len) = header.split_at(4);
        self.records = number(records) as u32;
        let len = number(len);
        self.bytes.clear();
        // A parent that is gone has sent less.
        Ok(from.take(len).read_to_end(&mut self.bytes)? as u64 == len)
    }

    /// Its records.
    pub fn records(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.bytes[..];
        (0..self.records).map_while(move |_| {
            let (header, pair) = rest.split_at_checked(RECORD_HEADER)?;
            let (key, value) = (number(&header[..4]) as usize, number(&header[4..]) as usize);
            let (key, after) = pair.split_at_checked(key)?;
            let (value, after) = after.split_at_checked(value)?;
            rest = after;
            Some((key, value))
        })
    }
}

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_and_answers_arrive() {
        let mut pipe = Vec::new();
        let mut chunk = Chunk::new();
        chunk.push(b"", b"");
        chunk.push(b"key", &[7; 300]);
        chunk.send(&mut pipe).unwrap();
        let mut receiver = Receiver::default();
        let mut whole = &pipe[..];
        assert!(receiver.receive(&mut whole).unwrap());
        let records: Vec<_> = receiver.records().collect();
        assert_eq!(records, [(&b""[..], &b""[..]), (&b"key"[..], &[7; 300][..])]);
        assert!(!receiver.receive(&mut whole).unwrap());
        for cut in 0..pipe.len() {
            assert!(!receiver.receive(&mut &pipe[..cut]).unwrap(), "{cut}");
        }

        let mut pipe = Vec::new();
        Answer::Failed("it is full".to_owned()).send(&mut pipe).unwrap();
        Answer::Done.send(&mut pipe).unwrap();
        let mut pipe = &pipe[..];
        assert!(matches!(Answer::receive(&mut pipe), Ok(Answer::Failed(why)) if why == "it is full"));
        assert!(matches!(Answer::receive(&mut pipe), Ok(Answer::Done)));
        assert!(Answer::receive(&mut pipe).is_err());
    }
}
