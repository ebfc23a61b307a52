//! Why a thread does not get what it asks for, as text and as a value of `errno`.

use std::ffi::c_int;
use std::io;

use cenote::Error;
use cenote::report::MappingError;

/// Why a call was refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Others have the lock, and the caller does not wait.
    #[error("others have the lock")]
    Busy,
    /// Others had the lock until the moment came.
    #[error("others had the lock until the time was over")]
    TimedOut,
    /// The thread has the lock already.
    #[error("this thread has the lock already, and would wait for itself")]
    Deadlock,
    /// The thread does not have the lock.
    #[error("this thread does not have the lock")]
    NotHeld,
    /// Nobody died with the lock before this thread got it.
    #[error("nobody died with the lock before this thread got it")]
    Nobody,
    /// What is to be made is there already.
    #[error("{0}")]
    Exists(&'static str),
    /// What is asked for is not there.
    #[error("{0}")]
    Missing(&'static str),
    /// The same, until the time was over.
    #[error("{0}")]
    NotInTime(&'static str),
    /// What another thread has is used.
    #[error("{0}")]
    NotOwner(&'static str),
    /// There is none left of what the call needs.
    #[error("{0}")]
    Exhausted(&'static str),
    /// An argument cannot be right.
    #[error("{0}")]
    Invalid(&'static str),
    /// A signal handler called while its thread was within another call.
    #[error("a signal handler cannot use locks while its thread is about to take or release one")]
    Within,
    /// The pool, or the system, refuses.
    #[error(transparent)]
    Pool(#[from] Error),
}

impl Refusal {
    /// As `errno` has it.
    pub fn errno(&self) -> c_int {
        match self {
            Self::Busy => libc::EBUSY,
            Self::TimedOut | Self::NotInTime(_) => libc::ETIMEDOUT,
            Self::Deadlock | Self::Within => libc::EDEADLK,
            Self::NotHeld | Self::NotOwner(_) => libc::EPERM,
            Self::Nobody | Self::Missing(_) => libc::ENOENT,
            Self::Exists(_) => libc::EEXIST,
            Self::Exhausted(_) => libc::EAGAIN,
            Self::Invalid(_) => libc::EINVAL,
            Self::Pool(error) => errno_of(error),
        }
    }
}

/// The value of `errno` for an error of the library.
pub fn errno_of(error: &Error) -> c_int {
    match error {
        Error::Mapping(source) => of_mapping(source),
        Error::CannotCreate { source, .. } | Error::LockFile { source, .. } => of_mapping(source),
        Error::Io { source, .. } => of_system(source),
        Error::Distrusted { .. } => libc::EACCES,
        Error::Deadlock => libc::EDEADLK,
        Error::TooMany { .. } | Error::TooManyLocks { .. } | Error::TooManyNodes { .. } => libc::EAGAIN,
        Error::Full { .. } => libc::ENOMEM,
        Error::Quota { .. } => libc::EDQUOT,
        Error::LockHeld { .. } | Error::Busy | Error::Repairing { .. } => libc::EBUSY,
        Error::LockRemoved | Error::Dropped => libc::EIDRM,
        Error::NoSuch { .. } => libc::ENOENT,
        Error::Forked => libc::ESTALE,
        Error::Corrupt { .. } => libc::EIO,
        _ => libc::EINVAL,
    }
}

fn of_mapping(error: &MappingError) -> c_int {
    match error {
        MappingError::Os { source, .. } => of_system(source),
        MappingError::NoSpace { .. } => libc::ENOSPC,
        MappingError::FileSizeLimit { .. } => libc::EFBIG,
        MappingError::Unsupported(_) => libc::ENOSYS,
        MappingError::Distrusted(_) => libc::EACCES,
        MappingError::TooMany { .. } => libc::EAGAIN,
        _ => libc::EINVAL,
    }
}

fn of_system(error: &io::Error) -> c_int {
    error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::AlreadyExists => libc::EEXIST,
        io::ErrorKind::NotFound => libc::ENOENT,
        io::ErrorKind::PermissionDenied => libc::EACCES,
        _ => libc::EIO,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote::{Options, Pool};

    #[test]
    fn what_the_system_refuses_keeps_its_number() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("pool");
        let errno = |result: cenote::Result<Pool>| errno_of(&result.err().unwrap());
        assert_eq!(errno(Pool::open(&path, &Options::default())), libc::ENOENT);
        let pool: Pool = Pool::create(&path, &Options::default()).unwrap();
        assert_eq!(errno(Pool::create(&path, &Options::default())), libc::EEXIST);
        std::fs::write(folder.path().join("text"), "no pool").unwrap();
        assert_eq!(
            errno(Pool::open(folder.path().join("text"), &Options::default())),
            libc::EINVAL
        );
        drop(pool);
    }
}
