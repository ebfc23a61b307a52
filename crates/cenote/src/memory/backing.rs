//! What a pool lies on: a file of a file system, or memory of a device, which has a size of its own.
//!
//! | what | its length | reserving | giving back |
//! |---|---|---|---|
//! | a file, on tmpfs or on a file system with or without DAX | the file's, which grows | `fallocate` | by holes |
//! | a DAX device, `/dev/daxX.Y` | `size` in `/sys/dev/char/MAJOR:MINOR`; the node's own is 0 | is there | never |
//! | the memory of a PCI device, `/sys/bus/pci/devices/…/resourceN` | the file's | is there | never |
//!
//! System calls cannot read or write devices; they can only be mapped, a DAX device in pieces of its alignment. At
//! first they may hold anything. Every other named object is refused, with a hint on what to do.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::mapping::{MappingError, os};
use super::opening::look_at;
use super::unfit::Unfit;

/// `SYSFS_MAGIC`.
const SYSFS: u64 = 0x6265_6572;
/// Where the kernel describes character devices.
const CHARACTER_DEVICES: &str = "/sys/dev/char";
const PAGE: u64 = 4096;

/// Memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its bytes.
    pub len: u64,
    /// What mappings of it begin and end at multiples of.
    pub align: u64,
}

/// What a pool lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A file of a file system.
    File,
    /// A device's memory.
    Device(Device),
}

impl Backing {
    /// What there is at a path; `None` if there is nothing. Does not open it: opening a pipe would wait for its other
    /// end, and opening some devices has effects. A symbolic link is an error.
    pub fn at(path: &Path) -> Result<Option<Self>, MappingError> {
        match look_at(path) {
            Ok(file) => Self::of(&file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(os("looking for the pool")(error)),
        }
    }

    /// What an open file is.
    pub(crate) fn of(file: &File) -> Result<Self, MappingError> {
        let found = file.metadata().map_err(os("looking at the pool file"))?;
        let kind = found.file_type();
        if kind.is_char_device() {
            return dax(&described(found.rdev()));
        }
        if kind.is_symlink() {
            return Err(MappingError::Unfit(Unfit::Link));
        }
        if kind.is_dir() {
            return Err(MappingError::Unfit(Unfit::Folder));
        }
        if kind.is_block_device() {
            return Err(MappingError::Unfit(Unfit::BlockDevice));
        }
        if !kind.is_file() {
            return Err(MappingError::Unfit(Unfit::Pipe));
        }
        if file_system(file)? != SYSFS {
            return Ok(Self::File);
        }
        let device = Device {
            len: found.len() & !(PAGE - 1),
            align: PAGE,
        };
        Ok(Self::Device(device))
    }

    /// The device, if it is one.
    pub fn device(self) -> Option<Device> {
        match self {
            Self::File => None,
            Self::Device(device) => Some(device),
        }
    }
}

/// Where the kernel describes a character device.
fn described(device: u64) -> PathBuf {
    Path::new(CHARACTER_DEVICES).join(format!("{}:{}", libc::major(device), libc::minor(device)))
}

/// A DAX device, by the folder that describes it.
fn dax(folder: &Path) -> Result<Backing, MappingError> {
    let subsystem = std::fs::read_link(folder.join("subsystem")).unwrap_or_default();
    if subsystem.file_name().is_none_or(|name| name != "dax") {
        return Err(MappingError::Unfit(Unfit::CharacterDevice));
    }
    let number = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name)).map_err(os("reading the DAX device's size"))?;
        let number = text.trim().parse::<u64>();
        number.map_err(|_| os("reading the DAX device's size")(io::ErrorKind::InvalidData.into()))
    };
    let align = number("align")?;
    if !align.is_power_of_two() || align < PAGE {
        return Err(MappingError::Unfit(Unfit::Alignment));
    }
    Ok(Backing::Device(Device {
        len: number("size")? & !(align - 1),
        align,
    }))
}

/// The number by which the kernel knows a file's file system.
fn file_system(file: &File) -> Result<u64, MappingError> {
    // SAFETY: `statfs` is plain data for which all zeroes is a valid value.
    let mut figures: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a plain system call that fills in a structure of ours.
    match unsafe { libc::fstatfs(file.as_raw_fd(), &mut figures) } {
        0 => Ok(figures.f_type as u64),
        _ => Err(os("looking at the pool's file system")(io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn describe(subsystem: &str, size: &str, align: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        symlink(
            format!("../../../../bus/{subsystem}"),
            folder.path().join("subsystem"),
        )
        .unwrap();
        std::fs::write(folder.path().join("size"), size).unwrap();
        std::fs::write(folder.path().join("align"), align).unwrap();
        folder
    }

    #[test]
    fn a_dax_device_is_as_large_as_the_kernel_says_in_whole_pieces() {
        let folder = describe("dax", "63963136\n", "2097152\n");
        let device = Device {
            len: 30 * 2097152,
            align: 2097152,
        };
        assert_eq!(dax(folder.path()).unwrap(), Backing::Device(device));
    }

    #[test]
    fn what_is_no_dax_device_or_says_no_size_is_refused() {
        for (subsystem, size, align) in [
            ("mem", "4096", "4096"),
            ("dax", "", "4096"),
            ("dax", "many", "4096"),
            ("dax", "4096", "0"),
            ("dax", "4096", "12288"),
        ] {
            let folder = describe(subsystem, size, align);
            assert!(dax(folder.path()).is_err(), "{subsystem} {size} {align}");
        }
        assert!(dax(Path::new("/no/such/folder")).is_err());
    }

    #[test]
    fn files_devices_folders_and_pipes_are_told_apart() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = folder.path().join("file");
        assert_eq!(Backing::at(&file).unwrap(), None);
        std::fs::write(&file, b"").unwrap();
        assert_eq!(Backing::at(&file).unwrap(), Some(Backing::File));
        // Two that every machine has, and one that must not be opened here: that would wait.
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for (path, word) in [
            (Path::new("/dev/null"), "no DAX device"),
            (folder.path(), "folder"),
            (&pipe, "pipe"),
        ] {
            let refused = Backing::at(path).unwrap_err().to_string();
            assert!(refused.contains(word), "{refused}");
        }
    }

    #[test]
    fn a_file_of_sysfs_is_a_device_of_its_own_length() {
        let found = Backing::at(Path::new("/sys/kernel/mm/transparent_hugepage/enabled"));
        let device = found.unwrap().and_then(Backing::device).unwrap();
        assert_eq!((device.align, device.len % PAGE), (PAGE, 0));
    }
}
