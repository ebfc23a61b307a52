//! Stands for election: gets a lease, campaigns, and renews the lease, again and again.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::Election;
use super::client::{Etcd, Lease, Trouble};
use super::standing::Stage;
use super::term::used;
use crate::output::Output;

/// A lease is renewed so many times in its length.
const RENEWALS: u32 = 4;
/// After something went wrong.
const PAUSE: Duration = Duration::from_millis(250);
/// How long to wait for a lease to be given back; it ends by itself.
const FAREWELL: Duration = Duration::from_secs(1);

/// A monitor that stands for election.
pub struct Campaigner<'e> {
    election: &'e Election,
    key: String,
    name: String,
    out: Output,
    /// The endpoint whose turn it is.
    turn: Cell<usize>,
    /// The lease that may not have been given back.
    lease: Cell<Option<i64>>,
}

impl<'e> Campaigner<'e> {
    /// A monitor that is named so.
    pub fn new(election: &'e Election, key: String, name: String, out: Output) -> Self {
        Self {
            election,
            key,
            name,
            out,
            turn: Cell::new(0),
            lease: Cell::new(None),
        }
    }

    /// Stands for election until the candidate is dropped.
    pub async fn run(&self, mut is_over: oneshot::Receiver<()>) {
        tokio::select! {
            never = self.stand() => match never {},
            _ = &mut is_over => {}
        }
        self.election.term.end();
        self.give_back().await;
    }

    async fn stand(&self) -> Infallible {
        loop {
            let trouble = match self.elected().await {
                Ok((etcd, lease)) => self.hold(etcd, lease).await,
                Err(trouble) => trouble,
            };
            self.election.term.end();
            self.election.standing.failed(trouble.why(), &self.out);
            self.turn.set(self.turn.get() + 1);
            // In this pause the thread that polls hosts sees that it may not lead any more.
            sleep(PAUSE).await;
            self.give_back().await;
        }
    }

    /// Gets a lease, and returns when it is elected.
    async fn elected(&self) -> Result<(Etcd, Lease), Trouble> {
        let mut etcd = self.connect().await?;
        let mut lease = etcd.grant(self.election.lease).await?;
        self.lease.set(Some(lease.id()));
        self.election.standing.reached(Stage::Campaigns, &self.out);
        let mut campaigning = etcd.clone();
        let mut campaign = pin!(campaigning.campaign(&self.key, &self.name, lease.id()));
        loop {
            tokio::select! {
                elected = &mut campaign => {
                    elected?;
                    return Ok((etcd, lease));
                }
                () = sleep(lease.length / RENEWALS) => etcd.renew(&mut lease).await?,
            }
        }
    }

    /// Keeps a lease that is elected, at whatever endpoint answers, as long as that can be done in time.
    async fn hold(&self, mut etcd: Etcd, mut lease: Lease) -> Trouble {
        let mut confirmed = Instant::now();
        loop {
            match etcd.confirm(&self.key, &mut lease).await {
                Ok(()) => {
                    confirmed = lease.sent;
                    self.election.term.extend(lease.sent, lease.length);
                    self.election.standing.reached(Stage::Elected, &self.out);
                    sleep(lease.length / RENEWALS).await;
                }
                Err(Trouble::Unanswered(why)) if confirmed.elapsed() < used(lease.length) => {
                    self.election.standing.is_troubled(&why);
                    self.turn.set(self.turn.get() + 1);
                    sleep(PAUSE.min(lease.length / RENEWALS)).await;
                    match self.connect().await {
                        Ok(next) => etcd = next,
                        Err(trouble) => return trouble,
                    }
                }
                Err(trouble) => return trouble,
            }
        }
    }

    async fn connect(&self) -> Result<Etcd, Trouble> {
        let endpoints = &self.election.endpoints;
        let endpoint = &endpoints[self.turn.get() % endpoints.len()];
        self.election.standing.asks(&self.key, endpoint);
        Etcd::connect(endpoint).await
    }

    /// Gives the lease back if it has one; an etcd that cannot be reached ends it by itself.
    async fn give_back(&self) {
        if let Some(lease) = self.lease.take()
            && let Ok(mut etcd) = self.connect().await
        {
            // It ends by itself.
            let _ = etcd.revoke(lease, FAREWELL).await;
        }
    }
}
