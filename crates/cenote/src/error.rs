//! Errors: each says what went wrong, where, and what to do.

use std::path::{Path, PathBuf};

use crate::causes::{
    Counted, Foreign, Found, HostError, Occupant, RepairObstacle, Setting, Shortage, Structure, Table,
};
use crate::memory::{Distrust, MappingError, Unfit};
use crate::pod::format::lock_kind::LockKind;
use crate::pod::format::superblock::MemoryKind;

/// A result of this library.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong with a pool. No error leaves the pool damaged or an operation half done.
///
/// The documentation of a function names the errors that a caller may want to match. Besides, nearly every one may fail
/// with [`Error::Mapping`], [`Error::Io`], [`Error::Corrupt`] and, in a child of the process that opened the pool,
/// [`Error::Forked`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a call.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// A file could not be used.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A path names something that cannot hold a pool.
    #[error("{path}: a pool cannot lie here: {why}")]
    Unfit {
        /// Which path.
        path: PathBuf,
        /// What is there, and what to do.
        why: Unfit,
    },
    /// A pool, or the file of its liveness locks, belongs to or may be written by a user who is not trusted.
    #[error(
        "{path}: {why}, and every user who may write it can change all that is read from it; if they are trusted, say so \
         (--trust-owner, Options::trust_owner), else name another file{}",
        to_make_it_ones_own(*.why)
    )]
    Distrusted {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: Distrust,
    },
    /// A pool's file cannot be created at a path.
    #[error(
        "{path}: {source}; name a file in a folder on tmpfs or another file system that this process may write to"
    )]
    CannotCreate {
        /// Which path.
        path: PathBuf,
        /// What went wrong.
        source: MappingError,
    },
    /// Creating a pool would overwrite something.
    #[error(
        "{path}: {what}; `cenote create --overwrite` creates a new pool there. Be certain that no host has it open"
    )]
    Occupied {
        /// Which device.
        path: PathBuf,
        /// What is there.
        what: Occupant,
    },
    /// There is no file for the liveness locks, and none can be created.
    #[error(
        "{path}: {source}; name a file on a file system of this machine for the liveness locks (--lock-file)"
    )]
    LockFile {
        /// Which file.
        path: PathBuf,
        /// What went wrong.
        source: MappingError,
    },
    /// The file is not a pool.
    #[error("{path} is not a cenote pool: {why}; create one with `cenote create`")]
    NotAPool {
        /// Which file.
        path: PathBuf,
        /// How that was seen.
        why: Foreign,
    },
    /// The pool's format is newer than this library, or older than it reads.
    #[error(
        "{path} has pool format version {found}, this build reads version {supported}; use a matching version of cenote"
    )]
    Version {
        /// Which file.
        path: PathBuf,
        /// The file's version.
        found: u32,
        /// The version of this build.
        supported: u32,
    },
    /// The pool was made for memory of another kind.
    #[error("the pool was created for {} memory and cannot be opened as {} memory", .pool.name(), .asked.name())]
    OtherMemoryKind {
        /// What the pool is for.
        pool: MemoryKind,
        /// What was asked for.
        asked: MemoryKind,
    },
    /// A compare-and-replace that a map which overwrites in place cannot do atomically.
    #[error(
        "the map overwrites 8-byte values in place: such a value can be compared and replaced by 8 bytes, not by {len}; \
         make the map out of place"
    )]
    InPlace {
        /// Bytes of the new value.
        len: usize,
    },
    /// Something read from the pool cannot be right.
    #[error("damaged pool: {what} at offset {at:#x}; run `cenote fsck` on it")]
    Corrupt {
        /// What was read.
        what: &'static str,
        /// Where.
        at: u64,
    },
    /// There is no room, and no garbage that would make room, or others hold it back for longer than a write waits: one
    /// second, on incoherent memory two to four, and the time of some 64 to 160 attempts, of which one in eight reads
    /// every block: three to five seconds in all for 4 GiB there.
    #[error(
        "the pool is full: {needed} bytes do not fit ({why}{}); delete something, or use a larger maximum or file system",
        at_most(*.largest)
    )]
    Full {
        /// How many bytes were wanted.
        needed: u64,
        /// What the limit was.
        why: Shortage,
        /// Bytes of the largest piece that there is, or that there may be once the pool has grown; `None` where that
        /// says nothing.
        largest: Option<u64>,
    },
    /// An object store may not become larger.
    #[error(
        "{needed} bytes do not fit the object store's quota: {used} of {limit} are in use; delete something, or make a store with a larger quota"
    )]
    Quota {
        /// How many bytes were wanted.
        needed: u64,
        /// How many are in use.
        used: u64,
        /// The quota.
        limit: u64,
    },
    /// All places in a table of the pool are taken.
    #[error(
        "all {limit} {what} of the pool are in use; close some, or create the pool with more (`--{}`)",
        .what.flag()
    )]
    TooMany {
        /// Which table is full.
        what: Table,
        /// How many there may be.
        limit: u32,
    },
    /// A reader without a place was asked to change something.
    #[error("the pool is open for reading, without a place in it; open it with a place to change something")]
    ReadOnly,
    /// Others changed the pool in every attempt to read it without a place.
    #[error(
        "others change the pool too quickly for a reader without a place; try again, or read with a place once one of them has closed the pool"
    )]
    Busy,
    /// A key is longer than a key may be.
    #[error("a key of {len} bytes is too long; keys have at most {max} bytes")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
        /// The maximum in bytes.
        max: usize,
    },
    /// A name cannot be used.
    #[error("the name {name:?} cannot be used: names have 1 to {max} bytes")]
    InvalidName {
        /// The name.
        name: String,
        /// The maximum in bytes.
        max: usize,
    },
    /// There is nothing of that kind and name.
    #[error("the pool has no {kind} named {name:?}{}", .kind.making())]
    NoSuch {
        /// What was asked for.
        kind: Structure,
        /// The name.
        name: String,
    },
    /// The lock was removed after the handle on it was opened.
    #[error("the lock has been removed since it was opened; open it by its name again")]
    LockRemoved,
    /// What the handle is for was dropped after it was opened.
    #[error("it has been dropped since it was opened; open it by its name again")]
    Dropped,
    /// A semaphore has another number of permits.
    #[error("the semaphore {name:?} has {has} permits, not {asked}; ask for as many, or remove it first")]
    Permits {
        /// Its name.
        name: String,
        /// How many it has.
        has: u32,
        /// How many were asked for.
        asked: u32,
    },
    /// A semaphore cannot have so many permits.
    #[error("a semaphore has 1 to {most} permits, not {asked}")]
    PermitsAsked {
        /// How many were asked for.
        asked: u32,
        /// How many it can have.
        most: u32,
    },
    /// A lock cannot be removed, as a thread holds it.
    #[error("the lock {name:?} is held; have it unlocked first, or wait for it longer")]
    LockHeld {
        /// The lock's name.
        name: String,
    },
    /// The lock to be removed is an array, or one of its locks.
    #[error("locks of an array cannot be removed, nor can the array")]
    InArray,
    /// An array of locks has another number of locks, or another kind.
    #[error("{name:?} is an array of {count} locks of the kind {}; open it as such", .kind.name())]
    OtherArray {
        /// Its name.
        name: String,
        /// How many locks it has.
        count: u32,
        /// Which kind of lock they are.
        kind: LockKind,
    },
    /// A thread asked for a lock that it holds.
    #[error("this thread holds the lock already and would wait for itself; unlock it first")]
    Deadlock,
    /// A thread holds or waits for as many locks as it can.
    #[error("this thread holds or waits for {limit} locks already; unlock one first")]
    TooManyLocks {
        /// How many it can.
        limit: usize,
    },
    /// All nodes of a directory lock are in use by other processes.
    #[error(
        "other processes use all {limit} nodes of the directory lock; close it in one of them, or make a lock with more nodes"
    )]
    TooManyNodes {
        /// How many it has.
        limit: u8,
    },
    /// The token given is not the group's.
    #[error("the token is not that of the group {name:?}")]
    WrongToken {
        /// The group's name.
        name: String,
    },
    /// The group has a living member of that name.
    #[error(
        "the group has a living member named {name:?}; a member rejoins under its name when it has left or died"
    )]
    MemberTaken {
        /// The name.
        name: String,
    },
    /// A group has no place for one more member.
    #[error("all {limit} places of the group are taken by living members")]
    GroupCrowded {
        /// How many there may be.
        limit: u64,
    },
    /// A group has no room for the events of one more member.
    #[error("the group's log is full: {slowest:?} has {behind} events to read; have it read them, or end it")]
    GroupFull {
        /// The member that has read least; empty for an observer.
        slowest: String,
        /// Events that it has not read.
        behind: u64,
    },
    /// The name is that of something else.
    #[error("{name:?} is {kind}, and cannot be opened as anything else")]
    OtherKind {
        /// The name.
        name: String,
        /// What it is.
        kind: Found,
    },
    /// An option has a value that cannot work.
    #[error("{option} cannot be {value}: {why}")]
    InvalidOption {
        /// Which option.
        option: Setting,
        /// Its value.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The pool cannot be repaired now.
    #[error("the pool cannot be repaired now: {0}")]
    RepairRefused(RepairObstacle),
    /// There is a task list of this name, and it was made with another [`Plan`](crate::Plan).
    #[error("the task list {name:?} was made with another plan; use another name")]
    OtherPlan {
        /// Its name.
        name: String,
    },
    /// The value under a lock has another size than the type that was asked for.
    #[error("the value under this lock has {has} bytes, the type {asked}")]
    OtherValueSize {
        /// Bytes of the value.
        has: u64,
        /// Bytes of the type.
        asked: u64,
    },
    /// There are fewer.
    #[error("{what} {index} of {count}: they are counted from 0")]
    OutOfRange {
        /// Of what.
        what: Counted,
        /// Which one was asked for.
        index: u64,
        /// How many there are.
        count: u64,
    },
    /// A host cannot do what was asked, because of its present phase.
    #[error("host {host}: {source}")]
    Host {
        /// The host's id.
        host: u32,
        /// What is in the way, and what to do.
        source: HostError,
    },
    /// A request that no server has answered.
    #[cfg(feature = "baselines")]
    #[error(
        "the server of this key is gone, or could not answer; whether the request was carried out is not known; start a server"
    )]
    Unanswered,
    /// Somebody repairs the pool: meanwhile nobody else may have it open, nor another thread use it.
    #[error(
        "the pool is being repaired by process {pid} (`cenote fsck --repair`); wait until that has ended, and try again{}",
        of_another_machine(*.is_elsewhere)
    )]
    Repairing {
        /// The repairer's process id.
        pid: u64,
        /// Whether it may be on another machine: then nobody here can tell whether it lives.
        is_elsewhere: bool,
    },
    /// This process was forked from the one that opened the pool.
    #[error("this process was forked from the one that opened the pool; open the pool anew in the child")]
    Forked,
}

