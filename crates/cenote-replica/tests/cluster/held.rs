//! Schedules in which verbs of clients are held back, and the primary of the index dies.

use std::cell::RefCell;
use std::rc::Rc;

use cenote_replica::client::Client;
use cenote_replica::index::candidates::image;
use cenote_replica::index::layout::{Hash, Label};
use cenote_replica::object::{OUTCOME_AT, OUTCOME_BYTES};
use cenote_replica::slot::value::Slot;
use cenote_replica::verbs::{Address, GRANULE, Request, Verb, Verbs};
use cenote_replica::view::NodeId;

use super::network::{Holds, Port, Shared};
use super::run::{Fault, Master, OBJECTS, Plan, ROOT, copies_are_equal, drive, empty, join, layout};

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
    let is_index = request.at.region() == 0 && request.at.offset() < OBJECTS;
    matches!(request.verb, Verb::CompareSwap { .. }) && is_index
}

/// Whether a request writes a log, or a part of one.
fn logs(request: &Request) -> bool {
    let at = u64::from(request.at.offset()) % u64::from(GRANULE);
    match &request.verb {
        Verb::Write(bytes) => bytes.len() == OUTCOME_BYTES || bytes.len() == OUTCOME_BYTES - 8,
        Verb::CompareSwap { .. } => !swaps(request) && at == u64::from(OUTCOME_AT) + OUTCOME_BYTES as u64 - 8,
        _ => false,
    }
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

/// Who has the key's slot when the late insert comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// A put that has replaced what an insert had bound.
    Put,
    /// An insert that shows, and has not written its log.
    Insert,
    /// The same, but the primary of its log may have it, and another client has seen what it inserted.
    Seen,
}

/// What the first insert returns, and one that looked before the key was bound; and a read after both.
#[derive(Debug, PartialEq, Eq)]
pub struct Late {
    pub first: bool,
    pub seen: Option<Vec<u8>>,
    pub inserted: bool,
    pub found: Option<Vec<u8>>,
}

