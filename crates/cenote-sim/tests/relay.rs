//! Event counts that are notified on one host while threads of another sleep by them; that host's agent relays the
//! notification. Each host has a kernel of its own, which wakes its own threads only.

use std::cell::Cell;
use std::rc::Rc;

use cenote::index::dropping::drop_named;
use cenote::index::objects::{ObjectSettings, ObjectStore};
use cenote::memory::Memory;
use cenote::pod::Worker;
use cenote::pod::death::relay::Relay;
use cenote::pod::group::{Creation, Group, prepare_wait};
use cenote::{Error, Guidelines};
use cenote_sim::exec::{Context, Ended, Settings, SimMemory, run};
use cenote_sim::policy::RandomWalk;
use cenote_sim::subjects::pool::{Member, bytes, format, parameters};

use crate::directed::{until, with_worker};

/// How often a member joins and leaves.
const VISITS: u64 = 3;

fn open<const C: bool>(worker: &Worker<cenote_sim::exec::SimMemory<C>>) -> Group {
    let creation = Creation {
        members: 8,
        events: 64,
        salt: 1,
    };
    Group::open_or_create(worker, "group", b"token", creation).unwrap()
}

/// Reads all that happens, and sleeps until it is woken while nothing does; in the end the group may be dropped.
fn sleeper<const C: bool>(context: &Context<C>, leased: &Cell<bool>, is_done: &Cell<bool>) {
    let member = Member::join(context, false).unwrap();
    {
        let worker = Worker::attach(&member.pod, true).unwrap();
        let group = open(&worker);
        let mut lease = group.observe(&worker).unwrap();
        leased.set(true);
        let mut seen = 0;
        let mut is_dropped = false;
        while seen < 2 * VISITS && !is_dropped {
            let event_count = prepare_wait(worker.mem());
            match group.next(&worker, &mut lease) {
                Ok(Some(_)) => seen += 1,
                Err(Error::Dropped) => is_dropped = true,
                Err(error) => panic!("{error}"),
                // So long as to sleep for ever.
                Ok(None) => {
                    worker
                        .mem()
                        .kernel()
                        .wait(&[], &[event_count], std::time::Duration::from_secs(1))
                }
            }
        }
        if !is_dropped {
            group.leave(&worker, lease).unwrap();
        }
    }
    is_done.set(true);
    member.leave(context);
}

fn relay<const C: bool>(context: &Context<C>, relays: bool, is_done: &Cell<bool>) {
    let member = Member::join(context, false).unwrap();
    {
        let worker = Worker::attach(&member.pod, true).unwrap();
        let mut relay = Relay::default();
        while !is_done.get() {
            if relays {
                relay.poll(worker.mem());
            }
            context.wait();
        }
    }
    member.leave(context);
}

fn visitor<const C: bool>(context: &Context<C>, leased: &Cell<bool>, drops: bool) {
    let member = Member::join(context, false).unwrap();
    {
        let worker = Rc::new(Worker::attach(&member.pod, true).unwrap());
        let group = open(&worker);
        while !leased.get() {
            context.wait();
        }
        if drops {
            let _ = drop_named(&worker, "group").unwrap();
        }
        for _ in 0..if drops { 0 } else { VISITS } {
            let lease = group.join(&worker, "visitor").unwrap();
            group.leave(&worker, lease).unwrap();
        }
    }
    member.leave(context);
}

fn ends<const C: bool>(seed: u64, relays: bool, drops: bool) -> Ended {
    let parameters = parameters(C, 16);
    let settings = Settings {
        steps_max: 400_000,
        ..Settings::untimed(C, bytes(parameters), vec![0, 0, 1])
    };
    let (leased, is_done) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let outcome = run(
        &settings,
        Box::new(RandomWalk::new(seed)),
        Box::new(move |context: Context<C>| format(&context, parameters, 16).unwrap()),
        Rc::new(move |context: Context<C>| {
            context.is_apart();
            match context.process() {
                1 => sleeper(&context, &leased, &is_done),
                2 => relay(&context, relays, &is_done),
                _ => visitor(&context, &leased, drops),
            }
        }),
        Box::new(|_| {}),
    );
    outcome.ended
}

#[test]
fn who_sleeps_on_another_host_is_woken() {
    for seed in 1..=200 {
        assert_eq!(ends::<true>(seed, true, false), Ended::Well, "seed {seed}");
        assert_eq!(ends::<false>(seed, true, false), Ended::Well, "seed {seed}");
    }
}

/// Sleeps until an object is sealed, for as long as it takes.
fn object_waiter<const C: bool>(context: &Context<C>, is_open: &Cell<bool>) {
    with_worker(context, |worker| {
        let store = objects(worker);
        is_open.set(true);
        loop {
            let event_count = match store.prepare_wait(b"never") {
                Err(Error::Dropped) => return,
                prepared => prepared.unwrap(),
            };
            match store.view(b"never") {
                Err(Error::Dropped) => return,
                found => assert!(found.unwrap().is_none()),
            }
            let long = std::time::Duration::from_secs(1);
            worker.mem().kernel().wait(&[], &[event_count], long);
        }
    });
}

fn objects<const C: bool>(worker: &Rc<Worker<SimMemory<C>>>) -> ObjectStore<SimMemory<C>> {
    let settings = ObjectSettings::default();
    ObjectStore::open_or_create(worker.clone(), "objects", &settings, Guidelines::P3).unwrap()
}

/// On the same host: nobody relays.
fn object_waiter_ends<const C: bool>(seed: u64) -> Ended {
    let parameters = parameters(C, 16);
    let settings = Settings {
        steps_max: 400_000,
        ..Settings::untimed(C, bytes(parameters), vec![0, 0])
    };
    let is_open = Rc::new(Cell::new(false));
    let outcome = run(
        &settings,
        Box::new(RandomWalk::new(seed)),
        Box::new(move |context: Context<C>| format(&context, parameters, 16).unwrap()),
        Rc::new(move |context: Context<C>| match context.process() {
            1 => object_waiter(&context, &is_open),
            _ => with_worker(&context, |worker| {
                until(&context, || is_open.get());
                let _ = drop_named(worker, "objects").unwrap();
            }),
        }),
        Box::new(|_| {}),
    );
    outcome.ended
}

#[test]
fn who_waits_for_an_object_is_told_that_its_store_is_dropped() {
    for seed in 1..=100 {
        assert_eq!(object_waiter_ends::<true>(seed), Ended::Well, "seed {seed}");
        assert_eq!(object_waiter_ends::<false>(seed), Ended::Well, "seed {seed}");
    }
}

#[test]
fn who_sleeps_on_another_host_is_told_that_the_group_is_dropped() {
    for seed in 1..=100 {
        assert_eq!(ends::<true>(seed, true, true), Ended::Well, "seed {seed}");
        assert_eq!(ends::<false>(seed, true, true), Ended::Well, "seed {seed}");
    }
}

#[test]
fn without_a_relay_nobody_is() {
    assert!((1..=20).any(|seed| ends::<true>(seed, false, false) != Ended::Well));
    assert!((1..=20).any(|seed| ends::<false>(seed, false, false) != Ended::Well));
}
