//! A node that says anything in the right form, beside others that keep to the protocol; and a directory that does.

use std::sync::Arc;

use cenote::sync::directory::messages::Client;
use cenote::sync::directory::messages::instant::Moment;
use cenote::sync::directory::messages::message::{
    DirectorySays, Former, Grant, NodeSays, Open, Refusal, Session, ToNode, Transfer,
};
use cenote::sync::directory::messages::region::{Change, Region};
use cenote::sync::directory::node::{Node, Nodes};
use cenote::sync::directory::queue::{Handover, Permission, Queue, Request};
use cenote_sim::subjects::lock_service::World;

use crate::random::{Draws, run_with};

const SEEDS: u64 = 2000;

/// A small number, so that it often means something.
fn small(draws: &mut Draws) -> u64 {
    match draws.below(50) {
        0 => u64::MAX,
        _ => draws.below(6),
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

/// Regions that the lock may have, or not.
fn changes(draws: &mut Draws, current: u64) -> Vec<Change> {
    let change = |region, bytes: &[u8]| Change {
        region,
        bytes: Arc::new(Region::of(bytes)),
    };
    let [all, even] = [current, current & !1].map(u64::to_le_bytes);
    match draws.below(8) {
        0 => vec![change(1, &even), change(0, &all)],
        1 => vec![change(0, &all[..7])],
        2 => vec![change(2, &all)],
        _ => vec![change(0, &all), change(1, &even)],
    }
}

/// What a hostile node says. It does not lie about the data, nor about who died, nor leaves a note: nothing tells such
/// lies from the truth.
fn lie(draws: &mut Draws, world: &World) -> NodeSays {
    let (current, former) = world.truth(1);
    let former = former.map(|session| Former { session, note: 0 });
    match draws.below(9) {
        0..3 => NodeSays::Request {
            ticket: small(draws),
            wants: permission(draws),
            known: small(draws),
        },
        3 => NodeSays::Arrived {
            epoch: small(draws),
            version: small(draws) as u16,
        },
        4 => NodeSays::GaveUp { ticket: small(draws) },
        5 => NodeSays::Alive {
            heartbeat: small(draws),
        },
        6 => NodeSays::Open(Box::new(Open {
            serial: small(draws),
            name: "x".repeat(draws.below(200) as usize),
            regions: (draws.below(2) == 0).then(|| vec![small(draws) as u32]),
        })),
        _ => NodeSays::Transfer(Box::new(Transfer {
            // Often that of now.
            epoch: small(draws)
                .saturating_add(world.lock(1).map_or(0, |lock| lock.epoch()).saturating_sub(2)),
            version: small(draws) as u16,
            handover: Handover {
                readers: Nodes::from_bits(draws.below(64)).unwrap(),
                writer: Some(node(draws)).filter(|_| draws.below(2) == 0),
                rest: queue(draws),
            },
            changes: changes(draws, current),
            former,
        })),
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
                    Some(session) => world.cut(session),
                    None => Ok(()),
                };
            }
            let session = match hostile.filter(|session| world.directory.is_current(*session)) {
                Some(session) => session,
                None => {
                    ended += u32::from(hostile.is_some());
                    let session = world.join_stranger().unwrap();
                    *hostile.insert(session)
                }
            };
            if lies.below(4) == 0 {
                let says = lie(&mut lies, world);
                return world.say(session, 1, says);
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
    match draws.below(11) {
        0 => DirectorySays::Grant(Box::new(Grant {
            ticket,
            permission: permission(draws),
            epoch,
            queue: queue(draws),
            changes: changes(draws, epoch),
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
        6 => DirectorySays::Noted {
            epoch,
            number: small(draws) as u32,
        },
        7 => DirectorySays::Opened {
            serial: small(draws),
            regions: (0..draws.below(4)).map(|_| small(draws) as u32).collect(),
        },
        8 => DirectorySays::Refused {
            serial: small(draws),
            why: Refusal::Full,
        },
        9 => DirectorySays::Heard {
            heartbeat: small(draws),
        },
        _ => DirectorySays::Ended,
    }
}

#[test]
fn a_node_that_is_told_nonsense_goes_on() {
    for seed in 1..=SEEDS {
        let mut draws = Draws(seed);
        let session = Session::new(node(&mut draws), 1);
        let mut client = Client::new(session, 1000, Moment(0));
        for n in 0..200 {
            let (lock, now) = (draws.below(3), Moment(n));
            match draws.below(7) {
                0 => drop(client.request(lock, permission(&mut draws))),
                1 => drop(client.give_up(lock)),
                2 => drop(client.again(lock)),
                3 => drop(client.set_note(lock, n)),
                4 => drop(client.open("x", Some(&[8, 8]))),
                5 => drop(client.take_opened(draws.below(6))),
                _ => {
                    let says = nonsense(&mut draws);
                    // A word that ends it would end the test.
                    if says != DirectorySays::Ended || draws.below(50) == 0 {
                        drop(client.receive(ToNode { session, lock, says }, now));
                    }
                }
            }
            let _ = client.lease_state(now);
        }
    }
}
