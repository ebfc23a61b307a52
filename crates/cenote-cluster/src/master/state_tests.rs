//! What each decision of the master leads to.

use super::*;

fn offer(port: u16, memory: u64) -> Offer {
    Offer {
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        memory,
        incarnation: 1,
        outlives: false,
        mapped: false,
    }
}

fn state(nodes: u16, replicas: usize) -> State {
    let nodes: Vec<Offer> = (0..nodes).map(|n| offer(n, 256 << 20)).collect();
    let shape = Shape {
        replicas,
        ..Shape::default()
    };
    State::new(shape, &nodes).unwrap()
}

#[test]
fn regions_have_their_copies_on_different_nodes_and_leave_room() {
    for (nodes, replicas) in [(1, 1), (2, 2), (3, 2), (5, 3)] {
        let state = state(nodes, replicas);
        assert!(!state.regions.is_empty());
        for region in &state.regions {
            let apart: BTreeSet<u32> = region.nodes.iter().copied().collect();
            assert_eq!(apart.len(), replicas);
        }
        if usize::from(nodes) > replicas {
            let spare = state
                .nodes
                .iter()
                .map(|(number, node)| state.room(*number, node))
                .sum::<u64>();
            assert!(spare >= 200 << 20, "{spare}");
        }
        let primaries = |node| {
            state
                .regions
                .iter()
                .filter(|region| region.nodes[0] == node)
                .count()
        };
        let fair = state.regions.len() / usize::from(nodes);
        for node in state.nodes.keys() {
            assert!(primaries(*node) + 2 >= fair, "{:?}", state.regions);
        }
    }
}

#[test]
fn a_node_that_is_given_up_is_replaced_and_its_number_never_comes_back() {
    let mut state = state(3, 2);
    state.nodes.get_mut(&2).unwrap().alive = false;
    assert!(state.is_broken());
    let key = state.key;
    state.close();
    assert!(state.regions.iter().all(|region| !region.nodes.contains(&2)));
    assert!(
        state
            .regions
            .iter()
            .all(|region| region.closed && region.key == key + 1)
    );
    assert!(
        state.copies_to_make(usize::MAX, &[]).is_empty(),
        "while they are closed"
    );
    state.open(|_| true, &BTreeSet::new());
    for (region, node) in state.copies_to_make(usize::MAX, &[]) {
        assert_ne!(node, 2);
        state.gain(region, node);
    }
    assert!(state.regions.iter().all(|region| region.nodes.len() == 2));
    state.forget_empty_nodes();
    assert_eq!(state.nodes.keys().copied().collect::<Vec<_>>(), [1, 3]);
    assert_eq!(state.add_node(offer(9, 1 << 30)), 4);
}

/// Who takes a cluster for whole may stop another node.
#[test]
fn a_copy_on_a_node_that_is_given_up_is_none() {
    let mut state = state(3, 2);
    assert_eq!(state.under_replicated(), 0);
    let held = state.regions.iter().filter(|region| region.nodes.contains(&2));
    let held = held.count();
    state.give_up(2);
    assert!(held > 0 && state.under_replicated() == held);
    state.close();
    assert_eq!(state.under_replicated(), held);
    state.open(|_| true, &BTreeSet::new());
    for (region, node) in state.copies_to_make(usize::MAX, &[]) {
        state.gain(region, node);
    }
    assert_eq!(state.under_replicated(), 0);
}

#[test]
fn a_region_without_nodes_is_lost_and_the_others_are_not() {
    let mut state = state(2, 1);
    state.nodes.get_mut(&1).unwrap().alive = false;
    let held: Vec<bool> = state.regions.iter().map(|region| region.nodes == [1]).collect();
    assert!(held.contains(&true) && held.contains(&false) && state.is_broken());
    state.close();
    state.open(|_| true, &BTreeSet::new());
    for (region, held) in state.regions.iter().zip(held) {
        assert_eq!(region.nodes.is_empty(), held);
    }
    assert!(!state.is_broken() && state.copies_to_make(usize::MAX, &[]).is_empty());
}

#[test]
fn clients_do_not_know_keys_of_closed_regions() {
    let mut state = state(3, 2);
    state.close();
    state.open(|region| region != 1, &BTreeSet::new());
    let (told, own) = (state.view(), state.own_view());
    assert_eq!((told.regions[1].key, own.regions[1].key), (0, state.key));
    assert_eq!(told.regions[0], own.regions[0]);
}

