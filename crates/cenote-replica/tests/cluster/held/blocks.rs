//! Blocks that others take over while their objects are used.

use std::cell::RefCell;
use std::rc::Rc;

use cenote_replica::client::Client;
use cenote_replica::memory::block::Cut;
use cenote_replica::verbs::{Request, Verb, Verbs};
use cenote_replica::view::Control;

use crate::master::Master;
use crate::network::Port;
use crate::plan::{BLOCK, Plan};
use crate::run::{drive, empty};

use super::{BACKUP, PRIMARY, go_on, hold, logs, marks, three, until};

/// An object of a client's blocks that is not free, and which of its block's it is.
fn used(owner: &Client<Port>) -> (Cut, u32) {
    let heap = owner.memory();
    let objects = heap
        .blocks()
        .flat_map(|cut| (0..cut.count).map(move |n| (cut, n)));
    let mut used = objects.filter(|(cut, n)| !heap.is_free(cut.object(*n)));
    used.next().unwrap()
}

/// A client gets a block, and dies before the write that says how it is cut has arrived. Another change of that client,
/// beside the first, has bound a key to an object of the block, and returned. Returns what the key is bound to when
/// another client has taken over the block.
pub fn put_in_a_block_that_is_not_cut() -> Option<Vec<u8>> {
    let plan = Plan::default();
    let world = empty(&plan);
    let [dying, adopter, _] = three(&world, &plan);
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
            dying.net().quiesce().await;
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
            adopter.put(b"third", b"value").await.unwrap();
            let is_done = *is_put.borrow();
            *found.borrow_mut() = match is_done {
                true => adopter.get(b"second").await.unwrap(),
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

/// A client gets a block, and dies when the write that says how it is cut has arrived at the primary alone. Another one
/// takes over the block, and binds keys; then the primary dies. When that client has gone as well, a third one has the
/// block, and fills it. Returns what the keys are bound to.
pub fn put_in_a_block_that_is_cut_at_its_primary() -> Vec<Option<Vec<u8>>> {
    let plan = Plan::default();
    let world = empty(&plan);
    let [dying, adopter, third] = three(&world, &plan);
    hold(&world, |client, request| {
        let is_size = matches!(&request.verb, Verb::Write(bytes) if bytes.len() == 8 && bytes[0] == 128);
        client == 1 && is_size && request.node == BACKUP
    });
    let is_dead = Rc::new(RefCell::new(false));
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
    let found = Rc::new(RefCell::new(Vec::new()));
    let rest = {
        let (world, found) = (Rc::clone(&world), Rc::clone(&found));
        let mut master = Master::new(&world, &plan, 3);
        async move {
            until(dying.net(), || world.borrow().held(1) > 0).await;
            dying.net().quiesce().await;
            *is_dead.borrow_mut() = true;
            world.borrow_mut().end_session(1);
            master.end(1);
            master.close().await.unwrap();
            let keys = [b"key 0", b"key 1", b"key 2", b"key 3"];
            for key in keys {
                adopter.put(key, key).await.unwrap();
            }
            let block = world
                .borrow()
                .blocks
                .iter()
                .find(|(_, (of, _))| *of == 2)
                .map(|(at, _)| *at);
            assert_eq!(world.borrow().adopted, 1);
            world.borrow_mut().crash(PRIMARY);
            master.add_lost();
            master.close().await.unwrap();
            world.borrow_mut().gone.insert(2);
            for n in 0..13 {
                third.put(format!("new {n}").as_bytes(), b"other").await.unwrap();
            }
            assert_eq!(block, third.memory().blocks().next().map(|cut| cut.at));
            for key in keys {
                let value = third.get(key).await.unwrap();
                found.borrow_mut().push(value);
            }
        }
    };
    drive(&world, vec![Box::pin(first), Box::pin(rest)]);
    found.take()
}

#[test]
fn a_block_that_is_taken_over_is_cut_at_all_nodes() {
    let found = put_in_a_block_that_is_cut_at_its_primary();
    let keys = [b"key 0", b"key 1", b"key 2", b"key 3"].map(|key| Some(key.to_vec()));
    assert_eq!(found, keys);
}

/// A client frees an object of a client that has gone; before it hears that it has, another operation of it takes over
/// the block, finds the object free, and uses it. Returns what the key of that is bound to when the client has put
/// another one.
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
        client == 1 && marks(request) && request.node == BACKUP
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
            one.net().quiesce().await;
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

/// The mark of an object that is in use comes late: it is of a change before the last. Returns what the key is bound to
/// when the block's owner has put another one.
pub fn put_beside_a_late_mark() -> Option<Vec<u8>> {
    let plan = Plan::default();
    let world = empty(&plan);
    let [owner, late, _] = three(&world, &plan);
    let found = Rc::new(RefCell::new(None));
    let all = {
        let found = Rc::clone(&found);
        async move {
            owner.put(b"first", &[1; 100]).await.unwrap();
            let used = used(&owner);
            let view = late.net().view();
            let region = view.region(used.0.at.region()).unwrap();
            let write = |node: &_| Request {
                node: *node,
                key: region.key,
                at: used.0.mark(used.1),
                verb: Verb::Write(Rc::from(7_u64.to_le_bytes())),
            };
            late.net().post(region.nodes.iter().map(write).collect()).await;
            owner.upkeep().await.unwrap();
            owner.put(b"second", &[2; 100]).await.unwrap();
            *found.borrow_mut() = owner.get(b"first").await.unwrap();
        }
    };
    drive(&world, vec![Box::pin(all)]);
    found.take()
}

#[test]
fn a_mark_that_comes_late_frees_nothing() {
    assert_eq!(put_beside_a_late_mark(), Some(vec![1; 100]));
}

/// The era in which a client begins to free an object, and that of its oldest operation when eras have gone on and the
/// mark is still on its way.
pub fn eras_while_marks_are_on_their_way() -> [u64; 2] {
    let plan = Plan::default();
    let world = empty(&plan);
    let [one, other, _] = three(&world, &plan);
    let prepare = {
        let one = Rc::clone(&one);
        async move {
            other.put(b"key", &[1; 100]).await.unwrap();
            one.put(b"key", &[2; 500]).await.unwrap();
        }
    };
    drive(&world, vec![Box::pin(prepare)]);
    let begun = 10;
    {
        let mut world = world.borrow_mut();
        (world.eras.now, world.eras.least) = (begun, begun);
        world.heard.insert(1, begun);
    }
    hold(&world, |client, request| client == 1 && marks(request));
    let frees = {
        let one = Rc::clone(&one);
        async move {
            one.upkeep().await.unwrap();
        }
    };
    let oldest = Rc::new(RefCell::new(0));
    let looks = {
        let (world, oldest) = (Rc::clone(&world), Rc::clone(&oldest));
        async move {
            until(one.net(), || world.borrow().held(1) > 0).await;
            world.borrow_mut().heard.insert(1, begun + 1);
            *oldest.borrow_mut() = one.oldest();
            world.borrow_mut().holds = None;
            world.borrow_mut().release(1);
        }
    };
    drive(&world, vec![Box::pin(frees), Box::pin(looks)]);
    let oldest = *oldest.borrow();
    [begun, oldest]
}

/// Else what is marked could be used and freed again, and the late mark lie over the one that says so.
#[test]
fn eras_stay_while_marks_are_on_their_way() {
    let [begun, oldest] = eras_while_marks_are_on_their_way();
    assert_eq!(begun, oldest);
}

/// A client looks through its block while a change of its own goes on. When the client has noted that the object of
/// that change is its own, and has not read the block yet, the change ends, and another client, which has replaced the
/// object, frees it. Returns whether the object is free at its owner after the next upkeep.
pub fn keep_up_after_a_sweep_beside_a_change() -> bool {
    let plan = Plan::default();
    let world = empty(&plan);
    let [owner, other, gone] = three(&world, &plan);
    let [is_put, is_replaced, is_swept] = [(); 3].map(|()| Rc::new(RefCell::new(false)));
    let is_read = |request: &Request| matches!(request.verb, Verb::Read(BLOCK));
    hold(&world, move |client, request| {
        client == 1 && (logs(request) || is_read(request))
    });
    let puts = {
        let (owner, is_put) = (Rc::clone(&owner), Rc::clone(&is_put));
        async move {
            owner.put(b"key", &[1; 100]).await.unwrap();
            *is_put.borrow_mut() = true;
        }
    };
    let sweeps = {
        let (world, owner) = (Rc::clone(&world), Rc::clone(&owner));
        let (is_replaced, is_swept) = (Rc::clone(&is_replaced), Rc::clone(&is_swept));
        async move {
            until(owner.net(), || *is_replaced.borrow()).await;
            world.borrow_mut().gone.insert(gone.session().number);
            owner.upkeep().await.unwrap();
            *is_swept.borrow_mut() = true;
        }
    };
    let is_free = Rc::new(RefCell::new(false));
    let replaces = {
        let (world, is_free) = (Rc::clone(&world), Rc::clone(&is_free));
        async move {
            until(other.net(), || world.borrow().held(1) > 0).await;
            let (cut, n) = used(&owner);
            other.put(b"key", &[2; 500]).await.unwrap();
            // Eras go on, but for the least: the change has begun in the first.
            let era = 10;
            {
                let mut world = world.borrow_mut();
                world.eras.now = era;
                world.heard.extend([(1, era), (2, era)]);
            }
            *is_replaced.borrow_mut() = true;
            until(other.net(), || world.borrow().held(1) >= (BLOCK / 64) as usize).await;
            world.borrow_mut().holds = None;
            world.borrow_mut().release_some(1, logs);
            until(other.net(), || *is_put.borrow()).await;
            assert_eq!(owner.oldest(), era, "the sweep is what has begun first");
            world.borrow_mut().eras.least = era;
            other.upkeep().await.unwrap();
            assert!(!*is_swept.borrow());
            world.borrow_mut().release(1);
            until(other.net(), || *is_swept.borrow()).await;
            assert!(
                !owner.memory().is_free(cut.object(n)),
                "the sweep has passed it over"
            );
            owner.upkeep().await.unwrap();
            *is_free.borrow_mut() = owner.memory().is_free(cut.object(n));
        }
    };
    drive(&world, vec![Box::pin(puts), Box::pin(sweeps), Box::pin(replaces)]);
    is_free.take()
}

/// Else it would be lost until another session ends.
#[test]
fn a_sweep_learns_no_marks_of_what_it_passes_over() {
    assert!(keep_up_after_a_sweep_beside_a_change());
}
