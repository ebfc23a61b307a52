//! Schedules in which verbs of clients are held back, and the primary of the index dies.

use std::cell::RefCell;
use std::rc::Rc;

use cenote_replica::client::{Client, Replaced};
use cenote_replica::index::candidates::image;
use cenote_replica::index::layout::{Hash, Label};
use cenote_replica::object::{OUTCOME_AT, OUTCOME_BYTES};
use cenote_replica::slot::value::{Content, Slot};
use cenote_replica::verbs::{Address, GRANULE, Request, Verb, Verbs};
use cenote_replica::view::NodeId;

use super::master::Master;
use super::network::{Holds, Port, Shared};
use super::plan::{Fault, OBJECTS, Plan, ROOT, layout};
use super::run::{copies_are_equal, drive, empty, join};

pub const PRIMARY: NodeId = NodeId(1);
pub const BACKUP: NodeId = NodeId(2);

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
pub fn slot(world: &Shared, node: NodeId, offset: u32) -> Slot {
    let world = world.borrow();
    let from = (ROOT + offset) as usize;
    let bytes = world.memory(node, 0).unwrap()[from..from + 8].try_into();
    Slot(u64::from_le_bytes(bytes.unwrap()))
}

pub fn is_object(slot: Slot) -> bool {
    !slot.is_vacant()
}

/// Whether a request changes a slot.
pub fn swaps(request: &Request) -> bool {
    let is_index = request.at.region() == 0 && request.at.offset() < OBJECTS;
    matches!(request.verb, Verb::CompareSwap { .. }) && is_index
}

/// Whether a request writes a log, or a part of one.
pub fn logs(request: &Request) -> bool {
    let at = u64::from(request.at.offset()) % u64::from(GRANULE);
    match &request.verb {
        Verb::Write(bytes) => bytes.len() == OUTCOME_BYTES || bytes.len() == OUTCOME_BYTES - 8,
        Verb::CompareSwap { .. } => !swaps(request) && at == u64::from(OUTCOME_AT) + OUTCOME_BYTES as u64 - 8,
        _ => false,
    }
}

/// Waits until something is so.
pub async fn until(port: &Port, is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        port.pause(0).await;
    }
    panic!("it is never so");
}

pub fn hold(world: &Shared, holds: impl Fn(u32, &Request) -> bool + 'static) {
    world.borrow_mut().holds = Some(Box::new(holds) as Holds);
}

pub type Clients = [Rc<Client<Port>>; 3];

