//! The server lease: which host's processes may execute exchanges, where a server does that
//! ([`crate::memory::delegated`]).
//!
//! Processes of one kernel find the server by a lock of that kernel. Hosts have kernels of their own, and no exchange
//! in common before there is a server. So the pool says which host has the *lease*, in which of its generations: its
//! processes find the server among themselves, and all others ask it. The lease moves when that generation can write no
//! more: [`super::failover`] moves it.
//!
//! | word | writer | way |
//! |---|---|---|
//! | [`SERVER_LEASE`] | the failover controller that was named last outside of the pool | stored past the cache: never exchanged |
//! | [`HOSTLESS_SERVES`] | the server of processes without a host's id | the same |
//!
//! **Without hosts** no host has the lease, and the process with the kernel's lock serves. It says so first and reads
//! the lease after; a controller that gives the lease to a host does it the other way round. So one of the two sees the
//! other, and no process of a host serves until the word is clear again. A process that was killed leaves it set: the
//! next one clears it, when it ends in peace, or at once if a host has the lease by now.

use crate::causes::HostError;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::memory::delegated::{ServingLease, Words};
use crate::mutant::{self, Mutant};
use crate::pod::format::geometry::{Geometry, NO_HOST};
use crate::pod::format::host_entry::{Home, HostInstance, HostRecord, HostState};
use crate::pod::format::superblock::{HOSTLESS_SERVES, MemoryKind, SERVER_LEASE};

/// In the lease's word: the host is named, and does not have it yet.
const NAMED: u64 = 1 << 31;

/// What the lease's word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// No host has it: the process with the kernel's lock serves.
    Nobodys,
    /// A host is to have it, once those that had it before can write no more. No process begins to serve.
    Named(HostInstance),
    /// The processes of a host find the server among themselves.
    Of(HostInstance),
}

impl Lease {
    /// Reads it. One round trip.
    pub fn read<M: Memory>(mem: &M) -> Self {
        // PAIRS WITH: pod::hosts::lease::write
        Self::decode(SERVER_LEASE.load(mem))
    }

    fn decode(word: u64) -> Self {
        match word {
            0 => Self::Nobodys,
            word if word & NAMED != 0 => Self::Named(HostInstance::decode(word & !NAMED)),
            word => Self::Of(HostInstance::decode(word)),
        }
    }

    fn encode(self) -> u64 {
        match self {
            Self::Nobodys => 0,
            Self::Named(host) => host.encode() | NAMED,
            Self::Of(host) => host.encode(),
        }
    }

    /// Writes it, for the one controller that may: past the cache, and not as an exchange.
    pub(in crate::pod) fn write<M: Memory>(self, mem: &M) {
        // PAIRS WITH: pod::hosts::lease::read, pod::hosts::lease::may_serve, pod::hosts::lease::begin
        SERVER_LEASE.store_seq_cst(mem, self.encode());
    }
}

/// Whether a host has the lease in this generation. One round trip.
pub(crate) fn is_of<M: Memory>(mem: &M, geometry: &Geometry, host: u32, generation: u32) -> bool {
    geometry.parameters.kind == MemoryKind::Delegated
        && Lease::read(mem) == Lease::Of(HostInstance { host, generation })
}

/// Whether no process of a host's generation executes exchanges: another host has the lease. While it is being taken
/// from a host, that host may go on until it is fenced. One round trip.
pub(crate) fn is_elsewhere<M: Memory>(mem: &M, geometry: &Geometry, host: u32, generation: u32) -> bool {
    geometry.parameters.kind != MemoryKind::Delegated
        || match Lease::read(mem) {
            Lease::Nobodys => true,
            Lease::Named(_) => false,
            Lease::Of(other) => other != HostInstance { host, generation },
        }
}

/// Checks whether a server can execute the exchanges of a process of this host, before it asks for one and waits for
/// ever.
pub fn check<M: Memory>(mem: &M, geometry: &Geometry, host: u32) -> Result<()> {
    let source = match (Lease::read(mem), host) {
        _ if geometry.parameters.kind != MemoryKind::Delegated => return Ok(()),
        (Lease::Nobodys, NO_HOST) => return Ok(()),
        (_, NO_HOST) => HostError::IdNeeded,
        (Lease::Nobodys, _) => HostError::NoServer,
        _ => return Ok(()),
    };
    Err(Error::Host { host, source })
}

/// The server lease as a process of a host sees it.
#[derive(Debug)]
pub struct HostLease {
    mine: HostInstance,
    /// The boot of the machine that it runs on, and its host's entry.
    machine: u64,
    record: HostRecord,
}

impl HostLease {
    /// For a process of a host, in the host's present generation, on a boot of a machine. One round trip.
    pub fn new<M: Memory>(mem: &M, geometry: &Geometry, host: u32, machine: u64) -> Result<Self> {
        crate::pod::format::host_entry::check_id(&geometry.parameters, host)?;
        let record = HostRecord::new(geometry, host);
        let generation = match host {
            NO_HOST => 0,
            _ => record.read(mem)?.generation,
        };
        Ok(Self {
            mine: HostInstance { host, generation },
            machine,
            record,
        })
    }
}