#[test]
fn a_node_that_is_drained_holds_nothing_in_the_end() {
    let mut state = state(3, 2);
    state.nodes.get_mut(&1).unwrap().draining = true;
    assert!(state.copies_to_make(2, &[]).len() <= 2);
    for (region, node) in state.copies_to_make(usize::MAX, &[]) {
        state.gain(region, node);
    }
    assert!(
        state
            .regions
            .iter()
            .all(|region| region.nodes.len() == 2 && !region.nodes.contains(&1))
    );
    state.forget_empty_nodes();
    assert!(!state.nodes.contains_key(&1));
}

#[test]
fn sessions_and_blocks_are_given_once() {
    let mut state = state(3, 2);
    let first = state.join("a".to_owned()).unwrap();
    let second = state.join("b".to_owned()).unwrap();
    assert_ne!(first.cells, second.cells);
    let mut blocks = BTreeSet::new();
    while let Some(block) = state.block(first.number, 128, blocks.len() as u32) {
        assert!(blocks.insert(block));
    }
    assert!(state.block(second.number, 128, 0).is_none() && state.block(77, 128, 0).is_none());
    state.forget(first.number);
    assert_eq!(state.orphans.len(), blocks.len());
    let third = state.join("c".to_owned()).unwrap();
    assert_eq!((third.number, third.cells), (3, first.cells));
    assert_eq!(state.block(third.number, 64, 0), None);
    let again = state.block(third.number, 128, 0).unwrap();
    assert!(blocks.contains(&again) && !state.orphans.iter().any(|orphan| orphan.at == again));
}

/// A client asks again if the answer is lost, and perhaps the master gets the first request after that.
#[test]
fn a_block_whose_answer_was_lost_is_given_again() {
    let mut state = state(3, 2);
    let session = state.join("a".to_owned()).unwrap().number;
    let first = state.block(session, 128, 0).unwrap();
    assert_eq!(state.block(session, 128, 0), Some(first));
    let second = state.block(session, 64, 1).unwrap();
    assert_ne!(second, first);
    assert_eq!(state.block(session, 128, 0), Some(first));
    assert_eq!(state.block(session, 64, 1), Some(second));
    assert_eq!(state.sessions[&session].blocks.len(), 2);
}

#[test]
fn blocks_of_lost_regions_are_given_to_nobody() {
    let mut state = state(2, 1);
    let gone = state.join("one that goes".to_owned()).unwrap().number;
    let blocks: Vec<u64> = (0..4).map(|n| state.block(gone, 64, n).unwrap()).collect();
    state.forget(gone);
    state.give_up(1);
    state.close();
    state.open(|_| true, &BTreeSet::new());
    let other = state.join("another".to_owned()).unwrap().number;
    let is_lost = |state: &State, at: u64| state.regions[(at >> 32) as usize].nodes.is_empty();
    let lost = blocks.iter().filter(|at| is_lost(&state, **at)).count();
    assert!(lost > 0 && lost < blocks.len());
    let given: Vec<u64> = (0..4).map(|n| state.block(other, 64, n).unwrap()).collect();
    assert!(!given.iter().any(|at| is_lost(&state, *at)));
    assert_eq!(state.orphans.len(), lost, "they stay");
}

#[test]
fn what_is_kept_comes_back() {
    let mut state = state(3, 2);
    state.join("a".to_owned()).unwrap();
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
}

#[test]
fn what_cannot_be_is_refused() {
    let nodes = [offer(1, 1 << 20)];
    let new = |shape| State::new(shape, &nodes).unwrap_err();
    let shape = Shape::default();
    assert!(matches!(new(shape), Unfit::TooFewNodes { .. }));
    let alone = Shape { replicas: 1, ..shape };
    assert!(matches!(new(alone), Unfit::TooLittleMemory(_)));
    let large = Shape {
        region_bytes: (1 << 31) + shape.block,
        ..shape
    };
    let few_blocks = Shape {
        region_bytes: 1 << 18,
        ..shape
    };
    for (wrong, why) in [
        (Shape { replicas: 0, ..shape }, Unfit::Replicas),
        (Shape { block: 1000, ..shape }, Unfit::BlockSize),
        (
            Shape {
                block: 4 << 20,
                region_bytes: 1 << 30,
                ..shape
            },
            Unfit::BlockSize,
        ),
        (large, Unfit::RegionSize),
        (few_blocks, Unfit::RegionBlocks),
        (Shape { depth: 30, ..shape }, Unfit::IndexSize),
    ] {
        assert_eq!(new(wrong), why);
    }
}
