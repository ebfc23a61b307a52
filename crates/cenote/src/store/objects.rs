//! Object stores of a pool: byte strings that are written once, and viewed where they are.

use std::fmt::{self, Debug, Formatter};
use std::ops::{ControlFlow, Deref};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pool::Pool;
use crate::error::Result;
use crate::index::common::outcome::Put;
use crate::index::objects::{
    Evictions, NewObject, ObjectInfo, ObjectSettings, ObjectStore, Sealed, Slots, Unsealed, Viewed,
    end_view_at,
};
use crate::memory::{Coherent, Mapped, Memory};
use crate::pod::names::dropping::Identity;

/// A waiter polls this often, although it is woken: a thread that is to wake it may die before it does.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The same in a pod, where threads of other hosts wake nobody here.
const POLL_INTERVAL_IN_POD: Duration = Duration::from_millis(10);

impl<M: Memory> Pool<M> {
    /// The object store of a name, created with these settings if there is none; one that is there keeps its own. The
    /// handle belongs to this thread; each thread opens its own.
    ///
    /// Cost: as of [`Pool::map`], and a search for the settings.
    ///
    /// Errors: [`Error::TooMany`](crate::Error::TooMany), [`Error::Full`](crate::Error::Full),
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::OtherKind`](crate::Error::OtherKind).
    pub fn objects(&self, name: &str, settings: &ObjectSettings) -> Result<Objects<M>> {
        let store = ObjectStore::open_or_create(self.worker()?, name, settings, self.guidelines())?;
        Ok(Objects {
            store: Rc::new(store),
            pool: self.clone(),
        })
    }

    /// The object store of a name, if there is one.
    ///
    /// Cost: as of [`Pool::objects`].
    ///
    /// Errors: [`Error::NoSuch`](crate::Error::NoSuch), [`Error::OtherKind`](crate::Error::OtherKind),
    /// [`Error::TooMany`](crate::Error::TooMany).
    pub fn existing_objects(&self, name: &str) -> Result<Objects<M>> {
        let store = ObjectStore::open(self.worker()?, name, self.guidelines())?;
        Ok(Objects {
            store: Rc::new(store),
            pool: self.clone(),
        })
    }
}

/// A named object store, as one thread has it open.
///
/// An object is made, filled, and *sealed*: then it has its id, and never changes. A view is a reader's claim on an
/// object: as long as there is one, the object's bytes stay, even if the object is deleted, replaced or evicted, or its
/// writer dies. If a process dies with views or with objects that are not sealed, others release them.
///
/// ```
/// # fn main() -> cenote::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// use cenote::{Options, Pool, objects::ObjectSettings};
///
/// let pool: Pool = Pool::create(&path, &Options::default())?;
/// let objects = pool.objects("tensors", &ObjectSettings::default())?;
/// assert!(objects.insert(b"layer-1", &[1, 2, 3])?);
/// // Another one is making an object of this id, or has made it: this one gives way.
/// assert!(!objects.insert(b"layer-1", &[4])?);
///
/// let view = objects.get(b"layer-1")?.unwrap();
/// objects.delete(b"layer-1")?;
/// assert!(objects.get(b"layer-1")?.is_none());
/// assert_eq!(&*view, [1, 2, 3]);
/// # Ok(())
/// # }
/// ```
pub struct Objects<M: Memory = Coherent> {
    store: Rc<ObjectStore<M>>,
    pool: Pool<M>,
}

impl<M: Memory> Debug for Objects<M> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl<M: Memory> Objects<M> {
    /// The pool that it is in.
    pub fn pool(&self) -> &Pool<M> {
        &self.pool
    }

    /// What it was created with.
    pub fn settings(&self) -> &ObjectSettings {
        self.store.settings()
    }

    /// Makes an object of so many bytes, which are undefined until they are written; `None` if there is one of this id.
    /// It is nobody else's to see until it is [sealed](ObjectWriter::seal).
    ///
    /// Cost: an insert into an ordered map, two exchanges, and a sync store. If there is no room, and the store evicts,
    /// that of the evictions.
    ///
    /// Errors: [`Error::Full`](crate::Error::Full), [`Error::Quota`](crate::Error::Quota),
    /// [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::InvalidOption`](crate::Error::InvalidOption) of a size.
    pub fn create(&self, id: &[u8], size: u64, new: &NewObject<'_>) -> Result<Option<ObjectWriter<M>>> {
        let unsealed = self.store.make(id, size, new)?;
        Ok(unsealed.map(|unsealed| ObjectWriter {
            store: self.store.clone(),
            unsealed: Some(unsealed),
        }))
    }

