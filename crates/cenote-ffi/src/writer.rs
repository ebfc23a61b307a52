//! `cenote_object_create`, and what becomes of the object that is being written.
#![allow(clippy::disallowed_types)] // words of the process, not of a pool

use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicU64;
use std::thread::{ThreadId, current};

use cenote::objects::{ObjectWriter, Sealed};
use cenote_holds::Refusal;

use crate::boundary::{put, run_slowly};
use crate::object::{Kind, give, look, take_back};
use crate::objects::{CenoteObjectOptions, CenoteObjects, bytes, options, store};

/// An object that is being written, by the thread that made it.
pub struct CenoteObjectWriter {
    magic: AtomicU64,
    thread: ThreadId,
    replaces: bool,
    writer: ObjectWriter,
}

impl Kind for CenoteObjectWriter {
    const MAGIC: u64 = u64::from_le_bytes(*b"cntobjw\x01");
    const NOT_ONE: &'static str = "the writer is null, or its object is sealed or aborted";

    fn magic(&self) -> &AtomicU64 {
        &self.magic
    }
}

/// Makes an object of so many bytes, which begin at a multiple of 64 and are undefined: what another object had. Nobody
/// else sees it until it is sealed. If this process dies before that, the object is gone. A thread seals or aborts its
/// objects before it ends: those that it leaves stay until its process ends. Options may be null.
///
/// Errors: those of cenote_object_put. Writer and bytes are null then.
///
/// Cost: an insert into an ordered map, two exchanges.
///
/// # Safety
///
/// The store is null or open; there are so many bytes of the id; the options are null or such options; there is room
/// for two pointers. The bytes are not used after the object was sealed or aborted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_object_create(
    objects: *const CenoteObjects,
    id: *const c_void,
    id_size: usize,
    size: u64,
    object_options: *const CenoteObjectOptions,
    writer: *mut *mut CenoteObjectWriter,
    data: *mut *mut c_void,
) -> c_int {
    run_slowly(|| {
        // SAFETY: as the caller says.
        let (store, id, (new, replaces)) = unsafe {
            put(writer, std::ptr::null_mut())?;
            put(data, std::ptr::null_mut())?;
            (store(objects)?, bytes(id, id_size)?, options(object_options)?)
        };
        let begun = match replaces {
            true => store.create_over(id, size, &new).map(Some)?,
            false => store.create(id, size, &new)?,
        };
        let Some(mut begun) = begun else {
            return Err(Refusal::Exists("there is an object of this id"));
        };
        let at = begun.as_mut_slice().as_mut_ptr();
        let object = CenoteObjectWriter {
            magic: AtomicU64::new(0),
            thread: current().id(),
            replaces,
            writer: begun,
        };
        // SAFETY: as before.
        unsafe {
            put(data, at.cast())?;
            put(writer, give(object))?;
        }
        Ok(0)
    })
}

/// Takes a writer back from C, if this is its thread.
///
/// # Safety
///
/// It is null, or an object that is neither sealed nor aborted.
unsafe fn taken(writer: *mut CenoteObjectWriter) -> Result<Box<CenoteObjectWriter>, Refusal> {
    // SAFETY: as the caller says.
    let is_own = unsafe { look(writer) }?.thread == current().id();
    match is_own {
        // SAFETY: as the caller says.
        true => unsafe { take_back(writer) },
        false => Err(Refusal::NotOwner("another thread has made this object")),
    }
}

/// Seals an object: from now on its id finds it, and its bytes do not change any more. The writer is gone, whatever the
/// outcome, but for EPERM and EINVAL.
///
/// Errors: EEXIST if another one has the id by now, and is not to be replaced: this one is gone; ENOMEM if the pool is
/// full, the same; ESTALE in a child of the process that opened the pool, the same; EPERM if another thread has made
/// it; EINVAL if it is null, sealed or aborted.
///
/// Cost: an insert into an ordered map, a sync store or two.
///
/// # Safety
///
/// It is null, or an object that is neither sealed nor aborted; nobody uses its bytes any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_object_seal(writer: *mut CenoteObjectWriter) -> c_int {
    run_slowly(|| {
        // SAFETY: as the caller says.
        let CenoteObjectWriter { writer, replaces, .. } = *unsafe { taken(writer) }?;
        if replaces {
            writer.seal_over()?;
            return Ok(0);
        }
        match writer.seal()? {
            Sealed::HasId => Ok(0),
            Sealed::IdTaken => Err(Refusal::Exists("another object has this id by now")),
        }
    })
}

/// Gives an object up: it is gone, and so is the writer.
///
/// Errors: EPERM if another thread has made it; EINVAL if it is null, sealed or aborted.
///
/// Cost: a removal from an ordered map, two sync stores.
///
/// # Safety
///
/// As of cenote_object_seal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_object_abort(writer: *mut CenoteObjectWriter) -> c_int {
    run_slowly(|| {
        // SAFETY: as the caller says.
        drop(unsafe { taken(writer) }?);
        Ok(0)
    })
}
