//! A client does not hear how its change went, or its log arrives late.

use std::cell::RefCell;
use std::rc::Rc;

use cenote_replica::client::Replaced;
use cenote_replica::index::layout::Hash;
use cenote_replica::slot::value::Content;
use cenote_replica::verbs::Verb;
use cenote_replica::view::NodeId;

use crate::master::Master;
use crate::network::{Port, Shared};
use crate::plan::{Fault, OBJECTS, Plan, layout};
use crate::run::{drive, empty};

use super::places::{Places, places};
use super::{BACKUP, PRIMARY, go_on, hold, is_object, logs, slot, swaps, three, until};

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
                reading.net().quiesce().await;
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
                    port.quiesce().await;
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
            until(&port, || !world.borrow().suspect_regions.is_empty()).await;
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

/// A client puts a key, and its log arrives when the primary has died and the master has decided. Meanwhile another one
/// has read and removed what it put. Returns what is found then.
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

/// A cell that a client has not used again names an object whose memory has been: by an insert of the same key, which
/// another cell names. The object of before was of a conditional change. The insert shows, its client does not hear so,
/// and asks after a closing. Then another client removes the key.
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
            until(&port, || !world.borrow().suspect_regions.is_empty()).await;
            assert_eq!(find(&world, &key), *object.borrow(), "the memory is used again");
            // If it begins again, it looks at the slots late.
            hold(&world, |client, request| {
                let is_index = request.at.region() == 0 && request.at.offset() < OBJECTS;
                client == 1 && is_index && matches!(request.verb, Verb::Read(_))
            });
            world.borrow_mut().deaf.clear();
            master.close_suspect_regions();
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