    /// Makes an object of so many bytes beside the one of this id, if there is one; to be sealed
    /// [in its place](ObjectWriter::seal_over).
    ///
    /// Cost and errors: those of [`Objects::create`].
    pub fn create_over(&self, id: &[u8], size: u64, new: &NewObject<'_>) -> Result<ObjectWriter<M>> {
        Ok(ObjectWriter {
            store: self.store.clone(),
            unsealed: Some(self.store.make_beside(id, size, new)?),
        })
    }

    /// Makes an object of these bytes and seals it, if there is none of this id. Returns whether it did.
    ///
    /// Cost and errors: those of [`Objects::create`] and of [`ObjectWriter::seal`].
    pub fn insert(&self, id: &[u8], bytes: &[u8]) -> Result<bool> {
        self.insert_with(id, bytes, &NewObject::default())
    }

    /// [`Objects::insert`], with metadata or a time to live.
    pub fn insert_with(&self, id: &[u8], bytes: &[u8], new: &NewObject<'_>) -> Result<bool> {
        let Some(mut writer) = self.create(id, bytes.len() as u64, new)? else {
            return Ok(false);
        };
        writer.write(0, bytes);
        Ok(writer.seal()? == Sealed::HasId)
    }

    /// Makes an object of these bytes and seals it, in the place of the one of this id if there is one. Views of the
    /// old object stay as they are.
    ///
    /// Cost and errors: those of [`Objects::create`] and of [`ObjectWriter::seal_over`].
    pub fn put(&self, id: &[u8], bytes: &[u8]) -> Result<Put> {
        self.put_with(id, bytes, &NewObject::default())
    }

    /// [`Objects::put`], with metadata or a time to live.
    pub fn put_with(&self, id: &[u8], bytes: &[u8], new: &NewObject<'_>) -> Result<Put> {
        let mut writer = self.create_over(id, bytes.len() as u64, new)?;
        writer.write(0, bytes);
        writer.seal_over()
    }

    /// Views the object of an id.
    ///
    /// Cost: a search of an ordered map, a sequentially consistent store, and a sync load; the first time since
    /// eviction came by, an exchange.
    pub fn get(&self, id: &[u8]) -> Result<Option<ObjectView<M>>> {
        let viewed = self.store.view(id)?;
        Ok(viewed.map(|viewed| ObjectView {
            viewed,
            slots: self.store.slots().clone(),
            identity: self.store.identity(),
            pool: self.pool.clone(),
        }))
    }

    /// Views the object of an id; if there is none, waits until it is sealed, for at most so long.
    ///
    /// Cost: that of [`Objects::get`], again for each object that is sealed meanwhile.
    pub fn wait(&self, id: &[u8], limit: Duration) -> Result<Option<ObjectView<M>>> {
        let until = Instant::now().checked_add(limit);
        let longest = match self.pool.pod().is_in_pod() {
            true => POLL_INTERVAL_IN_POD,
            false => POLL_INTERVAL,
        };
        loop {
            let event_count = self.store.prepare_wait(id)?;
            if let Some(view) = self.get(id)? {
                return Ok(Some(view));
            }
            let left = until.map_or(longest, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            let kernel = self.store.worker().mem().kernel();
            kernel.wait(&[], &[event_count], left.min(longest));
        }
    }

    /// Whether there is an object of this id, whose time is not over.
    ///
    /// Cost: a search of an ordered map.
    pub fn contains(&self, id: &[u8]) -> Result<bool> {
        self.store.contains(id)
    }

    /// What is known of the object of an id, without viewing it.
    ///
    /// Cost: a search of an ordered map, and three misses.
    pub fn stat(&self, id: &[u8]) -> Result<Option<ObjectInfo>> {
        self.store.stat(id)
    }

    /// Calls `each` for the objects whose ids begin with a prefix, in ascending order of their ids, until it breaks. An
    /// object that is there all the time is listed once; one that is sealed or deleted meanwhile may be.
    ///
    /// Cost: a scan of an ordered map, and three misses an object.
    pub fn list(&self, prefix: &[u8], each: impl FnMut(ObjectInfo) -> ControlFlow<()>) -> Result<()> {
        self.store.list(prefix, each)
    }

    /// Deletes the object of an id. Returns whether there was one. Its id is free at once; its bytes stay until the
    /// last view of it ends.
    ///
    /// Cost: two removals from an ordered map, an exchange, and two sync stores; if it was ever viewed, a scan of
    /// the slots of all processes.
    pub fn delete(&self, id: &[u8]) -> Result<bool> {
        self.store.delete(id)
    }

    /// Deletes all objects whose time is over. There is no need to call it: one that is looked for is deleted then, a
    /// store that evicts takes those that it comes by, viewed lately or not, and another one deletes all of them before
    /// it refuses an object. Returns how many.
    ///
    /// Cost: a scan of all names.
    pub fn expire(&self) -> Result<u64> {
        self.store.expire_all()
    }

    /// Evicts objects of so many bytes at least, if there are as many that nobody views. Returns how many bytes they
    /// had. Works whatever the settings say.
    ///
    /// Cost: a scan of the slots of all processes; for each object that of [`Objects::delete`].
    pub fn evict(&self, bytes: u64) -> Result<u64> {
        self.store.evict(bytes)
    }

    /// Bytes that its objects occupy, with what surrounds them.
    ///
    /// Cost: a sync load.
    pub fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// What was evicted since it was created.
    ///
    /// Cost: four sync loads.
    pub fn evictions(&self) -> Evictions {
        self.store.evictions()
    }
}

/// An object that is being filled, by the thread that made it. If it is dropped before it is sealed, it is gone. It
/// outlasts the handle that made it.
pub struct ObjectWriter<M: Memory = Coherent> {
    store: Rc<ObjectStore<M>>,
    /// Taken when it is sealed.
    unsealed: Option<Unsealed>,
}

impl<M: Memory> Debug for ObjectWriter<M> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectWriter")
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

impl<M: Memory> ObjectWriter<M> {
    /// Bytes of the object.
    pub fn size(&self) -> u64 {
        self.unsealed.as_ref().map_or(0, Unsealed::size)
    }

