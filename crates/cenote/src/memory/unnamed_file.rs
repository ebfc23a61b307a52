//! A new file has no name before it is complete: a creator that is killed leaves nothing, and no process finds the file
//! half made.
//!
//! The kernel makes it without a name (`O_TMPFILE`), and links it when it is complete. Where a file system cannot do
//! that, the file first has a temporary name, unpredictable and new; a creator that is killed leaves it behind. Either
//! way the file has its permission bits before it has its name.

use std::ffi::CString;
use std::fs::{File, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::mapping::{MappingError, os};

/// Temporary names that are tried. Each one taken is chance, or an attacker who takes every name that there may be.
const NAMES: u32 = 8;

const MAKING: &str = "creating the pool file";
const NAMING: &str = "naming the pool file";

/// A file that does not have its name yet; [`NamelessFile::publish`] gives it.
pub(crate) struct NamelessFile {
    file: File,
    temporary: Option<PathBuf>,
}

impl NamelessFile {
    /// Creates a nameless file in the folder of `path`, with these permission bits, whatever the process's mask.
    pub(crate) fn create(path: &Path, mode: u32) -> Result<Self, MappingError> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let nameless = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_TMPFILE)
            .mode(mode)
            .open(folder);
        let made = match nameless {
            Ok(file) => Self {
                file,
                temporary: None,
            },
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)
                ) =>
            {
                Self::with_temporary_name(path, mode)?
            }
            Err(error) => return Err(os(MAKING)(error)),
        };
        made.file
            .set_permissions(Permissions::from_mode(mode))
            .map_err(os("setting the permissions of a new file"))?;
        Ok(made)
    }

    /// Creates a file beside `path`, never opening an existing one, nor what an existing link points to.
    fn with_temporary_name(path: &Path, mode: u32) -> Result<Self, MappingError> {
        let mut tries = 0..NAMES;
        loop {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".creating-{:016x}", random_number()));
            let temporary = PathBuf::from(name);
            let made = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .custom_flags(libc::O_NOFOLLOW)
                .mode(mode)
                .open(&temporary);
            match made {
                Ok(file) => {
                    return Ok(Self {
                        file,
                        temporary: Some(temporary),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries.next().is_some() => {}
                Err(error) => return Err(os(MAKING)(error)),
            }
        }
    }

    /// A path by which this process can open the file while it has no name.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Another handle on the file.
    pub(crate) fn file(&self) -> Result<File, MappingError> {
        self.file.try_clone().map_err(os(MAKING))
    }

    /// Gives the file its name; fails if the name is taken. It is this file that gets it, even if another file has its
    /// temporary name by now.
    pub(crate) fn publish(self, path: &Path) -> Result<(), MappingError> {
        let to = c_string(path)?;
        let mut named = link(
            libc::AT_FDCWD,
            &c_string(&self.path())?,
            &to,
            libc::AT_SYMLINK_FOLLOW,
        );
        if named
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        {
            // `/proc` may not be there. The kernel allows this to the process that opened the file (since Linux 6.10),
            // or to one that may read all.
            named = link(self.file.as_raw_fd(), c"", &to, libc::AT_EMPTY_PATH).or(named);
        }
        match named {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists && self.temporary.is_some() => {
                // A file system without links.
                self.rename(&to).map_err(os(NAMING))
            }
            named => named.map_err(os(NAMING)),
        }
    }

    /// Gives the file its name in place of the temporary one.
    fn rename(&self, to: &CString) -> io::Result<()> {
        let Some(temporary) = &self.temporary else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let from = CString::new(temporary.as_os_str().as_bytes())?;
        // SAFETY: two valid C strings and a plain system call.
        let renamed = unsafe {
            libc::renameat2(
                libc::AT_FDCWD,
                from.as_ptr(),
                libc::AT_FDCWD,
                to.as_ptr(),
                libc::RENAME_NOREPLACE,
            )
        };
        match renamed {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for NamelessFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // It is gone already if it was renamed; and there is nobody to report an error to.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

fn c_string(path: &Path) -> Result<CString, MappingError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| os(NAMING)(io::ErrorKind::InvalidInput.into()))
}

fn link(folder: libc::c_int, from: &std::ffi::CStr, to: &CString, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: two valid C strings and a plain system call.
    match unsafe { libc::linkat(folder, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A number that nobody can foresee.
fn random_number() -> u64 {
    // Keyed by the operating system's random numbers.
    std::hash::RandomState::new().build_hasher().finish()
}
