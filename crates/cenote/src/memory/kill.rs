//! Ending processes of this machine by force: the operating system's part of the built-in fence.
//!
//! A process id alone does not identify a process for long: it is reused, and it means another process in another PID
//! namespace. So a process is named by its id, its PID namespace, and the moment at which it began, and is signalled
//! through a descriptor that was opened *before* these were compared.
//!
//! The name stands in the pool, where anybody who may write to the pool may write any name. So it only says where to
//! look: a process is signalled only if the kernel says that it holds the liveness lock of the place and has the pool
//! mapped. `/proc/PID/task/TID/fdinfo` shows the locks of open files, `fd` beside it which files these are, and `maps`
//! what is mapped. A lock alone proves nothing: its description may have been sent to another process. If no process of
//! that name holds the lock, the holder is searched for among all processes. Looking into processes of other users
//! takes `CAP_SYS_PTRACE`, and signalling them `CAP_KILL`.
//!
//! A signal that was sent proves nothing. Only its lock proves that a process is gone ([`super::Liveness`]).

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::liveness::LOCK_BASE;
use super::mapping::{MappingError, os};
use crate::mutant::{self, Mutant};

/// What a process is known by on its machine, whatever namespace it lives in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessName {
    /// Its id, as its own namespace has it.
    pub pid: u32,
    /// When it began, in clock ticks since the machine started; 0 if that could not be read.
    pub started: u64,
    /// The inode of its PID namespace; 0 if that could not be read.
    pub namespace: u64,
    /// The machine and its boot, and the file that holds the liveness lock: processes can tell whether the other lives
    /// only if both are the same for them. 0 if the machine could not be told.
    pub machine: u64,
}

impl ProcessName {
    /// This process, which has its liveness lock in a file. Reads a few files of `/proc`.
    pub fn here(lock_file: &Path) -> Self {
        let proc = Path::new("/proc/self");
        Self {
            pid: std::process::id(),
            started: started(proc).unwrap_or(0),
            namespace: namespace(proc).unwrap_or(0),
            machine: machine().map_or(0, |machine| with_file(machine, lock_file)),
        }
    }
}

/// A file, whatever its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl FileId {
    /// From what the kernel says of a file.
    fn of(found: &fs::Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
        }
    }
}

/// Ends processes of this machine.
pub trait Killer: Send {
    /// Kills a process if it holds the liveness lock of a number; returns whether it was found. It may live for a while
    /// after that.
    fn kill(&mut self, who: ProcessName, number: u32) -> Result<bool, MappingError>;

    /// Kills all processes that hold the liveness lock of a number, if the lock `is_meant` still once they are found;
    /// returns whether there were any. Much slower.
    fn kill_holders(&mut self, number: u32, is_meant: &dyn Fn() -> bool) -> Result<bool, MappingError>;
}

/// Kills by `pidfd_send_signal`.
#[derive(Debug)]
pub(crate) struct Sigkill {
    lock_file: FileId,
    /// The pool, as the kernel names it among mappings.
    pool: String,
}

impl Sigkill {
    /// For processes whose liveness locks are on a file, and which have a pool mapped.
    pub(crate) fn new(lock_file: FileId, pool: String) -> Self {
        Self { lock_file, pool }
    }

    /// Kills a process if it holds a lock; `false` if it does not. A process that is ending already has no memory any
    /// more: it counts as found, and is not signalled.
    fn kill_holder(
        &self,
        pid: u32,
        number: u32,
        is_meant: impl FnOnce() -> bool,
    ) -> Result<bool, MappingError> {
        let Some(descriptor) = open(pid)? else {
            return Ok(false);
        };
        match holds(pid, self.lock_file, number, &self.pool) {
            Holds::Nothing => Ok(false),
            Holds::AsItEnds => Ok(is_meant()),
            Holds::It => Ok(is_meant() && signal(&descriptor)?),
        }
    }
}

