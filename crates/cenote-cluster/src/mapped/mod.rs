//! Memory nodes whose memory the clients of the same machine map: a client's own processor executes its verbs, and no
//! byte of a key or value goes over a network.
//!
//! A node keeps its regions in a file: of `/dev/shm`, or of a file system on a device whose memory can be mapped (DAX).
//! The node remains the one who gives keys to regions and who keeps the lease; it is asked for both over TCP, by the
//! master alone. Clients that cannot open the file reach the node over TCP, and the node executes their verbs on the
//! same memory, by the same words.
//!
//! | bytes of the file | | written by |
//! |---|---|---|
//! | 0 to 7 | magic and version | the node, last |
//! | 8 to 15 | bytes of the file | the node |
//! | 16 to 23 | the node's incarnation: a client compares it with the one that the node says over TCP | the node |
//! | 24 to 31 | until when verbs may be executed, in nanoseconds since the machine was started | the node |
//! | from 4,096 | for each client a line: its *turn*, odd while a batch of it is under way | the client; the node once it is dead |
//! | from 69,632 | for each region 32 bytes: key, offset, bytes | the node |
//! | from 1 MiB | the regions' bytes | clients and the node |
//!
//! **The fence.** A network card looks at a verb's key and executes it in one step. A processor does not: its process
//! may be stopped between the two, and write when the region has had another key for long. So a client makes its turn
//! odd *before* it looks at keys and lease, and even after its last verb; the node stores a new key, and answers only
//! when every turn that was odd has moved on. Both are a store before a load, with a full barrier between: either the
//! client sees the new key, and refuses, or the node sees the client's turn, and waits.
//!
//! | a client, in the middle of a batch (some microseconds) | the node |
//! |---|---|
//! | is killed | finds the lock of its line free: the kernel drops it when no thread of the process is left. Makes the turn even |
//! | is stopped (`SIGSTOP`), and goes on | waits as long; it answers nobody meanwhile, and executes no verb of anybody |
//! | is stopped for longer than the node's lease, or for ever | waits. **The master gives the node up**, as it is silent, and its regions go on with their other copies. When the client goes on, it changes memory that belongs to nothing any more. With one copy the regions are lost |
//!
//! A client executes a batch node after node, so it costs one node at most. It holds an exclusive lock (`flock`) of a
//! file of its own beside the node's, `FILE.client-N`; a child that it forks without `exec` holds the lock as well, and
//! then the death of the parent alone cannot be seen.
//!
//! **The lease** is as over TCP ([`crate::node`]); a client looks at it before each verb. One that is stopped after it
//! has looked may read afterwards, what was there when the lease ended or is of no interest any more: its operation
//! began before. What it writes then is in the memory of a node that was given up. The lease does not end with the
//! node's process: so the master, which finds another process at the node's address, waits for a lease before it gives
//! the node up ([`crate::master::watch`]).
//!
//! **Trust.** A process that may open the file may write everything in it, also keys and turns; so it belongs to the
//! node's user alone (mode 0600), and clients are that user's. An offset or a length from the file is checked before it
//! is used. Truncating the file ends all who have mapped it (`SIGBUS`).
//!
//! **Memory.** All who map a node's file must be on one coherent machine: words are changed by its atomic instructions,
//! and locks of files tell who is alive. Hosts that share CXL memory *with* coherence cannot see each other's locks and
//! clocks: they are not supported, nor is memory without coherence; such hosts reach the node over TCP.

pub mod client;
pub mod node;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cenote::memory::{Coherent, Mapped, Mapping, Memory, time_since_boot};
use cenote_replica::verbs::{Completion, Verb};
use cenote_replica::view::Key;

const MAGIC: u64 = u64::from_le_bytes(*b"CNTMAPD\x02");
const MAGIC_AT: u64 = 0;
const LEN_AT: u64 = 8;
const INCARNATION_AT: u64 = 16;
const LEASE_AT: u64 = 24;
const TURNS_AT: u64 = 4096;
const LINE: u64 = 64;
/// Clients that may have a node's memory mapped at a time. Others reach it over TCP.
pub const CLIENTS_MAX: u32 = 1024;
const REGIONS_AT: u64 = TURNS_AT + CLIENTS_MAX as u64 * LINE;
const ENTRY: u64 = 32;
/// Regions that a node may hold.
const ENTRIES: u64 = 1 << 14;
/// Where the regions' bytes begin.
const MEMORY_AT: u64 = 1 << 20;

/// The file of a node's memory in a folder, by the port that it listens at.
pub fn file_of(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!("cenote-memnode-{port}"))
}

/// Removes the file of a node that ends, and the locks of its clients.
pub fn remove(folder: &Path, port: u16) {
    let path = file_of(folder, port);
    let _ = std::fs::remove_file(&path);
    node::remove_locks(&path);
}

/// The file whose lock a client holds as long as it lives.
fn lock_of(file: &Path, client: u32) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".client-{client}"));
    name.into()
}

/// Now, by the clock of leases.
fn now() -> u64 {
    time_since_boot().as_nanos() as u64
}

