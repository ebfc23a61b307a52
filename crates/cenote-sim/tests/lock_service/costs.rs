//! What an acquisition costs in messages, where none is lost.

use cenote_sim::subjects::lock_service::{Op, World};

/// Has all messages arrive, and those that they lead to. Returns how many there were, and how many were in sequence.
fn all_arrive(world: &mut World) -> (usize, usize) {
    let (mut messages, mut in_sequence) = (0, 0);
    while !world.network.is_empty() {
        in_sequence += 1;
        for packet in std::mem::take(&mut world.network) {
            messages += 1;
            world.deliver(packet).unwrap();
        }
    }
    (messages, in_sequence)
}

fn asks(world: &mut World, n: usize) -> (usize, usize) {
    world.start(n, 0).unwrap();
    all_arrive(world)
}

fn unlocks(world: &mut World, n: usize) -> (usize, usize) {
    world.finish(n, 0).unwrap();
    all_arrive(world)
}

#[test]
fn a_lock_is_got_and_handed_over_with_its_data_in_so_many_messages() {
    let twice = [Op::Write, Op::Write];
    let mut world = World::of_scripts(&[&twice, &twice]);
    // Request, grant.
    assert_eq!(asks(&mut world, 0), (2, 2));
    assert_eq!(unlocks(&mut world, 0), (0, 0));
    // Kept.
    assert_eq!(asks(&mut world, 0), (0, 0));
    // Request, forward, arrived, while the other one writes.
    assert_eq!(asks(&mut world, 1), (3, 3));
    // Transfer, then grant, and beside it transferred.
    assert_eq!(unlocks(&mut world, 0), (3, 2));
    assert!(world.holds(1, 0));
}

#[test]
fn readers_are_asked_once_each() {
    let mut world = World::of_scripts(&[&[Op::Read], &[Op::Read], &[Op::Write]]);
    for n in 0..2 {
        assert_eq!(asks(&mut world, n), (2, 2));
        assert_eq!(unlocks(&mut world, n), (0, 0));
    }
    // Request, next, two yields, two that gave up, grant; four in sequence.
    assert_eq!(asks(&mut world, 2), (7, 4));
    assert!(world.holds(2, 0));
}

#[test]
fn a_commit_is_a_round_trip_and_a_note_is_one() {
    let mut world = World::of_scripts(&[&[Op::Commit, Op::WriteNoted]]);
    assert_eq!(asks(&mut world, 0), (2, 2));
    // Transfer, transferred.
    assert_eq!(unlocks(&mut world, 0), (2, 2));
    // Request, grant; note, noted.
    assert_eq!(asks(&mut world, 0), (4, 4));
    // The note is taken back.
    assert_eq!(unlocks(&mut world, 0), (2, 2));
}
