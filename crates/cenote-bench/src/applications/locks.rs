//! The locks that the applications run over, each with the bytes that it covers.
//!
//! Directory locks cover regions of a pool. The pool's reader-writer lock and the C library's cover a part of a file
//! that processes map ([`Area`]), where the latter lie too.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use cenote::{Acquired, Backend, Coherent, Locks, Noncoherent, Options, Pool, RawRwLock, RegionsLock};
use cenote_locked::Error;
use cenote_locked::Result;
use cenote_locked::lock::{Former, Lock};
use cenote_locked::words::{Words, WordsMut};

use super::area::Area;
use crate::pthread::{make_mutex, make_rwlock};
use crate::subjects::Failure;

/// Kinds of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Directory locks on coherent memory.
    Coherent,
    /// Directory locks on memory without coherence.
    Noncoherent,
    /// The pool's reader-writer lock.
    Rw,
    /// The C library's reader-writer lock. It does not survive its owner.
    PthreadRw,
    /// The C library's robust mutex. It has no readers.
    Robust,
}

impl Kind {
    /// All of them. The one that others are compared with comes first.
    pub const ALL: [Self; 5] = [
        Self::PthreadRw,
        Self::Robust,
        Self::Rw,
        Self::Coherent,
        Self::Noncoherent,
    ];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Coherent => "directory lock, coherent",
            Self::Noncoherent => "directory lock, noncoherent",
            Self::Rw => "pool's rwlock",
            Self::PthreadRw => "pthread rwlock",
            Self::Robust => "pthread mutex, robust",
        }
    }

    /// Its name in file names and arguments.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Coherent => "coherent",
            Self::Noncoherent => "noncoherent",
            Self::Rw => "rw",
            Self::PthreadRw => "pthread-rw",
            Self::Robust => "robust",
        }
    }

    /// The kind of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Whether a lock goes on to another one if its owner is killed.
    pub const fn survives(self) -> bool {
        !matches!(self, Self::PthreadRw)
    }
}

/// Locks of one application: how many, and the bytes of the two regions of each.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// How many locks.
    pub locks: u32,
    /// Bytes of their regions; the second one may have none.
    pub regions: [u64; 2],
}

impl Sizes {
    fn bytes(&self) -> u64 {
        self.regions.iter().sum()
    }

    fn options(&self) -> Options {
        let bytes = u64::from(self.locks) * (self.bytes() + 8192);
        Options {
            size: (bytes + (16 << 20)).next_multiple_of(1 << 20),
            names: 256.max(2 * self.locks),
            ..Options::default()
        }
    }
}

/// A lock of any kind, with what it covers, as one thread has it open.
pub struct AnyLock(Form);

enum Form {
    Coherent(RegionsLock<Coherent>),
    Noncoherent(RegionsLock<Noncoherent>),
    Rw(RawRwLock<Coherent>, Rc<Area>, u32),
    PthreadRw(Rc<Area>, u32),
    Robust(Rc<Area>, u32),
}

/// The file of an application's locks of a kind.
fn file(folder: &Path, name: &str, kind: Kind, suffix: &str) -> PathBuf {
    folder.join(format!("{name}-{}.{suffix}", kind.word()))
}

fn pool<M: Backend>(folder: &Path, name: &str, kind: Kind, sizes: &Sizes) -> Result<Pool<M>> {
    let path = file(folder, name, kind, "pool");
    Ok(Pool::open_or_create(path, &sizes.options())?)
}

fn directory<M: Backend>(pool: &Pool<M>, n: u32, sizes: &Sizes) -> Result<RegionsLock<M>> {
    let builder = pool
        .regions_builder(&format!("lock.{n}"))
        .region(sizes.regions[0]);
    let builder = match sizes.regions[1] {
        0 => builder,
        bytes => builder.region(bytes),
    };
    Ok(builder.open()?)
}

/// Opens an application's locks. They are made if `makes`, before any other process opens them.
pub fn open(
    folder: &Path,
    name: &str,
    kind: Kind,
    sizes: &Sizes,
    makes: bool,
) -> std::result::Result<Vec<AnyLock>, Failure> {
    let area = || Area::open(&file(folder, name, kind, "area"), sizes.locks, sizes.bytes());
    let each = 0..sizes.locks;
    let forms: Vec<Form> = match kind {
        Kind::Coherent => {
            let pool = pool(folder, name, kind, sizes).map_err(failure)?;
            each.map(|n| directory(&pool, n, sizes).map(Form::Coherent))
                .collect::<Result<_>>()
                .map_err(failure)?
        }
        Kind::Noncoherent => {
            let pool = pool(folder, name, kind, sizes).map_err(failure)?;
            each.map(|n| directory(&pool, n, sizes).map(Form::Noncoherent))
                .collect::<Result<_>>()
                .map_err(failure)?
        }
        Kind::Rw => {
            let area = area()?;
            let pool: Pool = pool(folder, name, kind, sizes).map_err(failure)?;
            let locks: Locks<_, Coherent> = pool.raw_rwlocks("locks", sizes.locks)?;
            each.map(|n| Ok(Form::Rw(locks.at(n)?, area.clone(), n)))
                .collect::<std::result::Result<_, Failure>>()?
        }
        Kind::PthreadRw | Kind::Robust => {
            let area = area()?;
            for n in each.clone().filter(|_| makes) {
                let at = area.lock(n);
                // SAFETY: there is a line for it, and nobody has it open yet.
                unsafe {
                    match kind {
                        Kind::Robust => make_mutex(at.cast(), true)?,
                        _ => make_rwlock(at.cast())?,
                    }
                }
            }
            let form = |n| match kind {
                Kind::Robust => Form::Robust(area.clone(), n),
                _ => Form::PthreadRw(area.clone(), n),
            };
            each.map(form).collect()
        }
    };
    Ok(forms.into_iter().map(AnyLock).collect())
}

