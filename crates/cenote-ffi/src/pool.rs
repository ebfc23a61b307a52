//! `cenote_pool_*`: pools that the process has open.
#![allow(clippy::disallowed_types)] // a word of the process, not of a pool

use std::ffi::{OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use cenote::{Options, Pool};
use cenote_holds::{OpenPool, Refusal};

use crate::boundary::{given, put, run_slowly, text};
use crate::object::{Kind, give, take_back};

/// A pool that the process has open.
pub struct CenotePool {
    magic: AtomicU64,
    pub(crate) pool: Arc<OpenPool>,
}

impl Kind for CenotePool {
    const MAGIC: u64 = u64::from_le_bytes(*b"cntpool\x01");
    const NOT_ONE: &'static str = "the pool is null or closed";

    fn magic(&self) -> &AtomicU64 {
        &self.magic
    }
}

/// How a pool is created. A field that is 0 means the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CenoteOptions {
    /// Bytes for data at first; 16 MiB if 0.
    pub size: u64,
    /// Bytes that it may grow to; 1 TiB if 0. Address space is reserved for that, memory is not.
    pub max: u64,
    /// Processes that may have it open at a time; 128 if 0.
    pub processes: u32,
    /// Threads that may use it at a time; 256 if 0. A thread counts once for each eight locks that it holds at a time.
    pub workers: u32,
    /// Names that it may have; 256 if 0.
    pub names: u32,
    /// Permission bits of the file, whatever the process's umask; 0600 if 0.
    pub mode: u32,
}

fn options(given: Option<&CenoteOptions>) -> Options {
    let mut options = Options::default();
    if let Some(given) = given {
        fn set<T: Default + PartialEq + Copy>(option: &mut T, given: T) {
            if given != T::default() {
                *option = given;
            }
        }
        set(&mut options.size, given.size);
        set(&mut options.max, given.max);
        set(&mut options.processes, given.processes);
        set(&mut options.workers, given.workers);
        set(&mut options.names, given.names);
        set(&mut options.mode, given.mode);
    }
    options
}

/// Opens a pool by a function of the library's, and gives it to C.
///
/// # Safety
///
/// That of the functions below.
unsafe fn opened(
    path: *const c_char,
    given_options: *const CenoteOptions,
    pool: *mut *mut CenotePool,
    open: fn(&Path, &Options) -> cenote::Result<Pool>,
) -> c_int {
    run_slowly(|| {
        // SAFETY: as the caller says, for all three pointers.
        let (path, options) = unsafe {
            put(pool, std::ptr::null_mut())?;
            (text(path)?, options(given(given_options)?))
        };
        let opened = open(Path::new(OsStr::from_bytes(path.to_bytes())), &options)?;
        let object = CenotePool {
            magic: AtomicU64::new(0),
            pool: OpenPool::new(opened)?,
        };
        // SAFETY: as before.
        unsafe { put(pool, give(object)) }?;
        Ok(0)
    })
}

/// Creates a pool, and opens it. Options may be null.
///
/// Errors: EEXIST if the file exists; EINVAL for options or a path that cannot work; ENOMEM, ENOSPC, EFBIG if there is
/// no room; what the system says of the path. The pool is null then.
///
/// Cost: that of making a file of that size, some milliseconds.
///
/// # Safety
///
/// The path ends with a zero; the options are null or such options; there is room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_pool_create(
    path: *const c_char,
    options: *const CenoteOptions,
    pool: *mut *mut CenotePool,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { opened(path, options, pool, |path, options| Pool::create(path, options)) }
}

/// Opens a pool, and recovers dead processes.
///
/// Errors: ENOENT if there is none; EINVAL if it is no pool, one of another version, or one for memory without
/// coherence; EACCES if it belongs to somebody else than this process's user and root, or everybody may write it;
/// EAGAIN if as many processes have it open as may; EBUSY while it is repaired; EIO if it is damaged; what the system
/// says of the path. The pool is null then.
///
/// Cost: a mapping and some system calls, below a millisecond if nobody has died.
///
/// # Safety
///
/// The path ends with a zero; there is room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_pool_open(path: *const c_char, pool: *mut *mut CenotePool) -> c_int {
    let none = std::ptr::null();
    // SAFETY: as the caller says.
    unsafe { opened(path, none, pool, |path, options| Pool::open(path, options)) }
}

/// Opens a pool, and creates it first if there is none. Options may be null; they matter only if it is created.
///
/// Errors and cost: those of the other two.
///
/// # Safety
///
/// The path ends with a zero; the options are null or such options; there is room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_pool_open_or_create(
    path: *const c_char,
    options: *const CenoteOptions,
    pool: *mut *mut CenotePool,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        opened(path, options, pool, |path, options| {
            Pool::open_or_create(path, options)
        })
    }
}

/// Closes a pool. Locks that are open in it stay so. The process gives up its place in the pool when the last lock is
/// closed, and each thread that used one has ended or has used a lock that was new to it.
///
/// Errors: EINVAL if it is null.
///
/// # Safety
///
/// It is null, or it was opened and not closed since, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_pool_close(pool: *mut CenotePool) -> c_int {
    run_slowly(|| {
        // SAFETY: as the caller says.
        drop(unsafe { take_back(pool) }?);
        Ok::<_, Refusal>(0)
    })
}
