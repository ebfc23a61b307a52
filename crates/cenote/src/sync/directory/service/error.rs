//! Why a thread does not get, or keep, a lock of a lock service.

use crate::sync::directory::messages::message::{NAME_MAX, Refusal};
use crate::sync::directory::messages::region::{DATA_MAX, REGIONS_MAX};

/// Why a thread does not get, or keep, a lock of a lock service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The thread has it, or waits for it.
    #[error("this thread has the lock already, and would wait for itself; unlock it first")]
    Deadlock,
    /// The service has declared this node dead: it has heard nothing of it for the lease, or nonsense. Others may have
    /// had all locks of the node since. What the node had written and not handed over is lost, and the next owners are
    /// told.
    #[error("the lock service has declared this node dead; others may have its locks. Connect anew")]
    Fenced,
    /// The connection to the service is cut, by the service's end, by its host's or by the network's. As
    /// [`Error::Fenced`] in all else.
    #[error("the connection to the lock service is cut; others may have this node's locks. Connect anew")]
    Disconnected,
    /// The lease has run out: nobody knows whether the service has declared this node dead. An answer of the service,
    /// should one come, decides it.
    #[error("the lock service has not answered for a lease; others may have this node's locks")]
    Unconfirmed,
    /// The client was closed.
    #[error("the client of the lock service was closed")]
    Closed,
    /// The client cannot be closed, as a thread has a lock.
    #[error("a thread has the lock {name:?}; unlock it before the client is closed")]
    Held {
        /// The lock.
        name: String,
    },
    /// There is no lock of that name.
    #[error("the lock service has no lock named {name:?}")]
    Missing {
        /// The name.
        name: String,
    },
    /// No lock can have that name.
    #[error("the name {name:?} cannot be used: names have 1 to {NAME_MAX} bytes")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// No lock can have such regions.
    #[error(
        "a lock of a lock service covers {REGIONS_MAX} regions at most, of {DATA_MAX} bytes together at most"
    )]
    Regions,
    /// The service has as many locks, or bytes of them, as it may have.
    #[error(
        "the lock service has no room for another lock; start it with more (`cenote lockd --max-locks`, `--max-bytes`)"
    )]
    Full,
    /// The value under the lock has another size.
    #[error("the value under the lock {name:?} has {has} bytes, not {asked}; open it with its own type")]
    OtherSize {
        /// The lock.
        name: String,
        /// How many bytes it has.
        has: usize,
        /// How many bytes the type has.
        asked: usize,
    },
    /// This process was forked from the one that is connected.
    #[error(
        "this process was forked from the one that is connected to the lock service; connect anew in the child"
    )]
    Forked,
}

impl Error {
    pub(super) fn refused(why: Refusal, name: &str) -> Self {
        let name = name.to_owned();
        match why {
            Refusal::Missing => Self::Missing { name },
            Refusal::Name => Self::InvalidName { name },
            Refusal::Regions => Self::Regions,
            Refusal::Full => Self::Full,
        }
    }
}
