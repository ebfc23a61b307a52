//! The protocol by itself: entry and queue as one, as in a pool.

use super::*;

fn node(number: u8) -> Node {
    Node::new(number).unwrap()
}

/// What must hold of every entry: one writer or any number of readers, and a queue only where somebody holds it.
fn check(state: &State) {
    let words = state.encode();
    assert_eq!(State::decode(words).as_ref(), Some(state));
    let may = |wants| {
        state
            .nodes()
            .iter()
            .filter(|node| state.entry.permission(*node) == Some(wants))
            .count()
    };
    let (readers, writers) = (may(Permission::Shared), may(Permission::Exclusive));
    assert!(writers == 0 || (writers == 1 && readers == 0), "{state:?}");
    assert!(
        state.entry.holder().is_some() || state.queue.is_empty(),
        "{state:?}"
    );
}

#[test]
fn readers_share_and_a_writer_waits_for_them() {
    let mut state = State::default();
    assert!(state.request(node(0), Permission::Shared));
    assert!(state.request(node(1), Permission::Shared));
    assert!(!state.request(node(2), Permission::Exclusive));
    // A reader that comes now waits behind the writer.
    assert!(!state.request(node(3), Permission::Shared));
    assert!(state.is_asked(node(0)) && state.is_asked(node(1)) && !state.is_asked(node(2)));
    state.give_up(node(0));
    check(&state);
    assert_eq!(state.entry.owner(), None);
    state.give_up(node(1));
    assert_eq!((state.entry.owner(), state.grants), (Some(node(2)), 1));
    assert!(state.is_asked(node(2)));
    assert!(state.hand_over(node(2)));
    assert_eq!(state.entry.permission(node(3)), Some(Permission::Shared));
    check(&state);
}

#[test]
fn a_writer_hands_over_to_the_readers_in_front_of_the_next_writer() {
    let mut state = State::default();
    assert!(state.request(node(0), Permission::Exclusive));
    for (n, wants) in [
        (1, Permission::Shared),
        (2, Permission::Shared),
        (3, Permission::Exclusive),
        (4, Permission::Shared),
    ] {
        assert!(!state.request(node(n), wants));
    }
    assert!(state.hand_over(node(0)));
    check(&state);
    assert_eq!(state.entry.sharers(), [node(1), node(2)].into_iter().collect());
    assert_eq!(
        (state.entry.holder(), state.queue.requests().len()),
        (Some(node(3)), 1)
    );
    state.give_up(node(2));
    state.give_up(node(1));
    assert_eq!(state.entry.owner(), Some(node(3)));
}

#[test]
fn a_reader_that_wants_to_write_gives_up_reading() {
    let mut state = State::default();
    assert!(state.request(node(0), Permission::Shared) && state.request(node(1), Permission::Shared));
    assert!(!state.request(node(0), Permission::Exclusive));
    // It would wait for the other for ever if it went on reading.
    assert!(!state.request(node(1), Permission::Exclusive));
    assert_eq!(state.entry.owner(), Some(node(0)));
    assert!(state.hand_over(node(0)));
    assert_eq!(state.entry.owner(), Some(node(1)));
}

#[test]
fn when_a_node_dies_the_others_go_on() {
    let mut state = State::default();
    assert!(state.request(node(0), Permission::Exclusive));
    for n in 1..4 {
        assert!(!state.request(node(n), Permission::Exclusive));
    }
    assert!(!state.lose(node(2)));
    assert!(state.lose(node(0)));
    assert_eq!(state.entry.owner(), Some(node(1)));
    assert!(state.hand_over(node(1)));
    assert_eq!(state.entry.owner(), Some(node(3)));
    assert!(!state.request(node(0), Permission::Shared) && state.hand_over(node(3)));
    assert!(!state.request(node(1), Permission::Exclusive) && !state.request(node(2), Permission::Shared));
    // The next writer dies while a reader reads: who waited behind it joins that one.
    assert!(!state.lose(node(1)));
    check(&state);
    assert_eq!(state.entry.sharers(), [node(0), node(2)].into_iter().collect());
    assert_eq!(state.entry.holder(), None);
}

/// All that three nodes can do, as far as entries differ: each state is sound, and from each every node that waits gets
/// what it asked for once the others give up what they have.
#[test]
fn all_entries_of_three_nodes_are_sound_and_nobody_waits_for_ever() {
    const NODES: u8 = 3;
    let wants = [Permission::Shared, Permission::Exclusive];
    let mut known = std::collections::HashSet::from([State::default().encode()]);
    let mut todo: Vec<State> = vec![State::default()];
    while let Some(state) = todo.pop() {
        check(&state);
        let mut next = Vec::new();
        for n in (0..NODES).map(node) {
            let waits = state.queue.requests().iter().any(|request| request.node == n)
                || state.entry.holder() == Some(n) && state.entry.owner() != Some(n);
            let mut with = |change: &dyn Fn(&mut State)| {
                let mut state = state.clone();
                change(&mut state);
                // Counts, which grow for ever, do not decide.
                state.grants = 0;
                state.entry = Entry::from_parts(state.entry.sharers(), state.entry.holder(), 0).unwrap();
                next.push(state);
            };
            if !waits {
                wants
                    .iter()
                    .for_each(|wants| with(&|state| _ = state.request(n, *wants)));
            }
            with(&|state| _ = state.lose(n));
            match state.entry.permission(n) {
                Some(Permission::Shared) => with(&|state| state.give_up(n)),
                Some(Permission::Exclusive) => with(&|state| assert!(state.hand_over(n))),
                None => {}
            }
        }
        next.retain(|state| known.insert(state.encode()));
        todo.extend(next);
        all_are_served(state);
    }
    assert_eq!(known.len(), 68, "the protocol has other states than it had");
}

/// Nodes give up what they have as soon as they are asked: then everybody who waits is served.
fn all_are_served(mut state: State) {
    let mut waiting: Vec<Node> = state
        .queue
        .requests()
        .iter()
        .map(|request| request.node)
        .collect();
    waiting.extend(state.entry.holder());
    for _ in 0..16 {
        waiting.retain(|node| state.entry.permission(*node).is_none());
        let asked = state.nodes().iter().find(|node| state.is_asked(*node));
        match asked.map(|node| (node, state.entry.permission(node))) {
            Some((node, Some(Permission::Shared))) => state.give_up(node),
            Some((node, _)) => assert!(state.hand_over(node)),
            None => break,
        }
    }
    assert!(waiting.is_empty(), "{waiting:?} wait for ever: {state:?}");
}
