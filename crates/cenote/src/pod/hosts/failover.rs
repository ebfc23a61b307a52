//! The failover controller: gives the [lease](super::lease) to its own host when the host that has it can no longer
//! execute exchanges.
//!
//! Each monitor of a pool whose exchanges a server executes has one, on a thread of its own that makes no exchange:
//! there may be no server to execute it. Which controller may act is decided outside of the pool ([`LeaseElection`]),
//! where there are exchanges: in etcd.
//!
//! | step | what is done | a crash after it leaves |
//! |---|---|---|
//! | find | no new heartbeats of the host that has the lease; or its generation is over; or nobody has it | nothing |
//! | name | outside, by one exchange: own host, *after* all hosts that were named there or in the lease and may still write | a name, for the next failover controller's list |
//! | say | the lease's word: own host is named. No process begins to serve | the same |
//! | fence | all hosts of that list, except for generations that are over | the same |
//! | take | the host's home: this machine; the lease's word: own host's. Its processes serve, here | a list outside that is longer than it need be |
//! | forget | outside: own host alone | nothing |
//!
//! **Why two never serve.** A process that serves has its host's kernel lock, and found the lease to be its host's. A
//! controller takes the lease only when every host that ever could have had it is on its list, or was on that of a
//! controller which it follows, and has been fenced *after* the lease's word said that nobody may begin. A controller
//! that comes late and overwrites that word is on the list itself: it is fenced, and a controller that finds the word
//! changed when its fences are done says it again, and fences again. So nothing rests on elections or clocks; two
//! controllers elected at once are two exchanges outside, and the second has the first on its list.
//!
//! A controller that may no longer act before it has taken the lease puts the word back, and its name too. If several
//! hosts were named before it, the word stays as it is: any of them may have taken the lease since. The next controller
//! that takes it fences all of them.

use super::fence::Fenced;
use super::heartbeats::Heard;
use super::lease::Lease;
use super::poll::Poll;
use crate::causes::HostError;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::format::geometry::{Geometry, NO_HOST};
use crate::pod::format::host_entry::{self, Home, HostInstance, HostPhase, HostRecord};
use crate::pod::format::superblock::HOSTLESS_SERVES;

/// Polls for which a failover controller leaves the lease to another one, whose host is named and does not have it yet.
const DEFERENCE: u64 = 400;

/// The hosts named outside of the pool, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nominations {
    /// Hosts that may have the lease.
    pub hosts: Vec<HostInstance>,
    /// Changes with each exchange.
    pub revision: i64,
}

/// Decides outside of the pool, where there are exchanges, which controller may give the lease to its host.
pub trait LeaseElection {
    /// Whether this failover controller may act now. Answers at once.
    fn may_act(&mut self) -> bool;

    /// The hosts named last.
    fn nominations(&mut self) -> std::result::Result<Nominations, String>;

    /// Nominates hosts, if no controller has since that revision.
    fn nominate(&mut self, since: i64, hosts: &[HostInstance]) -> std::result::Result<Nomination, String>;
}

/// How a nomination has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nomination {
    /// The hosts are nominated, by an exchange of this revision.
    Accepted {
        /// The revision.
        revision: i64,
    },
    /// Another controller has nominated hosts since.
    Superseded,
}

/// Makes certain that hosts are down, without a word of the pool.
pub trait Fencer {
    /// Works on fencing a host, and returns how far that has come. Must return at once.
    fn fence(&mut self, host: HostInstance) -> Fenced;

    /// Ends that work.
    fn give_up(&mut self);
}

/// What a failover controller reports.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum LeaseEvent {
    /// A process without a host id executes the exchanges, or was killed when it did.
    ServedWithoutHostId,
    /// Its host is to execute the exchanges, after others are fenced.
    LeaseNominated {
        /// The hosts that may have executed them until now.
        after: Vec<HostInstance>,
    },
    /// One of those hosts is not fenced so far.
    LeaseFenceFailed {
        /// The host.
        host: u32,
        /// Its generation.
        generation: u32,
        /// What was wrong.
        why: String,
    },
    /// Its host executes the exchanges from now on.
    LeaseTaken,
    /// It may no longer act, and has put back what it can.
    LeaseGivenBack,
    /// What is outside of the pool did not answer, or was in the way; it is tried again.
    LeaseRetried {
        /// What.
        why: String,
    },
}

/// See the [module documentation](self).
pub struct FailoverController<M: Memory> {
    mem: M,
    geometry: Geometry,
    host: u32,
    machine: u64,
    /// Polls without a new heartbeat after which a host counts as silent.
    missed_max: u64,
    heard: Heard,
    /// Polls of a lease for which another host is named.
    deferred: u64,
    taking: Option<Taking>,
    /// The last report, if it was of trouble.
    last_event: Option<LeaseEvent>,
}

/// A lease that is being taken.
struct Taking {
    mine: HostInstance,
    /// What the lease was before.
    before: Lease,
    /// The hosts that were named before. Perhaps this host too: it may be the one that serves.
    named: Vec<HostInstance>,
    /// The hosts that must be fenced.
    after: Vec<HostInstance>,
    /// Those that are, since the lease's word was written.
    fenced: Vec<HostInstance>,
    revision: i64,
}

