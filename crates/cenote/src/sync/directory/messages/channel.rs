//! Connections between threads of one process. Dropping one is the node's death.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::hub::Hub;
use super::link::{Incoming, Link, LinkError, Outgoing};
use super::message::{Session, ToDirectory, ToNode};

/// Connects a node to a directory of the same process.
///
/// Errors: [`LinkError::TooManyNodes`], also if the directory has ended.
pub fn connect(hub: &Hub) -> Result<Link, LinkError> {
    let (session, messages) = hub.join().ok_or(LinkError::TooManyNodes)?;
    Ok(Link {
        session,
        outgoing: Box::new(ToHub {
            session,
            hub: hub.clone(),
        }),
        incoming: Box::new(FromHub(messages)),
    })
}

struct ToHub {
    session: Session,
    hub: Hub,
}

impl Outgoing for ToHub {
    fn send(&mut self, message: &ToDirectory) -> Result<(), LinkError> {
        match self.hub.receive(message.clone()) {
            true => Ok(()),
            false => Err(LinkError::Cut),
        }
    }
}

impl Drop for ToHub {
    fn drop(&mut self) {
        self.hub.end(self.session);
    }
}

struct FromHub(Receiver<ToNode>);

impl Incoming for FromHub {
    fn receive(&mut self, longest: Duration) -> Result<Option<ToNode>, LinkError> {
        match self.0.recv_timeout(longest) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(LinkError::Cut),
        }
    }
}
