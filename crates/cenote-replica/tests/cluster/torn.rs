//! Verbs that arrive in part.

use std::cell::RefCell;
use std::rc::Rc;

use cenote_replica::object::OUTCOME_KIND_AT;
use cenote_replica::verbs::{Request, Verb};

use super::held::{go_on, hold, logs, three, until};
use super::master::Master;
use super::network::Port;
use super::plan::Plan;
use super::run::{drive, empty};

/// With one copy of everything a client puts a key, and its log is late. Another one reads what it has put, and puts
/// another value over it. Then one word of the first client's log arrives, and the regions are closed. Returns what is
/// found at last.
pub fn put_over_half_a_log() -> Option<Vec<u8>> {
    let plan = Plan {
        replicas: 1,
        keys_apart: true,
        ..Plan::default()
    };
    let world = empty(&plan);
    world.borrow_mut().line = 8;
    let [first, second, third] = three(&world, &plan);
    let key = b"key";
    let prepare = {
        let first = Rc::clone(&first);
        async move { first.put(key, b"first").await.unwrap() }
    };
    drive(&world, vec![Box::pin(prepare)]);
    // Not what it decides of the first one's.
    let decides = |request: &Request| match &request.verb {
        Verb::Write(bytes) => bytes.get(OUTCOME_KIND_AT as usize) == Some(&2),
        _ => false,
    };
    hold(&world, move |client, request| {
        client == 2 && logs(request) && !decides(request)
    });
    let puts = async move { second.put(key, b"second").await.unwrap() };
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
            assert_eq!(third.get(key).await.unwrap().as_deref(), Some(&b"second"[..]));
            first.put(key, b"third").await.unwrap();
            {
                let mut world = world.borrow_mut();
                world.holds = None;
                // The word of its kind, and not its values.
                world.release_parts(2, |request, offset| match request.verb {
                    Verb::Write(_) => offset == OUTCOME_KIND_AT as usize,
                    _ => true,
                });
            }
            port.quiesce().await;
            world.borrow_mut().suspect_regions.insert(0);
            go_on(&port, &mut master).await;
            world.borrow_mut().release(2);
            go_on(&port, &mut master).await;
            *found.borrow_mut() = third.get(key).await.unwrap();
        }
    };
    drive(&world, vec![Box::pin(puts), Box::pin(rest)]);
    found.take()
}

#[test]
fn what_was_replaced_does_not_come_back_for_half_a_log() {
    assert_eq!(put_over_half_a_log().as_deref(), Some(&b"third"[..]));
}
