//! The protocol between a host and a node with its modules, after a [greeting](crate::wire::Hello): frames of a
//! length (4 bytes), what (1), then as below. Numbers are little-endian.

use serde::{Deserialize, Serialize};

use crate::wire::{Malformed, PREFIX, first_frame};

/// Bytes of commands or answers in a frame, at most.
pub const CHUNK: usize = 4 << 20;

/// A host's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Modules, all empty. The first that a connection asks for, and only once.
    Open {
        /// How many.
        modules: u32,
        /// Bytes of each.
        bytes: u64,
        /// Decides the heights of their skiplists.
        seed: u64,
    },
    /// To append this to a module's batch. It has no answer.
    Commands {
        /// Which one.
        module: u32,
        /// The commands, or a part of them.
        bytes: Vec<u8>,
    },
    /// To execute all batches.
    Run,
}

/// Why a node does not do what a host asks for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// No module, or too many.
    #[error("{asked} modules; ask for 1 to {most}")]
    ModuleCount {
        /// How many the host asks for.
        asked: u32,
        /// How many a connection may have.
        most: u32,
    },
    /// The node's memory is not of its process alone.
    #[error("its memory is in a file; modules need a node that was started without --pool and --mapped")]
    MemoryInFile,
    /// The node has not so much memory left.
    #[error("{modules} modules of {bytes} bytes are more than what is free of its memory, {free} bytes")]
    NoRoom {
        /// How many the host asks for.
        modules: u32,
        /// Bytes that each would have.
        bytes: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A connection asks for modules twice.
    #[error("this connection has modules")]
    HasModules,
    /// A connection has not asked for modules.
    #[error("this connection has no modules")]
    NoModules,
    /// Commands for a module that there is not.
    #[error("it has no module {module}")]
    NoSuchModule {
        /// Its number.
        module: u32,
    },
    /// Too many commands.
    #[error("a batch has more than {most} bytes")]
    BatchTooLong {
        /// How many bytes a batch may have.
        most: u64,
    },
    /// The modules were lost in an earlier round.
    #[error("its modules are lost")]
    Lost,
    /// The modules cannot be made, or have failed.
    #[error("{why}")]
    Failed {
        /// Why.
        why: String,
    },
}

/// A node's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// There are modules.
    Opened,
    /// It does not do this, and ends the connection. In JSON.
    Refused(Refusal),
    /// It is executing.
    Running,
    /// What a module has answered, or a part of it.
    Answers {
        /// Which one.
        module: u32,
        /// The answers.
        bytes: Vec<u8>,
    },
    /// All batches have been executed, and all answers sent.
    Ran {
        /// Pointers chased since there are modules.
        chases: u64,
        /// Bytes of memory that modules use.
        memory: u64,
    },
    /// A module met what is no command, and the connection ends.
    Malformed {
        /// Which one.
        module: u32,
        /// Where.
        at: u64,
    },
}

fn frame(out: &mut Vec<u8>, what: u8, parts: &[&[u8]]) {
    let len = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    out.extend((len as u32).to_le_bytes());
    out.push(what);
    parts.iter().for_each(|part| out.extend(*part));
}

impl Request {
    /// Appends its frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Open { modules, bytes, seed } => frame(
                out,
                1,
                &[&modules.to_le_bytes(), &bytes.to_le_bytes(), &seed.to_le_bytes()],
            ),
            Self::Commands { module, bytes } => encode_commands(out, *module, bytes),
            Self::Run => frame(out, 3, &[]),
        }
    }

    /// That of a frame without its length.
    pub fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        let mut parts = Parts::new(frame)?;
        let request = match parts.what {
            1 => Self::Open {
                modules: parts.u32()?,
                bytes: parts.u64()?,
                seed: parts.u64()?,
            },
            2 => Self::Commands {
                module: parts.u32()?,
                bytes: parts.all(),
            },
            3 => Self::Run,
            _ => return Err(Malformed("an unknown request about modules")),
        };
        parts.end().map(|()| request)
    }
}

/// Appends the frame of [`Request::Commands`].
pub fn encode_commands(out: &mut Vec<u8>, module: u32, bytes: &[u8]) {
    frame(out, 2, &[&module.to_le_bytes(), bytes]);
}

