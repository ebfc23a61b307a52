//! Opening what a name names: never what a link of that name points to, without waiting for any process, and only if
//! its owner is trusted.
//!
//! In a folder that others may write, a name says nothing of who made the file. So opening refuses a symbolic link as
//! the last part of a name (parts before it may be links, as those in sysfs are), judges a file by the descriptor that
//! was opened, not by the name, which may be another file's by then, and never waits for a pipe or a file with a lease.
//! A name of a descriptor of this process, `/proc/self/fd/N`, is followed: only the process itself can make one.
//!
//! A file's owner can always write it, whatever its mode. Members of its group can if the mode says so: that is the
//! decision of the owner, who is trusted or not. A file that *every* user may write is trusted by none.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::backing::Backing;
use super::mapping::{MappingError, os};
use super::unfit::Unfit;
use crate::mutant::{self, Mutant};

/// The permission bit by which every user may write a file.
const EVERYBODY_WRITES: u32 = 0o002;
/// Permission bits.
const PERMISSIONS: u32 = 0o777;

/// Whose files are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The user's own and root's, unless every user may write them.
    Own,
    /// The user's own and root's, although every user may write them: the user has just made them like that.
    OwnForAll,
    /// Everybody's.
    All,
}

/// Why a file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Distrust {
    /// It belongs to a user who is not trusted.
    #[error("it belongs to user {owner}, who is neither the user of this process ({user}) nor root")]
    Owner {
        /// Its owner.
        owner: u32,
        /// The effective user of this process.
        user: u32,
    },
    /// Every user can write it.
    #[error("every user may write it (it has mode {mode:o}, and belongs to user {owner})")]
    Everybody {
        /// Its owner.
        owner: u32,
        /// Its permission bits.
        mode: u32,
    },
}

/// Opens what a pool lies on, or a file of liveness locks, for reading and writing.
pub(crate) fn open(path: &Path, trust: Trust) -> Result<File, MappingError> {
    open_as(path, trust, true)
}

/// The same, for reading alone.
pub(crate) fn open_to_read(path: &Path, trust: Trust) -> Result<File, MappingError> {
    open_as(path, trust, false)
}

fn open_as(path: &Path, trust: Trust, writes: bool) -> Result<File, MappingError> {
    // Opening some devices has effects. The file is checked again once it is open: it may be another one then.
    Backing::at(path)?;
    let opened = OpenOptions::new()
        .read(true)
        .write(writes)
        .custom_flags(follow(path) | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    let file = match opened {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(MappingError::Unfit(Unfit::Link));
        }
        Err(error) if error.raw_os_error() == Some(libc::EWOULDBLOCK) => {
            return Err(MappingError::Unfit(Unfit::Leased));
        }
        opened => opened.map_err(os("opening the pool"))?,
    };
    Backing::of(&file)?;
    judge(&file, trust)?;
    Ok(file)
}

/// Opens what a path names to look at it only: it has no effect on it, waits for nobody, and needs no permission to
/// read. It may be a link.
pub(super) fn look_at(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(follow(path) | libc::O_PATH)
        .open(path)
}

/// The flag that keeps a link from being followed. A name of a descriptor of this process is a link that nobody else
/// can plant.
fn follow(path: &Path) -> libc::c_int {
    let number = path.as_os_str().as_bytes().strip_prefix(b"/proc/self/fd/");
    match number {
        Some(number) if !number.is_empty() && number.iter().all(u8::is_ascii_digit) => 0,
        _ if mutant::is(Mutant::LinkFollowed) => 0,
        _ => libc::O_NOFOLLOW,
    }
}

/// Whether an open file is trusted.
fn judge(file: &File, trust: Trust) -> Result<(), MappingError> {
    let found = file.metadata().map_err(os("looking at the pool file"))?;
    // SAFETY: takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    match distrust(&found, user, trust) {
        Some(why) => Err(MappingError::Distrusted(why)),
        None => Ok(()),
    }
}

fn distrust(found: &Metadata, user: u32, trust: Trust) -> Option<Distrust> {
    let (owner, mode) = (found.uid(), found.mode() & PERMISSIONS);
    if trust == Trust::All || mutant::is(Mutant::OwnerBelieved) {
        return None;
    }
    if owner != user && owner != 0 {
        return Some(Distrust::Owner { owner, user });
    }
    (trust == Trust::Own && mode & EVERYBODY_WRITES != 0).then_some(Distrust::Everybody { owner, mode })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn whose_files_are_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"").unwrap();
        let mine = path.metadata().unwrap().uid();
        let somebody = mine + 1;
        for (mode, user, trust, is_used) in [
            (0o600, mine, Trust::Own, true),
            (0o664, mine, Trust::Own, true),
            (0o660, somebody, Trust::Own, mine == 0),
            (0o600, somebody, Trust::OwnForAll, mine == 0),
            (0o602, mine, Trust::Own, false),
            (0o666, mine, Trust::Own, false),
            (0o666, mine, Trust::OwnForAll, true),
            (0o666, somebody, Trust::All, true),
        ] {
            path.metadata()
                .map(|found| {
                    let mut permissions = found.permissions();
                    permissions.set_mode(mode);
                    std::fs::set_permissions(&path, permissions).unwrap();
                })
                .unwrap();
            let why = distrust(&path.metadata().unwrap(), user, trust);
            assert_eq!(why.is_none(), is_used, "{mode:o} {user} {trust:?}: {why:?}");
        }
    }

    #[test]
    fn only_the_name_of_an_own_descriptor_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&path, b"").unwrap();
        symlink(&path, &link).unwrap();
        let file = open(&path, Trust::Own).unwrap();
        for not_followed in [&link, &folder.path().join("./link")] {
            let refused = open(not_followed, Trust::All).unwrap_err();
            assert!(matches!(refused, MappingError::Unfit(Unfit::Link)), "{refused}");
        }
        use std::os::fd::AsRawFd;
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        open(Path::new(&name), Trust::Own).unwrap();
        for none in [
            "/proc/self/fd/",
            "/proc/self/fd/0/",
            "/proc/self/fdx",
            "/proc/self/exe",
        ] {
            assert_eq!(follow(Path::new(none)), libc::O_NOFOLLOW, "{none}");
        }
        // A link before the last part is allowed.
        let around = folder.path().join("around");
        symlink(folder.path(), &around).unwrap();
        open(&around.join("file"), Trust::Own).unwrap();
    }
}