impl Killer for Sigkill {
    fn kill(&mut self, who: ProcessName, number: u32) -> Result<bool, MappingError> {
        if who.started == 0 || who.namespace == 0 {
            return Ok(false);
        }
        let is_ours = namespace(Path::new("/proc/self")) == Some(who.namespace);
        let is_it = |pid: u32| {
            let proc = PathBuf::from(format!("/proc/{pid}"));
            started(&proc) == Some(who.started)
                && namespace(&proc) == Some(who.namespace)
                && innermost_pid(&proc) == Some(who.pid)
        };
        if is_ours {
            return self.kill_holder(who.pid, number, || is_it(who.pid));
        }
        for pid in processes()? {
            if is_it(pid) && self.kill_holder(pid, number, || is_it(pid))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn kill_holders(&mut self, number: u32, is_meant: &dyn Fn() -> bool) -> Result<bool, MappingError> {
        let mut found = false;
        for pid in processes()? {
            found |= self.kill_holder(pid, number, is_meant)?;
        }
        Ok(found)
    }
}

/// All processes that `/proc` shows, but this one.
fn processes() -> Result<Vec<u32>, MappingError> {
    let all = fs::read_dir("/proc").map_err(os("looking for processes"))?;
    let pids = all
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter(|&pid| pid != std::process::id()).collect())
}

/// A descriptor of a process; `None` if there is none of that id.
fn open(pid: u32) -> Result<Option<OwnedFd>, MappingError> {
    // SAFETY: the call takes two numbers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if descriptor >= 0 {
        // SAFETY: the kernel has just made it for us.
        return Ok(Some(unsafe { OwnedFd::from_raw_fd(descriptor as i32) }));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // `/proc` lists only thread group leaders, but the kernel may refuse one that is just ending as no leader.
        Some(libc::ESRCH | libc::EINVAL) => Ok(None),
        _ => Err(os("opening a process to end it")(error)),
    }
}

/// Kills; `false` if the process had ended.
fn signal(descriptor: &OwnedFd) -> Result<bool, MappingError> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a valid descriptor, and no signal information.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            descriptor.as_raw_fd(),
            libc::SIGKILL,
            no_info,
            0,
        )
    };
    if sent == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ESRCH) => Ok(false),
        _ => Err(os("ending a process of a host")(error)),
    }
}

/// When a process began: field 22 of its `stat`, counted after the name, which may hold anything.
fn started(proc: &Path) -> Option<u64> {
    let stat = fs::read_to_string(proc.join("stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// The random number that the kernel drew at boot.
fn machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).ok()?;
    Some((number >> 64) as u64 ^ number as u64)
}

/// A number for a machine and a file, the same for all processes of the machine, whatever the file's path.
fn with_file(machine: u64, lock_file: &Path) -> u64 {
    let mixed = |number: u64, with: u64| {
        (number ^ with)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(31)
    };
    match fs::metadata(lock_file) {
        Ok(file) => mixed(mixed(machine, file.dev()), file.ino()).max(1),
        Err(_) => 0,
    }
}

fn namespace(proc: &Path) -> Option<u64> {
    Some(fs::metadata(proc.join("ns/pid")).ok()?.ino())
}

/// A process's id in its own namespace.
fn innermost_pid(proc: &Path) -> Option<u32> {
    let status = fs::read_to_string(proc.join("status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_whitespace().last()?.parse().ok()
}

/// What a process has of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// Not the lock, or not the pool.
    Nothing,
    /// The lock, and no memory any more.
    AsItEnds,
    /// The lock, and the pool.
    It,
}

/// Whether a process holds the lock of a byte and has a pool mapped. Asks each of its threads: a thread may have
/// descriptors of its own, and the first thread may have ended before the others.
fn holds(pid: u32, file: FileId, number: u32, pool: &str) -> Holds {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Holds::Nothing;
    };
    let has_lock = |thread: &Path| has_lock(thread, file, LOCK_BASE + i64::from(number));
    let threads = threads.flatten().map(|thread| thread.path());
    let Some(thread) = threads.into_iter().find(|thread| has_lock(thread)) else {
        return Holds::Nothing;
    };
    match fs::read_to_string(thread.join("maps")) {
        Ok(maps) if maps.is_empty() => Holds::AsItEnds,
        Ok(maps) if maps.lines().any(|line| mapped(line).as_deref() == Some(pool)) => Holds::It,
        Ok(_) if mutant::is(Mutant::HolderUnmapped) => Holds::It,
        _ => Holds::Nothing,
    }
}

/// Whether a thread has a description of a file open that holds the lock of a byte. Locks of adjacent bytes are shown
/// as one.
fn has_lock(thread: &Path, file: FileId, byte: i64) -> bool {
    let Ok(open) = fs::read_dir(thread.join("fdinfo")) else {
        return false;
    };
    let holds = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // lock: 1: OFDLCK ADVISORY WRITE -1 00:1c:42 FIRST LAST
        let [_, _, "OFDLCK", _, "WRITE", .., first, last] = fields[..] else {
            return false;
        };
        let last = last.parse().unwrap_or(i64::MAX);
        first
            .parse()
            .is_ok_and(|first: i64| (first..=last).contains(&byte))
    };
    open.flatten().any(|entry| {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let mut locks = text.lines().filter(|line| line.starts_with("lock:"));
        locks.any(holds)
            && fs::metadata(thread.join("fd").join(entry.file_name()))
                .is_ok_and(|found| FileId::of(&found) == file)
    })
}

