//! What each thread has open.
//!
//! The library's handles, guards and writers belong to the thread that made them; Python's objects may be used by any
//! thread, and are dropped by whichever comes by. So a Python object has a number, and each thread keeps what belongs
//! to the number: a [`Handle`] is opened in each thread that uses it, a [`Local`] is what one thread alone has.
//!
//! **Ends.** A thread drops what is over (its object is gone, its pool was closed) when it next looks into its table
//! and something has ended since, or when it ends itself. Until then it keeps the pool open.
//!
//! **Forks.** The child has a copy of the forking thread's table, whose handles are the parent's. It forgets them
//! ([`forked`], which Python calls), and opens everything anew.
#![allow(clippy::disallowed_types)] // words of the process, not of a pool

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::raise;
use crate::pool::OpenPool;

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

/// The number of the next handle.
static NEXT: AtomicU64 = AtomicU64::new(1);
/// How often something has ended.
static ENDED: AtomicU64 = AtomicU64::new(0);
/// How often this process is a child of one that used this module.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// What a thread has open, by number.
#[derive(Default)]
struct Table {
    entries: HashMap<u64, Entry>,
    ended: u64,
}

struct Entry {
    generation: u64,
    pool: Arc<OpenPool>,
    /// Whether the Python object is there.
    object: Weak<()>,
    /// Whether the Python object refers to memory that is the value's.
    lends: bool,
    value: Rc<dyn Any>,
}

impl Drop for Table {
    /// The thread ends. What a Python object still refers to stays until the process ends; then others give it back.
    fn drop(&mut self) {
        for (_, entry) in self.entries.drain() {
            if entry.lends && entry.object.strong_count() != 0 {
                std::mem::forget(entry.value);
            }
        }
    }
}

impl Table {
    /// Takes out what is over, if it may be worth it; to be dropped when the table is not borrowed any more.
    ///
    /// Each look costs as much as there are entries, so that many have ended since the last one, or a pool.
    fn over(&mut self) -> Vec<Entry> {
        let ended = ENDED.load(Ordering::Acquire);
        let since = ended.wrapping_sub(self.ended);
        if since == 0 || since.saturating_mul(4) < self.entries.len() as u64 {
            return Vec::new();
        }
        self.ended = ended;
        let is_over =
            |entry: &Entry| entry.object.strong_count() == 0 || entry.generation != entry.pool.generation();
        let numbers: Vec<u64> = self
            .entries
            .iter()
            .filter(|(_, entry)| is_over(entry))
            .map(|(&number, _)| number)
            .collect();
        numbers
            .iter()
            .filter_map(|number| self.entries.remove(number))
            .collect()
    }
}

/// How often this process has been made by a fork.
pub(crate) fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// A pool was closed: as if very much had ended. This thread drops what it has of it.
pub(crate) fn pool_closed() {
    ENDED.fetch_add(1 << 32, Ordering::Release);
    // At the end of the thread there is no table.
    drop(TABLE.try_with(|table| table.try_borrow_mut().map(|mut table| table.over())));
}

/// An object of Python is gone. This thread drops what it has of it; the others do so in time.
fn object_gone(number: u64) {
    ENDED.fetch_add(1, Ordering::Release);
    drop(TABLE.try_with(|table| {
        table
            .try_borrow_mut()
            .map(|mut table| table.entries.remove(&number))
    }));
}

/// Called in the child of a fork, before anything else: nothing that the parent has open is this process's.
#[pyfunction]
#[pyo3(name = "_forked")]
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    let _ = TABLE.try_with(|table| std::mem::forget(table.take()));
}

/// What a thread has of a number.
fn find<T: 'static>(number: u64, pool: &OpenPool) -> Option<Rc<T>> {
    TABLE
        .try_with(|table| {
            let mut table = table.borrow_mut();
            let over = table.over();
            let found = table
                .entries
                .get(&number)
                .filter(|entry| entry.generation == pool.generation())
                .map(|entry| entry.value.clone());
            drop(table);
            drop(over);
            found
        })
        .ok()
        .flatten()
        .and_then(|value| value.downcast().ok())
}

