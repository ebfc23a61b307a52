//! A node's connection to its directory: what sends, what receives. Implemented by [`channel`](super::channel), within a process, and by [`socket`](super::socket), between
//! processes of a machine.

use std::time::Duration;

use super::frame::FrameError;
use super::message::{Session, ToDirectory, ToNode};

/// The time after which nodes and the directory send again what may have been lost.
pub const TICK: Duration = Duration::from_millis(20);

/// A connection cannot be used any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// It was cut, by the directory or by its end.
    #[error(
        "the connection to the directory is cut: it has ended, or has taken this node for dead; connect anew"
    )]
    Cut,
    /// All numbers of nodes are taken.
    #[error("the directory has no number left for another node; it has 40")]
    TooManyNodes,
    /// What came is no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The operating system refused a call.
    #[error("the connection to the directory: {0}")]
    Io(#[from] std::io::Error),
}

/// Sends to the directory.
pub trait Outgoing: Send {
    /// Sends a message, which may be lost. An error means that all that follow would be, too.
    fn send(&mut self, message: &ToDirectory) -> Result<(), LinkError>;
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
    /// What sends.
    pub outgoing: Box<dyn Outgoing>,
    /// What receives.
    pub incoming: Box<dyn Incoming>,
}
