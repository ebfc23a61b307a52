//! A pool full of small values, which are all removed. Their blocks are empty then, and no block of another kind: a
//! write of a large value has room only if it gives them back. That is seen where nobody else makes room, and nothing
//! is given back by the way, so one thread does it all.
#![cfg(feature = "mutants")]

use std::cell::RefCell;
use std::rc::Rc;

use cenote::index::hash::HashMap;
use cenote::mutant::{Mutant, choose};
use cenote::pod::Worker;
use cenote::pod::format::geometry::FRAME;
use cenote::{Error, Guidelines};
use cenote_sim::exec::{Context, Ended, Settings, SimMemory, run};
use cenote_sim::policy::RandomWalk;
use cenote_sim::subjects::pool::{Member, bytes, format, parameters};

/// Frames of the pool.
const FRAMES: u64 = 32;
/// Frames of the large value.
const LARGE: u64 = 5;
/// Bytes of a small one.
const SMALL: usize = 5_000;

/// Fills the pool with small values, removes them, and puts the large one.
fn fill_and_refill(map: &HashMap<SimMemory<true>>) -> Result<(), Error> {
    let put = |key: u64, len: usize| map.put(&key.to_le_bytes(), &vec![1; len]);
    let count = (0..).find(|&key| put(key, SMALL).is_err()).unwrap();
    for key in 0..count {
        map.remove(&key.to_le_bytes())?;
    }
    put(0, (LARGE * FRAME) as usize).map(drop)
}

/// What comes of the large value.
fn outcome() -> Result<(), Error> {
    let parameters = parameters(true, FRAMES);
    let settings = Settings::untimed(true, bytes(parameters), vec![0]);
    let result = Rc::new(RefCell::new(Ok(())));
    let theirs = result.clone();
    let outcome = run(
        &settings,
        Box::new(RandomWalk::new(1)),
        Box::new(move |context: Context<true>| format(&context, parameters, FRAMES).unwrap()),
        Rc::new(move |context: Context<true>| {
            let member = Member::join(&context, false).unwrap();
            {
                let worker = Rc::new(Worker::attach(&member.pod, true).unwrap());
                let map = HashMap::open_or_create(worker, "map", Guidelines::P3).unwrap();
                *theirs.borrow_mut() = fill_and_refill(&map);
            }
            member.leave(&context);
        }),
        Box::new(|_| {}),
    );
    assert_eq!(outcome.ended, Ended::Well);
    result.replace(Ok(()))
}

#[test]
fn a_write_that_finds_the_pool_full_gives_empty_blocks_back() {
    choose(None);
    assert!(outcome().is_ok());
    choose(Some(Mutant::EmptyBlocksKept));
    let refused = outcome();
    choose(None);
    assert!(
        matches!(refused, Err(Error::Full { .. })),
        "the fault is not seen"
    );
}