fn at_most(largest: Option<u64>) -> String {
    largest.map_or_else(String::new, |bytes| format!("; at most {bytes} would"))
}

fn to_make_it_ones_own(why: Distrust) -> &'static str {
    match why {
        Distrust::Owner { .. } => "",
        Distrust::Everybody { .. } => ", or revoke that permission (chmod o-w)",
    }
}

fn of_another_machine(is_elsewhere: bool) -> &'static str {
    match is_elsewhere {
        true => {
            "; it is on another machine, or this one was started anew since: if it has died, run `cenote stat --host 0` on the pool where it was"
        }
        false => "",
    }
}

impl Error {
    /// The error for the file at a path.
    pub(crate) fn about(path: &Path) -> impl FnOnce(MappingError) -> Self {
        move |error| {
            let path = path.to_owned();
            match error {
                MappingError::Unfit(why) => Self::Unfit { path, why },
                MappingError::Distrusted(why) => Self::Distrusted { path, why },
                error => error.into(),
            }
        }
    }

    /// A damaged pool.
    pub(crate) fn corrupt(what: &'static str, at: u64) -> Self {
        Self::Corrupt { what, at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(kind: Found) -> String {
        let name = "n".to_owned();
        Error::OtherKind { name, kind }.to_string()
    }

    #[test]
    fn what_a_name_is_of_is_said_in_words() {
        let is = |structure| other(Found::Is(structure));
        let no_more = "and cannot be opened as anything else";
        assert_eq!(is(Structure::HashMap), format!("\"n\" is a hash map, {no_more}"));
        assert_eq!(
            is(Structure::OrderedMap),
            format!("\"n\" is an ordered map, {no_more}")
        );
        assert_eq!(
            is(Structure::LockArray),
            format!("\"n\" is an array of locks, {no_more}")
        );
        let lock = Structure::LockOf(LockKind::Rw);
        assert_eq!(is(lock), format!("\"n\" is a reader-writer lock, {no_more}"));
        assert_eq!(
            other(Found::IsNot(Structure::Tasks)),
            format!("\"n\" is no task list, {no_more}")
        );
    }

    #[test]
    fn what_is_missing_is_said_with_how_to_make_it() {
        let missing = |kind| {
            let name = "n".to_owned();
            Error::NoSuch { kind, name }.to_string()
        };
        assert_eq!(missing(Structure::Map), "the pool has no map named \"n\"");
        assert_eq!(missing(Structure::Tasks), "the pool has no task list named \"n\"");
        assert_eq!(missing(Structure::Lock), "the pool has no lock named \"n\"");
        assert_eq!(
            missing(Structure::Group),
            "the pool has no group named \"n\"; make it with `cenote group create`"
        );
    }

    #[test]
    fn a_full_table_is_named_with_the_option_that_sets_its_size() {
        let full = Error::TooMany {
            what: Table::Workers,
            limit: 7,
        };
        assert_eq!(
            full.to_string(),
            "all 7 worker places of the pool are in use; close some, or create the pool with more (`--workers`)"
        );
    }
}
