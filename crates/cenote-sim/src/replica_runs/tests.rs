//! The stores give right answers, runs can be repeated, and round trips take what the profile says.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cenote_replica::client::Client;
use cenote_ycsb::Workload;

use super::metadata_server::Directory;
use super::node_allocation::NodeAllocated;
use super::run::Ground;
use super::sequential::Sequential;
use super::shipped::Shipped;
use super::store::Store;
use super::{Kind, Phase, Plan, System, lock_based, measure, metadata_server};
use crate::check::linear::{Options, check_parts};
use crate::check::spec::map::{Map, Op, Ret};
use crate::history::{Event, History};
use crate::rdma::{Port, Tasks};

const CLIENTS: u32 = 6;
const KEYS: u64 = 3;
const OPERATIONS: u32 = 40;
/// Keys and values.
const BYTES: u32 = 64;

fn plan(system: System, seed: u64) -> Plan {
    Plan {
        bytes: BYTES,
        seed,
        ..Plan::new(system, CLIENTS, 64).unwrap()
    }
    .copies(2)
}

struct Journal {
    clock: Cell<u64>,
    events: RefCell<Vec<Event<Op, Ret>>>,
}

impl Journal {
    fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }
}

async fn work<S: Store>(store: Rc<S>, removes: bool, journal: Rc<Journal>) {
    let client = store.port().client;
    for _ in 0..OPERATIONS {
        let (what, key, value) = {
            let mut world = store.port().world.borrow_mut();
            let value = u64::from(client) << 32 | world.draw(1 << 31);
            (world.draw(if removes { 10 } else { 8 }), world.draw(KEYS), value)
        };
        let op = match what {
            0..3 => Op::Get { key },
            3..6 => Op::Write { key, value },
            6..8 => Op::Insert { key, value },
            _ => Op::Remove { key },
        };
        let invoke = journal.tick();
        let bytes = key.to_le_bytes();
        let value = [&value.to_le_bytes()[..], &[0; BYTES as usize - 16]].concat();
        let result = match &op {
            Op::Get { .. } => match store.get(&bytes).await.unwrap() {
                Some(value) => Ret::Found(u64::from_le_bytes(value[..8].try_into().unwrap())),
                None => Ret::Missing,
            },
            Op::Write { .. } => {
                store.put(&bytes, &value).await.unwrap();
                Ret::Done
            }
            Op::Insert { .. } => match store.insert(&bytes, &value).await.unwrap() {
                true => Ret::Inserted,
                false => Ret::Present,
            },
            _ => match store.remove(&bytes).await.unwrap() {
                true => Ret::Removed,
                false => Ret::Missing,
            },
        };
        let event = Event {
            process: client,
            op,
            result: Some(result),
            invoke,
            returned: Some(journal.tick()),
            lost: None,
        };
        journal.events.borrow_mut().push(event);
    }
}

/// What clients of a store saw from some seeds.
fn histories<S: Store + 'static>(
    system: System,
    removes: bool,
    mut store: impl FnMut(&Plan, &Ground, Port) -> S,
) -> Vec<bool> {
    let history = |seed: u64| {
        let plan = plan(system, seed);
        let ground = Ground::new(&plan).unwrap();
        let journal = Rc::new(Journal {
            clock: Cell::default(),
            events: RefCell::default(),
        });
        let mut tasks = Tasks::default();
        for client in 1..=CLIENTS {
            let store = Rc::new(store(&plan, &ground, ground.port(&plan, client)));
            tasks.spawn(work(store, removes, Rc::clone(&journal)));
        }
        assert!(tasks.run(&ground.world), "seed {seed}: stuck");
        let history = History::new(journal.events.take()).unwrap();
        check_parts(&Map, &history, &Options::default()).is_linearizable()
    };
    (1..=20).map(history).collect()
}

