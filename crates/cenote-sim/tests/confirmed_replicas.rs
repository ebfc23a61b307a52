//! A worker confirms its replica of a map's root while another one, which moves the root, has read the replica and is
//! about to exchange it. In this schedule, which draws hardly ever find, each is held back right before that step.
#![cfg(feature = "mutants")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cenote::Guidelines;
use cenote::index::hash::HashMap;
use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::names::directory;
use cenote_sim::exec::{Context, Ended, Kind, Settings, run};
use cenote_sim::machine::{Capacity, Shape};
use cenote_sim::policy::{Candidate, Fault, Policy};
use cenote_sim::subjects::pool::{Member, bytes, format, parameters};

/// Where the first worker's replica of the root lies, and how far the next one's is from it.
const REPLICA_AT: u64 = 128;
const SHARE_BYTES: u64 = 128;

/// What the threads know of each other.
#[derive(Default)]
struct Stage {
    /// The root.
    root: Cell<u64>,
    /// The thread that reads, its replica, and how often it has exchanged that: to have a tentative one, to confirm it.
    reader: Cell<Option<(u32, u64)>>,
    exchanged: Cell<u32>,
    /// Whether it is about to confirm it, and whether the mover is about to exchange it.
    confirms: Cell<bool>,
    moves: Cell<bool>,
    has_read: Cell<bool>,
    /// What the reader's replica and the root say once the map has moved.
    said: Cell<Option<(u64, u64)>>,
}

impl Stage {
    /// Whether the reader's replica is about to be exchanged: by the reader, if it `is_reader`, or by another thread.
    fn exchanges(&self, of: &Candidate, is_reader: bool) -> bool {
        let exchanges = |(thread, replica)| (thread == of.thread) == is_reader && replica == of.op.at;
        of.op.kind == Kind::CompareExchange && self.reader.get().is_some_and(exchanges)
    }

    /// Whether the reader is about to confirm its replica.
    fn confirms(&self, of: &Candidate) -> bool {
        self.exchanges(of, true) && self.exchanged.get() == 1
    }

    fn waits(&self, of: &Candidate) -> bool {
        let moves = self.exchanges(of, false) && self.exchanged.get() == 1;
        moves || self.confirms(of) && !self.moves.get()
    }
}

/// Runs all threads in turn, except those that are held back.
struct HeldBack {
    stage: Rc<Stage>,
    steps: u64,
    ran: BTreeMap<u32, u64>,
}

impl Policy for HeldBack {
    fn thread(&mut self, candidates: &[Candidate], _: bool) -> usize {
        let stage = &self.stage;
        let is_due = |is: &dyn Fn(&Candidate) -> bool| candidates.iter().any(is);
        stage
            .confirms
            .set(stage.confirms.get() || is_due(&|of| stage.confirms(of)));
        stage
            .moves
            .set(stage.moves.get() || is_due(&|of| stage.exchanges(of, false)));
        let chosen = (0..candidates.len())
            .filter(|&n| !stage.waits(&candidates[n]))
            .min_by_key(|&n| self.ran.get(&candidates[n].thread))
            .unwrap_or(0);
        if stage.exchanges(&candidates[chosen], true) {
            stage.exchanged.set(stage.exchanged.get() + 1);
        }
        self.steps += 1;
        self.ran.insert(candidates[chosen].thread, self.steps);
        chosen
    }

    fn fault(&mut self, _: Fault, _: u32) -> u32 {
        0
    }

    fn parameters(&self) -> String {
        "two held back".to_owned()
    }
}

fn until(context: &Context<true>, is_so: impl Fn() -> bool) {
    while !is_so() {
        context.wait();
    }
}

fn play(context: &Context<true>, stage: &Stage) {
    let member = Member::join(context, false).unwrap();
    let worker = Rc::new(Worker::attach(&member.pod, true).unwrap());
    let map = HashMap::open_or_create(worker.clone(), "map", Guidelines::P3).unwrap();
    match context.process() {
        1 => {
            let root = directory::find(&*worker, "map").unwrap().unwrap().offset;
            stage.root.set(root);
            let replica = root + REPLICA_AT + (u64::from(worker.me()) - 1) * SHARE_BYTES;
            stage.reader.set(Some((context.thread(), replica)));
            assert!(map.get(b"key").unwrap().is_some());
            stage.has_read.set(true);
            until(context, || stage.said.get().is_some());
        }
        _ => {
            until(context, || stage.confirms.get());
            let before = context.peek(stage.root.get());
            for key in 0.. {
                map.put_u64(key, key).unwrap();
                if context.peek(stage.root.get()) != before {
                    break;
                }
            }
            until(context, || stage.has_read.get());
            let (_, replica) = stage.reader.get().unwrap();
            let said = (context.peek(replica), context.peek(stage.root.get()));
            stage.said.set(Some(said));
        }
    }
    drop((map, worker));
    member.leave(context);
}

/// What the reader's replica and the root say once the map has moved.
fn said() -> (u64, u64) {
    let parameters = parameters(true, 32);
    let settings = Settings {
        shape: Shape {
            coherent: true,
            hosts: 1,
            bytes: bytes(parameters),
            cache_lines: Capacity::ALL,
            prefetches: false,
            has_membarrier: true,
            persists_at_crash: false,
            coherent_bytes: 0,
            blind_exchanges: false,
        },
        processes: vec![0; 2],
        crashes: Vec::new(),
        steps_max: 10_000_000,
        capacity: u64::MAX,
        profile: None,
        checks_order: true,
        traces: false,
        delegated: None,
        limits: None,
    };
    let stage = Rc::new(Stage::default());
    let theirs = stage.clone();
    let outcome = run(
        &settings,
        Box::new(HeldBack {
            stage: stage.clone(),
            steps: 0,
            ran: BTreeMap::new(),
        }),
        Box::new(move |context: Context<true>| {
            format(&context, parameters, 32).unwrap();
            let member = Member::join(&context, false).unwrap();
            let worker = Rc::new(Worker::attach(&member.pod, true).unwrap());
            // Its place has no replica when it leaves.
            let guidelines = Guidelines {
                replicate: false,
                ..Guidelines::P3
            };
            let map = HashMap::open_or_create(worker, "map", guidelines).unwrap();
            map.put(b"key", b"value").unwrap();
            drop(map);
            member.leave(&context);
        }),
        Rc::new(move |context: Context<true>| play(&context, &theirs)),
        Box::new(|_| {}),
    );
    assert_eq!(outcome.ended, Ended::Well);
    assert!(stage.confirms.get() && stage.moves.get());
    stage.said.get().unwrap()
}

#[test]
fn a_replica_that_is_confirmed_while_the_root_moves_is_moved_too() {
    choose(None);
    let (replica, root) = said();
    assert_eq!(replica, root);
    choose(Some(Mutant::ReplicasTriedOnce));
    let (replica, root) = said();
    choose(None);
    assert_ne!(replica, root, "the fault is not seen");
}