/// Why a file cannot be a node's memory.
#[derive(Debug, thiserror::Error)]
pub enum MappedError {
    /// The operating system refuses.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
    /// It cannot be mapped.
    #[error("{0}: {1}")]
    Map(PathBuf, cenote::memory::MappingError),
    /// It is no memory of a node, or of another version, or of another node.
    #[error("{0}: it is not the memory of this node")]
    Other(PathBuf),
}

/// A node's memory, as it is mapped.
struct Words {
    mem: Coherent,
    len: u64,
}

/// A region's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    at: u64,
    bytes: u64,
}

impl Words {
    fn map(file: File, path: &Path, len: u64) -> Result<Self, MappedError> {
        let refused = |error| MappedError::Map(path.to_owned(), error);
        let mapping = Mapping::of_file(file, len).map_err(refused)?;
        let mem = Coherent::over(Arc::new(mapping)).map_err(refused)?;
        Ok(Self { mem, len })
    }

    fn load(&self, at: u64) -> u64 {
        // SAFETY: every word of the file is changed by whole words atomically, by all who map it.
        unsafe { self.mem.load(at) }
    }

    fn store(&self, at: u64, word: u64) {
        // SAFETY: as for `load`.
        unsafe { self.mem.store(at, word) }
    }

    /// A store before all later loads of this thread.
    fn store_seq_cst(&self, at: u64, word: u64) {
        // SAFETY: as for `load`.
        unsafe { self.mem.store_seq_cst(at, word) }
    }

    fn turn_at(client: u32) -> u64 {
        TURNS_AT + u64::from(client) * LINE
    }

    fn entry_at(region: u16) -> u64 {
        REGIONS_AT + u64::from(region) * ENTRY
    }

    /// Where a region is, if it has this key and the lease has not ended. In a client's turn.
    fn place(&self, region: u16, key: Key) -> Option<Place> {
        let entry = Self::entry_at(region);
        if u64::from(region) >= ENTRIES || key == Key(0) || self.load(entry) != key.0 {
            return None;
        }
        let place = Place {
            at: self.load(entry + 8),
            bytes: self.load(entry + 16),
        };
        // The file may be damaged.
        let is_inside = place.at >= MEMORY_AT
            && place.at.is_multiple_of(LINE)
            && place.at.checked_add(place.bytes)? <= self.len;
        (is_inside && now() < self.load(LEASE_AT)).then_some(place)
    }

    /// Executes a verb in a region.
    fn execute(&self, place: Place, offset: u32, verb: &Verb) -> Completion {
        let len = match verb {
            Verb::Read(len) => u64::from(*len),
            Verb::Write(bytes) => bytes.len() as u64,
            Verb::CompareSwap { .. } | Verb::FetchAdd(_) => 8,
        };
        let is_word = matches!(verb, Verb::CompareSwap { .. } | Verb::FetchAdd(_));
        let begin = u64::from(offset);
        if begin + len > place.bytes || (is_word && !begin.is_multiple_of(8)) {
            return Completion::Refused;
        }
        let at = place.at + begin;
        match verb {
            Verb::Read(len) => {
                let mut bytes = vec![0; *len as usize];
                self.read(at, &mut bytes);
                Completion::Read(bytes)
            }
            Verb::Write(bytes) => {
                self.write(at, bytes);
                Completion::Written
            }
            Verb::CompareSwap { expected, new } => {
                // SAFETY: as for `load`.
                let was = unsafe { self.mem.compare_exchange(at, *expected, *new) };
                Completion::Was(was.unwrap_or_else(|found| found))
            }
            // SAFETY: as for `load`.
            Verb::FetchAdd(add) => Completion::Was(unsafe { self.mem.fetch_add(at, *add) }),
        }
    }

    /// Copies bytes out, whole words at a time where they are aligned.
    fn read(&self, at: u64, to: &mut [u8]) {
        let mut at = at;
        let mut to = to;
        while !to.is_empty() {
            let skip = (at % 8) as usize;
            let len = to.len().min(8 - skip);
            let (part, rest) = to.split_at_mut(len);
            part.copy_from_slice(&self.load(at - skip as u64).to_le_bytes()[skip..skip + len]);
            at += len as u64;
            to = rest;
        }
    }

    /// Copies bytes in, whole words at a time where they are aligned; their neighbours in a word stay as others make
    /// them.
    fn write(&self, at: u64, bytes: &[u8]) {
        let mut at = at;
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let skip = (at % 8) as usize;
            let (part, rest) = bytes.split_at(bytes.len().min(8 - skip));
            let word = at - skip as u64;
            if let Ok(whole) = part.try_into() {
                self.store(word, u64::from_le_bytes(whole));
            } else {
                let mut found = self.load(word);
                loop {
                    let mut new = found.to_le_bytes();
                    new[skip..skip + part.len()].copy_from_slice(part);
                    // SAFETY: as for `load`.
                    match unsafe { self.mem.compare_exchange(word, found, u64::from_le_bytes(new)) } {
                        Ok(_) => break,
                        Err(other) => found = other,
                    }
                }
            }
            at += part.len() as u64;
            bytes = rest;
        }
    }
}

#[cfg(test)]
mod tests;