fn shipped(plan: &Plan, port: Port) -> Shipped<Port> {
    let session = plan.place.session(port.client);
    Shipped {
        client: Client::new(port.clone(), plan.place.layout().unwrap(), session),
        port,
    }
}

#[test]
fn all_stores_are_linearizable() {
    let ours = histories(System::OURS, true, |plan, _, port| shipped(plan, port));
    assert_eq!(ours, [true; 20]);
    let sequential = histories(System::Sequential, true, |plan, _, port| Shipped {
        client: Client::new(
            Sequential(port.clone()),
            plan.place.layout().unwrap(),
            plan.place.session(port.client),
        ),
        port,
    });
    assert_eq!(sequential, [true; 20]);
    let allocated = histories(System::NodeAllocated, true, |plan, _, port| {
        NodeAllocated(shipped(plan, port))
    });
    assert_eq!(allocated, [true; 20]);
    let mut directory = (0, Rc::<Directory>::default());
    let served = histories(System::MetadataServer, false, |plan, ground, port| {
        if directory.0 != plan.seed {
            directory = (plan.seed, Rc::default());
        }
        let server = (plan.place.nodes as usize, Rc::clone(&directory.1));
        metadata_server::Client::new(port, server, Rc::clone(&ground.blocks), BYTES, 2)
    });
    assert_eq!(served, [true; 20]);
    for system in [System::LOCKS, System::LOCKS_FOR_CHANGES] {
        let locked = histories(system, true, |plan, _, port| {
            lock_based::Client::new(
                port,
                plan.place.records,
                plan.place.regions(),
                BYTES,
                (system == System::LOCKS, u64::MAX),
            )
        });
        assert_eq!(locked, [true; 20]);
    }
}

/// A key and a value.
type Pair = (Vec<u8>, Vec<u8>);

/// A store whose changes return before they are done.
struct Hasty<S>(Rc<S>, Rc<RefCell<Vec<Pair>>>);

impl<S: Store> Store for Hasty<S> {
    fn port(&self) -> &Port {
        self.0.port()
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.0.get(key).await
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let late = self.1.replace(vec![(key.to_vec(), value.to_vec())]);
        for (key, value) in late {
            self.0.put(&key, &value).await?;
        }
        Ok(())
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, String> {
        self.0.insert(key, value).await
    }

    async fn remove(&self, key: &[u8]) -> Result<bool, String> {
        self.0.remove(key).await
    }

    async fn upkeep(&self) -> Result<(), String> {
        self.0.upkeep().await
    }

    fn oldest(&self) -> Option<u64> {
        self.0.oldest()
    }
}

#[test]
fn a_store_that_is_not_linearizable_is_found() {
    let hasty = histories(System::OURS, true, |plan, _, port| {
        Hasty(Rc::new(shipped(plan, port)), Rc::default())
    });
    assert!(hasty.contains(&false));
}

#[test]
fn runs_can_be_repeated_and_differ_by_their_seeds() {
    let mut plan = Plan::new(System::OURS, 16, 2_000).unwrap();
    plan.profile.heartbeat_us = 500.0;
    let plan = plan
        .then(Phase::new(Workload::A, 1))
        .then(Phase::new(Workload::D, 1));
    let outcomes = measure(&plan).unwrap();
    assert_eq!(outcomes, measure(&plan).unwrap());
    assert!(outcomes.iter().all(|outcome| outcome.mops() > 0.1));
    assert_ne!(outcomes, measure(&Plan { seed: 2, ..plan }).unwrap());
}

#[test]
fn a_read_takes_a_round_trip() {
    let plan = Plan::new(System::OURS, 1, 100)
        .unwrap()
        .then(Phase::new(Workload::C, 2));
    let outcome = measure(&plan).unwrap().remove(0);
    // Two ways of 0.8 us, and less than half a microsecond for cards and bytes.
    let cached = outcome.percentile_us(Kind::Search, 50.0).unwrap();
    assert!((1.9..2.6).contains(&cached), "{cached}");
}