/// A client binds a key, and another one puts it, which has come to the backup and has not written its log when the primary dies. An insert that had looked before the key was bound has come to
/// a smaller slot at the backup.
pub fn late_insert(what: Before) -> Late {
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

    let is_bound = Rc::new(RefCell::new(None));
    // The key's slot is chosen behind the other key's. The write waits.
    hold(&world, |client, request| client == 1 && swaps(request));
    let binds = {
        let (key, is_bound) = (key.clone(), Rc::clone(&is_bound));
        let first = Rc::clone(&first);
        async move {
            let is_new = first.insert(&key, b"first").await.unwrap();
            if what == Before::Put {
                // The last copy of its log.
                first.upkeep().await.unwrap();
            }
            *is_bound.borrow_mut() = Some(is_new);
        }
    };
    let inserted = Rc::new(RefCell::new(None));
    let seen = Rc::new(RefCell::new(None));
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
        let (key, world, is_bound) = (key.clone(), Rc::clone(&world), Rc::clone(&is_bound));
        let seen = Rc::clone(&seen);
        async move {
            until(putting.net(), || world.borrow().held(3) > 0).await;
            hold(&world, move |client, request| match client {
                1 if what == Before::Seen => logs(request) && request.node == BACKUP,
                1 => what == Before::Insert && logs(request),
                2 if what == Before::Seen => false,
                2 => logs(request),
                3 => swaps(request),
                _ => false,
            });
            world.borrow_mut().release(1);
            if what != Before::Put {
                until(putting.net(), || is_object(slot(&world, PRIMARY, behind))).await;
                if what == Before::Seen {
                    putting.net().settle().await;
                    let value = putting.get(&key).await.unwrap();
                    *seen.borrow_mut() = Some(value);
                }
                return;
            }
            until(putting.net(), || is_bound.borrow().is_some()).await;
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
        let seen = Rc::clone(&seen);
        async move {
            match what {
                Before::Seen => until(&port, || seen.borrow().is_some()).await,
                Before::Put => {
                    until(&port, || world.borrow().held(2) > 0).await;
                    assert_ne!(slot(&world, BACKUP, behind), slot(&world, PRIMARY, behind));
                }
                Before::Insert => until(&port, || is_object(slot(&world, PRIMARY, behind))).await,
            }
            // The late insert comes to the backup, and does not look for its twins any more.
            hold(&world, |client, request| match client {
                1 | 2 => logs(request),
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
                (1..=3).for_each(|client| world.release(client));
            }
            go_on(&port, &mut master).await;
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
    let first = is_bound.borrow().expect("so has the first");
    Late {
        first,
        seen: seen.take().flatten(),
        inserted,
        found: found.take(),
    }
}

#[test]
fn an_insert_that_comes_late_is_no_twin_of_a_put() {
    let late = Late {
        first: true,
        seen: None,
        inserted: false,
        found: Some(b"put".to_vec()),
    };
    assert_eq!(late_insert(Before::Put), late);
}

#[test]
fn of_two_inserts_one_is_done() {
    let late = late_insert(Before::Insert);
    assert!(late.first != late.inserted && late.found.is_some(), "{late:?}");
}

#[test]
fn an_insert_that_was_seen_is_not_undone() {
    let late = Late {
        first: true,
        seen: Some(b"first".to_vec()),
        inserted: false,
        found: Some(b"first".to_vec()),
    };
    assert_eq!(late_insert(Before::Seen), late);
}

/// Ends what is held back, and closes what somebody complains about, until nobody waits any more.
async fn go_on(port: &Port, master: &mut Master) {
    for _ in 0..1_000 {
        port.pause(0).await;
        master.add_complaints();
        if master.is_asked() {
            master.close().await.unwrap();
        }
    }
}

/// What a schedule of one key ends with.
#[derive(Debug, PartialEq, Eq)]
pub struct Once {
    pub inserted: Option<bool>,
    pub removed: Option<bool>,
    pub found: Option<Vec<u8>>,
}

/// When the client that inserts hears no answers any more, and what befalls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silence {
    /// Its log, which has one copy alone, is written, and the key is removed before it asks what became of its insert.
    Told,
    /// Its log is not written. The removal has come to the backup, and has not written its log when the primary dies.
    Untold,
}

/// A client inserts a key, which shows, and does not hear so; another one removes the key.
pub fn insert_unheard(silence: Silence) -> Once {
    let plan = Plan::default();
    let world = empty(&plan);
    let [inserting, removing, reading] = three(&world, &plan);
    let Places { key, before, .. } = places(&plan);
    let [inserted, removed] = [(); 2].map(|()| Rc::new(RefCell::new(None)));
    let found = Rc::new(RefCell::new(None));
    if silence == Silence::Told {
        // The first block lies in a region that two nodes hold, and the second then in one that a single node holds.
        let prepare = {
            let (reading, world, plan) = (Rc::clone(&reading), Rc::clone(&world), plan.clone());
            async move {
                reading.put(b"another key", b"value").await.unwrap();
                reading.net().settle().await;
                world.borrow_mut().crash(NodeId(3));
                let mut master = Master::new(&world, &plan, 3);
                master.add_lost();
                master.close().await.unwrap();
            }
        };
        drive(&world, vec![Box::pin(prepare)]);
    }
    hold(&world, |client, request| {
        client == 1 && (logs(request) || swaps(request) && request.node == PRIMARY)
    });
    let inserts = {
        let (key, inserted) = (key.clone(), Rc::clone(&inserted));
        async move {
            let is_new = inserting.insert(&key, b"first").await.unwrap();
            *inserted.borrow_mut() = Some(is_new);
        }
    };
    let removes = {
        let (key, world, removed) = (key.clone(), Rc::clone(&world), Rc::clone(&removed));
        async move {
            until(removing.net(), || is_object(slot(&world, PRIMARY, before))).await;
            let was = removing.remove(&key).await.unwrap();
            *removed.borrow_mut() = Some(was);
        }
    };
    let closes = {
        let (world, removed) = (Rc::clone(&world), Rc::clone(&removed));
        let port = Port {
            world: Rc::clone(&world),
            client: 0,
        };
        let mut master = Master::new(&world, &plan, 3);
        async move {
            until(&port, || world.borrow().held(1) > 0).await;
            hold(&world, move |client, request| {
                silence == Silence::Untold && client == 2 && swaps(request) && request.node == BACKUP
            });
            {
                let mut world = world.borrow_mut();
                world.deaf.insert(1);
                world.release_some(1, |request| silence == Silence::Told || swaps(request));
            }
            match silence {
                Silence::Told => until(&port, || removed.borrow().is_some()).await,
                Silence::Untold => {
                    until(&port, || world.borrow().held(2) > 0).await;
                    hold(&world, |client, request| client == 2 && logs(request));
                    world.borrow_mut().release(2);
                    until(&port, || world.borrow().held(2) > 0).await;
                    assert!(!is_object(slot(&world, BACKUP, before)));
                    world.borrow_mut().crash(PRIMARY);
                }
            }
            until(&port, || !world.borrow().complaints.is_empty()).await;
            {
                let mut world = world.borrow_mut();
                world.deaf.clear();
                world.holds = None;
            }
            master.add_lost();
            go_on(&port, &mut master).await;
        }
    };
    drive(
        &world,
        vec![Box::pin(inserts), Box::pin(removes), Box::pin(closes)],
    );
    let reads = {
        let found = Rc::clone(&found);
        async move {
            *found.borrow_mut() = reading.get(&key).await.unwrap();
        }
    };
    drive(&world, vec![Box::pin(reads)]);
    Once {
        inserted: inserted.take(),
        removed: removed.take(),
        found: found.take(),
    }
}

#[test]
fn what_was_removed_was_inserted_once() {
    for silence in [Silence::Told, Silence::Untold] {
        let once = Once {
            inserted: Some(true),
            removed: Some(true),
            found: None,
        };
        assert_eq!(insert_unheard(silence), once, "{silence:?}");
    }
}

/// A client puts a key, and its log arrives when the primary has died and the master has decided. Meanwhile another one has read and removed what it put.
/// Returns what is found then.
pub fn late_log(fault: Option<Fault>) -> Option<Vec<u8>> {
    let plan = Plan {
        fault,
        ..Plan::default()
    };
    let world = empty(&plan);
    let [first, putting, third] = three(&world, &plan);
    let Places { key, before, .. } = places(&plan);
    let prepare = {
        let key = key.clone();
        async move {
            first.put(&key, b"first").await.unwrap();
            first.upkeep().await.unwrap();
        }
    };
    drive(&world, vec![Box::pin(prepare)]);
    hold(&world, |client, request| client == 2 && logs(request));
    let puts = {
        let key = key.clone();
        async move {
            putting.put(&key, b"put").await.unwrap();
        }
    };
    let found = Rc::new(RefCell::new(None));
    let rest = {
        let (world, found) = (Rc::clone(&world), Rc::clone(&found));
        let port = Port {
            world: Rc::clone(&world),
            client: 0,
        };
        let mut master = Master::new(&world, &plan, 3);
        async move {
            until(&port, || world.borrow().held(2) > 0).await;
            assert_ne!(slot(&world, BACKUP, before), slot(&world, PRIMARY, before));
            world.borrow_mut().crash(PRIMARY);
            master.add_lost();
            master.close().await.unwrap();
            assert_eq!(third.get(&key).await.unwrap().as_deref(), Some(&b"put"[..]));
            assert!(third.remove(&key).await.unwrap());
            {
                let mut world = world.borrow_mut();
                world.holds = None;
                world.release(2);
            }
            go_on(&port, &mut master).await;
            *found.borrow_mut() = third.get(&key).await.unwrap();
        }
    };
    drive(&world, vec![Box::pin(puts), Box::pin(rest)]);
    found.take()
}

#[test]
fn a_log_that_comes_late_undoes_no_decision() {
    assert_eq!(late_log(None), None);
}

/// The log of a change lies in another region than its slot.
#[test]
fn a_closing_of_one_region_is_found() {
    let found = late_log(Some(Fault::OneRegion));
    assert_eq!(found.as_deref(), Some(&b"put"[..]), "what was removed");
}
