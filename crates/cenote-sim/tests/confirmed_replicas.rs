//! A worker confirms its replica of a map's root while another one, which moves the root, has read the replica and is
//! about to exchange it. In this schedule, which draws hardly ever find, each is held back right before that step.
#![cfg(feature = "mutants")]

use std::cell::Cell;
use std::rc::Rc;

use cenote::Guidelines;
use cenote::index::hash::HashMap;
use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::names::directory;
use cenote_sim::exec::{Context, Ended, Kind, SimMemory};
use cenote_sim::policy::Candidate;

use crate::directed::{Play, Stage, until, with_worker};

/// Where the first worker's replica of the root lies, and how far the next one's is from it.
const REPLICA_AT: u64 = 128;
const SHARE_BYTES: u64 = 128;

/// What the threads know of each other.
#[derive(Default)]
struct Replica {
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

impl Replica {
    /// Whether the reader's replica is about to be exchanged: by the reader, if it `is_reader`, or by another thread.
    fn exchanges(&self, of: &Candidate, is_reader: bool) -> bool {
        let exchanges = |(thread, replica)| (thread == of.thread) == is_reader && replica == of.op.at;
        of.op.kind == Kind::CompareExchange && self.reader.get().is_some_and(exchanges)
    }

    /// Whether the reader is about to confirm its replica.
    fn confirms(&self, of: &Candidate) -> bool {
        self.exchanges(of, true) && self.exchanged.get() == 1
    }
}

impl Stage for Replica {
    fn look(&self, candidates: &[Candidate]) {
        let confirms = candidates.iter().any(|of| self.confirms(of));
        let moves = candidates.iter().any(|of| self.exchanges(of, false));
        self.confirms.set(self.confirms.get() || confirms);
        self.moves.set(self.moves.get() || moves);
    }

    fn waits(&self, of: &Candidate) -> bool {
        let moves = self.exchanges(of, false) && self.exchanged.get() == 1;
        moves || self.confirms(of) && !self.moves.get()
    }

    fn note(&self, of: &Candidate) {
        if self.exchanges(of, true) {
            self.exchanged.set(self.exchanged.get() + 1);
        }
    }
}

fn play(context: &Context<true>, stage: &Replica, worker: &Rc<Worker<SimMemory<true>>>) {
    let map = HashMap::open_or_create(worker.clone(), "map", Guidelines::P3).unwrap();
    match context.process() {
        1 => {
            let root = directory::find(&**worker, "map").unwrap().unwrap().offset;
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
}

/// What the reader's replica and the root say once the map has moved.
fn said() -> (u64, u64) {
    let stage = Rc::new(Replica::default());
    let ended = Play::of_processes(2).run(
        &stage,
        |worker| {
            // Its place has no replica when it leaves.
            let guidelines = Guidelines {
                replicate: false,
                ..Guidelines::P3
            };
            let map = HashMap::open_or_create(worker.clone(), "map", guidelines).unwrap();
            map.put(b"key", b"value").unwrap();
        },
        |context: &Context<true>, stage| with_worker(context, |worker| play(context, stage, worker)),
    );
    assert_eq!(ended, Ended::Well);
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
