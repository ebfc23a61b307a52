//! The server lease in etcd: a key that says which host executes a pool's exchanges. It is changed by compare-exchange
//! only, so two monitors that name their hosts do so one after the other.
//!
//! The key is that of the election followed by `-lease`; no etcd lease is attached to it. Its value is a line of
//! `HOST.GENERATION`, the newest first.

use std::sync::Arc;

use cenote::pod::format::host_entry::HostInstance;
use cenote::pod::hosts::failover::{LeaseElection, Nomination, Nominations};

use super::Election;
use super::client::{Etcd, Trouble};
use crate::failure::Failure;

/// Asks etcd, and waits for its answer.
pub struct EtcdLeaseElection {
    election: Arc<Election>,
    key: String,
    runtime: tokio::runtime::Runtime,
    /// The endpoint whose turn it is.
    turn: usize,
}

impl EtcdLeaseElection {
    /// For the pool with this id.
    pub fn new(election: &Arc<Election>, pool: u64) -> Result<Self, Failure> {
        Ok(Self {
            key: format!("{}-lease", election.key_for(pool)),
            election: election.clone(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(Failure::io("the thread that speaks with etcd"))?,
            turn: 0,
        })
    }

    /// Asks the endpoint whose turn it is; the next one next time, if that does not answer.
    fn ask<T>(
        &mut self,
        question: impl AsyncFnOnce(&mut Etcd, &str) -> Result<T, Trouble>,
    ) -> Result<T, String> {
        let endpoints = &self.election.endpoints;
        let endpoint = &endpoints[self.turn % endpoints.len()];
        let key = &self.key;
        let answer = self.runtime.block_on(async {
            let mut etcd = Etcd::connect(endpoint).await?;
            question(&mut etcd, key).await
        });
        answer.map_err(|trouble| {
            self.turn += 1;
            trouble.why()
        })
    }
}

impl LeaseElection for EtcdLeaseElection {
    fn may_act(&mut self) -> bool {
        self.election.may_lead()
    }

    fn nominations(&mut self) -> Result<Nominations, String> {
        let (value, revision) = self.ask(async |etcd, key| etcd.read(key).await)?;
        let hosts = decode(&value).ok_or_else(|| format!("{}: {value:?} is no list of hosts", self.key))?;
        Ok(Nominations { hosts, revision })
    }

    fn nominate(&mut self, since: i64, hosts: &[HostInstance]) -> Result<Nomination, String> {
        let value = encode(hosts);
        let exchanged = self.ask(async |etcd, key| etcd.exchange(key, since, &value).await)?;
        Ok(match exchanged {
            Some(revision) => Nomination::Accepted { revision },
            None => Nomination::Superseded,
        })
    }
}

fn encode(hosts: &[HostInstance]) -> String {
    let names = hosts
        .iter()
        .map(|host| format!("{}.{}", host.host, host.generation));
    names.collect::<Vec<_>>().join(" ")
}

fn decode(text: &str) -> Option<Vec<HostInstance>> {
    let host = |name: &str| {
        let (host, generation) = name.split_once('.')?;
        Some(HostInstance {
            host: host.parse().ok()?,
            generation: generation.parse().ok()?,
        })
    };
    text.split_whitespace().map(host).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_survive_their_texts() {
        let hosts = [(1, 7), (4095, u32::MAX)].map(|(host, generation)| HostInstance { host, generation });
        for list in [&hosts[..], &hosts[..1], &[]] {
            assert_eq!(decode(&encode(list)).as_deref(), Some(list));
        }
        assert!(
            ["1", "1.", ".1", "1.x", "1.2 3"]
                .iter()
                .all(|text| decode(text).is_none())
        );
    }
}
