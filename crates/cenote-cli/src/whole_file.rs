//! Output files that a user named. They appear under their name only when they are complete; those whose name ends in
//! .gz are compressed. [What has the name already](crate::destination) is replaced only if it is an ordinary file.
//!
//! Until it is complete, a file has an unguessable name in the same folder; it is removed if the work fails, or is
//! interrupted. A replaced file keeps its mode. The user's umask decides the mode of a new file; a file made of a pool
//! is never readable by users who may not read the pool.

use std::cell::Cell;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::NamedTempFile;

use crate::destination::{Destination, is_same, judge, judge_again};
use crate::failure::Failure;
use crate::interrupt::on_interrupt;
use crate::records::is_gzip;

/// The read and write permissions of all users.
const ALL: u32 = 0o666;
const GROUP: u32 = 0o070;
const BUFFER: usize = 1 << 18;

/// A file that is to be written.
pub struct Target {
    name: PathBuf,
    destination: Destination,
    /// The pool that it is made of.
    pool: Option<Metadata>,
    /// What an interrupted command removes.
    partial: Arc<Mutex<Option<PathBuf>>>,
}

impl Target {
    /// Judges what a user named; `-` is standard output. Call it before anything costly is begun, and before threads
    /// are started ([`on_interrupt`]).
    pub fn at(name: &Path) -> Result<Self, Failure> {
        let destination = judge(name)?;
        let partial = Arc::<Mutex<Option<PathBuf>>>::default();
        if matches!(destination, Destination::Named(..)) {
            let doomed = partial.clone();
            on_interrupt(move || {
                if let Some(doomed) = doomed.lock().ok().and_then(|mut doomed| doomed.take()) {
                    // A failure cannot be reported any more.
                    let _ = std::fs::remove_file(doomed);
                }
            });
        }
        Ok(Self {
            name: name.to_owned(),
            destination,
            pool: None,
            partial,
        })
    }

    /// The content comes from a pool: the file must not be that pool, and if it is new, only users who may read the
    /// pool may read it.
    pub fn made_of(mut self, pool: &Path) -> Result<Self, Failure> {
        self = self.not_over(pool, "the pool that is read")?;
        self.pool = Some(pool.metadata().map_err(Failure::io(pool.display()))?);
        Ok(self)
    }

    /// The file must not be `other`, by whatever names, which is `what`.
    pub fn not_over(self, other: &Path, what: &str) -> Result<Self, Failure> {
        let found = match &self.destination {
            Destination::Named(_, None) => return Ok(self),
            Destination::Named(_, Some(found)) => found.clone(),
            Destination::Through(file) | Destination::Stdout(file) => {
                file.metadata().map_err(Failure::io(self.name.display()))?
            }
        };
        // If its metadata cannot be read, reading the file will report that.
        match other.metadata() {
            Ok(other) if other.is_file() && is_same(&other, &found) => Err(Failure::failed(format!(
                "{}: it is {what}, which stays; name another file",
                self.name.display()
            ))),
            _ => Ok(self),
        }
    }

    /// Whether it is standard output, where nothing else may then be printed.
    pub fn is_stdout(&self) -> bool {
        matches!(self.destination, Destination::Stdout(_))
    }

    /// Writes it by `work`; what that returns is returned when the file has its name.
    pub fn write<T>(self, work: impl FnOnce(&mut dyn Write) -> Result<T, Failure>) -> Result<T, Failure> {
        let (is_packed, is_stdout) = (is_gzip(&self.name), self.is_stdout());
        let is_closed = Cell::new(false);
        let done = self.fill(|file, failure| {
            let noted = Noted {
                file,
                is_closed: &is_closed,
            };
            let mut buffered = BufWriter::with_capacity(BUFFER, noted);
            let done = if is_packed {
                let mut gzip = GzEncoder::new(&mut buffered, Compression::default());
                let done = work(&mut gzip)?;
                gzip.finish().map_err(failure)?;
                done
            } else {
                work(&mut buffered)?
            };
            buffered.flush().map_err(failure)?;
            Ok(done)
        });
        match is_stdout && is_closed.get() {
            true => Err(Failure::PipeClosed),
            false => done,
        }
    }