impl<M: Memory> FailoverController<M> {
    /// The controller of a host on a machine ([`crate::memory::ProcessName::machine`]); it counts another host as
    /// silent after `missed_max` polls in a row without a new heartbeat.
    pub fn new(mem: M, geometry: Geometry, host: u32, machine: u64, missed_max: u64) -> Result<Self> {
        host_entry::check_id(&geometry.parameters, host)?;
        if host == NO_HOST {
            return Err(Error::Host {
                host,
                source: HostError::MonitorWithoutId,
            });
        }
        if machine == 0 {
            return Err(Error::Host {
                host,
                source: HostError::Unidentified,
            });
        }
        Ok(Self {
            mem,
            geometry,
            host,
            machine,
            missed_max: missed_max.max(1),
            heard: Heard::default(),
            deferred: 0,
            taking: None,
            last_event: None,
        })
    }

    /// What the lease's word says now. One round trip.
    pub fn lease(&self) -> Lease {
        Lease::read(&self.mem)
    }

    /// Polls once, and goes on with what is to be done. Returns whether more is to be done: then call it again soon.
    ///
    /// Cost: two to five round trips while all is well; makes no exchange in the pool.
    pub fn poll(
        &mut self,
        how: Poll,
        election: &mut dyn LeaseElection,
        fencer: &mut dyn Fencer,
        tell: &mut dyn FnMut(LeaseEvent),
    ) -> Result<bool> {
        let state = HostRecord::new(&self.geometry, self.host).read(&self.mem)?;
        let mine = HostInstance {
            host: self.host,
            generation: state.generation,
        };
        if let Some(taking) = self.taking.take() {
            if taking.mine != mine || state.phase == HostPhase::Fencing {
                // This host was fenced, or is being fenced.
                fencer.give_up();
                return Ok(false);
            }
            return self.go_on(taking, election, fencer, tell);
        }
        let lease = self.lease();
        if lease == Lease::Of(mine) {
            // Another failover controller may have given it back, as this host was named alone.
            self.claim_home(mine)?;
        }
        if lease == Lease::Of(mine) || state.phase == HostPhase::Fencing || !election.may_act() {
            self.forget();
            return Ok(false);
        }
        if !self.is_needed(lease, how, tell)? {
            return Ok(false);
        }
        if self.home().is_of(mine.generation) && self.home() != self.here(mine) {
            let why = HostError::Elsewhere.to_string();
            self.tell_once(LeaseEvent::LeaseRetried { why }, tell);
            return Ok(false);
        }
        match self.name(mine, lease, election) {
            Ok(None) => Ok(false),
            Ok(Some(taking)) => {
                self.forget();
                tell(LeaseEvent::LeaseNominated {
                    after: taking.after.clone(),
                });
                Lease::Named(mine).write(&self.mem);
                self.taking = Some(taking);
                Ok(true)
            }
            Err(why) => {
                self.tell_once(LeaseEvent::LeaseRetried { why }, tell);
                Ok(false)
            }
        }
    }

    fn forget(&mut self) {
        self.heard = Heard::default();
        self.deferred = 0;
        self.last_event = None;
    }

    fn tell_once(&mut self, event: LeaseEvent, tell: &mut dyn FnMut(LeaseEvent)) {
        if self.last_event.as_ref() != Some(&event) {
            self.last_event = Some(event.clone());
            tell(event);
        }
    }

    /// Whether no host can execute exchanges, as far as that can be seen.
    fn is_needed(&mut self, lease: Lease, how: Poll, tell: &mut dyn FnMut(LeaseEvent)) -> Result<bool> {
        match lease {
            Lease::Nobodys if self.is_held_hostless() => {
                self.tell_once(LeaseEvent::ServedWithoutHostId, tell);
                Ok(false)
            }
            Lease::Nobodys => Ok(true),
            Lease::Of(host) if self.is_over(host)? => Ok(true),
            Lease::Of(HostInstance { host, .. }) => {
                let state = HostRecord::new(&self.geometry, host).read(&self.mem)?;
                let (mem, geometry) = (&self.mem, &self.geometry);
                Ok(self
                    .heard
                    .has_missed(mem, geometry, (host, state), how, self.missed_max))
            }
            Lease::Named(named) if named.host == self.host => Ok(true),
            Lease::Named(_) => {
                self.deferred += u64::from(how == Poll::Punctual);
                Ok(self.deferred >= DEFERENCE)
            }
        }
    }

    fn is_held_hostless(&self) -> bool {
        HOSTLESS_SERVES.load(&self.mem) != 0
    }

    /// Whether nothing of a generation writes any more. The host being down in it is not enough: its monitor may be
    /// starting.
    fn is_over(&self, of: HostInstance) -> Result<bool> {
        host_entry::check_id(&self.geometry.parameters, of.host)?;
        let state = HostRecord::new(&self.geometry, of.host).read(&self.mem)?;
        Ok(state.generation != of.generation)
    }