/// The file of a line of `maps`, device and inode: `FIRST-LAST rw-s OFFSET 00:1c 42 NAME`.
fn mapped(line: &str) -> Option<String> {
    let mut fields = line.split_ascii_whitespace().skip(3);
    Some(format!("{} {}", fields.next()?, fields.next()?))
}

/// The file that this process has mapped at an address, as the kernel names it among mappings: device and inode.
pub(super) fn mapped_at_address(address: u64) -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let has = |line: &&str| {
        let (first, rest) = line.split_once('-').unwrap_or_default();
        let last = rest.split(' ').next().unwrap_or_default();
        let number = |text| u64::from_str_radix(text, 16).unwrap_or(0);
        (number(first)..number(last)).contains(&address)
    };
    mapped(maps.lines().find(has)?)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;
    use crate::memory::{FileLock, Liveness};

    /// Locks are held, and their holders killed, by one test at a time: a child that has not begun its program has the
    /// lock of any other test that holds one just then, and the mapping of this program, and would be killed for it.
    static ALONE: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A child that is ended with the test.
    struct DiesWithParent(Child);

    impl std::ops::Deref for DiesWithParent {
        type Target = Child;

        fn deref(&self) -> &Child {
            &self.0
        }
    }

    impl Drop for DiesWithParent {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    /// The program that a process runs, which it has mapped: it stands for the pool. A process that has just begun to
    /// run it maps it in a moment.
    fn program(child: &Child) -> String {
        for _ in 0..10_000 {
            let program = fs::metadata(format!("/proc/{}/exe", child.id())).unwrap();
            let maps = fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
            let inode = format!(" {}", program.ino());
            if let Some(file) = maps
                .lines()
                .filter_map(mapped)
                .find(|file| file.ends_with(&inode))
            {
                return file;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("process {} has not mapped its program", child.id())
    }

    /// A process that holds the locks of number 7 on a file, by a description that it has inherited.
    fn holder(path: &Path) -> (DiesWithParent, Sigkill) {
        FileLock::make(path, 0o600).unwrap();
        let lock = FileLock::open(path).unwrap();
        assert!(lock.try_lock(7).unwrap());
        let child = Command::new("sleep").arg("600").stdin(lock.description()).spawn();
        let child = DiesWithParent(child.unwrap());
        // Until it runs the program.
        while !fs::read_to_string(format!("/proc/{}/comm", child.id()))
            .unwrap()
            .starts_with("sleep")
        {
            std::thread::yield_now();
        }
        let pool = program(&child);
        (child, Sigkill::new(lock.file().unwrap(), pool))
    }

    fn name_of(child: &Child) -> ProcessName {
        let proc = PathBuf::from(format!("/proc/{}", child.id()));
        ProcessName {
            pid: child.id(),
            started: started(&proc).unwrap(),
            namespace: namespace(&proc).unwrap(),
            machine: 0,
        }
    }

    #[test]
    fn only_the_process_that_is_meant_is_killed() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let (mut child, mut killer) = holder(&folder.path().join("locks"));
        let name = name_of(&child);
        let earlier = ProcessName {
            started: name.started.wrapping_sub(1),
            ..name
        };
        let elsewhere = ProcessName {
            namespace: name.namespace + 1,
            ..name
        };
        assert!(!killer.kill(earlier, 7).unwrap());
        assert!(!killer.kill(elsewhere, 7).unwrap());
        assert!(!killer.kill(name, 8).unwrap());
        assert!(child.0.try_wait().unwrap().is_none());
        assert!(killer.kill(name, 7).unwrap());
        assert!(!child.0.wait().unwrap().success());
        assert!(!killer.kill(name, 7).unwrap());
    }

    #[test]
    fn a_process_that_does_not_hold_the_lock_is_not_killed_whatever_it_is_called() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let (holder, mut killer) = holder(&folder.path().join("locks"));
        let (_other, mut of_other) = self::holder(&folder.path().join("others"));
        let mut stranger = DiesWithParent(sleeper());
        assert!(!killer.kill(name_of(&stranger), 7).unwrap());
        // This one has the lock and not the pool: another process may have sent it the description.
        let mut of_pool = Sigkill::new(killer.lock_file, "00:00 1".to_owned());
        assert!(!of_pool.kill(name_of(&holder), 7).unwrap());
        assert!(!of_pool.kill_holders(7, &|| true).unwrap());
        // This one has the lock of that number on another file.
        assert!(!of_other.kill(name_of(&holder), 7).unwrap());
        assert!(stranger.0.try_wait().unwrap().is_none());
    }

    #[test]
    #[cfg(feature = "mutants")]
    fn a_fence_that_believes_a_lock_kills_a_stranger() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let (mut holder, killer) = holder(&folder.path().join("locks"));
        let mut of_pool = Sigkill::new(killer.lock_file, "00:00 1".to_owned());
        mutant::choose(Some(Mutant::HolderUnmapped));
        assert!(of_pool.kill(name_of(&holder), 7).unwrap());
        mutant::choose(None);
        assert!(!holder.0.wait().unwrap().success());
    }

    /// The first thread has ended, and another goes on with what all have: the lock and the mapping are found with that
    /// one.
    #[test]
    fn a_process_whose_first_thread_has_ended_is_killed() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks");
        FileLock::make(&path, 0o600).unwrap();
        let lock = FileLock::open(&path).unwrap();
        assert!(lock.try_lock(7).unwrap());
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "memory::kill::tests::first_thread_ends", "--nocapture"])
            .env("CENOTE_FIRST_THREAD_ENDS", "1")
            .stdout(std::process::Stdio::null())
            .stdin(lock.description())
            .spawn();
        let mut child = DiesWithParent(child.unwrap());
        drop(lock);
        let begun = std::time::Instant::now();
        let is_zombie = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('Z'))
        };
        let pool = mapped_at_address(has_lock as *const () as u64).unwrap();
        while !is_zombie() {
            assert!(begun.elapsed().as_secs() < 60, "its first thread does not end");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let lock_file = FileLock::open(&path).unwrap().file().unwrap();
        assert!(Sigkill::new(lock_file, pool).kill(name_of(&child), 7).unwrap());
        assert!(!child.0.wait().unwrap().success());
    }

    /// The child's side of that; does nothing unless it is started as one.
    #[test]
    fn first_thread_ends() {
        if std::env::var_os("CENOTE_FIRST_THREAD_ENDS").is_none() {
            return;
        }
        extern "C" fn end(_: libc::c_int) {
            // SAFETY: ends the thread that this signal was sent to, and nothing else.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        // SAFETY: a handler of the right type; the signal is sent to the process's first thread alone.
        unsafe {
            libc::signal(
                libc::SIGUSR1,
                end as extern "C" fn(libc::c_int) as libc::sighandler_t,
            );
            libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::getpid(), libc::SIGUSR1);
        }
        std::thread::sleep(std::time::Duration::from_secs(600));
    }

    #[test]
    fn this_process_knows_its_name() {
        let here = ProcessName::here(Path::new("/proc/self/exe"));
        assert!(
            here.started > 0 && here.namespace > 0 && here.machine != 0,
            "{here:?}"
        );
        assert_eq!(innermost_pid(Path::new("/proc/self")), Some(here.pid));
    }

    #[test]
    fn holders_are_found_by_their_lock() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks");
        fs::write(&path, b"").unwrap();
        let lock = FileLock::open(&path).unwrap();
        assert!(lock.try_lock(7).unwrap());
        let file = FileId::of(&fs::metadata(&path).unwrap());
        let inode = file.inode + 1;
        let code = mapped_at_address(holds as fn(_, _, _, _) -> _ as usize as u64).unwrap();
        let of = |file, number| holds(std::process::id(), file, number, &code);
        assert_eq!(of(file, 7), Holds::It);
        assert_eq!(of(file, 8), Holds::Nothing);
        assert_eq!(of(FileId { inode, ..file }, 7), Holds::Nothing);
        assert_eq!(holds(std::process::id(), file, 7, "00:00 1"), Holds::Nothing);
        // Adjacent locks of one description are one.
        assert!(lock.try_lock(8).unwrap() && lock.try_lock(6).unwrap());
        assert_eq!([6, 7, 8].map(|number| of(file, number)), [Holds::It; 3]);
        // This process is never killed by its own hand.
        assert!(!Sigkill::new(file, code).kill_holders(7, &|| true).unwrap());
    }
}
