//! Where what is: keys of the map, the words behind its header, and a storage's lines.
//!
//! | key | value |
//! |---|---|
//! | 0, `settings` | [`ObjectSettings`](super::ObjectSettings) |
//! | 1, id | the [`Named`] storage |
//! | 2, number (8) | a [`Storage`] |
//! | 3, process (8), number (4) | slots: words from the first whole line on |
//!
//! Numbers have the highest byte first, so storages are in the order in which they were made.

use crate::error::{Error, Result};
use crate::index::common::pair;
use crate::index::ordered::{create_with, header_bytes};
use crate::memory::checked::{published, sync_word, unpublished};
use crate::memory::{LINE, Memory, SyncWord};
use crate::pod::Worker;
use crate::pod::format::superblock::DROPS;

/// The longest id of an object, in bytes.
pub const ID_MAX: usize = 4096;
/// The most bytes of an object's metadata.
pub(super) const METADATA_MAX: usize = 1 << 20;
/// The largest object; no pool is that large.
pub(super) const SIZE_MAX: u64 = 1 << 47;

/// Of a storage's state: it was sealed.
pub(super) const SEALED: u64 = 1;
/// It was viewed: a thread that deletes it has to scan slots.
pub(super) const VIEWED: u64 = 2;
/// Somebody has viewed it since the hand came by.
pub(super) const VISITED: u64 = 4;
/// It has no name, and will get none; or it was [`EVICTED`].
pub(super) const DELETED: u64 = 8;

/// It was marked as deleted before it lost its name, by an evictor that no slot refers to: the thread that finds it
/// takes the name away. Never without [`DELETED`].
pub(super) const EVICTED: u64 = 16;

const MAGIC: u64 = u64::from_le_bytes(*b"OBJECTS\x01");
const STORAGE_MAGIC: u64 = u64::from_le_bytes(*b"STORAGE\x01");
/// The words behind the map's header: a line of sync words, and one that never changes.
const META_BYTES: u64 = 2 * LINE;
/// A storage's state and what is known of it, before id, metadata and data.
const HEAD_BYTES: u64 = 2 * LINE;

pub(super) const SETTINGS: &[u8] = b"\0settings";
pub(super) const NAMES: u8 = 1;
pub(super) const STORAGES: u8 = 2;
pub(super) const SLOTS: u8 = 3;
/// No key begins with it.
pub(super) const END: u8 = 4;

/// The key of a name.
pub(super) fn name_key(id: &[u8]) -> Vec<u8> {
    [&[NAMES], id].concat()
}