pub fn three(world: &Shared, plan: &Plan) -> Clients {
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
    /// The same, and it has returned. A backup of its log is the node that is the primary of the slot.
    Returned,
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
        let (first, other, key) = (Rc::clone(&first), other.clone(), key.clone());
        let (late, putting) = (Rc::clone(&late), Rc::clone(&putting));
        async move {
            if what == Before::Returned {
                // They get the first two blocks, and the client that binds the key has one in the region of the third node and the first.
                late.remove(&key).await.unwrap();
                putting.remove(&key).await.unwrap();
            }
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
                1 if what == Before::Returned => false,
                1 => what == Before::Insert && logs(request),
                2 if what == Before::Seen => false,
                2 => logs(request),
                3 => swaps(request),
                _ => false,
            });
            world.borrow_mut().release(1);
            if what == Before::Returned {
                return;
            }
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
        let is_bound = Rc::clone(&is_bound);
        async move {
            match what {
                Before::Returned => until(&port, || is_bound.borrow().is_some()).await,
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
pub async fn go_on(port: &Port, master: &mut Master) {
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
    /// Its log comes when the key has been removed.
    Late,
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
                Silence::Late => {
                    until(&port, || removed.borrow().is_some()).await;
                    world.borrow_mut().holds = None;
                    world.borrow_mut().release(1);
                    port.settle().await;
                }
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
    for silence in [Silence::Told, Silence::Untold, Silence::Late] {
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

/// What an insert and a removal of a key end with that another client has bound.
#[derive(Debug, PartialEq, Eq)]
pub struct Passed {
    /// What the late insert returns, and what is found then.
    pub inserted: Option<bool>,
    pub then: Option<Vec<u8>>,
    /// What the removal returns, and what is found at last.
    pub removed: Option<bool>,
    pub last: Option<Vec<u8>>,
}

/// A client has bound a key. Another one removes it: its removal has come to the backup, and not to the primary. An insert that had looked before the key was bound then comes to another slot. The regions may
/// be closed before the removal goes on.
pub fn insert_beside_removal(is_closed: bool) -> Passed {
    let plan = Plan::default();
    let world = empty(&plan);
    let [first, removing, late] = three(&world, &plan);
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
    let [bound, inserted, removed] = [(); 3].map(|()| Rc::new(RefCell::new(None)));
    let [then, last] = [(); 2].map(|()| Rc::new(RefCell::new(None)));
    hold(&world, |client, request| client == 1 && swaps(request));
    let binds = {
        let (key, bound, first) = (key.clone(), Rc::clone(&bound), Rc::clone(&first));
        async move {
            *bound.borrow_mut() = Some(first.insert(&key, b"first").await.unwrap());
        }
    };
    let inserts = {
        let (key, world, inserted) = (key.clone(), Rc::clone(&world), Rc::clone(&inserted));
        async move {
            until(late.net(), || world.borrow().held(1) > 0).await;
            late.remove(&other).await.unwrap();
            hold(&world, |client, request| {
                matches!(client, 1 | 3) && swaps(request)
            });
            let is_new = late.insert(&key, b"late").await.unwrap();
            *inserted.borrow_mut() = Some(is_new);
        }
    };
    let removes = {
        let (key, world, removed, bound) = (
            key.clone(),
            Rc::clone(&world),
            Rc::clone(&removed),
            Rc::clone(&bound),
        );
        async move {
            until(removing.net(), || world.borrow().held(3) > 0).await;
            hold(&world, |client, request| match client {
                2 => swaps(request) && request.node == PRIMARY,
                _ => client == 3 && swaps(request),
            });
            world.borrow_mut().release(1);
            until(removing.net(), || bound.borrow().is_some()).await;
            *removed.borrow_mut() = Some(removing.remove(&key).await.unwrap());
        }
    };
    let rest = {
        let (world, inserted, then, last) = (
            Rc::clone(&world),
            Rc::clone(&inserted),
            Rc::clone(&then),
            Rc::clone(&last),
        );
        let port = Port {
            world: Rc::clone(&world),
            client: 0,
        };
        let mut master = Master::new(&world, &plan, 3);
        async move {
            until(&port, || world.borrow().held(2) > 0).await;
            assert!(is_object(slot(&world, PRIMARY, behind)));
            assert!(!is_object(slot(&world, BACKUP, behind)));
            hold(&world, |client, request| {
                client == 2 && swaps(request) && request.node == PRIMARY
            });
            world.borrow_mut().release(3);
            // It returns, or waits for the removal.
            for _ in 0..40 {
                port.pause(0).await;
            }
            assert!(is_object(slot(&world, BACKUP, before)));
            if inserted.borrow().is_some() {
                *then.borrow_mut() = first.get(&key).await.unwrap();
            }
            if is_closed {
                world.borrow_mut().complaints.insert(0);
            } else {
                world.borrow_mut().release(2);
            }
            world.borrow_mut().holds = None;
            go_on(&port, &mut master).await;
            *last.borrow_mut() = first.get(&key).await.unwrap();
        }
    };
    drive(
        &world,
        vec![
            Box::pin(binds),
            Box::pin(inserts),
            Box::pin(removes),
            Box::pin(rest),
        ],
    );
    Passed {
        inserted: inserted.take(),
        then: then.take(),
        removed: removed.take(),
        last: last.take(),
    }
}

#[test]
fn an_insert_waits_for_a_removal_that_has_come_to_the_backup() {
    for is_closed in [false, true] {
        let passed = insert_beside_removal(is_closed);
        assert_eq!(passed.then, None, "{passed:?}");
        if passed.removed == Some(true) && passed.inserted == Some(true) {
            assert_eq!(passed.last, Some(b"late".to_vec()), "{passed:?}");
        }
    }
}

#[test]
fn an_insert_that_has_returned_is_not_undone() {
    let late = late_insert(Before::Returned);
    assert!(late.first && !late.inserted, "{late:?}");
}

/// A client gets a block, and dies before the write that says how it is cut has arrived. Another change of that client, beside the first, has bound a key to an object of the block, and returned. Returns
/// what the key is bound to when another client has taken over the block.
pub fn put_in_a_block_that_is_not_cut() -> Option<Vec<u8>> {
    let plan = Plan::default();
    let world = empty(&plan);
    let [dying, heir, _] = three(&world, &plan);
    let [is_put, is_dead] = [(); 2].map(|()| Rc::new(RefCell::new(false)));
    hold(&world, |client, request| {
        client == 1 && matches!(&request.verb, Verb::Write(bytes) if bytes.len() == 8 && bytes[0] == 128)
    });
    let first = {
        let (dying, is_dead) = (Rc::clone(&dying), Rc::clone(&is_dead));
        async move {
            let mut put = Box::pin(dying.put(b"first", b"value"));
            std::future::poll_fn(|context| match *is_dead.borrow() {
                true => std::task::Poll::Ready(()),
                false => put.as_mut().poll(context).map(drop),
            })
            .await;
        }
    };
    let found = Rc::new(RefCell::new(None));
    let rest = {
        let (world, found) = (Rc::clone(&world), Rc::clone(&found));
        let mut master = Master::new(&world, &plan, 3);
        async move {
            until(dying.net(), || world.borrow().held(1) > 0).await;
            dying.net().settle().await;
            let mut put = Box::pin(dying.put(b"second", b"value"));
            for _ in 0..40 {
                let waits = dying.net().pause(0);
                let mut waits = Box::pin(waits);
                std::future::poll_fn(|context| {
                    if !*is_put.borrow() && put.as_mut().poll(context).is_ready() {
                        *is_put.borrow_mut() = true;
                    }
                    waits.as_mut().poll(context)
                })
                .await;
            }
            // It dies.
            *is_dead.borrow_mut() = true;
            world.borrow_mut().end_session(1);
            master.end(1);
            master.close().await.unwrap();
            heir.put(b"third", b"value").await.unwrap();
            let is_done = *is_put.borrow();
            *found.borrow_mut() = match is_done {
                true => heir.get(b"second").await.unwrap(),
                false => Some(b"value".to_vec()),
            };
        }
    };
    drive(&world, vec![Box::pin(first), Box::pin(rest)]);
    found.take()
}

#[test]
fn a_block_is_cut_before_it_is_used() {
    assert_eq!(put_in_a_block_that_is_not_cut().as_deref(), Some(&b"value"[..]));
}

/// A cell that a client has not used again names an object whose memory has been: by an insert of the same key, which another cell names. The object of before was of a conditional change. The insert shows, its client
/// does not hear so, and asks after a closing. Then another client removes the key.
pub fn insert_named_twice() -> Once {
    let plan = Plan::default();
    let world = empty(&plan);
    let [naming, removing, _] = three(&world, &plan);
    let key = b"key".to_vec();
    let Places { other, .. } = places(&plan);
    let object = Rc::new(RefCell::new(None));
    let find = |world: &Shared, key: &[u8]| {
        let hash = Hash::of(key);
        let segments = layout(&Plan::default()).segments;
        (0..segments.slots())
            .map(|n| slot(world, PRIMARY, segments.slot_at(n)))
            .find_map(|slot| match slot.content() {
                Content::Object { at, fingerprint, .. } if fingerprint == hash.fingerprint => Some(at),
                _ => None,
            })
    };
    // The first cell is taken by a change that waits, so that the replacement has the second one.
    hold(&world, |client, request| {
        client == 1 && matches!(&request.verb, Verb::Write(bytes) if bytes.len() > 256)
    });
    let [waits, replaces] = [Rc::clone(&naming), Rc::clone(&naming)];
    let waits = async move {
        waits.put(&other, &[7; 300]).await.unwrap();
    };
    let prepare = {
        let (key, world, removing, object) = (
            key.clone(),
            Rc::clone(&world),
            Rc::clone(&removing),
            Rc::clone(&object),
        );
        async move {
            until(removing.net(), || world.borrow().held(1) > 0).await;
            removing.put(&key, b"before").await.unwrap();
            let version = replaces.get_versioned(&key).await.unwrap().unwrap().version;
            let replaced = replaces.replace_if(&key, version, b"second").await.unwrap();
            assert!(matches!(replaced, Replaced::Done(_)), "{replaced:?}");
            *object.borrow_mut() = find(&world, &key);
            world.borrow_mut().release(1);
            world.borrow_mut().holds = None;
        }
    };
    drive(&world, vec![Box::pin(waits), Box::pin(prepare)]);
    let reuse = {
        let (key, world, naming, removing) = (
            key.clone(),
            Rc::clone(&world),
            Rc::clone(&naming),
            Rc::clone(&removing),
        );
        async move {
            assert!(removing.remove(&key).await.unwrap());
            {
                let mut world = world.borrow_mut();
                world.eras.now = 10;
                world.eras.least = 10;
                world.heard.extend([(1, 10), (2, 10), (3, 10)]);
            }
            removing.upkeep().await.unwrap();
            naming.upkeep().await.unwrap();
        }
    };
    drive(&world, vec![Box::pin(reuse)]);
    let [inserted, removed] = [(); 2].map(|()| Rc::new(RefCell::new(None)));
    hold(&world, |client, request| {
        client == 1 && swaps(request) && request.node == PRIMARY
    });
    let inserts = {
        let (key, inserted, naming) = (key.clone(), Rc::clone(&inserted), Rc::clone(&naming));
        async move {
            *inserted.borrow_mut() = Some(naming.insert(&key, b"latest").await.unwrap());
        }
    };
    let rest = {
        let (key, world, inserted, removed) = (
            key.clone(),
            Rc::clone(&world),
            Rc::clone(&inserted),
            Rc::clone(&removed),
        );
        let port = Port {
            world: Rc::clone(&world),
            client: 0,
        };
        let mut master = Master::new(&world, &plan, 3);
        async move {
            until(&port, || world.borrow().held(1) > 0).await;
            world.borrow_mut().deaf.insert(1);
            world.borrow_mut().release(1);
            until(&port, || !world.borrow().complaints.is_empty()).await;
            assert_eq!(find(&world, &key), *object.borrow(), "the memory is used again");
            // If it begins again, it looks at the slots late.
            hold(&world, |client, request| {
                let is_index = request.at.region() == 0 && request.at.offset() < OBJECTS;
                client == 1 && is_index && matches!(request.verb, Verb::Read(_))
            });
            world.borrow_mut().deaf.clear();
            master.add_complaints();
            master.close().await.unwrap();
            until(&port, || {
                world.borrow().held(1) > 0 || inserted.borrow().is_some()
            })
            .await;
            *removed.borrow_mut() = Some(removing.remove(&key).await.unwrap());
            world.borrow_mut().holds = None;
            world.borrow_mut().release(1);
            go_on(&port, &mut master).await;
        }
    };
    drive(&world, vec![Box::pin(inserts), Box::pin(rest)]);
    let found = Rc::new(RefCell::new(None));
    let reads = {
        let found = Rc::clone(&found);
        async move {
            *found.borrow_mut() = naming.get(&key).await.unwrap();
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
fn an_object_that_two_cells_name_is_decided_once() {
    let once = Once {
        inserted: Some(true),
        removed: Some(true),
        found: None,
    };
    assert_eq!(insert_named_twice(), once);
}

/// A client frees an object of a client that has gone; before it hears that it has, another operation of it takes over the block, finds the object free, and uses it. Returns what the key of that is bound to
/// when the client has put another one.
pub fn put_over_what_is_freed() -> Option<Vec<u8>> {
    let plan = Plan::default();
    let world = empty(&plan);
    let [one, gone, _] = three(&world, &plan);
    let prepare = {
        let one = Rc::clone(&one);
        async move {
            gone.put(b"key", &[1; 100]).await.unwrap();
            one.put(b"key", &[2; 500]).await.unwrap();
        }
    };
    drive(&world, vec![Box::pin(prepare)]);
    {
        let mut world = world.borrow_mut();
        world.gone.insert(2);
        (world.eras.now, world.eras.least) = (10, 10);
        world.heard.insert(1, 10);
    }
    hold(&world, |client, request| {
        let is_first = u64::from(request.at.offset()).is_multiple_of(u64::from(GRANULE));
        let frees = matches!(request.verb, Verb::CompareSwap { .. }) && !swaps(request) && is_first;
        client == 1 && frees && request.node == BACKUP
    });
    let is_freed = Rc::new(RefCell::new(false));
    let frees = {
        let (one, is_freed) = (Rc::clone(&one), Rc::clone(&is_freed));
        async move {
            one.upkeep().await.unwrap();
            *is_freed.borrow_mut() = true;
        }
    };
    let found = Rc::new(RefCell::new(None));
    let puts = {
        let (world, found) = (Rc::clone(&world), Rc::clone(&found));
        async move {
            until(one.net(), || world.borrow().held(1) > 0).await;
            one.net().settle().await;
            one.put(b"first", &[3; 100]).await.unwrap();
            world.borrow_mut().holds = None;
            world.borrow_mut().release(1);
            until(one.net(), || *is_freed.borrow()).await;
            one.put(b"second", &[4; 100]).await.unwrap();
            *found.borrow_mut() = one.get(b"first").await.unwrap();
        }
    };
    let port = Port {
        world: Rc::clone(&world),
        client: 0,
    };
    let mut master = Master::new(&world, &plan, 3);
    let closes = async move { go_on(&port, &mut master).await };
    drive(&world, vec![Box::pin(frees), Box::pin(puts), Box::pin(closes)]);
    assert!(world.borrow().adopted > 0, "it has taken over the block");
    found.take()
}

#[test]
fn what_is_freed_while_its_block_is_taken_over_is_given_once() {
    assert_eq!(put_over_what_is_freed(), Some(vec![3; 100]));
}
