//! A pool to measure on: a given one, or a temporary one that is removed at the end, also when the command is
//! interrupted. A command that needs the pool's name no longer may remove it at once; then not even a kill leaves the
//! pool behind.

use std::path::{Path, PathBuf};

use cenote::{MemoryKind, Options};

use crate::failure::Failure;
use crate::interrupt::on_interrupt;
use crate::pool::resolve;

/// The pool to measure on; a temporary one goes when this is dropped.
pub struct Place {
    path: PathBuf,
    folder: Option<tempfile::TempDir>,
}

impl Place {
    /// An existing pool; if there is none, opening it fails.
    pub fn named(name: &str) -> Self {
        Self {
            path: resolve(name),
            folder: None,
        }
    }

    /// A new pool in `/dev/shm`. Call it before threads are started ([`on_interrupt`]).
    pub fn temporary(prefix: &str, kind: MemoryKind, options: &Options) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new()
            .prefix(prefix)
            .tempdir_in("/dev/shm")
            .map_err(|error| {
                Failure::failed(format!(
                    "/dev/shm: {error}; name a pool, to measure somewhere else"
                ))
            })?;
        let doomed = folder.path().to_owned();
        on_interrupt(move || {
            // A failure cannot be reported any more.
            let _ = std::fs::remove_dir_all(doomed);
        });
        let path = folder.path().join("pool");
        crate::memory::create(kind, &path, options)?;
        Ok(Self {
            path,
            folder: Some(folder),
        })
    }

    /// Removes the name of a temporary pool that is open: it lasts as long as a process has it open, and cannot be
    /// opened again.
    pub fn unlink(&mut self) {
        self.folder = None;
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
