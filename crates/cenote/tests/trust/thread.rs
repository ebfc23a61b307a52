//! A thread that runs as another user, has a umask of its own, or is refused system calls as by some file systems. That
//! affects only the thread.

use std::thread::Builder;

/// The user and the group that own nothing.
pub const NOBODY: u32 = 65_534;

/// What the kernel refuses to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusing {
    /// Nothing.
    Nothing,
    /// Files without a name (`O_TMPFILE`), as many file systems do.
    NamelessFiles,
    /// Those, and links.
    Links,
    /// Changes of permission bits.
    Permissions,
}

/// Whether the test may change its user.
pub fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Runs something in a thread to which something is refused, as this user, if one is named, and with this umask.
pub fn with<T: Send + 'static>(
    refusing: Refusing,
    user: Option<u32>,
    mask: u32,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let thread = Builder::new().spawn(move || {
        // SAFETY: each concerns the calling thread alone, as they are the bare system calls; the mask after it has its
        // own.
        unsafe {
            assert_eq!(libc::unshare(libc::CLONE_FS), 0);
            libc::umask(mask);
            if let Some(user) = user {
                assert_eq!(libc::syscall(libc::SYS_setgroups, 0, 0), 0);
                assert_eq!(libc::syscall(libc::SYS_setresgid, user, user, user), 0);
                assert_eq!(libc::syscall(libc::SYS_setresuid, user, user, user), 0);
            }
        }
        refuse(refusing);
        work()
    });
    match thread.unwrap().join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// One step of a filter of system calls.
fn step(code: u32, k: u32, if_so: u8, if_not: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: if_so,
        jf: if_not,
        k,
    }
}

fn refuse(what: Refusing) {
    let load = |at| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at, 0, 0);
    let is = |number, if_so, if_not| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number, if_so, if_not);
    let has = |bit, if_so, if_not| step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, bit, if_so, if_not);
    let returns = |value| step(libc::BPF_RET | libc::BPF_K, value, 0, 0);
    let fails = |error: i32| returns(libc::SECCOMP_RET_ERRNO | error as u32);
    let nameless = (libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;
    let mut filter = Vec::new();
    if matches!(what, Refusing::NamelessFiles | Refusing::Links) {
        // The flags are the third argument.
        filter.extend([
            load(0),
            is(libc::SYS_openat as u32, 0, 3),
            load(16 + 2 * 8),
            has(nameless, 0, 1),
            fails(libc::EOPNOTSUPP),
        ]);
    }
    if what == Refusing::Links {
        filter.extend([load(0), is(libc::SYS_linkat as u32, 0, 1), fails(libc::EPERM)]);
    }
    if what == Refusing::Permissions {
        for call in [libc::SYS_fchmod, libc::SYS_chmod, libc::SYS_fchmodat] {
            filter.extend([load(0), is(call as u32, 0, 1), fails(libc::EPERM)]);
        }
    }
    if filter.is_empty() {
        return;
    }
    filter.push(returns(libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program is read at once, and is this thread's alone and that of those that it starts.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program);
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }
}
