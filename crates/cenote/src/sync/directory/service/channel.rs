//! Connections between threads of one process. Dropping one is the node's death.

use std::time::Duration;

use super::clock::now;
use super::hub::Hub;
use super::link::{ConnectError, Incoming, Link, LinkError, Outgoing, RESEND};
use super::outbox::{Outbox, Taken};
use crate::sync::directory::messages::message::{Session, ToDirectory, ToNode};

/// Connects a node to a directory of the same process.
///
/// Errors: [`ConnectError::TooManyNodes`], also if the directory has ended.
pub fn connect(hub: &Hub, label: &str) -> Result<Link, ConnectError> {
    let joined = now();
    let (session, outbox) = hub.join(label.to_owned()).ok_or(ConnectError::TooManyNodes)?;
    Ok(Link {
        session,
        lease: hub.lease(),
        joined,
        resend: RESEND,
        outgoing: Box::new(ToHub {
            session,
            hub: hub.clone(),
        }),
        incoming: Box::new(FromHub(outbox)),
    })
}

struct ToHub {
    session: Session,
    hub: Hub,
}

impl Outgoing for ToHub {
    fn send(&mut self, message: ToDirectory) -> Result<(), LinkError> {
        match self.hub.offer(message) {
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

struct FromHub(Outbox<ToNode>);

impl Incoming for FromHub {
    fn receive(&mut self, longest: Duration) -> Result<Option<ToNode>, LinkError> {
        match self.0.take(Some(longest)) {
            Taken::Message(message) => Ok(Some(message)),
            Taken::Nothing => Ok(None),
            Taken::Closed => Err(LinkError::Cut),
        }
    }
}
