//! Arrays of locks: many of one kind under one name, in one allocation.
//!
//! **State.** A line that says kind and number, protected; then the locks, each as it would be alone, with its own
//! header. So slots name the lock of an array as they name others, and recovery and successors find it by its offset.
//! All are in incarnation 0, as an array's name is never removed.
//!
//! **A crash** of the maker leaves an auxiliary object that recovery frees, or an array with a name.

use std::marker::PhantomData;
use std::rc::Rc;

use super::guard::Release;
use super::held::Handle;
use super::object::{LockKind, Object, bytes, write_header};
use super::{Mutex, QueueLock, ReadWriteLock, SpinLock};
use crate::causes::{Counted, Found, Setting, Structure};
use crate::error::{Error, Result};
use crate::memory::checked::{published, unpublished};
use crate::memory::{LINE, Memory};

use crate::pod::alloc::slab::check_fits;
use crate::pod::format::lock_slots::{SLOTS, Slot};
use crate::pod::names::directory::{self, KIND_LOCKS, Named};
use crate::pod::{Worker, alloc::heap};

/// "CNTLCKS" and a version.
const MAGIC: u64 = u64::from_le_bytes(*b"CNTLCKS\x01");
/// The most locks that an array can have.
pub const LOCKS_MAX: u32 = 1 << 20;

/// A lock that arrays can have. Implemented by the locks of this module alone.
pub trait ArrayLock<M: Memory>: Release<M> + Sized {
    /// Its kind.
    const KIND: LockKind;

    /// The lock of a handle.
    fn of(handle: Handle<M>) -> Result<Self>;
}

impl<M: Memory> ArrayLock<M> for SpinLock<M> {
    const KIND: LockKind = LockKind::Spin;

    fn of(handle: Handle<M>) -> Result<Self> {
        Ok(Self(handle))
    }
}

impl<M: Memory> ArrayLock<M> for Mutex<M> {
    const KIND: LockKind = LockKind::Mutex;

    fn of(handle: Handle<M>) -> Result<Self> {
        Ok(Self(handle))
    }
}

impl<M: Memory> ArrayLock<M> for QueueLock<M> {
    const KIND: LockKind = LockKind::Queue;

    fn of(handle: Handle<M>) -> Result<Self> {
        Ok(Self(handle))
    }
}

impl<M: Memory> ArrayLock<M> for ReadWriteLock<M> {
    const KIND: LockKind = LockKind::Rw;

    fn of(handle: Handle<M>) -> Result<Self> {
        Self::new(handle)
    }
}

/// Where an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    base: u64,
    kind: LockKind,
    count: u32,
    /// Bytes of each lock.
    stride: u64,
}

impl Array {
    /// The array at an offset, which is checked.
    pub fn at<M: Memory>(worker: &Worker<M>, base: u64) -> Result<Self> {
        if !base.is_multiple_of(LINE) {
            return Err(Error::corrupt("the offset of an array of locks", base));
        }
        worker.check("an array of locks", base, LINE)?;
        let mem = worker.mem();
        let (kind, count) = (
            LockKind::decode(published(base + 8, 8).read_word(mem)),
            published(base + 16, 8).read_word(mem),
        );
        let is_count = (1..=u64::from(LOCKS_MAX)).contains(&count);
        let (MAGIC, Some(kind), true) = (published(base, 8).read_word(mem), kind, is_count) else {
            return Err(Error::corrupt("the header of an array of locks", base));
        };
        let array = Self {
            base,
            kind,
            count: count as u32,
            stride: bytes(worker, kind),
        };
        worker.check("an array of locks", base, LINE + array.stride * count)?;
        Ok(array)
    }

    /// Fails if its allocation has no room for so many locks. For audits.
    pub fn check_fits<M: Memory>(self, worker: &Worker<M>) -> Result<()> {
        let len = LINE + self.stride * u64::from(self.count);
        check_fits(worker, "the number of locks in an array", self.base, len)
    }

    /// Their kind.
    pub fn kind(self) -> LockKind {
        self.kind
    }

    /// How many locks it has.
    pub fn count(self) -> u32 {
        self.count
    }

    fn offset_of(self, index: u32) -> u64 {
        self.base + LINE + self.stride * u64::from(index)
    }

