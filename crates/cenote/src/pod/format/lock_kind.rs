//! The kinds of locks, and the words that stand for them in a lock's header.

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LockKind {
    /// The first thread that sees it free gets it; waiters poll.
    Spin,
    /// The first thread that sees it free gets it, for a while; waiters sleep, and come first in the end.
    Mutex,
    /// First come, first served.
    Queue,
    /// One writer or any number of readers.
    Rw,
    /// So many owners at a time.
    Semaphore,
    /// Nobody owns it: threads wait for notifications.
    Condvar,
    /// One writer or any number of readers, which processes keep until another one asks. An object of its own kind, not
    /// a lock with this word in its header.
    Directory,
}

impl LockKind {
    pub(crate) const fn encode(self) -> u64 {
        match self {
            Self::Spin => 1,
            Self::Queue => 2,
            Self::Rw => 3,
            Self::Mutex => 4,
            Self::Semaphore => 5,
            Self::Condvar => 6,
            Self::Directory => 7,
        }
    }

    pub(crate) const fn decode(word: u64) -> Option<Self> {
        match word {
            1 => Some(Self::Spin),
            2 => Some(Self::Queue),
            3 => Some(Self::Rw),
            4 => Some(Self::Mutex),
            5 => Some(Self::Semaphore),
            6 => Some(Self::Condvar),
            _ => None,
        }
    }

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Queue => "queue",
            Self::Rw => "rw",
            Self::Mutex => "mutex",
            Self::Semaphore => "semaphore",
            Self::Condvar => "condvar",
            Self::Directory => "directory",
        }
    }

    /// What it is, for messages.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Spin => "spin lock",
            Self::Queue => "queue lock",
            Self::Rw => "reader-writer lock",
            Self::Mutex => "mutex",
            Self::Semaphore => "semaphore",
            Self::Condvar => "condition variable",
            Self::Directory => "directory lock",
        }
    }
}
