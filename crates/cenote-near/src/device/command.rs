//! Commands and answers as bytes. Numbers are little-endian.
//!
//! | byte | command | then | answer |
//! |---|---|---|---|
//! | 1 | get | key | option of a value |
//! | 2 | predecessor | key | option of a pair: of the subrange that starts last, at or before the key |
//! | 3 | insert | key, value | option of the value that was bound before; or full |
//! | 4 | delete | key | option of the value; if there was one, option of the subrange's first key then |
//! | 5 | update | key, expected, value | option of the value that was bound before |
//! | 6 | scan | first key, last key | how many, 4 bytes; pairs, of all subranges of the module |
//! | 7 | export | start, shift, most keys in 4 bytes | how many, 4 bytes; pairs. The subrange is gone. If it has more keys: 2^32 - 1, and nothing changes |
//! | 8 | import | start, shift, how many in 4 bytes, pairs | a byte: 1, or 2 for full |
//! | 9 | split | start, shift | how many pieces, 4 bytes; their least keys, and how many keys in 4 bytes. If there is no room, 0 pieces, and nothing changes |
//! | 10 | drop | start | nothing |
//! | 11 | height | start, height | nothing. Where there is no room, or no such subrange, nothing changes |
//! | 12 | put | key, value | option of the value that was bound before; or full |
//! | 13 | change | key, option of a value, value, how many in a byte, values | as of put |
//!
//! A put binds a key, whether it is bound or not. A change binds it to the first value, if there is one and the key is
//! not bound; to the second, if it is bound to one of the last.
//!
//! A subrange that is not there is one without keys: what would bind a key is full, its export has no pairs, its split
//! no pieces.
//! An option is a byte, 0 for none, 1 for one that follows; full is the byte 2. After the last answer of a batch come
//! its *closing words*: 4 bytes each for the accesses of points, those of scans, and words for which the arena has room
//! in any case.

/// What an export answers instead of a number, if there are more keys than it may give.
pub const TOO_MANY: u32 = u32::MAX;

/// A command that the host sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// The value of a key.
    Get(u64),
    /// The greatest key that is no greater, in the last subrange that starts no later.
    Predecessor(u64),
    /// Binds a key that is not bound.
    Insert(u64, u64),
    /// Unbinds a key.
    Delete(u64),
    /// Binds a key to another value than it has, if it has the one that is expected: key, expected, value.
    CompareSwap(u64, u64, u64),
    /// All pairs from a key to another one, both included.
    Scan(u64, u64),
    /// Gives a subrange away: its start and shift, and the most keys that it may have.
    Export(u64, u8, u32),
    /// Makes a subrange: its start, its shift, and its pairs, 16 bytes each.
    Import(u64, u8, &'a [u8]),
    /// Parts a subrange: its start, and the parts' shift.
    Split(u64, u8),
    /// Forgets a subrange.
    Drop(u64),
    /// Gives a subrange a height in L2.
    Height(u64, u8),
    /// Binds a key, whether it is bound or not.
    Put(u64, u64),
    /// Several inserts and updates of a key in one.
    Change {
        /// The key.
        key: u64,
        /// What it gets if it is not bound.
        unbound: Option<u64>,
        /// What it gets if it has one of the values.
        to: u64,
        /// The values, 8 bytes each: 255 at most.
        from: &'a [u8],
    },
}

/// Pairs as they lie in a command.
#[derive(Clone, Copy)]
pub struct Pairs<'a>(pub &'a [u8]);

impl Pairs<'_> {
    /// How many.
    pub fn len(&self) -> usize {
        self.0.len() / 16
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.len() < 16
    }
}

impl Iterator for Pairs<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let mut reader = Reader(self.0);
        let pair = (reader.long()?, reader.long()?);
        self.0 = reader.0;
        Some(pair)
    }
}

impl<'a> Command<'a> {
    /// Appends the command's bytes.
    pub fn write(&self, to: &mut Vec<u8>) {
        let longs = |to: &mut Vec<u8>, code: u8, longs: &[u64]| {
            to.push(code);
            for long in longs {
                to.extend_from_slice(&long.to_le_bytes());
            }
        };
        match *self {
            Self::Get(key) => longs(to, 1, &[key]),
            Self::Predecessor(key) => longs(to, 2, &[key]),
            Self::Insert(key, value) => longs(to, 3, &[key, value]),
            Self::Delete(key) => longs(to, 4, &[key]),
            Self::CompareSwap(key, expected, value) => longs(to, 5, &[key, expected, value]),
            Self::Scan(first, last) => longs(to, 6, &[first, last]),
            Self::Export(start, shift, most) => {
                longs(to, 7, &[start]);
                to.push(shift);
                to.extend_from_slice(&most.to_le_bytes());
            }
            Self::Import(start, shift, pairs) => {
                longs(to, 8, &[start]);
                to.push(shift);
                to.extend_from_slice(&((pairs.len() / 16) as u32).to_le_bytes());
                to.extend_from_slice(pairs);
            }
            Self::Split(start, shift) => {
                longs(to, 9, &[start]);
                to.push(shift);
            }
            Self::Drop(start) => longs(to, 10, &[start]),
            Self::Height(start, height) => {
                longs(to, 11, &[start]);
                to.push(height);
            }
            Self::Put(key, value) => longs(to, 12, &[key, value]),
            Self::Change {
                key,
                unbound,
                to: value,
                from,
            } => {
                longs(to, 13, &[key]);
                match unbound {
                    Some(value) => longs(to, 1, &[value]),
                    None => to.push(0),
                }
                to.extend_from_slice(&value.to_le_bytes());
                to.push((from.len() / 8) as u8);
                to.extend_from_slice(from);
            }
        }
    }

    /// The command at the beginning of what is left; none if there is none that is whole.
    pub fn read(from: &mut Reader<'a>) -> Option<Self> {
        Some(match from.byte()? {
            1 => Self::Get(from.long()?),
            2 => Self::Predecessor(from.long()?),
            3 => Self::Insert(from.long()?, from.long()?),
            4 => Self::Delete(from.long()?),
            5 => Self::CompareSwap(from.long()?, from.long()?, from.long()?),
            6 => Self::Scan(from.long()?, from.long()?),
            7 => Self::Export(from.long()?, from.byte()?, from.word()?),
            8 => {
                let (start, shift) = (from.long()?, from.byte()?);
                let bytes = (from.word()? as usize).checked_mul(16)?;
                Self::Import(start, shift, from.bytes(bytes)?)
            }
            9 => Self::Split(from.long()?, from.byte()?),
            10 => Self::Drop(from.long()?),
            11 => Self::Height(from.long()?, from.byte()?),
            12 => Self::Put(from.long()?, from.long()?),
            13 => {
                let key = from.long()?;
                let unbound = match from.byte()? {
                    0 => None,
                    1 => Some(from.long()?),
                    _ => return None,
                };
                let (to, count) = (from.long()?, from.byte()?);
                Self::Change {
                    key,
                    unbound,
                    to,
                    from: from.bytes(usize::from(count) * 8)?,
                }
            }
            _ => return None,
        })
    }
}

/// Bytes that are read from the front. Everything is none once they are too few.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    /// Four bytes.
    pub fn word(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    /// Eight bytes.
    pub fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    /// So many pairs.
    pub fn pairs(&mut self) -> Option<Pairs<'a>> {
        let count = self.word()? as usize;
        Some(Pairs(self.bytes(count.checked_mul(16)?)?))
    }
}
