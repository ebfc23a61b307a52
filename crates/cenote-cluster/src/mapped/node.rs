//! The node's side of its mapped memory: regions, keys, the lease, and the fence.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cenote::memory::Mapped;
use cenote_replica::view::Key;

use super::{
    CLIENTS_MAX, ENTRIES, INCARNATION_AT, LEASE_AT, LEN_AT, LINE, MAGIC, MAGIC_AT, MEMORY_AT, MappedError,
    Place, Words, lock_of, now,
};
use crate::wire::{Answer, Item};
use cenote_replica::verbs::Completion;

/// Polls of a turn before the node sleeps between two.
const SPINS: u32 = 1_000;
/// The time between two later polls.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// A node's memory in a file, which the node removes when it ends in order.
pub struct MappedNode {
    words: Words,
    path: PathBuf,
    held: RefCell<BTreeMap<u16, Place>>,
}

impl MappedNode {
    /// Makes the file of a node that gives so many bytes to regions. A file of a node that is gone is replaced; who has
    /// that mapped may use it until its lease ends, for which the master waits.
    ///
    /// Errors: the file cannot be made, or mapped.
    pub fn create(path: &Path, memory: u64, incarnation: u64) -> Result<Self, MappedError> {
        let refused = |error| MappedError::File(path.to_owned(), error);
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(refused(error)),
            _ => remove_locks(path),
        }
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(refused)?;
        let len = (MEMORY_AT + memory).next_multiple_of(4096);
        file.set_len(len).map_err(refused)?;
        let words = Words::map(file, path, len)?;
        // Else a full file system would end the process that touches the header first.
        let reserved = words.mem.mapping().reserve(0, MEMORY_AT, None);
        reserved.map_err(|error| MappedError::Map(path.to_owned(), error))?;
        words.store(LEN_AT, len);
        words.store(INCARNATION_AT, incarnation);
        words.store(MAGIC_AT, MAGIC);
        Ok(Self {
            words,
            path: path.to_owned(),
            held: RefCell::default(),
        })
    }

    /// Bytes that it has given to regions.
    pub fn held(&self) -> u64 {
        self.held.borrow().values().map(|place| place.bytes).sum()
    }

    /// Until when verbs may be executed.
    pub fn set_lease(&self, until: Instant) {
        // In this order: if this process is stopped between the two, the lease is too short, and not too long.
        let begun = now();
        let left = until.saturating_duration_since(Instant::now());
        self.words
            .store(LEASE_AT, begun.saturating_add(left.as_nanos() as u64));
    }

    /// Executes what concerns regions; `None` if it is something else.
    pub fn execute(&self, item: &Item) -> Option<Answer> {
        Some(match item {
            Item::Verb { key, at, verb } => Answer::Verb(match self.words.place(at.region(), *key) {
                Some(place) => self.words.execute(place, at.offset(), verb),
                None => Completion::Refused,
            }),
            Item::Hold { region, bytes, key } => self.hold(*region, u64::from(*bytes), *key),
            Item::SetKey { region, key } => {
                let entry = Words::entry_at(*region);
                // A key that comes late takes nobody's place.
                if !self.held.borrow().contains_key(region) || self.words.load(entry) > key.0 {
                    return Some(Answer::Failed);
                }
                self.words.store_seq_cst(entry, key.0);
                self.await_turns();
                Answer::Done
            }
            Item::Drop { region } => {
                self.drop_region(*region);
                Answer::Done
            }
            _ => return None,
        })
    }

    fn hold(&self, region: u16, bytes: u64, key: Key) -> Answer {
        if u64::from(region) >= ENTRIES || self.words.load(Words::entry_at(region)) >= key.0 {
            return Answer::Failed;
        }
        self.drop_region(region);
        let Some(at) = self.room(bytes) else {
            return Answer::Failed;
        };
        // Touched later, it must be there.
        if self.words.mem.mapping().reserve(at, bytes, None).is_err() {
            return Answer::Failed;
        }
        let end = at + bytes.next_multiple_of(8);
        (at..end).step_by(8).for_each(|word| {
            if self.words.load(word) != 0 {
                self.words.store(word, 0);
            }
        });
        let entry = Words::entry_at(region);
        self.words.store(entry + 8, at);
        self.words.store(entry + 16, bytes);
        self.words.store(entry, key.0);
        self.held.borrow_mut().insert(region, Place { at, bytes });
        Answer::Done
    }

    /// A gap of so many bytes.
    fn room(&self, bytes: u64) -> Option<u64> {
        let mut places: Vec<Place> = self.held.borrow().values().copied().collect();
        places.sort_by_key(|place| place.at);
        let mut at = MEMORY_AT;
        for place in places {
            if place.at - at >= bytes {
                break;
            }
            at = (place.at + place.bytes).next_multiple_of(LINE);
        }
        (at.checked_add(bytes.next_multiple_of(8))? <= self.words.len).then_some(at)
    }

    fn drop_region(&self, region: u16) {
        if self.held.borrow().contains_key(&region) {
            self.words.store_seq_cst(Words::entry_at(region), 0);
            self.await_turns();
            self.held.borrow_mut().remove(&region);
        }
    }

    /// Waits until each client whose turn is odd has ended that turn, or is dead. As long as it waits, the node does
    /// nothing else.
    fn await_turns(&self) {
        for client in 0..CLIENTS_MAX {
            let at = Words::turn_at(client);
            let begun = self.words.load(at);
            let mut polls = 0;
            while begun % 2 == 1 && self.words.load(at) == begun {
                polls += 1;
                if polls < SPINS {
                    std::hint::spin_loop();
                } else if self.has_died(client, begun) {
                    break;
                } else {
                    std::thread::sleep(POLL_INTERVAL);
                }
            }
        }
    }

    /// Whether the client of a line is dead; then its turn is ended.
    fn has_died(&self, client: u32, begun: u64) -> bool {
        let lock = File::options().write(true).open(lock_of(&self.path, client));
        // A lock that cannot be looked at proves nothing.
        let Ok(lock) = lock else { return false };
        if lock.try_lock().is_err() {
            return false;
        }
        // Nobody can have the line as long as the lock is held here.
        if self.words.load(Words::turn_at(client)) == begun {
            self.words.store(Words::turn_at(client), 0);
        }
        true
    }
}

impl Drop for MappedNode {
    fn drop(&mut self) {
        self.words.store(LEASE_AT, 0);
        let _ = std::fs::remove_file(&self.path);
        remove_locks(&self.path);
    }
}

/// Removes the locks of clients beside a node's file that is gone: nobody looks at them any more.
pub(super) fn remove_locks(path: &Path) {
    for client in 0..CLIENTS_MAX {
        let _ = std::fs::remove_file(lock_of(path, client));
    }
}
