//! Liveness: a lock that its holder loses when it dies, and not before.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::descriptor::{Kept, Pin};
use super::fork::{CloseOnFork, WithoutForks, on_fork_close, without_forks};
use super::kill::FileId;
use super::mapping::{MappingError, os};
use super::opening::{self, Trust, look_at};
use super::unfit::WrongLockFile;
use super::unnamed_file::NamelessFile;

/// Numbered locks, each held by one process at a time. A process loses its locks when it dies: not before its last
/// memory access, and without a timeout.
pub trait Liveness: Send + Sync {
    /// Takes a lock; `false` if a living process has it.
    fn try_lock(&self, number: u32) -> Result<bool, MappingError>;

    /// Gives a lock back.
    fn unlock(&self, number: u32) -> Result<(), MappingError>;

    /// Whether another process holds a lock.
    fn is_locked(&self, number: u32) -> Result<bool, MappingError>;

    /// The file that the locks are on; `None` if they are on none.
    fn file(&self) -> Option<FileId> {
        None
    }

    /// The same locks for the calling thread alone, which loses what it takes by them when it dies: not before its last
    /// memory access, and not as late as its process, which has an address space to tear down and other threads to end.
    /// What the process holds by `self` lasts until this thread has ended, too. From then on the thread has no other
    /// descriptors. `None` where that is impossible: `self` is as good as before.
    fn of_this_thread(&self) -> Option<Box<dyn Liveness>> {
        None
    }
}

const LOOKING: &str = "looking for the file that holds the liveness locks";

/// Far beyond any pool's end, so that lock bytes are never data.
pub(super) const LOCK_BASE: i64 = 1 << 62;
/// Beyond the numbers of all locks.
const USES_BASE: i64 = LOCK_BASE + (1 << 33);
/// Bytes for the uses of one kind.
const USES: i64 = 1 << 32;

/// What a file is used for. Each process states it by a byte of its own, locked for as long as the process lives; no
/// two may contradict each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    /// The liveness locks of this pool are on it.
    LocksOf(u64),
    /// It is a pool, whose liveness locks are on the file of this device and inode.
    LockedBy(u64, u64),
}

impl Use {
    /// The first byte of its kind, and the byte of this use.
    fn byte(self) -> (i64, i64) {
        let mixed = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as i64;
        match self {
            Self::LocksOf(pool) => (USES_BASE, mixed(pool)),
            Self::LockedBy(device, inode) => (USES_BASE + USES, mixed(device.rotate_left(40) ^ inode)),
        }
    }
}

/// An open file description whose byte locks say who is alive. The kernel drops them when the last process that
/// holds the description has gone, after its last memory access, whatever ended it, in any PID namespace.
///
/// Other code of the process may close its descriptor. Then the locks stay, as the process has the description mapped,
/// and others are asked about by the file's name.
#[derive(Debug)]
pub(crate) struct FileLock {
    /// Dropped before the descriptor that it would close.
    _close: CloseOnFork,
    /// In a thread that has its own locks: what keeps the process's.
    _process: Option<OwnedFd>,
    /// What states that the locks of this pool are on its own file.
    pool: Option<Box<FileLock>>,
    /// Keeps the locks if other code closes the descriptor.
    _pin: Option<Pin>,
    file: Kept,
    /// Its name, whole.
    path: PathBuf,
    /// Set when it is about to be dropped; the last that goes.
    leaving: Option<WithoutForks>,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // It has a gate of its own.
        drop(self.pool.take());
        self.leaving = Some(without_forks());
    }
}

impl FileLock {
    /// Opens a description of its own on `path`, so that no other handle shares its locks.
    pub(crate) fn open_of(path: &Path, trust: Trust) -> Result<Self, MappingError> {
        let _gate = without_forks();
        let file = opening::open(path, trust).map_err(|error| match error {
            MappingError::Os { source, .. } => os("opening the file that holds the liveness locks")(source),
            error => error,
        })?;
        Self::of(file, path)
    }

