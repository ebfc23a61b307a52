//! `cenote_objects_*`: object stores of a pool, as a process has them open.
#![allow(clippy::disallowed_types)] // words of the process, not of a pool

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use cenote::objects::{NewObject, ObjectSettings, Objects, Ttl};
use cenote_holds::{OpenPool, Refusal};

use crate::boundary::{given, put, run_slowly};
use crate::held::name;
use crate::object::{Kind, give, look, take_back};
use crate::pool::CenotePool;

/// An object store of a pool: byte strings that are written once, and viewed where they are.
pub struct CenoteObjects {
    magic: AtomicU64,
    store: Arc<Named>,
}

impl Kind for CenoteObjects {
    const MAGIC: u64 = u64::from_le_bytes(*b"cntobjs\x01");
    const NOT_ONE: &'static str = "the object store is null or closed";

    fn magic(&self) -> &AtomicU64 {
        &self.magic
    }
}

/// Which store it is.
struct Named {
    pool: Arc<OpenPool>,
    name: String,
}

/// How an object store is created. A field that is 0 means the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CenoteObjectsOptions {
    /// The most bytes that its objects may occupy, with what surrounds them; as many as the pool has if 0.
    pub quota: u64,
    /// The time to live of objects that say none themselves, in milliseconds; for ever if 0.
    pub ttl_ms: u64,
    /// If it is not 0, objects that were not viewed lately are evicted when there is no room for a new one.
    pub evict: c_int,
}

/// What a new object has besides its bytes. A field that is 0 means the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CenoteObjectOptions {
    /// Bytes that say what it is; none if null.
    pub metadata: *const c_void,
    /// How many, at most 1 MiB.
    pub metadata_size: usize,
    /// How long it lives, in milliseconds; as long as the store says if 0.
    pub ttl_ms: u64,
    /// If it is not 0, the object takes the place of the one that has its id.
    pub replace: c_int,
}

thread_local! {
    /// The stores that this thread has used.
    static STORES: RefCell<Vec<(Weak<Named>, Rc<Objects>)>> = const { RefCell::new(Vec::new()) };
}

/// This thread's handle on a store.
fn of_thread(
    store: &Arc<Named>,
    open: impl FnOnce(&Named) -> cenote::Result<Objects>,
) -> Result<Rc<Objects>, Refusal> {
    let is_it = |(named, _): &&(Weak<Named>, _)| std::ptr::eq(named.as_ptr(), Arc::as_ptr(store));
    // A thread that is about to end has forgotten them already.
    let known = STORES.try_with(|stores| {
        let stores = stores.borrow();
        stores.iter().find(is_it).map(|(_, objects)| objects.clone())
    });
    if let Ok(Some(objects)) = known {
        return Ok(objects);
    }
    let objects = Rc::new(open(store)?);
    forget_closed();
    let _ = STORES.try_with(|stores| {
        stores.borrow_mut().push((Arc::downgrade(store), objects.clone()));
    });
    Ok(objects)
}

/// Lets this thread's handles on closed stores go.
fn forget_closed() {
    let _ = STORES.try_with(|stores| {
        stores.borrow_mut().retain(|(named, _)| named.strong_count() > 0);
    });
}

/// This thread's handle on a store of C's.
///
/// # Safety
///
/// It is null, or open and not closed during the call.
pub(crate) unsafe fn store(objects: *const CenoteObjects) -> Result<Rc<Objects>, Refusal> {
    // SAFETY: as the caller says.
    let store = &unsafe { look(objects) }?.store;
    if store.pool.is_forked() {
        return Err(cenote::Error::Forked.into());
    }
    of_thread(store, |named| named.pool.pool().existing_objects(&named.name))
}

/// Bytes of C's.
///
/// # Safety
///
/// It is null, or there are so many, and they stay as they are during the call.
pub(crate) unsafe fn bytes<'b>(bytes: *const c_void, len: usize) -> Result<&'b [u8], Refusal> {
    match (bytes.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Refusal::Invalid("the bytes are null")),
        (false, len) if isize::try_from(len).is_err() => {
            Err(Refusal::Invalid("there cannot be so many bytes"))
        }
        // SAFETY: as the caller says.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), len) }),
    }
}

/// What a new object has, and whether it takes another one's place.
///
/// # Safety
///
/// Null, or such options, whose metadata are there.
pub(crate) unsafe fn options<'o>(
    options: *const CenoteObjectOptions,
) -> Result<(NewObject<'o>, bool), Refusal> {
    // SAFETY: as the caller says.
    let Some(options) = unsafe { given(options) }? else {
        return Ok((NewObject::default(), false));
    };
    // SAFETY: as the caller says.
    let metadata = unsafe { bytes(options.metadata, options.metadata_size) }?;
    let ttl = match options.ttl_ms {
        0 => Ttl::StoreDefault,
        ms => Ttl::After(Duration::from_millis(ms)),
    };
    Ok((NewObject { metadata, ttl }, options.replace != 0))
}

/// Opens a store, so that it is known whether that can be, and gives it to C.
///
/// # Safety
///
/// That of the functions below.
unsafe fn opened(
    pool: *const CenotePool,
    text: *const c_char,
    objects: *mut *mut CenoteObjects,
    open: impl FnOnce(&Named) -> cenote::Result<Objects>,
) -> Result<c_int, Refusal> {
    // SAFETY: as the caller says, for all three pointers.
    let (pool, name) = unsafe {
        put(objects, std::ptr::null_mut())?;
        (look(pool)?, name(text)?)
    };
    let store = Arc::new(Named {
        pool: pool.pool.clone(),
        name: name.to_owned(),
    });
    if store.pool.is_forked() {
        return Err(cenote::Error::Forked.into());
    }
    of_thread(&store, open)?;
    let magic = AtomicU64::new(0);
    // SAFETY: as the caller says.
    unsafe { put(objects, give(CenoteObjects { magic, store })) }?;
    Ok(0)
}

