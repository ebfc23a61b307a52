//! Stands in for elections in builds without the feature `etcd`: there is none, and a request for one fails.

use std::sync::Arc;

use cenote::pod::format::host_entry::HostInstance;
use cenote::pod::hosts::failover::{LeaseElection, Nomination, Nominations};

use super::ElectionArgs;
use crate::failure::Failure;
use crate::output::Output;

/// No election.
pub enum Election {}

/// No candidate.
pub enum Candidate {}

/// Nothing that decides.
pub enum NoLease {}

impl LeaseElection for NoLease {
    fn may_act(&mut self) -> bool {
        match *self {}
    }

    fn nominations(&mut self) -> Result<Nominations, String> {
        match *self {}
    }

    fn nominate(&mut self, _since: i64, _hosts: &[HostInstance]) -> Result<Nomination, String> {
        match *self {}
    }
}

impl Candidate {
    /// Stands for election no more.
    pub fn withdraw(self) {
        match self {}
    }
}

impl Election {
    /// Fails if an election is asked for.
    pub fn new(args: ElectionArgs) -> Result<Option<Arc<Self>>, Failure> {
        match args.etcd.is_empty() {
            true => Ok(None),
            false => Err(Failure::misuse(format!(
                "--etcd {}: this cenote was built without the feature `etcd`; build it by \
                 `cargo install --path crates/cenote-cli --features etcd`",
                args.etcd.join(",")
            ))),
        }
    }

    /// Stands for election.
    pub fn stand(self: &Arc<Self>, _pool: u64, _name: String, _out: &Output) -> Result<Candidate, Failure> {
        match **self {}
    }

    /// What decides which host executes the exchanges of the pool with this id.
    pub fn lease(self: &Arc<Self>, _pool: u64) -> Result<NoLease, Failure> {
        match **self {}
    }

    /// Whether this monitor may lead now.
    pub fn may_lead(&self) -> bool {
        match *self {}
    }

    /// The election's part of the monitor's health.
    pub fn status(&self) -> serde_json::Value {
        match *self {}
    }
}
