//! A store in etcd, and the lease by which one of several masters leads.
//!
//! | key | who writes it | |
//! |---|---|---|
//! | `PREFIX/leader` | a master that finds none, with its lease | who leads. The revision of etcd at which it was made is the number of the term |
//! | `PREFIX/state/…` | the leader | the state, as [`records`] |
//!
//! Every change of the state is one transaction on two conditions: the key of the leader is the one that this master
//! made, and the record `head` is as this master knows it. The first makes it a fence: a master whose lease has ended
//! writes nothing, however late its request arrives. By the second a request that was sent twice, as its first answer
//! did not come, takes effect once, and never after a later one.

mod client;
pub mod election;
pub mod records;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};
use tokio::sync::Mutex;
use tokio::time::sleep;

use self::client::{Etcd, Trouble};
use self::records::{HEAD, Records, Stamp};
use super::Unkept;
use crate::StoreError;
use crate::control::ViewText;
use crate::master::state::State;
use crate::master::term::Term;

/// A lease is renewed so many times in its length.
const RENEWALS: u32 = 4;
/// After something went wrong.
const PAUSE: Duration = Duration::from_millis(100);
/// For requests that no lease waits for.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Records that are read at once.
const PAGE: i64 = 32;

/// What is known of what etcd has.
#[derive(Default)]
struct Known {
    records: Records,
    /// The revision at which the first record was written; 0 before.
    head: i64,
    /// The number of the last change.
    change: u64,
}

/// A store, of a master that was elected.
pub struct Store {
    etcd: Rc<Etcd>,
    prefix: String,
    lease: i64,
    length: Duration,
    term: Rc<Term>,
    known: Mutex<Known>,
    is_silent: Cell<bool>,
}

fn leader_key(prefix: &str) -> String {
    format!("{prefix}/leader")
}

impl Store {
    fn key(&self, record: &str) -> String {
        format!("{}/state/{record}", self.prefix)
    }

    /// The term in which this master leads.
    pub fn term(&self) -> Rc<Term> {
        self.term.clone()
    }

    fn leads(&self) -> Compare {
        let number = self.term.number() as i64;
        Compare::create_revision(leader_key(&self.prefix), CompareOp::Equal, number)
    }

    /// What is kept; `None` before there is a cluster.
    pub async fn load(&self) -> Result<Option<State>, StoreError> {
        let mut known = self.known.lock().await;
        let folder = self.key("");
        let mut records = Records::new();
        let mut next = folder.clone();
        loop {
            // All that begin with the folder's name: "0" comes after "/".
            let options = GetOptions::new()
                .with_range(format!("{}0", folder.trim_end_matches('/')))
                .with_limit(PAGE);
            let from = next.clone();
            let found = self
                .retried(async |client| client.get(from.clone(), Some(options.clone())).await)
                .await
                .map_err(|trouble| StoreError::Etcd(trouble.why()))?;
            for held in found.kvs() {
                let key = String::from_utf8_lossy(held.key()).into_owned();
                if let Some(name) = key.strip_prefix(&folder) {
                    if name == HEAD {
                        known.head = held.mod_revision();
                    }
                    records.insert(name.to_owned(), held.value().to_vec());
                }
                next = format!("{key}\0");
            }
            if !found.more() {
                break;
            }
        }
        if records.is_empty() {
            return Ok(None);
        }
        let (state, stamp) = records::state(records.clone()).map_err(|why| {
            StoreError::Damaged(format!(
                "etcd has no state of a cluster under {folder}: {why}; is the prefix right?"
            ))
        })?;
        if stamp.term >= self.term.number() {
            return Err(StoreError::LaterTerm(format!(
                "what etcd has under {folder} was written in term {}, and this is term {}: it was copied from another etcd",
                stamp.term,
                self.term.number()
            )));
        }
        known.change = stamp.change;
        known.records = records;
        Ok(Some(state))
    }

