//! The library's errors as exceptions.

use cenote::Error;
use cenote::report::MappingError;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// As Python knows them.
pub(crate) mod exceptions {
    use pyo3::create_exception;
    use pyo3::exceptions::PyException;

    create_exception!(
        cenote,
        Error,
        PyException,
        "Something went wrong with a pool. No error leaves the pool damaged or an operation half done."
    );
    create_exception!(
        cenote,
        FullError,
        Error,
        "The pool has no room, or no place, for something."
    );
    create_exception!(
        cenote,
        QuotaError,
        FullError,
        "An object store has no room: its quota is used up."
    );
    create_exception!(
        cenote,
        NotFoundError,
        Error,
        "The pool has nothing of this name and kind."
    );
    create_exception!(
        cenote,
        CorruptError,
        Error,
        "The pool is damaged, or the file is no pool."
    );
    create_exception!(
        cenote,
        ClosedError,
        Error,
        "The pool, or the object, has been closed."
    );
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

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<exceptions::Error>())?;
    module.add("FullError", py.get_type::<exceptions::FullError>())?;
    module.add("QuotaError", py.get_type::<exceptions::QuotaError>())?;
    module.add("NotFoundError", py.get_type::<exceptions::NotFoundError>())?;
    module.add("CorruptError", py.get_type::<exceptions::CorruptError>())?;
    module.add("ClosedError", py.get_type::<exceptions::ClosedError>())
}
