//! The bytes between a client or the master and a memory node.
//!
//! A connection begins with a [`Hello`]. Then the one side sends batches and the other answers them, each with the
//! batch's tag, in any order. All numbers are little-endian.
//!
//! | frame | |
//! |---|---|
//! | any | length of what follows (4), tag (8), then items until its end |
//! | batch | of requests: what (1), then as [`Item`] says |
//! | answer | of as many answers: what (1), then as [`Answer`] says |

use std::rc::Rc;

use cenote_replica::verbs::{Address, Completion, Request, Verb};
use cenote_replica::view::Key;

/// The longest frame.
pub const FRAME_MAX: usize = 16 << 20;
/// Bytes that the reads of a batch may have together.
const READ_MAX: usize = FRAME_MAX / 2;
/// Bytes in front of a frame: its length.
pub const PREFIX: usize = 4;
const MAGIC: &[u8; 6] = b"CNTNOD";
/// What both sides speak, and how they lay out the memory of nodes: 2 since objects are freed by marks of 8 bytes.
const VERSION: u8 = 2;
/// In [`Answer::Info`]: the node's memory outlives its process.
pub const OUTLIVES: u64 = 1;
/// In [`Answer::Info`]: clients map the node's memory.
pub const MAPPED: u64 = 2;
/// The longest token.
pub const TOKEN_MAX: usize = 256;

/// Why bytes are no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the other side does not speak this protocol: {0}")]
pub struct Malformed(pub &'static str);

/// What a node is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// A verb.
    Verb {
        /// The key that the client has for the region.
        key: Key,
        /// Where.
        at: Address,
        /// What.
        verb: Verb,
    },
    /// To hold a region, all zeros, under a key. One that it holds already is made anew.
    Hold {
        /// The region.
        region: u16,
        /// Its bytes.
        bytes: u32,
        /// Its key.
        key: Key,
    },
    /// To give a region another key.
    SetKey {
        /// The region.
        region: u16,
        /// Its key.
        key: Key,
    },
    /// To forget a region.
    Drop {
        /// The region.
        region: u16,
    },
    /// A heartbeat: see [`crate::node`].
    Ping {
        /// Its number.
        number: u64,
        /// The number of the last heartbeat whose answer the master has.
        answered: u64,
        /// For how long after it has sent that answer the node may execute verbs, in microseconds.
        lease: u64,
    },
    /// What the node has.
    Info,
    /// To do what follows in the batch, as a master asks for it that leads in this term. Without it a node does what
    /// clients may ask for.
    Lead {
        /// The number of the term.
        term: u64,
    },
    /// How it is reached over libfabric.
    Fabric,
    /// How a region is reached there, by who has its key.
    Remote {
        /// The region.
        region: u16,
        /// Its key.
        key: Key,
    },
}

/// What a node answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// What became of a verb. Never unknown.
    Verb(Completion),
    /// It has been done.
    Done,
    /// It cannot be done: there is no memory, or no such region.
    Failed,
    /// Incarnation of the node's memory, its bytes, bytes that it has given to regions, verbs that it has executed; and
    /// what its memory is: [`OUTLIVES`], [`MAPPED`], or 0, of the process alone.
    Info([u64; 5]),
    /// It obeys a master of a later term, which has this number.
    Later(u64),
    /// The provider of libfabric, and the address of the node's endpoint.
    Fabric(String, Vec<u8>),
    /// The key of the region's memory there, and what its first byte is called.
    Remote([u64; 2]),
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Batches of [`Item`]s; or what clients and the master say to each other.
    Cluster = 1,
    /// Modules that execute near their memory: [`crate::near`].
    Modules = 2,
}

/// What a connection begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// What follows.
    pub purpose: Purpose,
    /// The cluster's token.
    pub token: String,
}

impl Hello {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend([VERSION, self.purpose as u8]);
        out.extend((self.token.len() as u16).to_le_bytes());
        out.extend(self.token.as_bytes());
        out
    }

    /// Bytes of the part with a fixed length.
    pub const HEAD: usize = 10;

    /// The purpose, and the length of the token.
    pub fn decode_head(head: [u8; Self::HEAD]) -> Result<(Purpose, usize), Malformed> {
        let len = usize::from(u16::from_le_bytes([head[8], head[9]]));
        if head.starts_with(MAGIC) && head[6] != VERSION {
            return Err(Malformed("it is of another version"));
        }
        let purpose = match head[7] {
            1 => Some(Purpose::Cluster),
            2 => Some(Purpose::Modules),
            _ => None,
        };
        match purpose.filter(|_| head.starts_with(MAGIC) && len <= TOKEN_MAX) {
            Some(purpose) => Ok((purpose, len)),
            None => Err(Malformed("no greeting of a cluster")),
        }
    }
}

