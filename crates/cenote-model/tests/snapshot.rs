//! All states of a replicated word under SNAPSHOT. Their numbers are kept: if one changes, so has the protocol, or its
//! model.
//!
//! Each size is explored four times: without crashes, with one of a client, with one of a node, and with both.

use cenote_model::snapshot::client::Call;
use cenote_model::snapshot::{Fault, Snapshot};
use stateright::{Checker, HasDiscoveries, Model};

/// Nobody crashes. A word says what a client does: `w` writes, `r` reads.
fn calm(nodes: usize, clients: &[&str]) -> Snapshot {
    let call = |letter| match letter {
        'w' => Call::Write,
        _ => Call::Read,
    };
    let calls = clients.iter().map(|letters| letters.chars().map(call).collect());
    Snapshot {
        nodes,
        calls: calls.collect(),
        client_crashes: 0,
        node_crashes: 0,
        master_crashes: 0,
        delays: 0,
        fault: None,
    }
}

fn crashes(clients: usize, nodes: usize, model: Snapshot) -> Snapshot {
    Snapshot {
        client_crashes: clients,
        node_crashes: nodes,
        ..model
    }
}

/// Explores all states, checks them, and counts them.
fn explore(model: Snapshot) -> usize {
    let checker = model.checker().spawn_bfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}

/// The states without crashes, with one of a client, of a node, of both.
fn explore_four(nodes: usize, clients: &[&str]) -> [usize; 4] {
    [(0, 0), (1, 0), (0, 1), (1, 1)]
        .map(|(client, node)| explore(crashes(client, node, calm(nodes, clients))))
}

#[test]
fn two_clients_two_nodes() {
    assert_eq!(explore_four(2, &["wr", "wr"]), [466, 4264, 11_020, 41_362]);
}

#[test]
fn two_clients_two_nodes_two_rounds() {
    assert_eq!(explore_four(2, &["ww", "ww"]), [2482, 26_490, 57_930, 236_380]);
}

#[test]
fn two_clients_three_nodes() {
    assert_eq!(explore_four(3, &["wr", "wr"]), [794, 15_666, 52_250, 244_661]);
}

#[test]
fn three_clients_two_nodes() {
    assert_eq!(
        explore_four(2, &["w", "w", "w"]),
        [4594, 69_904, 143_678, 848_270]
    );
}

#[test]
fn three_clients_two_nodes_one_reads() {
    assert_eq!(explore_four(2, &["w", "w", "r"]), [1030, 16_912, 34_903, 207_313]);
}

#[test]
fn three_clients_three_nodes() {
    let writers = calm(3, &["w", "w", "w"]);
    let one_reads = calm(3, &["w", "w", "r"]);
    let counts = [
        explore(writers.clone()),
        explore(crashes(1, 0, writers)),
        explore(crashes(1, 0, one_reads.clone())),
        explore(crashes(0, 1, one_reads)),
        explore(crashes(1, 1, calm(3, &["w", "r", "r"]))),
    ];
    assert_eq!(counts, [15_158, 534_424, 81_170, 211_558, 280_449]);
}

/// More than half of the backups and not all: there have to be three of them.
#[test]
fn two_clients_four_nodes() {
    let model = calm(4, &["w", "w"]);
    let counts = [
        explore(model.clone()),
        explore(crashes(1, 0, model.clone())),
        explore(crashes(0, 1, model)),
    ];
    assert_eq!(counts, [1344, 64_994, 308_611]);
}

#[test]
fn all_nodes_but_one_crash() {
    assert_eq!(explore(crashes(0, 2, calm(3, &["w", "rr"]))), 66_866);
}

#[test]
fn the_master_crashes() {
    let model = Snapshot {
        master_crashes: 1,
        ..crashes(1, 1, calm(2, &["w", "w"]))
    };
    assert_eq!(explore(model), 41_659);
}

/// A client takes a node for dead that is slow, and the master closes the region although nobody has failed.
#[test]
fn a_batch_is_given_up() {
    let delayed = |nodes| Snapshot {
        delays: 1,
        ..calm(nodes, &["wr", "wr"])
    };
    assert_eq!([explore(delayed(2)), explore(delayed(3))], [8545, 25_975]);
}

#[test]
#[ignore = "four minutes, 5 GB; cargo test -p cenote-model --test snapshot -- --ignored --test-threads 1"]
fn three_writers_three_nodes() {
    assert_eq!(
        explore_four(3, &["w", "w", "w"]),
        [15_158, 534_424, 1_411_171, 10_752_176]
    );
}

#[test]
#[ignore = "four minutes, 5 GB; cargo test -p cenote-model --test snapshot -- --ignored --test-threads 1"]
fn larger_sizes() {
    let counts = [
        explore(crashes(1, 1, calm(3, &["w", "w", "r"]))),
        explore(crashes(0, 2, calm(3, &["w", "w", "r"]))),
        explore(crashes(1, 1, calm(4, &["w", "w"]))),
    ];
    assert_eq!(counts, [1_675_678, 2_074_994, 1_487_739]);
}

/// Whether a planted fault violates this property.
fn violates(property: &'static str, fault: Fault, model: Snapshot) {
    let model = Snapshot {
        fault: Some(fault),
        ..model
    };
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let path = checker.discovery(property);
    for step in path.expect("a counterexample").into_actions() {
        println!("{step:?}");
    }
}

#[test]
fn nodes_that_keep_their_keys_take_verbs_of_the_dead() {
    violates(
        "no deadlock",
        Fault::KeysKept,
        crashes(1, 1, calm(2, &["w", "w"])),
    );
}

#[test]
fn copies_that_are_not_made_equal_stop_everybody() {
    violates(
        "no deadlock",
        Fault::CopiesKept,
        crashes(0, 1, calm(3, &["wr", "w"])),
    );
}

#[test]
fn the_smallest_wins_a_round_that_is_over() {
    let property = "copies are equal at the end";
    violates(property, Fault::SmallestUnchecked, calm(3, &["w", "w", "w"]));
}

#[test]
fn a_loser_that_returns_at_once_has_written_nothing_yet() {
    violates("linearizable", Fault::LoserReturns, calm(3, &["wr", "w"]));
}

#[test]
fn a_decided_change_that_begins_again_comes_twice() {
    violates(
        "linearizable",
        Fault::NeverAsks,
        crashes(0, 1, calm(2, &["w", "rwr"])),
    );
}

#[test]
fn an_undone_change_that_returns_is_lost() {
    violates(
        "linearizable",
        Fault::NeverUndone,
        crashes(0, 1, calm(3, &["wr", "w"])),
    );
}

#[test]
fn a_winner_without_a_log_is_taken_for_undone() {
    let model = Snapshot {
        delays: 1,
        ..calm(2, &["w", "rwr"])
    };
    violates("linearizable", Fault::NoLog, model);
}

/// The primary crashes; a backup that has become the first shows what only it has, and crashes as well.
#[test]
fn readers_of_a_backup_that_is_not_equal_yet_see_what_is_lost() {
    violates(
        "linearizable",
        Fault::ReadEarly,
        crashes(0, 2, calm(3, &["w", "rr"])),
    );
}