    /// One of its locks.
    pub fn lock<M: Memory>(self, worker: &Worker<M>, index: u32) -> Result<Object> {
        if index >= self.count {
            return Err(Error::OutOfRange {
                what: Counted::Lock,
                index: index.into(),
                count: self.count.into(),
            });
        }
        let at = self.offset_of(index);
        match Object::at(worker, at)? {
            object if object.kind() == self.kind => Ok(object),
            _ => Err(Error::corrupt("the kind of a lock of an array", at)),
        }
    }

    /// The numbers of the locks that slots of workers name, in order: of locks that are held or waited for, and of some
    /// that were.
    pub fn named_by_slots<M: Memory>(self, worker: &Worker<M>) -> Vec<u32> {
        let slots = (0..worker.pod().workers_high()).flat_map(|place| (0..SLOTS).map(move |n| (place, n)));
        let mut named: Vec<u32> = slots
            .map(|(place, n)| Slot::new(worker.geometry(), place, n).lock().load(worker.mem()))
            .filter_map(|lock| lock.checked_sub(self.base + LINE))
            .map(|within| within / self.stride)
            .filter(|index| *index < u64::from(self.count))
            .map(|index| index as u32)
            .collect();
        named.sort_unstable();
        named.dedup();
        named
    }
}

/// Allocates and initialises an array, as the worker's auxiliary object.
fn create<M: Memory>(worker: &Worker<M>, kind: LockKind, count: u32) -> Result<u64> {
    let stride = bytes(worker, kind);
    let len = LINE + stride * u64::from(count);
    let base = heap::allocate_for(worker, worker.actor(), len, worker.record().aux_object(), 0)?;
    let mem = worker.mem();
    unpublished(base, len).zero(mem);
    unpublished(base, 8).write_word(mem, MAGIC);
    unpublished(base + 8, 8).write_word(mem, kind.encode());
    unpublished(base + 16, 8).write_word(mem, u64::from(count));
    for index in 0..u64::from(count) {
        write_header(mem, base + LINE + stride * index, kind);
    }
    // As for a single lock.
    mem.invalidate(base, len);
    Ok(base)
}

/// An array of locks of one kind, as one thread has it open.
pub struct LockArray<M: Memory, L: ArrayLock<M>> {
    worker: Rc<Worker<M>>,
    array: Array,
    of: PhantomData<L>,
}

impl<M: Memory, L: ArrayLock<M>> LockArray<M, L> {
    /// Opens the array of a name, or creates it with so many locks.
    ///
    /// Cost: a search of the names; for a new array an allocation, and a write of each lock, under the directory's
    /// lock.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open_or_create(worker: Rc<Worker<M>>, name: &str, count: u32) -> Result<Self> {
        if count == 0 || count > LOCKS_MAX {
            return Err(Error::InvalidOption {
                option: Setting::LockCount,
                value: count.to_string(),
                why: "an array has 1 to 1048576 locks",
            });
        }
        let build = || create(&worker, L::KIND, count);
        let named = directory::find_or_create(&worker, name, KIND_LOCKS, build)?;
        Self::named(worker, named, Some(count))
    }

    /// Opens the array of a name, if there is one.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        match directory::find(&*worker, name)? {
            Some(named) => Self::named(worker, named, None),
            None => Err(Error::NoSuch {
                kind: Structure::Lock,
                name: name.to_owned(),
            }),
        }
    }

    fn named(worker: Rc<Worker<M>>, named: Named, count: Option<u32>) -> Result<Self> {
        if named.kind != KIND_LOCKS {
            return Err(Error::OtherKind {
                kind: Found::IsNot(Structure::LockArray),
                name: named.name,
            });
        }
        let array = Array::at(&worker, named.offset)?;
        if array.kind != L::KIND || count.is_some_and(|count| count != array.count) {
            return Err(Error::OtherArray {
                name: named.name,
                count: array.count,
                kind: array.kind,
            });
        }
        Ok(Self {
            worker,
            array,
            of: PhantomData,
        })
    }

    /// How many locks it has.
    pub fn count(&self) -> u32 {
        self.array.count
    }

    /// A handle on one of its locks, counted from 0. A thread that holds a lock by one handle gets [`Error::Deadlock`]
    /// by another handle on it.
    ///
    /// Cost: two words of the lock's header.
    ///
    /// Errors: [`Error::InvalidOption`](crate::Error::InvalidOption).
    pub fn at(&self, index: u32) -> Result<L> {
        let object = self.array.lock(&self.worker, index)?;
        L::of(Handle::new(self.worker.clone(), object, 0))
    }
}