/// Whether two tokens are the same, in a time that does not say where they differ.
pub fn is_same_token(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

/// Begins a frame; [`end`] sets its length.
fn begin(out: &mut Vec<u8>, tag: u64) -> usize {
    let at = out.len();
    out.extend([0; PREFIX]);
    out.extend(tag.to_le_bytes());
    at
}

fn end(out: &mut [u8], at: usize) {
    let len = (out.len() - at - PREFIX) as u32;
    out[at..at + PREFIX].copy_from_slice(&len.to_le_bytes());
}

/// Appends a batch of requests of clients.
pub fn encode_requests(out: &mut Vec<u8>, tag: u64, requests: &[&Request]) {
    let at = begin(out, tag);
    for request in requests {
        encode_verb(out, request.key, request.at, &request.verb);
    }
    end(out, at);
}

/// Appends a batch.
pub fn encode_items(out: &mut Vec<u8>, tag: u64, items: &[Item]) {
    let at = begin(out, tag);
    for item in items {
        match item {
            Item::Verb { key, at, verb } => encode_verb(out, *key, *at, verb),
            Item::Hold { region, bytes, key } => {
                out.push(10);
                out.extend(region.to_le_bytes());
                out.extend(bytes.to_le_bytes());
                out.extend(key.0.to_le_bytes());
            }
            Item::SetKey { region, key } => {
                out.push(11);
                out.extend(region.to_le_bytes());
                out.extend(key.0.to_le_bytes());
            }
            Item::Drop { region } => {
                out.push(12);
                out.extend(region.to_le_bytes());
            }
            Item::Ping {
                number,
                answered,
                lease,
            } => {
                out.push(13);
                for word in [number, answered, lease] {
                    out.extend(word.to_le_bytes());
                }
            }
            Item::Info => out.push(14),
            Item::Lead { term } => {
                out.push(15);
                out.extend(term.to_le_bytes());
            }
            Item::Fabric => out.push(20),
            Item::Remote { region, key } => {
                out.push(21);
                out.extend(region.to_le_bytes());
                out.extend(key.0.to_le_bytes());
            }
        }
    }
    end(out, at);
}

fn encode_verb(out: &mut Vec<u8>, key: Key, at: Address, verb: &Verb) {
    let head = |out: &mut Vec<u8>, what: u8| {
        out.push(what);
        out.extend(key.0.to_le_bytes());
        out.extend(at.bits().to_le_bytes());
    };
    match verb {
        Verb::Read(len) => {
            head(out, 0);
            out.extend(len.to_le_bytes());
        }
        Verb::Write(bytes) => {
            head(out, 1);
            out.extend((bytes.len() as u32).to_le_bytes());
            out.extend(bytes.iter());
        }
        Verb::CompareSwap { expected, new } => {
            head(out, 2);
            out.extend(expected.to_le_bytes());
            out.extend(new.to_le_bytes());
        }
        Verb::FetchAdd(add) => {
            head(out, 3);
            out.extend(add.to_le_bytes());
        }
    }
}

/// Appends the answer to a batch.
pub fn encode_answers(out: &mut Vec<u8>, tag: u64, answers: &[Answer]) {
    let at = begin(out, tag);
    for answer in answers {
        match answer {
            Answer::Verb(Completion::Read(bytes)) => {
                out.push(0);
                out.extend((bytes.len() as u32).to_le_bytes());
                out.extend(bytes);
            }
            Answer::Verb(Completion::Written) => out.push(1),
            Answer::Verb(Completion::Was(word)) => {
                out.push(2);
                out.extend(word.to_le_bytes());
            }
            Answer::Verb(Completion::Refused | Completion::Unknown) => out.push(3),
            Answer::Done => out.push(10),
            Answer::Failed => out.push(11),
            Answer::Info(words) => {
                out.push(12);
                words.iter().for_each(|word| out.extend(word.to_le_bytes()));
            }
            Answer::Later(term) => {
                out.push(13);
                out.extend(term.to_le_bytes());
            }
            Answer::Fabric(provider, name) => {
                out.push(20);
                for bytes in [provider.as_bytes(), name] {
                    out.extend((bytes.len() as u32).to_le_bytes());
                    out.extend(bytes);
                }
            }
            Answer::Remote(words) => {
                out.push(21);
                words.iter().for_each(|word| out.extend(word.to_le_bytes()));
            }
        }
    }
    end(out, at);
}

/// Bytes that are being taken apart.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self
            .0
            .split_at_checked(len)
            .ok_or(Malformed("a frame that is cut"))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?
            .try_into()
            .map_err(|_| Malformed("a frame that is cut"))
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn key(&mut self) -> Result<Key, Malformed> {
        Ok(Key(self.u64()?))
    }
}