    /// Writes some of the bytes.
    ///
    /// # Panics
    ///
    /// If they go beyond the object's end.
    pub fn write(&mut self, from: u64, bytes: &[u8]) {
        if let Some(unsealed) = &self.unsealed {
            self.store.fill(unsealed, from, bytes);
        }
    }

    /// Seals the object: from now on its id finds it, unless another one has the id by now.
    ///
    /// Cost: an insert into an ordered map, and a sync store or two; on incoherent memory the write-back of the bytes.
    ///
    /// Errors: [`Error::Full`](crate::Error::Full); the object is gone.
    pub fn seal(mut self) -> Result<Sealed> {
        match self.unsealed.take() {
            Some(unsealed) => self.store.seal(unsealed),
            None => Ok(Sealed::IdTaken),
        }
    }

    /// Seals the object, in the place of the one that has its id if there is one.
    ///
    /// Cost: that of [`ObjectWriter::seal`] and of [`Objects::delete`].
    ///
    /// Errors: [`Error::Full`](crate::Error::Full); the object is gone, and the other one is as it was.
    pub fn seal_over(mut self) -> Result<Put> {
        match self.unsealed.take() {
            Some(unsealed) => self.store.seal_over(unsealed),
            None => Ok(Put::Inserted),
        }
    }
}

impl<M: Mapped> ObjectWriter<M> {
    /// The bytes, to be written in place. They begin at a multiple of 64. What they are before is undefined: what
    /// another object had.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.unsealed {
            // A forked child has its parent's objects, which are the parent's to fill.
            Some(_) if self.store.worker().is_forked() => &mut [],
            Some(unsealed) => unsealed.as_mut_slice(self.store.worker().mem()),
            None => &mut [],
        }
    }
}

impl<M: Memory> Drop for ObjectWriter<M> {
    fn drop(&mut self) {
        if let Some(unsealed) = self.unsealed.take()
            && !self.store.worker().is_forked()
        {
            // What fails here is done later, or by others once this process has ended.
            self.store.abort(unsealed);
        }
    }
}

/// An object's bytes, where they are. They do not change, and they stay until this is dropped, whatever becomes of the
/// object. A view may go to another thread; it keeps the pool open.
///
/// It is its process's: in a forked child the bytes may be another object's once the parent has ended the view. A child
/// that reads opens the pool itself.
pub struct ObjectView<M: Memory = Coherent> {
    viewed: Viewed,
    slots: Arc<Slots>,
    identity: Identity,
    pool: Pool<M>,
}

impl<M: Memory> ObjectView<M> {
    /// When its time is over, in milliseconds since 1970; `None` for never. A view outlasts that.
    pub fn expires_ms(&self) -> Option<u64> {
        self.viewed.expires_ms()
    }

    /// Its metadata.
    ///
    /// Cost: two misses, and those of the metadata.
    pub fn metadata(&self) -> Result<Vec<u8>> {
        self.viewed.metadata(&*self.pool.worker()?)
    }
}

impl<M: Memory> Deref for ObjectView<M> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.viewed.bytes(self.pool.pod().mem())
    }
}

impl<M: Memory> AsRef<[u8]> for ObjectView<M> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<M: Memory> Debug for ObjectView<M> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectView")
            .field("size", &self.len())
            .finish_non_exhaustive()
    }
}

impl<M: Memory> Drop for ObjectView<M> {
    fn drop(&mut self) {
        // A forked child has the parent's views, which are the parent's to end.
        if self.pool.pod().is_forked() {
            return;
        }
        match self.pool.worker() {
            Ok(worker) => end_view_at(&worker, self.identity, &self.slots, self.viewed),
            Err(_) => self.slots.defer_view(self.viewed),
        }
    }
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