    /// Writes it by `work`, which also reads what it has written.
    pub fn write_and_read<T>(self, work: impl FnOnce(&File) -> Result<T, Failure>) -> Result<T, Failure> {
        let is_named = matches!(self.destination, Destination::Named(..));
        self.fill(|file, failure| {
            if is_named {
                return work(file);
            }
            // What is written through may not be read.
            let mut whole = tempfile::tempfile().map_err(failure)?;
            let done = work(&whole)?;
            whole.rewind().map_err(failure)?;
            io::copy(&mut whole, &mut &*file).map_err(failure)?;
            Ok(done)
        })
    }

    fn fill<T>(
        self,
        work: impl FnOnce(&File, &dyn Fn(io::Error) -> Failure) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let failure = |error| Failure::io(self.name.display())(error);
        match &self.destination {
            Destination::Through(file) => work(file, &failure),
            Destination::Stdout(file) => work(file, &Failure::stdout),
            Destination::Named(path, old) => {
                let temporary = self.temporary(path, old.as_ref())?;
                let done = work(temporary.as_file(), &failure)?;
                if let Some(old) = old {
                    like(temporary.as_file(), old).map_err(failure)?;
                }
                temporary.as_file().sync_all().map_err(failure)?;
                judge_again(&self.name, path)?;
                temporary.persist(path).map_err(|error| failure(error.error))?;
                Ok(done)
            }
        }
    }

    /// A file in the folder of what it will be.
    fn temporary(&self, path: &Path, old: Option<&Metadata>) -> Result<NamedTempFile, Failure> {
        let make = |mode| {
            let folder = path.parent().unwrap_or(Path::new("/"));
            let failed = |error: io::Error| {
                let (name, folder, why) = (self.name.display(), folder.display(), error.kind());
                Failure::failed(format!("{name}: no file can be made in {folder}: {why}"))
            };
            let temporary = tempfile::Builder::new()
                .prefix(".cenote-partial-")
                .rand_bytes(12)
                // What the user's umask leaves of it.
                .permissions(Permissions::from_mode(mode))
                .tempfile_in(folder)
                .map_err(failed)?;
            if let Ok(mut partial) = self.partial.lock() {
                *partial = Some(temporary.path().to_owned());
            }
            Ok::<_, Failure>(temporary)
        };
        let Some(pool) = &self.pool else {
            return make(if old.is_some() { 0o600 } else { ALL });
        };
        if old.is_some() {
            return make(0o600);
        }
        // Not even for a moment may others open it. Which group it belongs to shows when it is there.
        let temporary = make(pool.mode() & ALL & for_another_group(pool.mode()))?;
        let found = temporary.as_file().metadata();
        if found.map_err(Failure::io(self.name.display()))?.gid() == pool.gid() {
            drop(temporary);
            return make(pool.mode() & ALL);
        }
        Ok(temporary)
    }
}

/// A file, and whether it was a pipe that has no reader any more: it is no failure if the reader of standard output has
/// enough.
struct Noted<'f> {
    file: &'f File,
    is_closed: &'f Cell<bool>,
}

impl Write for Noted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        if let Err(error) = &written {
            self.is_closed.set(error.kind() == io::ErrorKind::BrokenPipe);
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// What is left of a mode if the file belongs to another group than it did: the group may do what all users may do.
fn for_another_group(mode: u32) -> u32 {
    mode & (!GROUP | (mode & 0o007) << 3)
}

/// Gives a file the mode of the one that it replaces, and its owner where the kernel permits that.
fn like(file: &File, old: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (old.uid(), old.gid()) {
        // Ordinary users can give away nothing, and to a group only if it is theirs.
        let _ =
            fchown(file, Some(old.uid()), Some(old.gid())).or_else(|_| fchown(file, None, Some(old.gid())));
    }
    let mode = match file.metadata()?.gid() == old.gid() {
        true => old.mode(),
        false => for_another_group(old.mode()),
    };
    file.set_permissions(Permissions::from_mode(mode & 0o777))
}

#[cfg(test)]
mod tests {
    use super::for_another_group;

    #[test]
    fn another_group_may_no_more_than_everybody() {
        for (mode, left) in [
            (0o600, 0o600),
            (0o660, 0o600),
            (0o664, 0o644),
            (0o666, 0o666),
            (0o644, 0o644),
            (0o640, 0o600),
        ] {
            assert_eq!(for_another_group(mode), left, "{mode:o}");
        }
    }
}