/// The key of a storage.
pub(super) fn storage_key(number: u64) -> [u8; 9] {
    let mut key = [STORAGES; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The number in the key of a storage.
pub(super) fn number_of(key: &[u8]) -> Option<u64> {
    match key {
        [STORAGES, number @ ..] => number.try_into().ok().map(u64::from_be_bytes),
        _ => None,
    }
}

/// The key of a process's slots.
pub(super) fn slots_key(process: u64, n: u32) -> [u8; 13] {
    let mut key = [SLOTS; 13];
    key[1..9].copy_from_slice(&process.to_be_bytes());
    key[9..].copy_from_slice(&n.to_be_bytes());
    key
}

/// The process in the key of slots.
pub(super) fn process_of(key: &[u8]) -> Option<u64> {
    match key {
        [SLOTS, rest @ ..] if rest.len() == 12 => {
            rest.first_chunk().map(|process| u64::from_be_bytes(*process))
        }
        _ => None,
    }
}

/// Creates the header of a store's map, as [`OrderedMap`](crate::index::ordered::OrderedMap) does.
pub(super) fn create<M: Memory>(worker: &Worker<M>) -> Result<u64> {
    let header = create_with(worker, META_BYTES)?;
    let (mem, at) = (worker.mem(), header + header_bytes(worker));
    unpublished(at, META_BYTES).zero(mem);
    // No other store of the pool has it: the worker made none at this time before, unless it was dropped since.
    let moment = [mem.kernel().now(), worker.identity(), DROPS.load(mem)];
    let id = xxhash_rust::xxh3::xxh3_64(&moment.map(u64::to_le_bytes).concat());
    unpublished(at + LINE, 8).write_word(mem, MAGIC);
    unpublished(at + LINE + 8, 8).write_word(mem, id);
    mem.write_back(at, META_BYTES);
    Ok(header)
}

/// The words behind the map's header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    at: u64,
    id: u64,
}

impl Meta {
    pub fn read<M: Memory>(worker: &Worker<M>, header: u64) -> Result<Self> {
        let at = header.wrapping_add(header_bytes(worker));
        worker.check("an object store's header", at, META_BYTES)?;
        if !header.is_multiple_of(LINE) || published(at + LINE, 8).read_word(worker.mem()) != MAGIC {
            return Err(Error::corrupt("an object store's header", header));
        }
        let id = published(at + LINE + 8, 8).read_word(worker.mem());
        Ok(Self { at, id })
    }

    /// Tells the store from others that were where it is.
    pub fn id(self) -> u64 {
        self.id
    }

    /// The number of the last storage.
    pub fn numbers(self) -> SyncWord {
        sync_word(self.at)
    }

    /// The storage that the hand of the eviction has passed last.
    pub fn hand(self) -> SyncWord {
        sync_word(self.at + 8)
    }

    /// Bytes of all storages.
    pub fn bytes(self) -> SyncWord {
        sync_word(self.at + 16)
    }

    /// Objects that were evicted.
    pub fn evicted(self) -> SyncWord {
        sync_word(self.at + 32)
    }

    /// Their bytes.
    pub fn evicted_bytes(self) -> SyncWord {
        sync_word(self.at + 40)
    }

    /// The sum of their ages, in milliseconds.
    pub fn evicted_ages(self) -> SyncWord {
        sync_word(self.at + 48)
    }

    /// Objects whose time was over.
    pub fn expired(self) -> SyncWord {
        sync_word(self.at + 56)
    }
}

/// A sealed object: the value of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The number of its storage.
    pub number: u64,
    /// Where the storage's state is.
    pub state: u64,
    /// Where its data begins.
    pub data: u64,
    /// Bytes of its data.
    pub size: u64,
    /// When its time is over, in milliseconds since 1970; 0 for never.
    pub expires: u64,
}

impl Named {
    pub fn encode(self) -> [u8; 40] {
        let mut bytes = [0; 40];
        let words = [self.number, self.state, self.data, self.size, self.expires];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Checks everything.
    pub fn decode<M: Memory>(worker: &Worker<M>, bytes: &[u8]) -> Result<Self> {
        let mut words = [0; 5];
        let (chunks, rest) = bytes.as_chunks::<8>();
        if chunks.len() != words.len() || !rest.is_empty() {
            return Err(Error::corrupt("an object's name of bytes", bytes.len() as u64));
        }
        for (word, chunk) in words.iter_mut().zip(chunks) {
            *word = u64::from_le_bytes(*chunk);
        }
        let [number, state, data, size, expires] = words;
        worker.check("an object's state", state, HEAD_BYTES)?;
        worker.check("an object's data", data, size)?;
        match state.is_multiple_of(LINE) && data.is_multiple_of(LINE) {
            true => Ok(Self {
                number,
                state,
                data,
                size,
                expires,
            }),
            false => Err(Error::corrupt("an object's place", state)),
        }
    }
}

/// What is written into a storage before it gets a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub number: u64,
    pub size: u64,
    pub created: u64,
    pub expires: u64,
    pub id: &'a [u8],
    pub metadata: &'a [u8],
}

