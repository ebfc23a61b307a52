//! Judges the output file that a user named, before the work begins: a command replaces nothing that is not its own to
//! replace.
//!
//! | what is there | what is done |
//! |---|---|
//! | nothing | a file is made |
//! | a regular file that the user may read and write | it is replaced; its mode stays, its owner where the kernel permits that |
//! | a pool, by its first bytes or as memory of a device; a folder; a block device; a socket | refused |
//! | a pipe, a character device, standard output and error by whatever name | written through |
//! | a symbolic link | what it leads to; the link stays |
//! | a link, file or pipe of another user's in a folder like `/tmp`, where every user may plant one | refused, also where the kernel would not (`fs.protected_symlinks`) |

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cenote::memory::Backing;
use cenote::pod::format::superblock::MAGIC;
use rustix::fs::OFlags;

use crate::failure::Failure;

/// Links that are followed one after the other to a name that does not exist yet.
const LINKS_MAX: u32 = 40;

/// Where bytes go.
#[derive(Debug)]
pub enum Destination {
    /// To what is there, and stays.
    Through(File),
    /// To standard output, or the file that it is.
    Stdout(File),
    /// To a file that takes this name when it is complete: the path has no link in it.
    Named(PathBuf, Option<Metadata>),
}

/// What a file is, for a sentence: `a folder`.
pub fn kind_of(kind: FileType) -> &'static str {
    match () {
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_block_device() => "a block device",
        () if kind.is_char_device() => "a character device",
        () if kind.is_symlink() => "a symbolic link",
        () => "a file",
    }
}

/// Whether two are one file, by whatever names.
pub fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Opens a file to look at it, without blocking, whatever has its name.
pub fn open_read_only(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32)
        .open(path)
}