/// The tag of a frame without its length, and what follows.
fn tagged(frame: &[u8]) -> Result<(u64, Bytes<'_>), Malformed> {
    let mut bytes = Bytes(frame);
    Ok((bytes.u64()?, bytes))
}

/// The batch of a frame, without the frame's length.
pub fn decode_items(frame: &[u8]) -> Result<(u64, Vec<Item>), Malformed> {
    let (tag, mut bytes) = tagged(frame)?;
    let mut items = Vec::new();
    // Bytes that the answer has for reads.
    let mut read = 0_usize;
    while !bytes.0.is_empty() {
        let what = bytes.u8()?;
        items.push(match what {
            0..=3 => {
                let key = bytes.key()?;
                let at = Address::from_bits(bytes.u64()?).ok_or(Malformed("an address of no region"))?;
                let verb = match what {
                    0 => {
                        let len = bytes.u32()?;
                        read = read.saturating_add(len as usize);
                        if read > READ_MAX {
                            return Err(Malformed("reads of more than a frame has room for"));
                        }
                        Verb::Read(len)
                    }
                    1 => {
                        let len = bytes.u32()? as usize;
                        Verb::Write(Rc::from(bytes.take(len)?))
                    }
                    2 => Verb::CompareSwap {
                        expected: bytes.u64()?,
                        new: bytes.u64()?,
                    },
                    _ => Verb::FetchAdd(bytes.u64()?),
                };
                Item::Verb { key, at, verb }
            }
            10 => Item::Hold {
                region: bytes.u16()?,
                bytes: bytes.u32()?,
                key: bytes.key()?,
            },
            11 => Item::SetKey {
                region: bytes.u16()?,
                key: bytes.key()?,
            },
            12 => Item::Drop { region: bytes.u16()? },
            13 => Item::Ping {
                number: bytes.u64()?,
                answered: bytes.u64()?,
                lease: bytes.u64()?,
            },
            14 => Item::Info,
            15 => Item::Lead { term: bytes.u64()? },
            20 => Item::Fabric,
            21 => Item::Remote {
                region: bytes.u16()?,
                key: bytes.key()?,
            },
            _ => return Err(Malformed("an unknown request")),
        });
    }
    Ok((tag, items))
}

/// The answers of a frame, without the frame's length.
pub fn decode_answers(frame: &[u8]) -> Result<(u64, Vec<Answer>), Malformed> {
    let (tag, mut bytes) = tagged(frame)?;
    let mut answers = Vec::new();
    while !bytes.0.is_empty() {
        answers.push(match bytes.u8()? {
            0 => {
                let len = bytes.u32()? as usize;
                Answer::Verb(Completion::Read(bytes.take(len)?.to_vec()))
            }
            1 => Answer::Verb(Completion::Written),
            2 => Answer::Verb(Completion::Was(bytes.u64()?)),
            3 => Answer::Verb(Completion::Refused),
            10 => Answer::Done,
            11 => Answer::Failed,
            12 => {
                let mut words = [0; 5];
                for word in &mut words {
                    *word = bytes.u64()?;
                }
                Answer::Info(words)
            }
            13 => Answer::Later(bytes.u64()?),
            20 => {
                let len = bytes.u32()? as usize;
                let provider = String::from_utf8(bytes.take(len)?.to_vec());
                let provider = provider.map_err(|_| Malformed("a name that is no text"))?;
                let len = bytes.u32()? as usize;
                Answer::Fabric(provider, bytes.take(len)?.to_vec())
            }
            21 => Answer::Remote([bytes.u64()?, bytes.u64()?]),
            _ => return Err(Malformed("an unknown answer")),
        });
    }
    Ok((tag, answers))
}

