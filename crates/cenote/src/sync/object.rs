//! A lock's bytes in the pool. They stay as long as the pool does. If the lock's name is removed, another lock of the
//! same kind may use them.
//!
//! | line | words |
//! |---|---|
//! | 0 | protected: what this is, and which [`LockKind`] |
//! | 1 | sync: the word: who owns the lock, or of a queue lock the end of its queue; whether handoff is set; the event count; the count of [incarnations](crate::pod::names::rename) |
//! | 2 | sync: the note, written by the owner alone, 0 while nobody owns the lock and it was unlocked; the fencing token drawn last |
//! | 3 | sync: the end of the queue of waiters, where the word is something else; how often a slot was unlinked from the queue |
//! | 4 and on | reader-writer lock only, sync: a bit for each worker place that may be reading |
//! | 4 and on | semaphore only, sync: of each permit its owner and its note; line 2 says how many there are |
//!
//! Creation: the object is the creator's auxiliary allocation until an entry of the directory refers to it. So a crash
//! leaves either a whole lock, perhaps without a name, or bytes that recovery frees.

use super::readying::ready;
use crate::causes::{Found, Structure};
use crate::error::{Error, Result};
use crate::memory::checked::{published, sync_word, unpublished};
use crate::memory::{LINE, Memory, SyncWord};

use crate::pod::Worker;
use crate::pod::alloc::heap;
pub use crate::pod::format::lock_kind::LockKind;
use crate::pod::names::directory::{self, KIND_DIRECTORY_LOCK, KIND_LOCK, KIND_LOCKS, Named};
use crate::pod::names::rename::{self, COUNT_AT, Making, UNNAMED};

/// "LOCK" and a version.
const MAGIC: u64 = u64::from_le_bytes(*b"CNTLOCK\x02");
/// Bytes of a lock without bits for readers and without permits.
const HEAD_BYTES: u64 = 4 * LINE;
/// Bytes of a permit.
const PERMIT_BYTES: u64 = 16;
/// The most permits that a semaphore can have.
pub const PERMITS_MAX: u32 = 496;

/// Where a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    base: u64,
    kind: LockKind,
    bytes: u64,
}

/// Bytes of a lock.
pub(super) fn bytes<M: Memory>(worker: &Worker<M>, kind: LockKind) -> u64 {
    let places = u64::from(worker.geometry().parameters.workers);
    match kind {
        LockKind::Rw => HEAD_BYTES + places.div_ceil(8 * LINE) * LINE,
        LockKind::Semaphore => HEAD_BYTES + PERMIT_BYTES * u64::from(PERMITS_MAX),
        _ => HEAD_BYTES,
    }
}

impl Object {
    /// Opens the lock of a name, or creates it. Returns the lock and its incarnation.
    ///
    /// Cost: a search of the names; for a new lock a search of the entries under the directory's lock, and an
    /// allocation if no removed lock has the kind.
    pub fn open_or_create<M: Memory>(worker: &Worker<M>, name: &str, kind: LockKind) -> Result<(Self, u64)> {
        Self::open_or_create_for(worker, name, kind, 0)
    }

    /// The same. A new semaphore gets so many permits.
    pub(super) fn open_or_create_for<M: Memory>(
        worker: &Worker<M>,
        name: &str,
        kind: LockKind,
        permits: u32,
    ) -> Result<(Self, u64)> {
        let making = Making {
            kind: kind.encode() - 1,
            build: &|| create(worker, kind),
            ready: &|object, incarnation| {
                // NO PAIR: unshared
                Self::at(worker, object)?
                    .permits()
                    .store(worker.mem(), permits.into());
                ready(worker, object, incarnation)
            },
        };
        let named = rename::find_or_make(worker, name, &making)?;
        Self::named(worker, named, kind)
    }

    /// Opens the lock of a name, if there is one.
    pub fn open<M: Memory>(worker: &Worker<M>, name: &str, kind: LockKind) -> Result<(Self, u64)> {
        match directory::find(worker, name)? {
            Some(named) => Self::named(worker, named, kind),
            None => Err(Error::NoSuch {
                kind: Structure::Lock,
                name: name.to_owned(),
            }),
        }
    }

    fn named<M: Memory>(worker: &Worker<M>, named: Named, kind: LockKind) -> Result<(Self, u64)> {
        let other = |kind| Error::OtherKind {
            kind,
            name: named.name.clone(),
        };
        match named.kind {
            KIND_LOCK => {}
            KIND_LOCKS => return Err(other(Found::Is(Structure::LockArray))),
            KIND_DIRECTORY_LOCK => return Err(other(Found::Is(Structure::DirectoryLock))),
            _ => return Err(other(Found::IsNot(Structure::Lock))),
        }
        let object = Self::at(worker, named.offset)?;
        match object.kind == kind {
            true => Ok((object, named.incarnation)),
            false => Err(other(Found::Is(Structure::LockOf(object.kind)))),
        }
    }

