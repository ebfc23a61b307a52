//! An agent that is started while its host is being fenced, where a server executes exchanges: it may end the host's
//! generation, unless that generation may be executing exchanges, and would go on after its end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cenote::memory::{Liveness, Mapped, Mapping, MappingError};
use cenote::pod::format::geometry::Geometry;
use cenote::pod::format::host_entry::{Home, HostInstance, HostPhase, HostRecord, HostState};
use cenote::pod::format::superblock::{HEADER_BYTES, HOSTS_HIGH, SERVER_LEASE, Superblock};
use cenote::pod::hosts::agent;
use cenote::pod::hosts::failover::{FailoverController, Fencer, LeaseElection, Nomination, Nominations};
use cenote::pod::hosts::fence::Fenced;
use cenote::pod::hosts::lease::{HostLease, Lease};
use cenote::pod::hosts::poll::Poll;
use cenote::pod::instance::process::Identity;
use cenote::{Delegated, Options, Pool};

const AGENT: u32 = 3;
const OTHER: u32 = 4;
const GENERATION: u32 = 5;
const MACHINE: u64 = 77;

/// The locks of one kernel, as one process has them.
#[derive(Clone, Default)]
struct Locks {
    held: Arc<Mutex<BTreeMap<u32, u32>>>,
    me: u32,
}

impl Locks {
    fn of(&self, me: u32) -> Box<Self> {
        Box::new(Self { me, ..self.clone() })
    }
}

impl Liveness for Locks {
    fn try_lock(&self, number: u32) -> Result<bool, MappingError> {
        Ok(*self.held.lock().unwrap().entry(number).or_insert(self.me) == self.me)
    }

    fn unlock(&self, number: u32) -> Result<(), MappingError> {
        self.held.lock().unwrap().remove(&number);
        Ok(())
    }

    fn is_locked(&self, number: u32) -> Result<bool, MappingError> {
        Ok(self
            .held
            .lock()
            .unwrap()
            .get(&number)
            .is_some_and(|&by| by != self.me))
    }
}

/// An election that lets only one failover controller act.
#[derive(Default)]
struct Cluster(Nominations);

impl LeaseElection for Cluster {
    fn may_act(&mut self) -> bool {
        true
    }

    fn nominations(&mut self) -> Result<Nominations, String> {
        Ok(self.0.clone())
    }

    fn nominate(&mut self, since: i64, hosts: &[HostInstance]) -> Result<Nomination, String> {
        self.0 = Nominations {
            hosts: hosts.to_vec(),
            revision: since + 1,
        };
        Ok(Nomination::Accepted {
            revision: self.0.revision,
        })
    }
}

/// A fence that is never certain.
struct Slow;

impl Fencer for Slow {
    fn fence(&mut self, _: HostInstance) -> Fenced {
        Fenced::NotYet
    }

    fn give_up(&mut self) {}
}

fn map(path: &Path) -> (Delegated, Geometry) {
    let mut file = File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = [0; HEADER_BYTES];
    file.read_exact(&mut bytes).unwrap();
    let geometry = Geometry::new(Superblock::decode(path, &bytes).unwrap().parameters);
    let mem = Delegated::over(Arc::new(Mapping::of_file(file, geometry.mapped).unwrap())).unwrap();
    (mem, geometry)
}

/// Starts a host's exchange server, and waits until it serves.
fn serve(mem: &Delegated, geometry: &Geometry, host: u32, locks: Box<Locks>) {
    let right = Box::new(HostLease::new(mem, geometry, host, MACHINE).unwrap());
    let (held, server) = (locks.held.clone(), geometry.parameters.processes);
    mem.serve(geometry.mailboxes(), locks, server, right).unwrap();
    while !held.lock().unwrap().contains_key(&server) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

const fn instance(host: u32) -> HostInstance {
    HostInstance {
        host,
        generation: GENERATION,
    }
}

/// The outcome of an agent's start when one of the two hosts has the lease, perhaps about to lose it to the other's
/// failover controller.
fn start(lease: u32, is_named: bool) -> (cenote::Result<u32>, HostState) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let options = Options {
        size: 1 << 20,
        max: 8 << 20,
        processes: 32,
        hosts: 8,
        ..Options::default()
    };
    drop(Pool::<Delegated>::create(&path, &options).unwrap());
    let ((agents, geometry), (others, _)) = (map(&path), map(&path));
    let record = |host| HostRecord::new(&geometry, host);
    for (host, phase) in [(AGENT, HostPhase::Fencing), (OTHER, HostPhase::Up)] {
        let state = HostState {
            phase,
            agent: 1,
            tag: 0,
            generation: GENERATION,
        };
        record(host).state().store_seq_cst(&agents, state.encode());
        let home = Home::new(GENERATION, MACHINE);
        record(host).home().store_seq_cst(&agents, home.encode());
    }
    HOSTS_HIGH.store_seq_cst(&agents, 8);
    SERVER_LEASE.store_seq_cst(&agents, instance(lease).encode());
    let locks = Locks::default();
    if lease == OTHER {
        serve(&others, &geometry, OTHER, locks.of(40));
    }
    serve(&agents, &geometry, AGENT, locks.of(30));
    if is_named {
        let mut failover = FailoverController::new(others.clone(), geometry, OTHER, MACHINE, 3).unwrap();
        let mut cluster = Cluster::default();
        while failover.lease() != Lease::Named(instance(OTHER)) {
            failover
                .poll(Poll::Punctual, &mut cluster, &mut Slow, &mut |_| ())
                .unwrap();
        }
    }
    let mut identity = Identity::here(&path, &path, AGENT);
    identity.name.machine = MACHINE;
    let started = agent::bring_up(&agents, &geometry, &identity, &*locks.of(30));
    (started, record(AGENT).read(&agents).unwrap())
}

#[test]
fn the_host_with_the_lease_does_not_end_itself() {
    let (started, state) = start(AGENT, false);
    assert!(started.is_err(), "{started:?}");
    assert_eq!((state.phase, state.generation), (HostPhase::Fencing, GENERATION));
}

/// The failover controller asks for no fence of a generation that is over, and would make its own host serve beside it.
#[test]
fn nor_does_it_while_the_lease_is_being_taken_from_it() {
    let (started, state) = start(AGENT, true);
    assert!(started.is_err(), "{started:?}");
    assert_eq!((state.phase, state.generation), (HostPhase::Fencing, GENERATION));
}

#[test]
fn a_host_without_the_lease_goes_up_again() {
    let (started, state) = start(OTHER, false);
    assert_eq!(started.unwrap(), GENERATION + 1);
    assert_eq!((state.phase, state.generation), (HostPhase::Up, GENERATION + 1));
}