    /// Keeps a state: see [`super::Store::save`].
    pub async fn save(&self, state: &RefCell<State>) -> Result<ViewText, Unkept> {
        let mut known = self.known.lock().await;
        let (records, view) = {
            let state = state.borrow();
            let stamp = Stamp {
                term: self.term.number(),
                change: known.change + 1,
            };
            let records = records::records(&state, stamp);
            let records = records.map_err(|why| Unkept::Failed(StoreError::Damaged(why)))?;
            (records, state.view())
        };
        let (changed, gone) = records::difference(&known.records, &records);
        let bytes: usize = changed.iter().map(|(_, value)| value.len()).sum();
        let keys = changed.len() + gone.len();
        let puts = changed
            .iter()
            .map(|(name, value)| TxnOp::put(self.key(name), *value, None));
        let deletes = gone.iter().map(|name| TxnOp::delete(self.key(name), None));
        let head = self.key(HEAD);
        let change = Txn::new()
            .when([
                self.leads(),
                Compare::mod_revision(head.clone(), CompareOp::Equal, known.head),
            ])
            .and_then(puts.chain(deletes).collect::<Vec<_>>())
            .or_else([TxnOp::get(leader_key(&self.prefix), None), TxnOp::get(head, None)]);
        let done = match self
            .retried(async |client| client.txn(change.clone()).await)
            .await
        {
            Ok(done) => done,
            Err(Trouble::Refused(why)) => {
                return Err(Unkept::Failed(StoreError::Etcd(format!(
                    "{why}; a change has {keys} keys and {bytes} bytes: etcd's --max-txn-ops and --max-request-bytes say how much it takes"
                ))));
            }
            Err(trouble) => return Err(Unkept::Deposed(trouble.why())),
        };
        known.head = match done.succeeded() {
            true => done.header().map_or(0, |header| header.revision()),
            false => self.after_all(&done, &records)?,
        };
        known.change += 1;
        known.records = records;
        Ok(view)
    }

    /// A change was refused. If that was as it had taken effect before, when no answer came: the revision at which it
    /// did.
    fn after_all(&self, refused: &TxnResponse, records: &Records) -> Result<i64, Unkept> {
        let mut found = refused.op_responses().into_iter().map(|response| match response {
            TxnOpResponse::Get(found) => found.kvs().first().cloned(),
            _ => None,
        });
        let (leader, head) = (found.next().flatten(), found.next().flatten());
        let is_ours = leader.is_some_and(|key| key.create_revision() == self.term.number() as i64);
        match head.filter(|head| records.get(HEAD).is_some_and(|own| own == head.value())) {
            Some(head) if is_ours => Ok(head.mod_revision()),
            _ if is_ours => Err(Unkept::Failed(StoreError::Damaged(format!(
                "the state under {} was changed by somebody who does not lead",
                self.key("")
            )))),
            _ => Err(Unkept::Deposed("another master was elected".to_owned())),
        }
    }

    /// Asks until there is an answer, or the term is over.
    async fn retried<T>(
        &self,
        request: impl AsyncFn(&mut etcd_client::Client) -> Result<T, etcd_client::Error>,
    ) -> Result<T, Trouble> {
        let mut why = "the lease has ended".to_owned();
        while self.term.lasts() {
            let time = self.term.left().unwrap_or(TIMEOUT).min(self.length / 2);
            match self.etcd.ask(time, &request).await {
                Err(Trouble::Unanswered(unanswered)) => {
                    why = unanswered;
                    sleep(PAUSE).await;
                }
                answer => return answer,
            }
        }
        self.term.end();
        Err(Trouble::Lost(why))
    }

    /// Renews the lease. Returns why it has ended, and this term with it.
    pub async fn renew(&self) -> String {
        loop {
            sleep(self.length / RENEWALS).await;
            let renewed = loop {
                let sent = Instant::now();
                let lease = self.lease;
                let answer = self
                    .etcd
                    .ask(self.length / RENEWALS, async |client| {
                        client.lease_keep_alive(lease).await
                    })
                    .await;
                match answer {
                    Ok(_) => {
                        self.term.extend(sent, self.length);
                        break Ok(());
                    }
                    Err(Trouble::Unanswered(why)) if self.term.lasts() => {
                        self.tell_silence(why);
                        sleep(PAUSE).await;
                    }
                    Err(trouble) => break Err(trouble.why()),
                }
            };
            match renewed {
                Ok(()) if self.term.lasts() => self.tell_answer(),
                Ok(()) => return self.over("it was not renewed in time".to_owned()),
                Err(why) => return self.over(why),
            }
        }
    }

    fn over(&self, why: String) -> String {
        self.term.end();
        why
    }

    fn tell_silence(&self, why: String) {
        if !self.is_silent.replace(true) {
            eprintln!("cenote cluster: {why}; this master leads as long as its lease lasts");
        }
    }

    fn tell_answer(&self) {
        if self.is_silent.replace(false) {
            eprintln!("cenote cluster: etcd answers again");
        }
    }

    /// Gives the lease back, so that another master leads at once.
    pub async fn resign(&self) {
        self.term.end();
        let lease = self.lease;
        // If nobody hears it, the lease ends by itself.
        let _ = self
            .etcd
            .ask(PAUSE * 10, async |client| client.lease_revoke(lease).await)
            .await;
    }
}
