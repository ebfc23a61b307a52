//! Clients that stand still in the middle of a change, without having died.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use cenote_replica::client::Error;
use cenote_replica::index::candidates::image;
use cenote_replica::index::layout::{Hash, Label};
use cenote_replica::slot::value::Slot;
use cenote_replica::verbs::{Address, Verbs};

use super::held::{BACKUP, PRIMARY, go_on, hold, is_object, slot, swaps, three, until};
use super::master::Master;
use super::network::Port;
use super::plan::{Plan, layout};
use super::run::{drive, empty};

/// Two keys and slots: both keys have the same slot in an empty map; and beside the other one the first has a slot
/// before that.
struct Places {
    key: Vec<u8>,
    other: Vec<u8>,
    before: u32,
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
        let is_last = |at: &u32| bytes[*at as usize..][..8] == last.0.to_le_bytes();
        let mut all = (0..segments.slots()).map(|n| segments.slot_at(n));
        all.find(is_last).unwrap()
    };
    for n in 0..1_000_u32 {
        let (key, other) = (format!("key {n}").into_bytes(), format!("other {n}").into_bytes());
        let behind = place(&[slot(&key, 1)]);
        let before = place(&[slot(&other, 2), slot(&key, 1)]);
        if place(&[slot(&other, 2)]) == behind && before < behind {
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

/// A client inserts a key, and stands still when its slot has come to the backup, or, with one copy, is tentative.
/// Another one inserts the same key, which has a greater slot by then. Returns what it returns, and what the first one
/// does when it goes on.
pub fn insert_beside_one_that_stands_still(replicas: usize) -> (Result<bool, Error>, bool) {
    let plan = Plan {
        replicas,
        ..Plan::default()
    };
    let world = empty(&plan);
    let [still, late, third] = three(&world, &plan);
    let Places {
        key,
        other,
        before,
        behind,
    } = places(&plan);
    let prepare = {
        let (third, other) = (Rc::clone(&third), other.clone());
        async move { third.put(&other, b"other").await.unwrap() }
    };
    drive(&world, vec![Box::pin(prepare)]);
    hold(&world, |client, request| client == 1 && swaps(request));
    let [first, second] = [(); 2].map(|()| Rc::new(RefCell::new(None)));
    let stands_still = Rc::new(Cell::new(false));
    let stands = {
        let (key, first, stands_still) = (key.clone(), Rc::clone(&first), Rc::clone(&stands_still));
        async move {
            let mut insert = pin!(still.insert(&key, b"first"));
            while first.borrow().is_none() {
                let mut tick = pin!(still.net().pause(0));
                poll_fn(|context| {
                    if !stands_still.get()
                        && first.borrow().is_none()
                        && let Poll::Ready(inserted) = insert.as_mut().poll(context)
                    {
                        *first.borrow_mut() = Some(inserted);
                    }
                    tick.as_mut().poll(context)
                })
                .await;
            }
        }
    };
    let last_copy = if replicas == 1 { PRIMARY } else { BACKUP };
    let inserts = {
        let (world, second, stands_still) = (Rc::clone(&world), Rc::clone(&second), Rc::clone(&stands_still));
        async move {
            until(late.net(), || world.borrow().held(1) > 0).await;
            assert!(third.remove(&other).await.unwrap());
            // One verb more of the first client arrives.
            stands_still.set(true);
            world
                .borrow_mut()
                .release_some(1, move |request| request.node == last_copy);
            until(late.net(), || is_object(slot(&world, last_copy, before))).await;
            assert!(!is_object(slot(&world, PRIMARY, behind)));
            let inserted = late.insert(&key, b"second").await;
            *second.borrow_mut() = Some(inserted);
        }
    };
    let port = Port {
        world: Rc::clone(&world),
        client: 0,
    };
    let mut master = Master::new(&world, &plan, 3);
    let closes = {
        let (world, second) = (Rc::clone(&world), Rc::clone(&second));
        async move {
            while second.borrow().is_none() {
                port.pause(0).await;
                master.close_suspect_regions();
                if master.is_asked() {
                    master.close().await.unwrap();
                }
            }
            stands_still.set(false);
            world.borrow_mut().holds = None;
            world.borrow_mut().release(1);
            go_on(&port, &mut master).await;
        }
    };
    drive(
        &world,
        vec![Box::pin(stands), Box::pin(inserts), Box::pin(closes)],
    );
    let first = first.take().unwrap().unwrap();
    (second.take().unwrap(), first)
}

#[test]
fn an_insert_does_not_fail_for_one_that_stands_still() {
    for replicas in [1, 2, 3] {
        let inserted = insert_beside_one_that_stands_still(replicas);
        assert!(
            matches!(inserted, (Ok(second), first) if first != second),
            "{replicas} copies: {inserted:?}"
        );
    }
}
