//! One of several masters becomes the leader: the one that makes the key of the leader, with a lease, when there is
//! none.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::client::{Etcd, Trouble};
use super::{Known, Store, TIMEOUT, leader_key};
use crate::master::term::Term;

/// What the key of the leader says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Leader {
    /// Where clients reach it.
    pub address: SocketAddr,
    /// What it says of itself, for people.
    pub name: String,
}

/// What an attempt to be elected came to.
pub enum Outcome {
    /// This master leads.
    Elected(Rc<Store>),
    /// Another one does; where, if its key can be read.
    Another(Option<SocketAddr>),
}

/// An election, as one master takes part in it.
pub struct Election {
    etcd: Rc<Etcd>,
    prefix: String,
    own: Leader,
    lease: Duration,
}

impl Election {
    /// The election under a prefix.
    pub fn new(endpoints: Vec<String>, prefix: String, own: Leader, lease: Duration) -> Self {
        Self {
            etcd: Rc::new(Etcd::new(endpoints)),
            prefix,
            own,
            lease,
        }
    }

    /// How many members of etcd are known.
    pub fn members(&self) -> usize {
        self.etcd.members()
    }

    /// Looks who leads, and becomes the leader if there is none.
    pub async fn attempt(&self) -> Result<Outcome, Trouble> {
        let key = leader_key(&self.prefix);
        let time = TIMEOUT.min(self.lease);
        let found = self
            .etcd
            .ask(time, async |client| client.get(key.clone(), None).await)
            .await?;
        if let Some(held) = found.kvs().first() {
            let leader = serde_json::from_slice::<Leader>(held.value()).ok();
            return Ok(Outcome::Another(leader.map(|leader| leader.address)));
        }
        let sent = Instant::now();
        let seconds = self.lease.as_secs().max(1) as i64;
        let granted = self
            .etcd
            .ask(time, async |client| client.lease_grant(seconds, None).await)
            .await?;
        let lease = granted.id();
        let own = serde_json::to_vec(&self.own).map_err(|error| Trouble::Refused(error.to_string()))?;
        let make = TxnOp::put(key.clone(), own, Some(PutOptions::new().with_lease(lease)));
        let change = Txn::new()
            .when([Compare::create_revision(key, CompareOp::Equal, 0)])
            .and_then([make]);
        let done = self.etcd.ask(time, async |client| client.txn(change).await).await;
        let revision = match done {
            Ok(done) if done.succeeded() => done.header().map_or(0, |header| header.revision()),
            other => {
                // If the key was made and no answer came, it goes with its lease.
                let _ = self
                    .etcd
                    .ask(time, async |client| client.lease_revoke(lease).await)
                    .await;
                return other.map(|_| Outcome::Another(None));
            }
        };
        let length = Duration::from_secs(granted.ttl().max(0) as u64);
        Ok(Outcome::Elected(Rc::new(Store {
            etcd: self.etcd.clone(),
            prefix: self.prefix.clone(),
            lease,
            length,
            term: Rc::new(Term::of_lease(revision as u64, sent, length)),
            known: Mutex::new(Known::default()),
            is_silent: Cell::new(false),
        })))
    }
}