    /// Has the own host named outside, after all that may still write; `None` if another controller was faster.
    fn name(
        &self,
        mine: HostInstance,
        before: Lease,
        election: &mut dyn LeaseElection,
    ) -> std::result::Result<Option<Taking>, String> {
        let names = election.nominations()?;
        let mut after = names.hosts.clone();
        if let Lease::Of(host) | Lease::Named(host) = before {
            after.push(host);
        }
        let mut seen = vec![mine];
        after.retain(|&host| {
            let is_new = !seen.contains(&host);
            seen.push(host);
            // A host that cannot be read is fenced.
            is_new && !self.is_over(host).unwrap_or(false)
        });
        let named: Vec<HostInstance> = std::iter::once(mine).chain(after.iter().copied()).collect();
        Ok(match election.nominate(names.revision, &named)? {
            Nomination::Accepted { revision } => Some(Taking {
                mine,
                before,
                named: names.hosts,
                after,
                fenced: Vec::new(),
                revision,
            }),
            Nomination::Superseded => None,
        })
    }

    /// Fences the hosts on the list, and takes the lease when all are fenced.
    fn go_on(
        &mut self,
        mut taking: Taking,
        election: &mut dyn LeaseElection,
        fencer: &mut dyn Fencer,
        tell: &mut dyn FnMut(LeaseEvent),
    ) -> Result<bool> {
        // PAIRS WITH: pod::hosts::lease::begin
        // PAIRS WITH: pod::hosts::lease::end
        if !election.may_act() || (taking.before == Lease::Nobodys && self.is_held_hostless()) {
            fencer.give_up();
            self.give_back(&taking, election);
            tell(LeaseEvent::LeaseGivenBack);
            return Ok(false);
        }
        if !self.says(&taking) {
            taking.fenced.clear();
        }
        for &host in &taking.after {
            let is_done = taking.fenced.contains(&host) || self.is_over(host).unwrap_or(false);
            if is_done || mutant::is(Mutant::LeaseUnfenced) {
                continue;
            }
            match fencer.fence(host) {
                Fenced::Certainly => taking.fenced.push(host),
                Fenced::NotYet => {
                    self.taking = Some(taking);
                    return Ok(true);
                }
                Fenced::Failed(why) => {
                    tell(LeaseEvent::LeaseFenceFailed {
                        host: host.host,
                        generation: host.generation,
                        why,
                    });
                    self.taking = Some(taking);
                    return Ok(true);
                }
            }
        }
        if !self.says(&taking) {
            taking.fenced.clear();
            self.taking = Some(taking);
            return Ok(true);
        }
        self.claim_home(taking.mine)?;
        Lease::Of(taking.mine).write(&self.mem);
        tell(LeaseEvent::LeaseTaken);
        // If it fails, the next failover controller fences hosts that are fenced already.
        let _ = election.nominate(taking.revision, &[taking.mine]);
        Ok(true)
    }

    /// Makes this machine the home of a generation of its host that is to serve, or fails if another one is. No
    /// exchange is needed: without a home no process of the host begins to serve, so no server executes an exchange on
    /// that word.
    fn claim_home(&self, mine: HostInstance) -> Result<()> {
        let here = self.here(mine);
        match self.home() {
            home if home == here => Ok(()),
            home if home.is_of(mine.generation) => Err(Error::Host {
                host: self.host,
                source: HostError::Elsewhere,
            }),
            _ => {
                let record = HostRecord::new(&self.geometry, self.host);
                // PAIRS WITH: pod::hosts::lease::begin
                record.home().store_seq_cst(&self.mem, here.encode());
                Ok(())
            }
        }
    }

    fn home(&self) -> Home {
        let record = HostRecord::new(&self.geometry, self.host);
        Home::decode(record.home().load(&self.mem))
    }

    fn here(&self, mine: HostInstance) -> Home {
        Home::new(mine.generation, self.machine)
    }

    /// Whether the lease's word says that nobody may begin; if not, writes it, and fenced hosts may have come back
    /// meanwhile.
    fn says(&self, taking: &Taking) -> bool {
        let named = Lease::Named(taking.mine);
        if self.lease() == named || mutant::is(Mutant::LeaseNotReread) {
            return true;
        }
        named.write(&self.mem);
        false
    }

    fn give_back(&self, taking: &Taking, election: &mut dyn LeaseElection) {
        match (taking.before, &taking.named[..]) {
            // A host named alone has the lease, whatever was read of it in between.
            (_, &[host]) => Lease::Of(host).write(&self.mem),
            (before @ (Lease::Nobodys | Lease::Of(_)), []) => before.write(&self.mem),
            // Any of several may have taken the lease since it was read, and serve: the word stays, and the next
            // controller that takes it fences all.
            _ => {}
        }
        let mut hosts = taking.named.clone();
        hosts.extend(taking.after.iter().filter(|host| !taking.named.contains(host)));
        // If it fails, the next failover controller fences this host.
        let _ = election.nominate(taking.revision, &hosts);
    }
}
