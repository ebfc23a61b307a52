//! Why a file or a device is not used for a pool or for liveness locks.

/// Why something cannot hold a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// A symbolic link.
    #[error(
        "it is a symbolic link, which is not followed, as others may have planted it; name the file that it points to"
    )]
    Link,
    /// A folder.
    #[error("it is a folder; name a file in it")]
    Folder,
    /// A block device.
    #[error(
        "it is a block device, which cannot be shared as memory; make a DAX device of it \
         (`ndctl create-namespace --mode=devdax`), or mount its file system with `-o dax` and name a file there"
    )]
    BlockDevice,
    /// A pipe or a socket.
    #[error("it is a pipe or a socket; name a file")]
    Pipe,
    /// A character device that is no DAX device.
    #[error(
        "it is a character device, and no DAX device; name one (/dev/daxX.Y), the memory of a PCI device \
         (/sys/bus/pci/devices/…/resourceN), or a file"
    )]
    CharacterDevice,
    /// A DAX device without a usable alignment.
    #[error("the kernel names no alignment of this DAX device that is a power of two")]
    Alignment,
    /// A device that is shorter than its pool.
    #[error("the device is shorter than the pool")]
    Short,
    /// A file on which another process has a lease.
    #[error(
        "another process has a lease on it (fcntl F_SETLEASE), and would have to give it back first; end that one"
    )]
    Leased,
    /// A device on which another process is creating a pool.
    #[error("another process is creating one; wait for it")]
    InCreation,
    /// A device that is switched off.
    #[error(
        "the device reads as ones, as one that is switched off does; of a PCI device, write 1 to `enable` beside it"
    )]
    SwitchedOff,
    /// A device with a pool that is in use.
    #[error("a process of this machine has the pool on it open; end it first")]
    InUse,
}

/// Why a file cannot hold a pool's liveness locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WrongLockFile {
    /// It is a symbolic link.
    #[error("{}", Unfit::Link)]
    Link,
    /// It is something else than a file.
    #[error("liveness locks can only be on a file")]
    NoFile,
    /// It holds the locks of another pool that is open.
    #[error("it holds the liveness locks of another pool, which a process has open")]
    OtherPool,
    /// Processes that have this pool open use another file.
    #[error("the processes that have the pool open have their liveness locks on another file")]
    OtherFile,
}