    /// The lock at an offset, which is checked.
    pub fn at<M: Memory>(worker: &Worker<M>, base: u64) -> Result<Self> {
        if !base.is_multiple_of(LINE) {
            return Err(Error::corrupt("the offset of a lock", base));
        }
        worker.check("a lock", base, HEAD_BYTES)?;
        let mem = worker.mem();
        let kind = LockKind::decode(published(base + 8, 8).read_word(mem));
        let (MAGIC, Some(kind)) = (published(base, 8).read_word(mem), kind) else {
            return Err(Error::corrupt("a lock's header", base));
        };
        let bytes = bytes(worker, kind);
        worker.check("a lock", base, bytes)?;
        Ok(Self { base, kind, bytes })
    }

    /// Where it begins.
    #[inline]
    pub fn offset(self) -> u64 {
        self.base
    }

    /// Its kind.
    pub fn kind(self) -> LockKind {
        self.kind
    }

    /// The word that decides who owns it.
    #[inline]
    pub fn word(self) -> SyncWord {
        sync_word(self.base + LINE)
    }

    /// Not 0 if the first waiter of the queue is to have it next, and no newcomer.
    #[inline]
    pub(super) fn handoff(self) -> SyncWord {
        sync_word(self.base + LINE + 8)
    }

    /// What the waiters sleep on.
    #[inline]
    pub(super) fn event_count(self) -> SyncWord {
        sync_word(self.base + LINE + 16)
    }

    /// Where it counts its incarnations.
    #[inline]
    pub(super) fn count(self) -> SyncWord {
        sync_word(self.base + COUNT_AT)
    }

    /// The end of the queue of waiters.
    #[inline]
    pub(super) fn end(self) -> SyncWord {
        match self.kind {
            LockKind::Queue => self.word(),
            _ => sync_word(self.base + 3 * LINE),
        }
    }

    /// How often a slot was unlinked from the queue otherwise than by the end of its turn.
    pub(super) fn unlinks(self) -> SyncWord {
        sync_word(self.base + 3 * LINE + 8)
    }

    /// The fencing token that was drawn last.
    pub(super) fn token(self) -> SyncWord {
        sync_word(self.base + 2 * LINE + 8)
    }

    /// What the owner says it is doing.
    #[inline]
    pub fn note(self) -> SyncWord {
        sync_word(self.base + 2 * LINE)
    }

    /// How many permits a semaphore has.
    pub(super) fn permits(self) -> SyncWord {
        sync_word(self.base + 2 * LINE + 16)
    }

    /// The word that names a permit's owner, and the word of its note.
    #[inline]
    pub(super) fn permit(self, n: u32) -> (SyncWord, SyncWord) {
        let at = self.base + HEAD_BYTES + PERMIT_BYTES * u64::from(n % PERMITS_MAX);
        (sync_word(at), sync_word(at + 8))
    }

    /// The words of all permits, used or not, each with its note. Other kinds have none.
    pub(super) fn all_permits(self) -> impl Iterator<Item = (SyncWord, SyncWord)> {
        let count = if self.kind == LockKind::Semaphore {
            PERMITS_MAX
        } else {
            0
        };
        (0..count).map(move |n| self.permit(n))
    }

    /// The bits of 64 worker places, the bit of place 64 × `n` lowest; `None` beyond the last place, and in other
    /// kinds.
    pub fn readers(self, n: u32) -> Option<SyncWord> {
        let at = HEAD_BYTES + 8 * u64::from(n);
        (self.kind == LockKind::Rw && at < self.bytes).then(|| sync_word(self.base + at))
    }
}

/// Writes a lock's header into zeroes.
pub(super) fn write_header<M: Memory>(mem: &M, base: u64, kind: LockKind) {
    unpublished(base, 8).write_word(mem, MAGIC);
    unpublished(base + 8, 8).write_word(mem, kind.encode());
}

/// Allocates and initialises a lock, as the worker's auxiliary object.
fn create<M: Memory>(worker: &Worker<M>, kind: LockKind) -> Result<u64> {
    let len = bytes(worker, kind);
    let base = heap::allocate_for(worker, worker.actor(), len, worker.record().aux_object(), 0)?;
    let mem = worker.mem();
    unpublished(base, len).zero(mem);
    write_header(mem, base, kind);
    unpublished(base + COUNT_AT, 8).write_word(mem, UNNAMED);
    // From here on others access these words past the cache; no line of this host may cover them. Complete before the
    // object is published with its name.
    mem.invalidate(base, len);
    Ok(base)
}
