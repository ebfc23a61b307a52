//! Opening a pool to read it: the file is open for reading only, and the mapping cannot be written.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::super::options::Options;
use super::super::pool::{HEAD_BYTES, Pool, io_error, opened, superblock_of};
use super::Reader;
use crate::causes::Foreign;
use crate::error::{Error, Result};
use crate::memory::{self, Backing, Mapped, Mapping, ReaderLiveness, Trust};
use crate::pod::format::geometry::Geometry;
use crate::pod::format::superblock::MemoryKind;
use crate::pod::instance::process::Identity;

/// Opens a pool's file for reading.
pub(in crate::store) fn open_to_read(path: &Path, trust: Trust) -> Result<File> {
    memory::open_to_read(path, trust).map_err(opened(path))
}

/// Reads the first bytes of a pool's file, or of a device.
pub(in crate::store) fn read_head(path: &Path, file: File) -> Result<[u8; HEAD_BYTES]> {
    if Backing::of(&file)?.device().is_some() {
        let head = Mapping::to_read(file, HEAD_BYTES as u64).and_then(|device| device.fresh_head());
        return head.map_err(Error::about(path));
    }
    let mut bytes = [0; HEAD_BYTES];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(Error::NotAPool {
            path: path.to_owned(),
            why: Foreign::TooShort,
        }),
        Err(error) => Err(io_error(path)(error)),
    }
}

impl<M: Mapped> Pool<M> {
    /// Opens a pool for reading, without a place in it. See [`Reader`], which has no operations that change anything.
    ///
    /// # Errors
    ///
    /// Those of [`Pool::open`], except for places, hosts and permission to write. Damage outside the superblock is
    /// found when it is read.
    pub fn open_read_only(path: impl AsRef<Path>, options: &Options) -> Result<Reader<M>> {
        Reader::open(path.as_ref(), options)
    }
}

impl<M: Mapped> Reader<M> {
    fn open(path: &Path, options: &Options) -> Result<Self> {
        let trust = options.trust();
        let file = open_to_read(path, trust)?;
        let head = read_head(path, file.try_clone().map_err(io_error(path))?)?;
        let superblock = superblock_of(path, &head)?;
        if superblock.parameters.kind != MemoryKind::of::<M>() {
            return Err(Error::OtherMemoryKind {
                pool: superblock.parameters.kind,
                asked: MemoryKind::of::<M>(),
            });
        }
        let geometry = Geometry::new(superblock.parameters);
        let mapping = Mapping::to_read(file, geometry.mapped).map_err(Error::about(path))?;
        let file_len = mapping.file_len()?;
        if file_len < geometry.data {
            return Err(Error::corrupt(
                "a file shorter than its tables (was it truncated?), seen",
                file_len,
            ));
        }
        let lock_file = options.lock_file.as_deref().unwrap_or(path);
        let identity = Identity::here(path, lock_file, options.host);
        let reader = Self {
            // Without the liveness locks, all processes count as alive.
            locks: ReaderLiveness::open(lock_file, trust).ok().map(Arc::new),
            there: |mem: &M| mem.mapping().file_len(),
            ..Self::over(M::over(Arc::new(mapping))?, superblock, identity)
        };
        reader.committed()?;
        Ok(reader)
    }
}