/// The first whole frame of what has arrived, without its length, and how many bytes it takes; `None` if more has to
/// arrive.
pub fn first_frame(arrived: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    let Some(prefix) = arrived.first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let len = u32::from_le_bytes(*prefix) as usize;
    if len > FRAME_MAX {
        return Err(Malformed("a frame that is too long"));
    }
    Ok(arrived
        .get(PREFIX..PREFIX + len)
        .map(|frame| (frame, PREFIX + len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items() -> Vec<Item> {
        let verb = |verb| Item::Verb {
            key: Key(7),
            at: Address::new(3, 4096),
            verb,
        };
        vec![
            verb(Verb::Read(100)),
            verb(Verb::Write(Rc::from([1, 2, 3]))),
            verb(Verb::CompareSwap { expected: 1, new: 2 }),
            verb(Verb::FetchAdd(u64::MAX)),
            Item::Hold {
                region: 1,
                bytes: 1 << 20,
                key: Key(2),
            },
            Item::SetKey {
                region: 1,
                key: Key(3),
            },
            Item::Drop { region: 9 },
            Item::Ping {
                number: 5,
                answered: 4,
                lease: 200_000,
            },
            Item::Info,
            Item::Lead { term: 77 },
            Item::Fabric,
            Item::Remote {
                region: 7,
                key: Key(8),
            },
        ]
    }

    #[test]
    fn frames_come_back() {
        let mut out = Vec::new();
        encode_items(&mut out, 17, &items());
        let (frame, taken) = first_frame(&out).unwrap().unwrap();
        assert_eq!((taken, decode_items(frame).unwrap()), (out.len(), (17, items())));
        let answers = vec![
            Answer::Verb(Completion::Read(vec![5; 70])),
            Answer::Verb(Completion::Written),
            Answer::Verb(Completion::Was(9)),
            Answer::Verb(Completion::Refused),
            Answer::Done,
            Answer::Failed,
            Answer::Info([1, 2, 3, 4, 1]),
            Answer::Later(9),
            Answer::Fabric("a provider".to_owned(), vec![1, 2, 3]),
            Answer::Remote([5, 6]),
        ];
        let mut out = Vec::new();
        encode_answers(&mut out, 18, &answers);
        let (frame, _) = first_frame(&out).unwrap().unwrap();
        assert_eq!(decode_answers(frame).unwrap(), (18, answers));
    }

    #[test]
    fn another_version_is_told_from_something_else() {
        let hello = Hello {
            purpose: Purpose::Modules,
            token: "token".to_owned(),
        };
        let head = |of: &[u8]| *of.first_chunk().unwrap();
        let said = hello.encode();
        assert_eq!(Hello::decode_head(head(&said)), Ok((Purpose::Modules, 5)));
        let told = |of: &[u8]| Hello::decode_head(head(of)).unwrap_err().to_string();
        let mut other = said.clone();
        other[6] = b'E';
        assert!(told(&other).contains("version"));
        other[0] = 0;
        assert!(!told(&other).contains("version"));
    }

    #[test]
    fn what_is_cut_or_wrong_is_told() {
        let mut out = Vec::new();
        encode_items(&mut out, 17, &items());
        for len in 0..out.len() {
            assert_eq!(first_frame(&out[..len]).unwrap(), None);
        }
        let frame = &out[PREFIX..];
        for len in 0..frame.len() {
            // Whole items, or an error; never a panic.
            if let Ok((_, found)) = decode_items(&frame[..len]) {
                assert_eq!(found, items()[..found.len()]);
            }
        }
        assert!(first_frame(&u32::MAX.to_le_bytes()).is_err());
        let read = Item::Verb {
            key: Key(1),
            at: Address::new(0, 0),
            verb: Verb::Read(5 << 20),
        };
        let mut much = Vec::new();
        encode_items(&mut much, 1, &[read.clone(), read]);
        assert!(decode_items(&much[PREFIX..]).is_err());
        assert!(decode_items(&[0; 9]).is_err());
        assert!(decode_answers(&[0, 0, 0, 0, 0, 0, 0, 0, 99]).is_err());
    }

    #[test]
    fn tokens_are_compared_whole() {
        assert!(is_same_token(b"abc", b"abc"));
        assert!(!is_same_token(b"abc", b"abd"));
        assert!(!is_same_token(b"abc", b"ab"));
        assert!(is_same_token(b"", b""));
    }
}
