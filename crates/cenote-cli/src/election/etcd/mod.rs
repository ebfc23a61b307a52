//! Election by a lease of etcd's. It decides which monitor may lead; the pool's lock decides which one does.
//!
//! A thread of its own speaks with etcd. The thread that polls hosts reads one word only, and waits for nothing here.

mod candidate;
mod client;
mod lease;
mod standing;
mod term;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use self::candidate::Campaigner;
use self::lease::EtcdLeaseElection;
use self::standing::Standing;
use self::term::Term;
use super::ElectionArgs;
use crate::failure::Failure;
use crate::output::Output;

/// An election, as this monitor takes part in it.
pub struct Election {
    endpoints: Vec<String>,
    key: Option<String>,
    lease: Duration,
    term: Term,
    standing: Standing,
}

/// This monitor stands for election as long as this lives. Dropped, it gives its lease back.
pub struct Candidate {
    election: Arc<Election>,
    ends: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Election {
    /// What the arguments ask for: maybe none.
    pub fn new(args: ElectionArgs) -> Result<Option<Arc<Self>>, Failure> {
        if args.etcd.is_empty() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Self {
            endpoints: args.etcd,
            key: args.etcd_key,
            lease: Duration::from_secs(args.etcd_lease.into()),
            term: Term::new(),
            standing: Standing::default(),
        })))
    }

    /// Stands for election as the monitor `name` of the pool with this id.
    pub fn stand(self: &Arc<Self>, pool: u64, name: String, out: &Output) -> Result<Candidate, Failure> {
        let (ends, is_over) = oneshot::channel();
        let (election, out) = (self.clone(), *out);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::io("the thread that speaks with etcd"))?;
        let thread = std::thread::Builder::new()
            .name("etcd".to_owned())
            .spawn(move || {
                let key = election.key_for(pool);
                let campaigner = Campaigner::new(&election, key, name, out);
                runtime.block_on(campaigner.run(is_over));
            })
            .map_err(Failure::io("the thread that speaks with etcd"))?;
        Ok(Candidate {
            election: self.clone(),
            ends: Some(ends),
            thread: Some(thread),
        })
    }

    /// The key of the election: no two pools share one unless they are told to.
    fn key_for(&self, pool: u64) -> String {
        match &self.key {
            Some(key) => key.clone(),
            None => format!("cenote/monitor/{pool:016x}"),
        }
    }

    /// What decides which host executes the exchanges of the pool with this id.
    pub fn lease(self: &Arc<Self>, pool: u64) -> Result<EtcdLeaseElection, Failure> {
        EtcdLeaseElection::new(self, pool)
    }

    /// Whether this monitor may lead now. One load and one reading of the clock.
    pub fn may_lead(&self) -> bool {
        self.term.lasts()
    }

    /// The election's part of the monitor's health.
    pub fn status(&self) -> serde_json::Value {
        self.standing.status(self.may_lead())
    }
}

impl Candidate {
    /// Stands for election no more. This monitor must not lead any more when that is called.
    pub fn withdraw(self) {
        drop(self);
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.election.term.end();
        if let Some(ends) = self.ends.take() {
            // The thread may have ended by a panic, which was printed.
            let _ = ends.send(());
        }
        if let Some(thread) = self.thread.take() {
            // The same.
            let _ = thread.join();
        }
        self.election.term.end();
    }
}
