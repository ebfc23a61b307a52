//! The library's errors as exceptions.

use cenote::Error;
use cenote::report::MappingError;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// Makes the exceptions, and the function that adds them to the module.
macro_rules! exceptions {
    ($($name:ident($base:ident): $text:literal;)*) => {
        /// As Python knows them.
        pub(crate) mod exceptions {
            use pyo3::create_exception;
            use pyo3::exceptions::PyException;

            $(create_exception!(cenote, $name, $base, $text);)*
        }

        pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
            let py = module.py();
            $(module.add(stringify!($name), py.get_type::<exceptions::$name>())?;)*
            Ok(())
        }
    };
}

exceptions! {
    Error(PyException): "Something went wrong with a pool. No error leaves the pool damaged or an operation half done.";
    FullError(Error): "The pool has no room, or no place, for something.";
    QuotaError(FullError): "An object store has no room: its quota is used up.";
    NotFoundError(Error): "The pool has nothing of this name and kind.";
    WrongKindError(Error): "The name is that of something of another kind.";
    CorruptError(Error): "The pool is damaged, or the file is no pool.";
    ClosedError(Error): "The pool, or the object, has been closed.";
    ForkedError(Error): "The pool was opened by the parent of this process: open it anew.";
    RepairingError(Error): "The pool is being repaired; nobody else can use it until that has ended.";
    DeadlockError(Error): "This thread holds the lock already, and would wait for itself.";
    HeldError(Error): "The lock cannot be removed, as a thread holds it.";
    RemovedError(Error): "The lock has been removed since it was opened, or the map or object store dropped; open it by its name again.";
    WrongTokenError(Error): "The token is not that of the group.";
    MemberTakenError(Error): "The group has a living member of this name.";
}

/// As the system numbers it.
const EEXIST: i32 = 17;

/// The exception for an error of the library.
pub(crate) fn raise(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Io { source, .. }
        | Error::CannotCreate {
            source: MappingError::Os { source, .. },
            ..
        }
        | Error::LockFile {
            source: MappingError::Os { source, .. },
            ..
        }
        | Error::Mapping(MappingError::Os { source, .. }) => match source.raw_os_error() {
            Some(errno) => PyOSError::new_err((errno, text)),
            None if source.kind() == std::io::ErrorKind::AlreadyExists => PyOSError::new_err((EEXIST, text)),
            None => PyOSError::new_err(text),
        },
        Error::Quota { .. } => exceptions::QuotaError::new_err(text),
        Error::Full { .. } | Error::TooMany { .. } | Error::GroupFull { .. } | Error::GroupCrowded { .. } => {
            exceptions::FullError::new_err(text)
        }
        Error::NoSuch { .. } => exceptions::NotFoundError::new_err(text),
        Error::OtherKind { .. } => exceptions::WrongKindError::new_err(text),
        Error::Deadlock => exceptions::DeadlockError::new_err(text),
        Error::LockHeld { .. } => exceptions::HeldError::new_err(text),
        Error::LockRemoved | Error::Dropped => exceptions::RemovedError::new_err(text),
        Error::MemberTaken { .. } => exceptions::MemberTakenError::new_err(text),
        Error::WrongToken { .. } => exceptions::WrongTokenError::new_err(text),
        Error::Repairing { .. } => exceptions::RepairingError::new_err(text),
        Error::Forked => exceptions::ForkedError::new_err(text),
        Error::Corrupt { .. } | Error::NotAPool { .. } => exceptions::CorruptError::new_err(text),
        Error::KeyTooLong { .. } | Error::InvalidOption { .. } | Error::InvalidName { .. } => {
            pyo3::exceptions::PyValueError::new_err(text)
        }
        _ => exceptions::Error::new_err(text),
    }
}

pub(crate) fn closed(what: &str) -> PyErr {
    exceptions::ClosedError::new_err(format!("the {what} has been closed"))
}
