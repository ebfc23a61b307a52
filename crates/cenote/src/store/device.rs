//! Creating a pool on a device: memory that has a name before there is a pool, may hold anything, and cannot grow.
//!
//! A lock excludes two creators on one machine; it does not exclude creators on several machines. A creator zeroes the
//! header first, then the tables, then writes the header as [`Superblock::format`] does. So a creator that is killed
//! leaves a device that begins with zeroes, on which a pool can be created, or a pool that lacks frames, which grows
//! when they are needed; the next process that opens it recovers the creator's place.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::options::Options;
use super::pool::{HEAD_BYTES, format, io_error, parameters, superblock, superblock_of};
use crate::causes::{Occupant, Setting};
use crate::error::{Error, Result};
use crate::memory::checked::unpublished;
use crate::memory::{Backing, Device, FileLock, LINE, Liveness, Mapped, Mapping, Memory, Unfit};
use crate::pod::format::geometry::{FRAME, Geometry, MAX_FRAMES, Parameters};

/// The number of the creators' lock, which no place of a pool has.
const CREATION: u32 = u32::MAX;

/// How many bytes of data a pool on the device at a path has room for, beside tables as large as `options` say; `None`
/// if there is no device.
pub fn device_room<M: Mapped>(path: &Path, options: &Options) -> Result<Option<u64>> {
    match Backing::at(path) {
        Ok(Some(Backing::Device(device))) => Ok(Some(FRAME * room::<M>(options, device))),
        Ok(_) => Ok(None),
        Err(error) => Err(Error::about(path)(error)),
    }
}

/// The most frames that a pool on a device may have.
fn room<M: Mapped>(options: &Options, device: Device) -> u64 {
    let fits = |&frames: &u64| Geometry::new(parameters::<M>(options, frames)).mapped <= device.len;
    // A binary search: more frames need larger tables.
    let (mut most, mut too_many) = (0, (device.len / FRAME + 1).min(MAX_FRAMES + 1));
    while too_many - most > 1 {
        let frames = most + (too_many - most) / 2;
        match fits(&frames) {
            true => most = frames,
            false => too_many = frames,
        }
    }
    most
}

/// Creates a pool on an open device.
pub(super) fn create<M: Mapped>(path: &Path, file: File, device: Device, options: &Options) -> Result<()> {
    let lock_file = options.lock_file_of(path)?;
    let lock =
        FileLock::open_of(lock_file, options.trust_in_what_was_made()).map_err(Error::about(lock_file))?;
    if !lock.try_lock(CREATION)? {
        return Err(Error::Unfit {
            path: path.to_owned(),
            why: Unfit::InCreation,
        });
    }
    let room = room::<M>(options, device);
    if options.size.div_ceil(FRAME) > room {
        return Err(Error::InvalidOption {
            option: Setting::PoolSize,
            value: format!("{} bytes", options.size),
            why: "the device has less room beside the pool's tables; give a smaller size, or fewer processes and workers",
        });
    }
    let parameters = parameters::<M>(options, room.min(options.max.max(options.size).div_ceil(FRAME)));
    let superblock = superblock(parameters)?;
    let again = file.try_clone().map_err(io_error(path))?;
    let head = Mapping::of_device(again, device, HEAD_BYTES as u64)?.fresh_head()?;
    check_free(path, &head, &lock, options)?;
    let mem = M::over(Arc::new(Mapping::of_device(
        file,
        device,
        Geometry::new(parameters).mapped,
    )?))?;
    clear(&mem, parameters);
    format(mem, superblock, options, path, lock_file)
}

/// Fails if the device holds something, unless that may be overwritten; and in any case if a process of this machine
/// has a pool on it open.
fn check_free(path: &Path, head: &[u8; HEAD_BYTES], lock: &FileLock, options: &Options) -> Result<()> {
    if head.iter().all(|&byte| byte == 0xff) {
        return Err(Error::Unfit {
            path: path.to_owned(),
            why: Unfit::SwitchedOff,
        });
    }
    let of_device = FileLock::open_of(path, options.trust()).map_err(Error::about(path))?;
    // Whatever its header says, and wherever those processes have their locks: in the file that this creator uses, or
    // on the device.
    if lock.is_any_locked()? || of_device.is_any_locked()? {
        return Err(Error::Unfit {
            path: path.to_owned(),
            why: Unfit::InUse,
        });
    }
    let what = match superblock_of(path, head) {
        _ if options.overwrite || head.iter().all(|&byte| byte == 0) => return Ok(()),
        Ok(_) => Occupant::Pool,
        Err(_) => Occupant::Unknown,
    };
    let path = path.to_owned();
    Err(Error::Occupied { path, what })
}