/// A failure of an application.
pub fn failure(error: Error) -> Failure {
    Failure::Broken(error.to_string())
}

fn former(acquired: Acquired) -> Former {
    match acquired {
        Acquired::Clean => Former::Unlocked,
        Acquired::Recovered { .. } => Former::Died,
    }
}

#[cold]
fn refused(what: &str, code: i32) -> Error {
    Error::Lock(format!("{what}: {}", std::io::Error::from_raw_os_error(code)))
}

/// Unlocks when it goes out of scope.
struct Unlock(unsafe fn(*mut u8) -> i32, *mut u8);

impl Drop for Unlock {
    fn drop(&mut self) {
        // SAFETY: the thread that made this has the lock.
        unsafe { self.0(self.1) };
    }
}

/// # Safety
///
/// A mutex that this thread has.
unsafe fn unlock_mutex(at: *mut u8) -> i32 {
    // SAFETY: promised.
    unsafe { libc::pthread_mutex_unlock(at.cast()) }
}

/// # Safety
///
/// A reader-writer lock that this thread has.
unsafe fn unlock_rwlock(at: *mut u8) -> i32 {
    // SAFETY: promised.
    unsafe { libc::pthread_rwlock_unlock(at.cast()) }
}

/// Takes a robust mutex.
fn lock_robust(area: &Area, n: u32) -> Result<(Unlock, Former)> {
    let at = area.lock(n);
    // SAFETY: a mutex was made there, and is mapped while the area lives.
    match unsafe { libc::pthread_mutex_lock(at.cast()) } {
        0 => Ok((Unlock(unlock_mutex, at), Former::Unlocked)),
        libc::EOWNERDEAD => {
            let unlock = Unlock(unlock_mutex, at);
            // SAFETY: as above, and this thread has it.
            match unsafe { libc::pthread_mutex_consistent(at.cast()) } {
                0 => Ok((unlock, Former::Died)),
                code => Err(refused("pthread_mutex_consistent", code)),
            }
        }
        code => Err(refused("pthread_mutex_lock", code)),
    }
}

/// Takes a reader-writer lock.
fn lock_rwlock(area: &Area, n: u32, writes: bool) -> Result<Unlock> {
    let at = area.lock(n);
    // SAFETY: a lock was made there, and is mapped while the area lives.
    let code = unsafe {
        match writes {
            true => libc::pthread_rwlock_wrlock(at.cast()),
            false => libc::pthread_rwlock_rdlock(at.cast()),
        }
    };
    match code {
        0 => Ok(Unlock(unlock_rwlock, at)),
        code => Err(refused("a pthread rwlock", code)),
    }
}

impl Lock for AnyLock {
    #[inline]
    fn read<R>(&self, inside: impl FnOnce(&Words<'_>, Former) -> Result<R>) -> Result<R> {
        match &self.0 {
            Form::Coherent(lock) => Lock::read(lock, inside),
            Form::Noncoherent(lock) => Lock::read(lock, inside),
            Form::Rw(lock, area, n) => {
                let hold = lock.read()?;
                // SAFETY: this thread has the lock.
                let words = Words::new(unsafe { area.covered(*n) }, &[]);
                inside(&words, former(hold.acquired()))
            }
            Form::PthreadRw(area, n) => {
                let _unlock = lock_rwlock(area, *n, false)?;
                // SAFETY: this thread has the lock.
                let words = Words::new(unsafe { area.covered(*n) }, &[]);
                inside(&words, Former::Unlocked)
            }
            Form::Robust(area, n) => {
                let (_unlock, former) = lock_robust(area, *n)?;
                // SAFETY: this thread has the lock.
                let words = Words::new(unsafe { area.covered(*n) }, &[]);
                inside(&words, former)
            }
        }
    }

    #[inline]
    fn write<R>(&self, inside: impl FnOnce(&mut WordsMut<'_>, Former) -> Result<R>) -> Result<R> {
        match &self.0 {
            Form::Coherent(lock) => Lock::write(lock, inside),
            Form::Noncoherent(lock) => Lock::write(lock, inside),
            Form::Rw(lock, area, n) => {
                let hold = lock.write()?;
                // SAFETY: this thread has the lock alone.
                let mut words = WordsMut::new(unsafe { area.covered_mut(*n) }, &mut []);
                inside(&mut words, former(hold.acquired()))
            }
            Form::PthreadRw(area, n) => {
                let _unlock = lock_rwlock(area, *n, true)?;
                // SAFETY: this thread has the lock alone.
                let mut words = WordsMut::new(unsafe { area.covered_mut(*n) }, &mut []);
                inside(&mut words, Former::Unlocked)
            }
            Form::Robust(area, n) => {
                let (_unlock, former) = lock_robust(area, *n)?;
                // SAFETY: this thread has the lock alone.
                let mut words = WordsMut::new(unsafe { area.covered_mut(*n) }, &mut []);
                inside(&mut words, former)
            }
        }
    }
}
