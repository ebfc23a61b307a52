//! A node's connection to its directory: what sends, what receives. Implemented by [`channel`](super::channel), within
//! a process, and by [`connect`](super::connect), by sockets.

use std::time::Duration;

use crate::sync::directory::messages::frame::FrameError;
use crate::sync::directory::messages::instant::Moment;
use crate::sync::directory::messages::message::{Session, ToDirectory, ToNode};

use super::address::Address;

/// After so long a node that is connected by a socket, and the directory, first send again what may have been lost. A
/// socket loses nothing, but what it cannot hold.
pub const RESEND: Duration = Duration::from_millis(100);

/// Why there is no connection to a lock service, or none that can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody listens there, or the name of the host leads nowhere.
    #[error("{address}: {source}; start `cenote lockd --listen {address}` there, or give another address")]
    Unreachable {
        /// Where.
        address: Address,
        /// What the system says.
        source: std::io::Error,
    },
    /// The process that listens there says nothing.
    #[error("{address}: nothing has answered there for {} s; the process that listens may be stopped, or be no lock service", .waited.as_secs_f32())]
    Silent {
        /// Where.
        address: Address,
        /// For how long this process has waited.
        waited: Duration,
    },
    /// The process that listens there does not speak as a lock service of this version does.
    #[error("{address}: what listens there is no lock service of this version of cenote: {why}")]
    NotALockService {
        /// Where.
        address: Address,
        /// What is wrong with it.
        why: FrameError,
    },
    /// The service turns this process away.
    #[error(
        "the lock service has no number left for another node, it has 40; close a client, or wait until one has ended"
    )]
    TooManyNodes,
    /// The service has ended, or cut the connection.
    #[error("the lock service has cut the connection; it has ended, or is about to")]
    Cut,
    /// An address cannot be listened at.
    #[error("{address}: cannot be listened at: {why}; give another address")]
    Unavailable {
        /// Where.
        address: Address,
        /// What is in the way.
        why: String,
    },
    /// An option of the service cannot be what it is.
    #[error("the lease of a lock service is 0.1 s to 1 h, not {0:?}")]
    Lease(Duration),
    /// The operating system refused a call.
    #[error("the lock service: {0}")]
    Io(#[from] std::io::Error),
}

/// A connection cannot be used any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// It was cut.
    #[error("the connection is cut")]
    Cut,
    /// What came is no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The operating system refused a call.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Sends to the directory.
pub trait Outgoing: Send {
    /// Sends a message, which may be lost, and does not wait. An error means that all that follow would be, too.
    fn send(&mut self, message: ToDirectory) -> Result<(), LinkError>;
}

/// Receives from the directory.
pub trait Incoming: Send {
    /// The next message; `None` if none has come for so long.
    fn receive(&mut self, longest: Duration) -> Result<Option<ToNode>, LinkError>;
}

/// A connection, whose end is the node's death.
pub struct Link {
    /// The node's session.
    pub session: Session,
    /// Microseconds after which the directory declares the node dead of which it hears nothing.
    pub lease: u64,
    /// When the node has said that it joins, by [`clock::now`](super::clock::now).
    pub joined: Moment,
    /// After so long the node first sends again what may have been lost.
    pub resend: Duration,
    /// What sends.
    pub outgoing: Box<dyn Outgoing>,
    /// What receives.
    pub incoming: Box<dyn Incoming>,
}