    /// The caller keeps others from forking.
    fn of(file: File, path: &Path) -> Result<Self, MappingError> {
        Ok(Self {
            _close: on_fork_close(file.as_raw_fd())?,
            _process: None,
            pool: None,
            _pin: Pin::of(&file),
            file: Kept::new(file).map_err(os(LOOKING))?,
            path: std::path::absolute(path).map_err(os(LOOKING))?,
            leaving: None,
        })
    }

    /// The same, of a file of this process's own user.
    #[cfg(test)]
    pub(crate) fn open(path: &Path) -> Result<Self, MappingError> {
        Self::open_of(path, Trust::Own)
    }

    /// The device and the inode that the locks are on.
    pub(crate) fn place(&self) -> (u64, u64) {
        self.file.place()
    }

    /// States what the file is used for, until all handles on this description are closed; `false` if a living process
    /// states something else.
    ///
    /// If two processes state different uses at a time, at least one sees the other: each states its own before it
    /// checks.
    pub(crate) fn says(&self, of: Use) -> Result<bool, MappingError> {
        let (base, mine) = of.byte();
        let looking = || os(LOOKING);
        let mut request = Self::bytes(base + mine, 1, libc::F_RDLCK);
        self.set(&mut request).map_err(looking())?;
        for (first, len) in [(base, mine), (base + mine + 1, USES - mine - 1)] {
            // A length of 0 means all that follows.
            if len == 0 {
                continue;
            }
            let mut request = Self::bytes(first, len, libc::F_WRLCK);
            self.ask(&mut request).map_err(looking())?;
            if request.l_type != libc::F_UNLCK as i16 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether another description has a lock on the file, whatever its number, or states a use.
    pub(crate) fn is_any_locked(&self) -> Result<bool, MappingError> {
        // All numbers but the greatest, which belongs to the creator.
        for (first, len) in [(LOCK_BASE, i64::from(u32::MAX)), (USES_BASE, 2 * USES)] {
            let mut request = Self::bytes(first, len, libc::F_WRLCK);
            self.ask(&mut request).map_err(os("asking for a liveness lock"))?;
            if request.l_type != libc::F_UNLCK as i16 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The description, as a child process inherits it.
    #[cfg(test)]
    pub(super) fn description(&self) -> File {
        self.file.file().unwrap().try_clone().unwrap()
    }

    /// Keeps the statement about the pool's own file for as long as this handle lives.
    pub(crate) fn keep(&mut self, pool: FileLock) {
        self.pool = Some(Box::new(pool));
    }

    /// Another handle on the same description: it has the same locks, which last until both are closed.
    pub(crate) fn again(&self) -> Result<Self, MappingError> {
        let _gate = without_forks();
        let file = self.file.file().and_then(File::try_clone);
        let file = file.map_err(os("opening the file that holds the liveness locks"))?;
        Self::of(file, &self.path)
    }

    /// Makes the file that [`FileLock::open_of`] opens, with these permission bits, if there is nothing of that name.
    pub(crate) fn make(path: &Path, mode: u32) -> Result<(), MappingError> {
        match look_at(path) {
            Ok(found) => {
                let kind = found.metadata().map_err(os(LOOKING))?.file_type();
                return match kind {
                    kind if kind.is_file() => Ok(()),
                    kind if kind.is_symlink() => Err(MappingError::LocksElsewhere(WrongLockFile::Link)),
                    _ => Err(MappingError::LocksElsewhere(WrongLockFile::NoFile)),
                };
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(os(LOOKING)(error)),
        }
        let made = NamelessFile::create(path, mode).and_then(|file| file.publish(path));
        match made {
            // Another process was faster.
            Err(MappingError::Os { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(MappingError::Os { source, .. }) => {
                Err(os("making the file that holds the liveness locks")(source))
            }
            made => made,
        }
    }

    fn request(byte: u32, kind: libc::c_int) -> libc::flock {
        Self::bytes(LOCK_BASE + i64::from(byte), 1, kind)
    }

    fn bytes(first: i64, len: i64, kind: libc::c_int) -> libc::flock {
        // SAFETY: `flock` is plain data for which all zeroes is a valid value.
        let mut request: libc::flock = unsafe { std::mem::zeroed() };
        request.l_type = kind as i16;
        request.l_whence = libc::SEEK_SET as i16;
        request.l_start = first;
        request.l_len = len;
        request
    }

    /// Changes locks of this description.
    fn set(&self, request: &mut libc::flock) -> io::Result<()> {
        control(self.file.file()?, libc::F_OFD_SETLK, request)
    }

    /// Asks for locks of other descriptions. If other code has closed the descriptor, a new one asks, and this
    /// description counts as another.
    fn ask(&self, request: &mut libc::flock) -> io::Result<()> {
        match self.file.file() {
            Ok(file) => control(file, libc::F_OFD_GETLK, request),
            Err(closed) => control(&self.anew().ok_or(closed)?, libc::F_OFD_GETLK, request),
        }
    }

    /// Opens the file by its name, if it still has that. It is the one that was trusted.
    fn anew(&self) -> Option<File> {
        let file = Kept::new(opening::open(&self.path, Trust::All).ok()?).ok()?;
        let is_same = file.place() == self.place();
        is_same.then(|| file.file()?.try_clone())?.ok()
    }
}

fn control(file: &File, command: libc::c_int, request: &mut libc::flock) -> io::Result<()> {
    loop {
        // SAFETY: a valid descriptor and a valid request.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, request as *mut libc::flock) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Opens what a descriptor of this process is on, by the name that the kernel has for that.
fn open_again(descriptor: i32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{descriptor}"))
}

/// Closes a range of descriptors. With `CLOSE_RANGE_UNSHARE` the calling thread first gets a table of its own, and the
/// process keeps its.
fn close_range(first: u32, last: u32, flags: u32) -> io::Result<()> {
    // SAFETY: takes three numbers. Only called where the table is the calling thread's own, or becomes that: it closes
    // nobody's descriptor.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Liveness for FileLock {
    fn try_lock(&self, byte: u32) -> Result<bool, MappingError> {
        match self.set(&mut Self::request(byte, libc::F_WRLCK)) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(os("taking a liveness lock")(error)),
        }
    }

    fn unlock(&self, byte: u32) -> Result<(), MappingError> {
        self.set(&mut Self::request(byte, libc::F_UNLCK))
            .map_err(os("releasing a liveness lock"))
    }

    fn is_locked(&self, byte: u32) -> Result<bool, MappingError> {
        let mut request = Self::request(byte, libc::F_WRLCK);
        self.ask(&mut request).map_err(os("asking for a liveness lock"))?;
        Ok(request.l_type != libc::F_UNLCK as i16)
    }

    fn file(&self) -> Option<FileId> {
        let (device, inode) = self.place();
        Some(FileId { device, inode })
    }

    fn of_this_thread(&self) -> Option<Box<dyn Liveness>> {
        // A number in both tables, the process's and the one that this thread gets.
        let kept = self.file.file().ok()?.as_raw_fd();
        close_range(kept as u32 + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE).ok()?;
        if kept > 0 {
            close_range(0, kept as u32 - 1, 0).ok()?;
        }
        // The kernel follows this name in the process's table. A copy of the descriptor has a number from 3 on: code
        // anywhere in the process may write to the lower ones.
        let file = open_again(kept).ok()?;
        let file = file.try_clone().ok()?;
        Some(Box::new(Self {
            // A child of a fork has the table of the thread that forked.
            _close: CloseOnFork::unneeded(),
            // SAFETY: the number is this thread's alone in a table of its own; `self`, which has it in the process's,
            // is not closed by this thread.
            _process: Some(unsafe { OwnedFd::from_raw_fd(kept) }),
            pool: None,
            // The thread's locks end with its descriptors.
            _pin: None,
            file: Kept::new(file).ok()?,
            path: self.path.clone(),
            leaving: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::sync::mpsc::channel;

    use super::*;

    fn eventually(what: &str, is_so: impl Fn() -> bool) {
        let begun = std::time::Instant::now();
        while !is_so() {
            assert!(begun.elapsed().as_secs() < 60, "{what} does not come");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_threads_own_lock_dies_with_the_thread_and_the_processs_not_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks");
        let unrelated = File::create(folder.path().join("file")).unwrap();
        FileLock::make(&path, 0o600).unwrap();
        let process = FileLock::open(&path).unwrap();
        let other = FileLock::open(&path).unwrap();
        assert!(process.try_lock(1).unwrap());
        let (taken, is_taken) = channel();
        let (die, dies) = channel::<()>();
        let again = std::sync::Arc::new(process.again().unwrap());
        let theirs = again.clone();
        let thread = std::thread::spawn(move || {
            let own = theirs.of_this_thread().unwrap();
            // The other handle closes the number in the process's table.
            drop(theirs);
            assert!(own.try_lock(7).unwrap());
            taken.send(()).unwrap();
            let _ = dies.recv();
            // As a dead thread leaves it: neither given back nor closed.
            std::mem::forget(own);
        });
        is_taken.recv().unwrap();
        assert!(other.is_locked(7).unwrap() && process.is_locked(7).unwrap());
        drop((process, again));
        assert!(other.is_locked(1).unwrap(), "the thread lives");
        die.send(()).unwrap();
        thread.join().unwrap();
        eventually("the end of the thread's lock", || !other.is_locked(7).unwrap());
        eventually("the end of the process's", || !other.is_locked(1).unwrap());
        // No other thread has lost a descriptor.
        unrelated.set_len(1).unwrap();
    }

    /// Whether a process keeps its lock, and sees the others' locks, when its descriptor is closed and its number is
    /// another file's, as daemons do it.
    fn goes_on_without_its_descriptor() -> [bool; 2] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks");
        FileLock::make(&path, 0o600).unwrap();
        let [closed, other] = [(); 2].map(|()| FileLock::open(&path).unwrap());
        assert!(closed.try_lock(1).unwrap() && other.try_lock(2).unwrap());
        let number = closed.file.file().unwrap().as_raw_fd();
        let unrelated = File::create(folder.path().join("file")).unwrap();
        // SAFETY: the number gets another file, as if it had been closed and opened.
        assert_eq!(unsafe { libc::dup2(unrelated.as_raw_fd(), number) }, number);
        let kept = other.is_locked(1).unwrap();
        let sees =
            closed.is_locked(2).unwrap() && !closed.is_locked(3).unwrap() && closed.try_lock(3).is_err();
        assert!(!other.is_locked(3).unwrap());
        drop(closed);
        assert!(!other.is_locked(1).unwrap());
        // Other tests open files meanwhile: it may be theirs by now.
        let found = std::fs::metadata(format!("/proc/self/fd/{number}")).map(|found| found.ino());
        let is_left_alone = found.is_ok_and(|inode| inode == unrelated.metadata().unwrap().ino());
        if is_left_alone {
            // SAFETY: the number is this test's.
            unsafe { libc::close(number) };
        }
        [kept, sees && is_left_alone]
    }

    #[test]
    fn a_lock_stays_although_other_code_closes_its_descriptor() {
        assert_eq!(goes_on_without_its_descriptor(), [true; 2]);
        #[cfg(feature = "mutants")]
        for (mutant, wanted) in [
            (crate::mutant::Mutant::LivenessByDescriptor, [false, true]),
            (crate::mutant::Mutant::DescriptorBelieved, [true, false]),
        ] {
            crate::mutant::choose(Some(mutant));
            let found = goes_on_without_its_descriptor();
            crate::mutant::choose(None);
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn what_is_said_of_a_file_is_not_contradicted_while_who_says_it_lives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks");
        FileLock::make(&path, 0o600).unwrap();
        let [one, two, three] = [(); 3].map(|()| FileLock::open(&path).unwrap());
        for id in [0, 1, u64::MAX] {
            assert!(one.says(Use::LocksOf(id)).unwrap());
            assert!(two.says(Use::LocksOf(id)).unwrap());
            assert!(two.says(Use::LockedBy(1, id)).unwrap());
            assert!(!three.says(Use::LocksOf(id ^ 2)).unwrap());
            assert!(!three.says(Use::LockedBy(2, id)).unwrap());
            assert!(one.is_any_locked().unwrap());
            for lock in [&one, &two, &three] {
                let mut all = FileLock::bytes(USES_BASE, 2 * USES, libc::F_UNLCK);
                lock.set(&mut all).unwrap();
            }
            assert!(!one.is_any_locked().unwrap());
        }
    }
}