impl Response {
    /// Appends its frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Opened => frame(out, 1, &[]),
            Self::Refused(why) => frame(out, 2, &[&serde_json::to_vec(why).unwrap_or_default()]),
            Self::Running => frame(out, 3, &[]),
            Self::Answers { module, bytes } => frame(out, 4, &[&module.to_le_bytes(), bytes]),
            Self::Ran { chases, memory } => frame(out, 5, &[&chases.to_le_bytes(), &memory.to_le_bytes()]),
            Self::Malformed { module, at } => frame(out, 6, &[&module.to_le_bytes(), &at.to_le_bytes()]),
        }
    }

    /// That of a frame without its length.
    pub fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        let mut parts = Parts::new(frame)?;
        let response = match parts.what {
            1 => Self::Opened,
            2 => Self::Refused(
                serde_json::from_slice(&parts.all()).map_err(|_| Malformed("an unknown refusal"))?,
            ),
            3 => Self::Running,
            4 => Self::Answers {
                module: parts.u32()?,
                bytes: parts.all(),
            },
            5 => Self::Ran {
                chases: parts.u64()?,
                memory: parts.u64()?,
            },
            6 => Self::Malformed {
                module: parts.u32()?,
                at: parts.u64()?,
            },
            _ => return Err(Malformed("an unknown response about modules")),
        };
        parts.end().map(|()| response)
    }
}

/// A frame that is being taken apart.
struct Parts<'a> {
    what: u8,
    rest: &'a [u8],
}

impl<'a> Parts<'a> {
    fn new(frame: &'a [u8]) -> Result<Self, Malformed> {
        let (what, rest) = frame.split_first().ok_or(Malformed("a frame that is cut"))?;
        Ok(Self { what: *what, rest })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(Malformed("a frame that is cut"))?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn all(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest).to_vec()
    }

    fn end(&self) -> Result<(), Malformed> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(Malformed("a frame that is too long")),
        }
    }
}

/// Takes the first whole frame out of what has arrived, from a place on, which it moves behind it.
pub fn take_frame<T>(
    arrived: &[u8],
    taken: &mut usize,
    decode: impl Fn(&[u8]) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    let Some((frame, len)) = first_frame(&arrived[*taken..])? else {
        return Ok(None);
    };
    debug_assert_eq!(len, PREFIX + frame.len());
    *taken += len;
    decode(frame).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_cut_ones_are_told() {
        let requests = [
            Request::Open {
                modules: 3,
                bytes: 1 << 40,
                seed: 9,
            },
            Request::Commands {
                module: 2,
                bytes: vec![1, 2, 3],
            },
            Request::Run,
        ];
        let responses = [
            Response::Opened,
            Response::Refused(Refusal::NoModules),
            Response::Refused(Refusal::ModuleCount { asked: 0, most: 9 }),
            Response::Running,
            Response::Answers {
                module: 1,
                bytes: vec![],
            },
            Response::Ran { chases: 1, memory: 2 },
            Response::Malformed { module: 0, at: 7 },
        ];
        let (mut sent, mut back) = (Vec::new(), Vec::new());
        requests.iter().for_each(|request| request.encode(&mut sent));
        responses.iter().for_each(|response| response.encode(&mut back));
        let (mut at, mut there) = (0, 0);
        for request in &requests {
            assert_eq!(
                take_frame(&sent, &mut at, Request::decode).unwrap().as_ref(),
                Some(request)
            );
        }
        for response in &responses {
            assert_eq!(
                take_frame(&back, &mut there, Response::decode).unwrap().as_ref(),
                Some(response)
            );
        }
        assert_eq!((at, there), (sent.len(), back.len()));
        assert_eq!(take_frame(&sent, &mut at, Request::decode).unwrap(), None);
        for what in 0..=u8::MAX {
            // Whatever comes, it is an error or a message.
            let _ = (
                Request::decode(&[what, 1, 2, 3]),
                Response::decode(&[what, 1, 2, 3]),
            );
        }
        assert!(Request::decode(&[]).is_err() && Response::decode(&[]).is_err());
        assert!(Request::decode(&[3, 0]).is_err() && Request::decode(&[1, 0, 0]).is_err());
    }
}
