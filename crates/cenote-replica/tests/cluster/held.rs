//! Schedules in which verbs of clients are held back, and the primary of the index dies.

use std::cell::RefCell;
use std::rc::Rc;

use cenote_replica::client::Client;
use cenote_replica::index::candidates::image;
use cenote_replica::index::layout::{Hash, Label};
use cenote_replica::object::OUTCOME_BYTES;
use cenote_replica::slot::value::Slot;
use cenote_replica::verbs::{Address, Request, Verb, Verbs};
use cenote_replica::view::NodeId;

use super::network::{Holds, Port, Shared};
use super::run::{Master, Plan, ROOT, copies_are_equal, drive, empty, join, layout};

const PRIMARY: NodeId = NodeId(1);
const BACKUP: NodeId = NodeId(2);

/// Two keys and slots: the other key has the slot that the key would have in an empty map; and the key then has a slot behind that.
struct Places {
    key: Vec<u8>,
    other: Vec<u8>,
    /// The slot that both keys have in an empty map.
    before: u32,
    /// The one that the key has beside the other one.
    behind: u32,
}

fn places(plan: &Plan) -> Places {
    let segments = layout(plan).segments;
    let slot = |key: &[u8], n: u32| {
        let hash = Hash::of(key);
        (hash, Slot::object(Address::new(1, 64 * n), hash.fingerprint, 64))
    };
    let place = |content: &[(Hash, Slot)]| {
        let bytes = image(segments, Label { depth: 0, prefix: 0 }, content).unwrap();
        let (_, last) = content.last().unwrap();
        let is_last = |n: &u32| bytes[*n as usize..][..8] == last.0.to_le_bytes();
        (0..segments.slots())
            .map(|n| segments.slot_at(n))
            .find(is_last)
            .unwrap()
    };
    for n in 0..1_000_u32 {
        let (key, other) = (format!("key {n}").into_bytes(), format!("other {n}").into_bytes());
        let before = place(&[slot(&key, 1)]);
        let behind = place(&[slot(&other, 2), slot(&key, 1)]);
        if place(&[slot(&other, 2)]) == before && behind > before {
            return Places {
                key,
                other,
                before,
                behind,
            };
        }
    }
    unreachable!("one of eight keys or so")
}

/// What a slot of the segment holds at a node.
fn slot(world: &Shared, node: NodeId, offset: u32) -> Slot {
    let world = world.borrow();
    let from = (ROOT + offset) as usize;
    let bytes = world.memory(node, 0).unwrap()[from..from + 8].try_into();
    Slot(u64::from_le_bytes(bytes.unwrap()))
}

fn is_object(slot: Slot) -> bool {
    !slot.is_vacant()
}

/// Whether a request changes a slot.
fn swaps(request: &Request) -> bool {
    matches!(request.verb, Verb::CompareSwap { .. }) && request.at.region() == 0
}

/// Whether a request writes a log.
fn logs(request: &Request) -> bool {
    matches!(&request.verb, Verb::Write(bytes) if bytes.len() == OUTCOME_BYTES)
}

/// Waits until something is so.
async fn until(port: &Port, is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        port.pause(0).await;
    }
    panic!("it is never so");
}

fn hold(world: &Shared, holds: impl Fn(u32, &Request) -> bool + 'static) {
    world.borrow_mut().holds = Some(Box::new(holds) as Holds);
}

type Clients = [Rc<Client<Port>>; 3];

fn three(world: &Shared, plan: &Plan) -> Clients {
    [1, 2, 3].map(|number| join(world, plan, number))
}

/// What an insert returns that looked before the key was bound, and a read after it.
#[derive(Debug, PartialEq, Eq)]
pub struct Late {
    pub inserted: bool,
    pub found: Option<Vec<u8>>,
}