/// Zeroes everything before the frames, the header first.
fn clear<M: Memory>(mem: &M, parameters: Parameters) {
    let data = Geometry::new(parameters).data;
    for (at, len) in [(0, LINE), (LINE, data - LINE)] {
        unpublished(at, len).zero(mem);
        mem.persist(at, len);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::memory::{Coherent, Noncoherent};
    use crate::store::Pool;

    const DEVICE: Device = Device {
        len: 24 << 20,
        align: 2 << 20,
    };

    /// A file that stands for a device, full of what was there before, but for its beginning.
    fn device(folder: &tempfile::TempDir) -> (std::path::PathBuf, File) {
        let path = folder.path().join("device");
        std::fs::write(&path, vec![0xa5; DEVICE.len as usize]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        file.write_all_at(&[0; HEAD_BYTES], 0).unwrap();
        (path, file)
    }

    fn options() -> Options {
        Options {
            size: 4 << 20,
            ..Options::default()
        }
    }

    fn works<M: Mapped>() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let (path, file) = device(&folder);
        create::<M>(&path, file, DEVICE, &options()).unwrap();
        let pool = Pool::<M>::open(&path, &options()).unwrap();
        let map = pool.map("m").unwrap();
        for n in 0..10_000 {
            map.put_u64(n, n).unwrap();
        }
        assert_eq!(map.get_u64(9_999).unwrap(), Some(9_999));
        let stat = pool.stat().unwrap();
        assert_eq!(stat.max_bytes, FRAME * room::<M>(&options(), DEVICE));
        drop(map);
        assert!(pool.fsck().unwrap().is_clean());
        assert_eq!(path.metadata().unwrap().len(), DEVICE.len);
    }

    #[test]
    fn what_a_device_held_before_does_not_matter() {
        works::<Coherent>();
        works::<Noncoherent>();
    }

    #[test]
    fn a_pool_has_all_the_room_that_its_tables_leave() {
        let frames = room::<Coherent>(&options(), DEVICE);
        let mapped = |frames| Geometry::new(parameters::<Coherent>(&options(), frames)).mapped;
        assert!(mapped(frames) <= DEVICE.len && mapped(frames + 1) > DEVICE.len);
        let tiny = Device {
            len: 4096,
            align: 4096,
        };
        assert_eq!(room::<Coherent>(&options(), tiny), 0);
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let (path, file) = device(&folder);
        let refused = create::<Coherent>(&path, file, tiny, &options());
        assert!(matches!(refused, Err(Error::InvalidOption { .. })), "{refused:?}");
    }

    #[test]
    fn what_is_there_is_overwritten_only_on_demand_and_never_while_it_is_open() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let (path, file) = device(&folder);
        let create =
            |options: &Options| create::<Coherent>(&path, file.try_clone().unwrap(), DEVICE, options);
        let overwrite = Options {
            overwrite: true,
            ..options()
        };
        file.write_all_at(b"something else", 0).unwrap();
        let refused = create(&options());
        assert!(
            matches!(
                &refused,
                Err(Error::Occupied {
                    what: Occupant::Unknown,
                    ..
                })
            ),
            "{refused:?}"
        );
        create(&overwrite).unwrap();
        let refused = create(&options());
        assert!(
            matches!(
                &refused,
                Err(Error::Occupied {
                    what: Occupant::Pool,
                    ..
                })
            ),
            "{refused:?}"
        );
        let pool = Pool::<Coherent>::open(&path, &options()).unwrap();
        pool.map("m").unwrap().put_u64(1, 1).unwrap();
        let refused = create(&overwrite);
        assert!(
            matches!(
                &refused,
                Err(Error::Unfit {
                    why: Unfit::InUse,
                    ..
                })
            ),
            "{refused:?}"
        );
        drop(pool);
        create(&overwrite).unwrap();
        let pool = Pool::<Coherent>::open(&path, &options()).unwrap();
        assert!(pool.existing_map("m").is_err());
        // One that is switched off.
        drop(pool);
        file.write_all_at(&[0xff; HEAD_BYTES], 0).unwrap();
        assert!(create(&overwrite).unwrap_err().to_string().contains("enable"));
    }

    #[test]
    fn one_creates_at_a_time_and_the_lock_file_may_be_another() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let (path, file) = device(&folder);
        let lock_file = folder.path().join("locks");
        let elsewhere = Options {
            lock_file: Some(lock_file.clone()),
            ..options()
        };
        FileLock::make(&lock_file, 0o600).unwrap();
        let other = FileLock::open(&lock_file).unwrap();
        assert!(other.try_lock(CREATION).unwrap());
        let create = || create::<Coherent>(&path, file.try_clone().unwrap(), DEVICE, &elsewhere);
        let refused = create();
        assert!(
            matches!(
                &refused,
                Err(Error::Unfit {
                    why: Unfit::InCreation,
                    ..
                })
            ),
            "{refused:?}"
        );
        other.unlock(CREATION).unwrap();
        create().unwrap();
        let pool = Pool::<Coherent>::open(&path, &elsewhere).unwrap();
        assert!(other.is_locked(0).unwrap());
        drop(pool);
    }
}
