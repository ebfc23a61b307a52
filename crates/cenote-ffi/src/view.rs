//! `cenote_object_get`, and views of objects.
#![allow(clippy::disallowed_types)] // words of the process, not of a pool

use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use cenote::objects::ObjectView;
use cenote_holds::Refusal;
use libc::timespec;

use crate::boundary::{given, put, run_slowly};
use crate::object::{Kind, give, look, take_back};
use crate::objects::{CenoteObjects, bytes, store};

/// A view of an object: its bytes stay as they are, and where they are, until it is closed.
pub struct CenoteObjectView {
    magic: AtomicU64,
    view: ObjectView,
}

impl Kind for CenoteObjectView {
    const MAGIC: u64 = u64::from_le_bytes(*b"cntobjv\x01");
    const NOT_ONE: &'static str = "the view is null or closed";

    fn magic(&self) -> &AtomicU64 {
        &self.magic
    }
}

/// Views the object of an id. If there is none, waits for it as long as `limit` says; not at all if that is null. The
/// bytes begin at a multiple of 64; any thread may read them, and close the view.
///
/// Errors: ENOENT if there is none, and no limit; ETIMEDOUT if there was none until the time was over; EINVAL if a
/// pointer is null, the id has more than 4,096 bytes, or the limit is no time; EAGAIN if the pool has no place for
/// another thread; ENOMEM if it has none for the view, as in a process that views for the first time while it is full;
/// ESTALE in a child of the process that opened the pool; EIO if the pool is damaged. View and bytes are null then.
///
/// Cost: a search of an ordered map, a sequentially consistent store; the first time since eviction came by, an
/// exchange.
///
/// # Safety
///
/// The store is null or open; there are so many bytes of the id; the limit is null or a time; there is room for two
/// pointers and a size. The bytes are not written, and not read after the view is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_object_get(
    objects: *const CenoteObjects,
    id: *const c_void,
    id_size: usize,
    limit: *const timespec,
    view: *mut *mut CenoteObjectView,
    data: *mut *const c_void,
    size: *mut u64,
) -> c_int {
    run_slowly(|| {
        // SAFETY: as the caller says.
        let (store, id, limit) = unsafe {
            put(view, std::ptr::null_mut())?;
            put(data, std::ptr::null())?;
            put(size, 0)?;
            (store(objects)?, bytes(id, id_size)?, given(limit)?)
        };
        let limit = limit.map(duration).transpose()?;
        let found = match limit {
            None => store
                .get(id)?
                .ok_or(Refusal::Missing("there is no object of this id"))?,
            Some(limit) => store.wait(id, limit)?.ok_or(Refusal::NotInTime(
                "there was no object of this id until the time was over",
            ))?,
        };
        let (at, len) = (found.as_ptr(), found.len() as u64);
        let object = CenoteObjectView {
            magic: AtomicU64::new(0),
            view: found,
        };
        // SAFETY: as before.
        unsafe {
            put(data, at.cast())?;
            put(size, len)?;
            put(view, give(object))?;
        }
        Ok(0)
    })
}

fn duration(limit: &timespec) -> Result<Duration, Refusal> {
    let parts = (u64::try_from(limit.tv_sec), u32::try_from(limit.tv_nsec));
    match parts {
        (Ok(seconds), Ok(nanoseconds @ 0..1_000_000_000)) => Ok(Duration::new(seconds, nanoseconds)),
        _ => Err(Refusal::Invalid("the limit is no time")),
    }
}

/// Copies an object's metadata to where there is room for so many bytes, as far as they fit, and says how many there
/// are.
///
/// Errors: ERANGE if there are more; EINVAL if a pointer is null or the view closed; else those of cenote_object_get.
///
/// Cost: two misses, and those of the metadata.
///
/// # Safety
///
/// The view is null or open; there is room for so many bytes, and for a size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_object_metadata(
    view: *const CenoteObjectView,
    metadata: *mut c_void,
    room: usize,
    size: *mut usize,
) -> c_int {
    run_slowly(|| {
        // SAFETY: as the caller says.
        let found = unsafe { look(view) }?.view.metadata()?;
        // SAFETY: as the caller says.
        unsafe { put(size, found.len()) }?;
        if room > 0 && metadata.is_null() {
            return Err(Refusal::Invalid("there is nowhere to put the metadata"));
        }
        let fits = found.len().min(room);
        if fits > 0 {
            // SAFETY: as the caller says; the copy is this call's own.
            unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), metadata.cast(), fits) };
        }
        Ok(if fits < found.len() { libc::ERANGE } else { 0 })
    })
}

/// Closes a view. Its bytes may be used for something else then.
///
/// Errors: EINVAL if it is null or closed.
///
/// Cost: two sync stores and a sync load; if the object is deleted, a scan of the slots of all processes, and if this
/// was its last view, its removal.
///
/// # Safety
///
/// It is null or open, and no thread reads its bytes any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_object_view_close(view: *mut CenoteObjectView) -> c_int {
    run_slowly(|| {
        // SAFETY: as the caller says.
        drop(unsafe { take_back(view) }?);
        Ok(0)
    })
}