impl ServingLease for HostLease {
    fn may_serve(&self, words: &dyn Words) -> bool {
        // PAIRS WITH: pod::hosts::lease::write
        let lease = Lease::decode(words.load(SERVER_LEASE));
        match self.mine.host {
            // A process that was killed in `begin` has left the word set, and no host serves before it is clear:
            // `begin` clears it.
            NO_HOST => {
                let was_left = || words.load(HOSTLESS_SERVES) != 0 && !mutant::is(Mutant::HostlessLeft);
                lease == Lease::Nobodys || was_left()
            }
            _ => lease == Lease::Of(self.mine),
        }
    }

    fn begin(&self, words: &dyn Words) -> bool {
        if self.mine.host == NO_HOST {
            // PAIRS WITH: pod::hosts::failover::go_on
            words.store(HOSTLESS_SERVES, 1);
            // PAIRS WITH: pod::hosts::lease::write
            let may = Lease::decode(words.load(SERVER_LEASE)) == Lease::Nobodys;
            if !may {
                // PAIRS WITH: pod::hosts::failover::go_on
                words.store(HOSTLESS_SERVES, 0);
            }
            return may;
        }
        // The last write of a host is made by its server, which had the lock until then.
        let state = HostState::decode(words.load(self.record.state()));
        // The lock is a kernel's: another machine with this id, or this one before a reboot, has its own.
        // PAIRS WITH: pod::hosts::failover::claim_home
        let home = Home::decode(words.load(self.record.home()));
        let is_here = home.is_of(state.generation) && home == Home::new(state.generation, self.machine);
        self.may_serve(words)
            && words.load(HOSTLESS_SERVES) == 0
            && state.generation == self.mine.generation
            && is_here
    }

    fn end(&self, words: &dyn Words) {
        if self.mine.host == NO_HOST {
            // PAIRS WITH: pod::hosts::failover::go_on
            words.store(HOSTLESS_SERVES, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;
    use crate::memory::SyncWord;
    use crate::pod::format::geometry::Parameters;
    use crate::pod::format::host_entry::HostPhase;

    /// Words that are all 0 at first.
    #[derive(Default)]
    struct Zeroes(RefCell<BTreeMap<u64, u64>>);

    impl Words for Zeroes {
        fn load(&self, word: SyncWord) -> u64 {
            self.0.borrow().get(&word.offset()).copied().unwrap_or(0)
        }

        fn store(&self, word: SyncWord, value: u64) {
            self.0.borrow_mut().insert(word.offset(), value);
        }
    }

    const MACHINE: u64 = 77;

    fn of(host: u32, generation: u32) -> HostLease {
        HostLease {
            mine: HostInstance { host, generation },
            machine: MACHINE,
            record: HostRecord::new(&Geometry::new(parameters()), host),
        }
    }

    fn parameters() -> Parameters {
        Parameters {
            kind: MemoryKind::Delegated,
            max_frames: 64,
            processes: 8,
            workers: 8,
            entries: 8,
            hosts: 8,
        }
    }

    #[test]
    fn a_host_serves_while_it_has_the_lease_in_its_generation() {
        let words = Zeroes::default();
        let mine = of(3, 7);
        let state = |generation| {
            let up = HostState {
                phase: HostPhase::Up,
                agent: 1,
                tag: 0,
                generation,
            };
            words.store(mine.record.state(), up.encode());
        };
        words.store(mine.record.home(), Home::new(7, MACHINE).encode());
        state(7);
        assert!(!mine.may_serve(&words) && !mine.begin(&words));
        words.store(SERVER_LEASE, Lease::Named(mine.mine).encode());
        assert!(!mine.may_serve(&words) && !mine.begin(&words));
        words.store(SERVER_LEASE, Lease::Of(mine.mine).encode());
        assert!(mine.may_serve(&words) && mine.begin(&words));
        assert!(
            !of(3, 8).may_serve(&words) && !of(4, 7).may_serve(&words) && !of(NO_HOST, 0).may_serve(&words)
        );
        // Another machine has the same id.
        words.store(mine.record.home(), Home::new(7, MACHINE + 1).encode());
        assert!(!mine.begin(&words));
        words.store(mine.record.home(), Home::new(7, MACHINE).encode());
        // A process that comes after the host's last write.
        state(8);
        assert!(!mine.begin(&words));
        state(7);
        words.store(HOSTLESS_SERVES, 1);
        assert!(!mine.begin(&words));
    }

    #[test]
    fn without_hosts_who_serves_says_so() {
        let words = Zeroes::default();
        let hostless = of(NO_HOST, 0);
        assert!(hostless.may_serve(&words) && hostless.begin(&words));
        assert_eq!(words.load(HOSTLESS_SERVES), 1);
        hostless.end(&words);
        assert_eq!(words.load(HOSTLESS_SERVES), 0);
        words.store(SERVER_LEASE, Lease::Named(of(3, 7).mine).encode());
        assert!(!hostless.may_serve(&words) && !hostless.begin(&words));
        assert_eq!(words.load(HOSTLESS_SERVES), 0);
        // Another one was killed before it could clear the word.
        words.store(HOSTLESS_SERVES, 1);
        assert!(hostless.may_serve(&words) && !hostless.begin(&words));
        assert_eq!(words.load(HOSTLESS_SERVES), 0);
    }

    #[test]
    fn leases_survive_their_words() {
        let host = HostInstance {
            host: 4095,
            generation: u32::MAX,
        };
        for lease in [Lease::Nobodys, Lease::Named(host), Lease::Of(host)] {
            assert_eq!(Lease::decode(lease.encode()), lease);
        }
    }
}