/// Opens the object store of a name.
///
/// Errors: ENOENT if there is none; EINVAL if the pool is null, the name is not UTF-8, or it names something else;
/// EAGAIN if the pool has no place for another thread; ESTALE in a child of the process that opened the pool; EIO if
/// the pool is damaged. The store is null then.
///
/// Cost: a search of the pool's names, and one of the store.
///
/// # Safety
///
/// The pool is null or open; the name ends with a zero; there is room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_objects_open(
    pool: *const CenotePool,
    name: *const c_char,
    objects: *mut *mut CenoteObjects,
) -> c_int {
    // SAFETY: as the caller says, for all three pointers.
    run_slowly(|| unsafe {
        opened(pool, name, objects, |named| {
            named.pool.pool().existing_objects(&named.name)
        })
    })
}

/// Opens the object store of a name, and creates it first if there is none. Options may be null; they matter only if it
/// is created.
///
/// Errors: EINVAL if the name is too long or empty; ENOMEM if the pool has no room; EAGAIN if it has none for another
/// name; else those of cenote_objects_open.
///
/// Cost: that of cenote_objects_open; if it is created, that of an ordered map.
///
/// # Safety
///
/// The pool is null or open; the name ends with a zero; the options are null or such options; there is room for a
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_objects_open_or_create(
    pool: *const CenotePool,
    name: *const c_char,
    options: *const CenoteObjectsOptions,
    objects: *mut *mut CenoteObjects,
) -> c_int {
    run_slowly(|| {
        // SAFETY: as the caller says.
        let settings =
            unsafe { given(options) }?.map_or_else(ObjectSettings::default, |options| ObjectSettings {
                evict: options.evict != 0,
                quota: Some(options.quota),
                ttl_ms: Some(options.ttl_ms),
            });
        // SAFETY: as the caller says, for all three pointers.
        unsafe {
            opened(pool, name, objects, |named| {
                named.pool.pool().objects(&named.name, &settings)
            })
        }
    })
}

/// Drops the object store of a name. The name is free at once. Who has the store open gets EIDRM from then on; views
/// stay as they are; what they show comes back once they are closed and the next store is dropped, by any process.
///
/// Errors: EINVAL if the pool is null, or the name is too long or empty, or is that of something that cannot be
/// dropped; ENOENT if there is none of the name; else those of cenote_objects_open.
///
/// Cost: that of cenote_objects_open, and a removal for each object; if a thread reads all the time, a tenth of a
/// second.
///
/// # Safety
///
/// The pool is null or open; the name ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_objects_drop(pool: *const CenotePool, name: *const c_char) -> c_int {
    run_slowly(|| {
        // SAFETY: as the caller says.
        let (pool, name) = unsafe { (look(pool)?, self::name(name)?) };
        // Whether it is an object store.
        match pool.pool.pool().existing_objects(name) {
            // Or the name is none, which dropping it says.
            Ok(_) | Err(cenote::Error::NoSuch { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let _ = pool.pool.pool().drop_named(name)?;
        Ok(0)
    })
}

/// Closes an object store. Views and writers of it stay as they are.
///
/// Errors: EINVAL if it is null or closed.
///
/// # Safety
///
/// It is null, or open, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_objects_close(objects: *mut CenoteObjects) -> c_int {
    run_slowly(|| {
        // SAFETY: as the caller says.
        drop(unsafe { take_back(objects) }?);
        forget_closed();
        Ok(0)
    })
}

/// Makes an object of these bytes, and seals it. Options may be null.
///
/// Errors: EEXIST if there is an object of this id, and it is not to be replaced; ENOMEM if the pool is full, EDQUOT if
/// the store's quota is; EINVAL if a pointer is null, the id has more than 4,096 bytes, or the object more than 2^47;
/// ESTALE in a child of the process that opened the pool; EIO if the pool is damaged.
///
/// Cost: two inserts into an ordered map, a copy of the bytes, two exchanges.
///
/// # Safety
///
/// The store is null or open; there are so many bytes, of the id and of the object; the options are null or such
/// options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_object_put(
    objects: *const CenoteObjects,
    id: *const c_void,
    id_size: usize,
    data: *const c_void,
    size: usize,
    options: *const CenoteObjectOptions,
) -> c_int {
    run_slowly(|| {
        // SAFETY: as the caller says.
        let (store, id, data, (new, replaces)) = unsafe {
            (
                store(objects)?,
                bytes(id, id_size)?,
                bytes(data, size)?,
                self::options(options)?,
            )
        };
        let is_made = match replaces {
            true => store.put_with(id, data, &new).map(|_| true)?,
            false => store.insert_with(id, data, &new)?,
        };
        match is_made {
            true => Ok(0),
            false => Err(Refusal::Exists("there is an object of this id")),
        }
    })
}

/// Deletes the object of an id. Its id is free at once; its bytes stay until the last view of it is closed.
///
/// Errors: ENOENT if there is none; else those of cenote_object_put.
///
/// Cost: two removals from an ordered map, an exchange; if it was ever viewed, a scan of the slots of all processes.
///
/// # Safety
///
/// The store is null or open; there are so many bytes of the id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_object_delete(
    objects: *const CenoteObjects,
    id: *const c_void,
    id_size: usize,
) -> c_int {
    run_slowly(|| {
        // SAFETY: as the caller says.
        let (store, id) = unsafe { (store(objects)?, bytes(id, id_size)?) };
        match store.delete(id)? {
            true => Ok(0),
            false => Err(Refusal::Missing("there is no object of this id")),
        }
    })
}