/// Whether a file begins as a pool does.
pub fn is_pool(file: &File) -> io::Result<bool> {
    let mut head = [0; 8];
    match file.read_exact_at(&mut head, 0) {
        Ok(()) => Ok(u64::from_le_bytes(head) == MAGIC),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Judges what a user named.
pub fn judge(name: &Path) -> Result<Destination, Failure> {
    if name.as_os_str() == "-" {
        return Ok(Destination::Stdout(own(&io::stdout()).map_err(Failure::stdout)?));
    }
    let (path, found) = follow(name)?;
    let Some(found) = found else {
        return new(name, &path);
    };
    let refused = |what: &str| Err(Failure::failed(format!("{}: {what}", name.display())));
    let kind = found.file_type();
    if kind.is_dir() {
        return refused("it is a folder; name a file in it");
    }
    if kind.is_block_device() {
        return refused("it is a block device, which is not written to; name a file");
    }
    // A pipe that is standard output is written through by any name, and a file that a shell has opened keeps what is
    // in it.
    for (number, stream) in [(1, own(&io::stdout())), (2, own(&io::stderr()))] {
        let Ok(stream) = stream else { continue };
        if stream.metadata().is_ok_and(|stream| is_same(&stream, &found)) && !is_pool_file(&path, &found)? {
            return Ok(match number {
                1 => Destination::Stdout(stream),
                _ => Destination::Through(stream),
            });
        }
    }
    if kind.is_socket() {
        return refused("it is a socket, which cannot be opened as a file is; name a file or a pipe");
    }
    if matches!(Backing::at(&path), Ok(Some(backing)) if backing.device().is_some()) {
        return refused("it is memory of a device, which may hold a pool; name a file");
    }
    if !kind.is_file() || is_descriptor(&path) {
        return through(name, &path, &found);
    }
    replaceable(name, &path, &found)?;
    let path = std::fs::canonicalize(folder_of(&path))
        .map(|folder| folder.join(path.file_name().unwrap_or_default()))
        .map_err(Failure::io(name.display()))?;
    Ok(Destination::Named(path, Some(found)))
}

/// A descriptor of ours, as one that can be closed.
fn own(stream: &impl AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

/// Where a name leads: a path of which the last part is no link, and what is there. Nothing is opened, so that no pipe
/// waits for its other end.
///
/// Each link is judged by the descriptor by which it is read: a link that is planted meanwhile is not followed. Fails
/// if a link, or what is there, may have been planted: it is another user's, and in its folder all users may make files
/// and none may remove those of others. The folder's owner is trusted.
fn follow(name: &Path) -> Result<(PathBuf, Option<Metadata>), Failure> {
    let failed = || Failure::io(name.display());
    let mut path = name.to_owned();
    for _ in 0..LINKS_MAX {
        // What a descriptor leads to is ours, and may have no name.
        let is_own = is_descriptor(&path);
        let flags = OFlags::PATH | OFlags::CLOEXEC | if is_own { OFlags::empty() } else { OFlags::NOFOLLOW };
        let found = match rustix::fs::open(&path, flags, rustix::fs::Mode::empty()) {
            Ok(found) => File::from(found),
            Err(rustix::io::Errno::NOENT) => return Ok((path, None)),
            Err(error) => return Err(failed()(error.into())),
        };
        let is = found.metadata().map_err(failed())?;
        if is_own {
            return Ok((path, Some(is)));
        }
        let folder = folder_of(&path);
        let folder_is = folder.metadata().map_err(failed())?;
        let owners = [rustix::process::geteuid().as_raw(), folder_is.uid()];
        if folder_is.mode() & 0o1002 == 0o1002 && !owners.contains(&is.uid()) {
            let (what, user) = (kind_of(is.file_type()), is.uid());
            return Err(Failure::failed(format!(
                "{}: {} is {what} of another user's ({user}), in a folder where everybody may make one; name a file of your own",
                name.display(),
                path.display()
            )));
        }
        if !is.is_symlink() {
            return Ok((path, Some(is)));
        }
        let link = rustix::fs::readlinkat(&found, "", Vec::new()).map_err(|error| failed()(error.into()))?;
        path = folder.join(std::ffi::OsStr::from_bytes(link.as_bytes()));
    }
    Err(failed()(rustix::io::Errno::LOOP.into()))
}

/// The folder that a path is in.
fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// The destination of a name that leads to a path where there is nothing yet.
fn new(name: &Path, path: &Path) -> Result<Destination, Failure> {
    let failed = || Failure::io(name.display());
    let file = path
        .file_name()
        .filter(|_| !path.as_os_str().as_bytes().ends_with(b"/"));
    let Some(file) = file else {
        return Err(failed()(io::ErrorKind::NotFound.into()));
    };
    let folder = std::fs::canonicalize(folder_of(path)).map_err(failed())?;
    Ok(Destination::Named(folder.join(file), None))
}

/// Whether a name is that of one of this process's descriptors, as a shell's `>(…)` makes them: the file behind it is
/// kept, too.
fn is_descriptor(name: &Path) -> bool {
    let folder = name
        .parent()
        .and_then(|folder| std::fs::canonicalize(folder).ok());
    folder.is_some_and(|folder| folder.starts_with("/proc") && folder.ends_with("fd"))
}

/// Opens what is there, without changing it; a pipe once it has a reader.
fn through(name: &Path, path: &Path, found: &Metadata) -> Result<Destination, Failure> {
    let failed = || Failure::io(name.display());
    if found.is_file() && is_pool_file(path, found)? {
        return Err(pool(name));
    }
    let mut options = OpenOptions::new();
    options.append(found.is_file()).write(true);
    let file = options
        .custom_flags(OFlags::NOCTTY.bits() as i32)
        .open(path)
        .map_err(failed())?;
    match is_same(&file.metadata().map_err(failed())?, found) {
        true => Ok(Destination::Through(file)),
        false => Err(changed(name)),
    }
}

/// Fails unless a regular file may be replaced: one that the user may read, so that it is known to be no pool, and
/// write.
fn replaceable(name: &Path, path: &Path, found: &Metadata) -> Result<(), Failure> {
    let failed = || Failure::io(name.display());
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(path)
        .map_err(failed())?;
    if !is_same(&file.metadata().map_err(failed())?, found) {
        return Err(changed(name));
    }
    match is_pool(&file).map_err(failed())? {
        true => Err(pool(name)),
        false => Ok(()),
    }
}

/// Judges a path without links again, right before its file is replaced: what has come meanwhile must be a file that
/// may go.
pub fn judge_again(name: &Path, path: &Path) -> Result<(), Failure> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::io(name.display())(error)),
        Ok(found) if found.is_file() => replaceable(name, path, &found),
        Ok(_) => Err(changed(name)),
    }
}

/// Opens a file to go on with it at its end, and to read what is in it; made if there is none.
pub fn append(name: &Path) -> Result<File, Failure> {
    let failed = || Failure::io(name.display());
    let (path, found) = follow(name)?;
    if let Some(found) = &found
        && !found.is_file()
    {
        let what = kind_of(found.file_type());
        return Err(Failure::failed(format!(
            "{}: it is {what}; name a file",
            name.display()
        )));
    }
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .append(true)
        .create_new(found.is_none())
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(&path)
        .map_err(failed())?;
    let is = file.metadata().map_err(failed())?;
    if found.is_some_and(|found| !is_same(&is, &found)) {
        return Err(changed(name));
    }
    match is_pool(&file).map_err(failed())? {
        true => Err(pool(name)),
        false => Ok(file),
    }
}

fn is_pool_file(path: &Path, found: &Metadata) -> Result<bool, Failure> {
    if !found.is_file() {
        return Ok(false);
    }
    let file = open_read_only(path).map_err(Failure::io(path.display()))?;
    is_pool(&file).map_err(Failure::io(path.display()))
}

fn pool(name: &Path) -> Failure {
    Failure::failed(format!(
        "{}: it is a pool, which stays; name another file, or remove it first",
        name.display()
    ))
}

fn changed(name: &Path) -> Failure {
    Failure::failed(format!(
        "{}: somebody else put something there meanwhile; it stays",
        name.display()
    ))
}