fn keep(number: u64, entry: Entry) {
    let _ = TABLE.try_with(|table| table.borrow_mut().entries.insert(number, entry));
}

type Open<T> = Box<dyn Fn(&cenote::Pool) -> cenote::Result<T> + Send + Sync>;

/// Something of a pool that each thread opens for itself.
pub(crate) struct Handle<T> {
    number: u64,
    object: Option<Arc<()>>,
    pool: Arc<OpenPool>,
    open: Open<T>,
}

impl<T: 'static> Handle<T> {
    /// A handle that is opened like this. Opens it in this thread, so that it is known whether that can be.
    pub(crate) fn new(
        pool: &Arc<OpenPool>,
        open: impl Fn(&cenote::Pool) -> cenote::Result<T> + Send + Sync + 'static,
    ) -> PyResult<Self> {
        let handle = Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            object: Some(Arc::default()),
            pool: pool.clone(),
            open: Box::new(open),
        };
        handle.get()?;
        Ok(handle)
    }

    /// This thread's.
    pub(crate) fn get(&self) -> PyResult<Rc<T>> {
        if let Some(found) = find(self.number, &self.pool) {
            return Ok(found);
        }
        let (pool, generation) = self.pool.current()?;
        let value = Rc::new((self.open)(&pool).map_err(raise)?);
        let entry = Entry {
            generation,
            pool: self.pool.clone(),
            object: self.object.as_ref().map(Arc::downgrade).unwrap_or_default(),
            lends: false,
            value: value.clone(),
        };
        keep(self.number, entry);
        Ok(value)
    }

    pub(crate) fn pool(&self) -> &Arc<OpenPool> {
        &self.pool
    }

    /// Whether what this thread has of it is still of a pool that is open.
    pub(crate) fn is_current(&self) -> bool {
        find::<T>(self.number, &self.pool).is_some()
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        drop(self.object.take());
        object_gone(self.number);
    }
}

/// Something that one thread has, and no other can use.
pub(crate) struct Local<T> {
    number: u64,
    object: Option<Arc<()>>,
    pool: Arc<OpenPool>,
    of: PhantomData<fn() -> T>,
}

impl<T: 'static> Local<T> {
    /// `lends` says that Python refers to memory of the value's.
    pub(crate) fn new(pool: &Arc<OpenPool>, value: T, lends: bool) -> Self {
        let object = Arc::new(());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let entry = Entry {
            generation: pool.generation(),
            pool: pool.clone(),
            object: Arc::downgrade(&object),
            lends,
            value: Rc::new(value),
        };
        keep(number, entry);
        Self {
            number,
            object: Some(object),
            pool: pool.clone(),
            of: PhantomData,
        }
    }

    /// It, if this is the thread.
    pub(crate) fn get(&self, what: &str) -> PyResult<Rc<T>> {
        find(self.number, &self.pool).ok_or_else(|| {
            PyRuntimeError::new_err(format!(
                "the {what} can only be used by the thread that made it, as long as its pool is open"
            ))
        })
    }

    pub(crate) fn pool(&self) -> &Arc<OpenPool> {
        &self.pool
    }
}

impl<T> Drop for Local<T> {
    fn drop(&mut self) {
        drop(self.object.take());
        object_gone(self.number);
    }
}

/// A value that a closure without the GIL uses, in the thread that it belongs to.
pub(crate) struct Here<T>(T);

// SAFETY: `Python::detach` calls its closure in the calling thread, so nothing is sent.
unsafe impl<T> Send for Here<T> {}

impl<T> Here<T> {
    /// Marks a value of this thread.
    ///
    /// # Safety
    ///
    /// It goes to a closure of `Python::detach`, or comes out of one, and nowhere else.
    pub(crate) unsafe fn new(value: T) -> Self {
        Self(value)
    }

    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}
