//! A lock's bytes in the pool. They stay for as long as the pool does.
//!
//! | line | words |
//! |---|---|
//! | 0 | protected: what this is, and which [`Form`] |
//! | 1 | sync: the word; who owns the lock, or the end of its queue |
//! | 2 | sync: the note; written by the owner alone, 0 while nobody owns the lock and it was unlocked |
//! | 3 and on | reader-writer lock only, sync: a bit for each worker place that has ever read |
//!
//! Creation: the object is the creator's auxiliary allocation until its name publishes it, so a crash leaves either a
//! whole lock with a name or nothing that recovery does not free.

use crate::error::{Error, Result};
use crate::memory::{LINE, Memory, SyncWord};
use crate::pod::Worker;
use crate::pod::directory::{self, KIND_LOCK, Named};
use crate::pod::heap;

/// "LOCK" and a version.
const MAGIC: u64 = u64::from_le_bytes(*b"CNTLOCK\x01");
/// Bytes of a lock without bits for readers.
const HEAD_BYTES: u64 = 3 * LINE;

/// The form of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Whoever sees it free first has it.
    Spin,
    /// First come, first served.
    Queue,
    /// One writer or any number of readers.
    Rw,
}

impl Form {
    const fn encode(self) -> u64 {
        match self {
            Self::Spin => 1,
            Self::Queue => 2,
            Self::Rw => 3,
        }
    }

    const fn decode(word: u64) -> Option<Self> {
        match word {
            1 => Some(Self::Spin),
            2 => Some(Self::Queue),
            3 => Some(Self::Rw),
            _ => None,
        }
    }

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Queue => "queue",
            Self::Rw => "rw",
        }
    }

    /// What it is, for messages.
    const fn what(self) -> &'static str {
        match self {
            Self::Spin => "a spin lock",
            Self::Queue => "a queue lock",
            Self::Rw => "a reader-writer lock",
        }
    }
}

/// Where a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    base: u64,
    form: Form,
    bytes: u64,
}

fn bytes<M: Memory>(worker: &Worker<M>, form: Form) -> u64 {
    let places = u64::from(worker.geometry().parameters.workers);
    match form {
        Form::Rw => HEAD_BYTES + places.div_ceil(8 * LINE) * LINE,
        _ => HEAD_BYTES,
    }
}

impl Object {
    /// Opens the lock of a name, or creates it.
    ///
    /// Cost: a look through the names; for a new one an allocation under the directory's lock.
    pub fn open_or_create<M: Memory>(worker: &Worker<M>, name: &str, form: Form) -> Result<Self> {
        let named = directory::find_or_create(worker, name, KIND_LOCK, || create(worker, form))?;
        Self::named(worker, named, form)
    }

    /// Opens the lock of a name, if there is one.
    pub fn open<M: Memory>(worker: &Worker<M>, name: &str, form: Form) -> Result<Self> {
        match directory::find(worker, name)? {
            Some(named) => Self::named(worker, named, form),
            None => Err(Error::NoSuchLock {
                name: name.to_owned(),
            }),
        }
    }

    fn named<M: Memory>(worker: &Worker<M>, named: Named, form: Form) -> Result<Self> {
        let other = |kind| Error::OtherKind {
            kind,
            name: named.name.clone(),
        };
        if named.kind != KIND_LOCK {
            return Err(other("no lock"));
        }
        let object = Self::at(worker, named.offset)?;
        match object.form == form {
            true => Ok(object),
            false => Err(other(object.form.what())),
        }
    }

    /// The lock at an offset, which is checked.
    pub fn at<M: Memory>(worker: &Worker<M>, base: u64) -> Result<Self> {
        if !base.is_multiple_of(LINE) {
            return Err(Error::corrupt("the offset of a lock", base));
        }
        worker.check("a lock", base, HEAD_BYTES)?;
        let mem = worker.mem();
        let form = Form::decode(mem.read_word(base + 8));
        let (MAGIC, Some(form)) = (mem.read_word(base), form) else {
            return Err(Error::corrupt("a lock's header", base));
        };
        let bytes = bytes(worker, form);
        worker.check("a lock", base, bytes)?;
        Ok(Self { base, form, bytes })
    }

    /// Where it begins.
    #[inline]
    pub fn offset(self) -> u64 {
        self.base
    }

    /// Its form.
    pub fn form(self) -> Form {
        self.form
    }

    /// The word that decides who owns it.
    #[inline]
    pub fn word(self) -> SyncWord {
        SyncWord::at(self.base + LINE)
    }

    /// What the owner says it is doing.
    #[inline]
    pub fn note(self) -> SyncWord {
        SyncWord::at(self.base + 2 * LINE)
    }

    /// The bits of 64 worker places, those of place 64 × `n` lowest; `None` behind the last, and in other forms.
    pub fn readers(self, n: u32) -> Option<SyncWord> {
        let at = HEAD_BYTES + 8 * u64::from(n);
        (at < self.bytes).then(|| SyncWord::at(self.base + at))
    }
}

/// Allocates and initialises a lock, as the worker's auxiliary object.
fn create<M: Memory>(worker: &Worker<M>, form: Form) -> Result<u64> {
    let len = bytes(worker, form);
    let base = heap::allocate_for(worker, worker.actor(), len, worker.record().aux_object(), 0)?;
    let mem = worker.mem();
    mem.zero(base, len);
    mem.write_word(base, MAGIC);
    mem.write_word(base + 8, form.encode());
    // From here on others use these words past the cache; no line of this host may cover them. Complete before the object is published,
    // with its name.
    mem.invalidate(base, len);
    Ok(base)
}
