//! A node that says anything in the right form, beside others that keep to the protocol; and a directory that does.

use std::sync::Arc;

use cenote::sync::directory::messages::Client;
use cenote::sync::directory::messages::message::{DirectorySays, Grant, NodeSays, Session, ToNode, Transfer};
use cenote::sync::directory::node::{Node, Nodes};
use cenote::sync::directory::queue::{Handover, Permission, Queue, Request};

use crate::random::{Draws, run_with};
use crate::world::World;

const SEEDS: u64 = 5000;

/// A small number, so that it often means something.
fn small(draws: &mut Draws) -> u64 {
    match draws.below(50) {
        0 => u64::MAX,
        _ => draws.below(6) as u64,
    }
}

fn permission(draws: &mut Draws) -> Permission {
    match draws.below(2) {
        0 => Permission::Shared,
        _ => Permission::Exclusive,
    }
}

fn node(draws: &mut Draws) -> Node {
    Node::new(draws.below(6) as u8).unwrap()
}

fn queue(draws: &mut Draws) -> Queue {
    let request = |draws: &mut Draws| Request {
        node: node(draws),
        wants: permission(draws),
    };
    (0..draws.below(4)).map(|_| request(draws)).collect()
}

/// What a hostile node says. It does not lie about the data, nor about who died: nothing tells such lies from the truth.
fn lie(draws: &mut Draws, world: &World) -> NodeSays {
    match draws.below(6) {
        0..3 => NodeSays::Request {
            ticket: small(draws),
            wants: permission(draws),
        },
        3 => NodeSays::Arrived {
            epoch: small(draws),
            version: small(draws) as u16,
        },
        4 => NodeSays::GaveUp { ticket: small(draws) },
        _ => {
            let (current, former) = world.truth();
            let data = match draws.below(8) {
                0 => Vec::new(),
                _ => current.to_le_bytes().to_vec(),
            };
            NodeSays::Transfer(Box::new(Transfer {
                // Often that of now.
                epoch: small(draws).saturating_add(world.lock().epoch().saturating_sub(2)),
                version: small(draws) as u16,
                handover: Handover {
                    readers: Nodes::from_bits(draws.below(64) as u64).unwrap(),
                    writer: Some(node(draws)).filter(|_| draws.below(2) == 0),
                    rest: queue(draws),
                },
                data: Arc::new(data),
                former,
            }))
        }
    }
}

#[test]
fn a_hostile_node_harms_nobody_but_by_keeping_the_lock() {
    let mut ended = 0;
    for seed in 1..=SEEDS {
        let mut hostile: Option<Session> = None;
        let mut lies = Draws(!seed);
        let outcome = run_with(seed, &mut |world, is_over| {
            if is_over {
                // Then it dies.
                return match hostile.take() {
                    Some(session) => world.lose_stranger(session),
                    None => Ok(()),
                };
            }
            let session = match hostile.filter(|session| world.directory.is_current(*session)) {
                Some(session) => session,
                None => {
                    ended += u32::from(hostile.is_some());
                    let session = world.directory.join().unwrap();
                    *hostile.insert(session)
                }
            };
            if lies.below(4) == 0 {
                let says = lie(&mut lies, world);
                return world.say(session, says);
            }
            Ok(())
        });
        if let Err(fault) = outcome {
            panic!("seed {seed}: {fault}");
        }
    }
    println!("{SEEDS} seeds, from 1 on; {ended} times it was taken for dead");
    assert!(ended > 1000);
}

fn nonsense(draws: &mut Draws) -> DirectorySays {
    let (ticket, epoch) = (small(draws), small(draws));
    match draws.below(7) {
        0 => DirectorySays::Grant(Box::new(Grant {
            ticket,
            permission: permission(draws),
            epoch,
            queue: queue(draws),
            data: Arc::new(Vec::new()),
            former: None,
        })),
        1 => DirectorySays::Next {
            ticket,
            epoch,
            queue: queue(draws),
        },
        2 => DirectorySays::Forward {
            epoch,
            number: small(draws) as u16,
            request: Request {
                node: node(draws),
                wants: permission(draws),
            },
        },
        3 => DirectorySays::Transferred { epoch },
        4 => DirectorySays::Denied {
            epoch,
            version: small(draws) as u16,
        },
        5 => DirectorySays::Yield {
            ticket,
            next: node(draws),
        },
        _ => DirectorySays::NoSuchLock { ticket },
    }
}

#[test]
fn a_node_that_is_told_nonsense_goes_on() {
    for seed in 1..=SEEDS {
        let mut draws = Draws(seed);
        let session = Session::new(node(&mut draws), 1);
        let mut client = Client::new(session);
        for _ in 0..200 {
            let lock = draws.below(2) as u64;
            match draws.below(4) {
                0 => drop(client.request(lock, permission(&mut draws))),
                1 => drop(client.give_up(lock)),
                2 => drop(client.tick()),
                _ => {
                    let says = nonsense(&mut draws);
                    drop(client.receive(ToNode { session, lock, says }));
                }
            }
        }
    }
}
