//! Two clients insert one key, or one inserts it beside a removal.

use std::cell::RefCell;
use std::rc::Rc;

use cenote_replica::verbs::Verbs;

use crate::master::Master;
use crate::network::Port;
use crate::plan::{Plan, layout};
use crate::run::{copies_are_equal, drive, empty};

use super::places::{Places, places};
use super::{BACKUP, PRIMARY, go_on, hold, is_object, logs, slot, swaps, three, until};

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

/// A client binds a key, and another one puts it, which has come to the backup and has not written its log when the
/// primary dies. An insert that had looked before the key was bound has come to a smaller slot at the backup.
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
                // They get the first two blocks, and the client that binds the key has one in the region of the third
                // node and the first.
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
                    putting.net().quiesce().await;
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

/// A client has bound a key. Another one removes it: its removal has come to the backup, and not to the primary. An
/// insert that had looked before the key was bound then comes to another slot. The regions may be closed before the
/// removal goes on.
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
                world.borrow_mut().suspect_regions.insert(0);
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