/// A client binds a key, and another one puts it, which has come to the backup and has not written its log when the primary dies. An insert that had looked before the key was bound has come to
/// a smaller slot at the backup.
pub fn late_insert() -> Late {
    let plan = Plan::default();
    let world = empty(&plan);
    let [first, putting, late] = three(&world, &plan);
    let Places {
        key,
        other,
        before,
        behind,
    } = places(&plan);
    let prepare = {
        let (first, other) = (Rc::clone(&first), other.clone());
        async move {
            first.put(&other, b"other").await.unwrap();
        }
    };
    drive(&world, vec![Box::pin(prepare)]);
    assert!(is_object(slot(&world, PRIMARY, before)));

    let is_bound = Rc::new(RefCell::new(false));
    // The key's slot is chosen behind the other key's. The write waits.
    hold(&world, |client, request| client == 1 && swaps(request));
    let binds = {
        let (key, is_bound) = (key.clone(), Rc::clone(&is_bound));
        let first = Rc::clone(&first);
        async move {
            assert!(first.insert(&key, b"first").await.unwrap());
            *is_bound.borrow_mut() = true;
        }
    };
    let inserted = Rc::new(RefCell::new(None));
    let inserts = {
        let (key, world, inserted) = (key.clone(), Rc::clone(&world), Rc::clone(&inserted));
        let late = Rc::clone(&late);
        async move {
            until(late.net(), || world.borrow().held(1) > 0).await;
            // The slot before it is vacant again.
            late.remove(&other).await.unwrap();
            hold(&world, |client, request| {
                matches!(client, 1 | 3) && swaps(request)
            });
            let is_new = late.insert(&key, b"late").await.unwrap();
            *inserted.borrow_mut() = Some(is_new);
        }
    };
    let puts = {
        let (key, world) = (key.clone(), Rc::clone(&world));
        async move {
            until(putting.net(), || world.borrow().held(3) > 0).await;
            hold(&world, |client, request| match client {
                2 => logs(request),
                3 => swaps(request),
                _ => false,
            });
            world.borrow_mut().release(1);
            until(putting.net(), || *is_bound.borrow()).await;
            assert!(is_object(slot(&world, PRIMARY, behind)));
            putting.put(&key, b"put").await.unwrap();
        }
    };
    let closes = {
        let world = Rc::clone(&world);
        let port = Port {
            world: Rc::clone(&world),
            client: 0,
        };
        let mut master = Master::new(&world, &plan, 3);
        async move {
            until(&port, || world.borrow().held(2) > 0).await;
            assert_ne!(slot(&world, BACKUP, behind), slot(&world, PRIMARY, behind));
            // The insert comes to the backup, and does not look for its twins any more.
            hold(&world, |client, request| match client {
                2 => logs(request),
                _ => client == 3,
            });
            world.borrow_mut().release(3);
            until(&port, || is_object(slot(&world, BACKUP, before))).await;
            assert!(!is_object(slot(&world, PRIMARY, before)));
            world.borrow_mut().crash(PRIMARY);
            master.add_lost();
            master.close().await.unwrap();
            {
                let mut world = world.borrow_mut();
                world.holds = None;
                world.release(2);
                world.release(3);
            }
            // What else somebody waits for.
            for _ in 0..1_000 {
                port.pause(0).await;
                master.add_complaints();
                if master.is_asked() {
                    master.close().await.unwrap();
                }
            }
        }
    };
    drive(
        &world,
        vec![
            Box::pin(binds),
            Box::pin(inserts),
            Box::pin(puts),
            Box::pin(closes),
        ],
    );
    let found = Rc::new(RefCell::new(None));
    let reads = {
        let found = Rc::clone(&found);
        async move {
            *found.borrow_mut() = first.get(&key).await.unwrap();
        }
    };
    drive(&world, vec![Box::pin(reads)]);
    copies_are_equal(&world.borrow(), &layout(&plan)).unwrap();
    let inserted = inserted.borrow().expect("the insert has returned");
    Late {
        inserted,
        found: found.take(),
    }
}

#[test]
fn an_insert_that_comes_late_is_no_twin_of_a_put() {
    let late = Late {
        inserted: false,
        found: Some(b"put".to_vec()),
    };
    assert_eq!(late_insert(), late);
}