impl Head<'_> {
    /// Bytes of the value, wherever it begins.
    pub fn value_len(&self) -> u64 {
        LINE - 1 + self.data_at() + self.size
    }

    /// Where the data begins, from the state on.
    fn data_at(&self) -> u64 {
        HEAD_BYTES + ((self.id.len() + self.metadata.len()) as u64).next_multiple_of(LINE)
    }

    /// Writes it to a new storage whose value begins at an offset. Returns the storage's name.
    pub fn write<M: Memory>(&self, mem: &M, value: u64) -> Named {
        let state = value.next_multiple_of(LINE);
        unpublished(state, LINE).zero(mem);
        let words = [
            STORAGE_MAGIC,
            self.number,
            self.size,
            self.id.len() as u64,
            self.metadata.len() as u64,
            self.created,
            self.expires,
            0,
        ];
        for (n, word) in words.into_iter().enumerate() {
            unpublished(state + LINE + 8 * n as u64, 8).write_word(mem, word);
        }
        let (id_at, id_len) = (state + HEAD_BYTES, self.id.len() as u64);
        unpublished(id_at, id_len).write(mem, self.id);
        unpublished(id_at + id_len, self.metadata.len() as u64).write(mem, self.metadata);
        if !M::COHERENT {
            mem.write_back(state, self.data_at());
        }
        Named {
            number: self.number,
            state,
            data: state + self.data_at(),
            size: self.size,
            expires: self.expires,
        }
    }
}

/// A storage, as it is found. The caller keeps it in place, by a pin or a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage {
    /// Where its state is.
    state: u64,
    /// Bytes of its value.
    pub len: u64,
    pub number: u64,
    pub size: u64,
    id_len: u64,
    metadata_len: u64,
    pub created: u64,
    pub expires: u64,
}

impl Storage {
    /// The storage whose record is at an offset, checked.
    pub fn of_record<M: Memory>(worker: &Worker<M>, record: u64) -> Result<Self> {
        let (value, len) = pair::value_at(worker, record)?;
        let state = value.next_multiple_of(LINE);
        let storage = Self::at(worker, state)?;
        match storage.end().checked_sub(value) {
            Some(needed) if needed <= len => Ok(Self { len, ..storage }),
            _ => Err(Error::corrupt("an object's lengths", state)),
        }
    }

    /// The storage whose state is at an offset. Its length stays unknown.
    pub fn at<M: Memory>(worker: &Worker<M>, state: u64) -> Result<Self> {
        worker.check("an object's state", state, HEAD_BYTES)?;
        let word = |n: u64| published(state + LINE + 8 * n, 8).read_word(worker.mem());
        let storage = Self {
            state,
            len: 0,
            number: word(1),
            size: word(2),
            id_len: word(3),
            metadata_len: word(4),
            created: word(5),
            expires: word(6),
        };
        let is_right = word(0) == STORAGE_MAGIC
            && storage.size <= SIZE_MAX
            && storage.id_len <= ID_MAX as u64
            && storage.metadata_len <= METADATA_MAX as u64;
        if !is_right {
            return Err(Error::corrupt("an object's head", state));
        }
        worker.check("an object's lengths", state, storage.end() - state)?;
        Ok(storage)
    }

    fn data(&self) -> u64 {
        self.state + HEAD_BYTES + (self.id_len + self.metadata_len).next_multiple_of(LINE)
    }

    fn end(&self) -> u64 {
        self.data() + self.size
    }

    pub fn state(&self) -> SyncWord {
        sync_word(self.state)
    }

    pub fn id<M: Memory>(&self, mem: &M) -> Vec<u8> {
        published(self.state + HEAD_BYTES, self.id_len).copied(mem)
    }

    pub fn metadata<M: Memory>(&self, mem: &M) -> Vec<u8> {
        published(self.state + HEAD_BYTES + self.id_len, self.metadata_len).copied(mem)
    }
}

/// Milliseconds since 1970, by the clock that all hosts have about right.
pub(super) fn now_ms<M: Memory>(mem: &M) -> u64 {
    mem.kernel().now() / 1_000_000
}
