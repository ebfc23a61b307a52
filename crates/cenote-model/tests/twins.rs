//! All states of inserts of one key into two slots. Their numbers are kept: if one changes, so has the protocol, or its
//! model.

use cenote_model::twins::client::{Call, Plan};
use cenote_model::twins::{Fault, Twins};
use stateright::{Checker, HasDiscoveries, Model};

/// Nodes that hold the logs. Nodes 0 and 1 hold the slots; 0 is their primary.
type Log = &'static [usize];
/// As the slots.
const BESIDE: Log = &[0, 1];
/// At the same nodes, of which the other is the primary.
const CROSSED: Log = &[1, 0];
/// The primary is another node; the backup is the slots' primary.
const OVERLAPPING: Log = &[2, 0];
/// At other nodes.
const APART: Log = &[2, 3];
/// At one other node.
const SINGLE: Log = &[2];

/// Nobody crashes. A word says what a client does: `i` inserts, `g` gets, `r` removes, `t` writes the last copy of its
/// log. The second client takes the smaller slot.
fn calm(log: Log, clients: &[&str]) -> Twins {
    let call = |letter| match letter {
        'i' => Call::Insert,
        'g' => Call::Get,
        'r' => Call::Remove,
        _ => Call::Tidy,
    };
    let plan = |(number, letters): (usize, &&str)| Plan {
        calls: letters.chars().map(call).collect(),
        slot: usize::from(number != 1),
        log: log.to_vec(),
    };
    Twins {
        nodes: log.iter().max().unwrap().max(&1) + 1,
        slots: vec![0, 1],
        clients: clients.iter().enumerate().map(plan).collect(),
        node_crashes: 0,
        client_crashes: 0,
        cuts: 0,
        faults: Vec::new(),
    }
}

/// The same, with crashes of nodes, of clients, and clients that are cut off.
fn trouble(nodes: usize, clients: usize, cuts: usize, model: Twins) -> Twins {
    Twins {
        node_crashes: nodes,
        client_crashes: clients,
        cuts,
        ..model
    }
}

/// Explores all states, checks them, and counts them.
fn explore(model: Twins) -> usize {
    let checker = model.checker().spawn_bfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}

/// The states with a crash of a node, for each place of the logs.
fn explore_places(clients: &[&str]) -> [usize; 5] {
    [BESIDE, CROSSED, OVERLAPPING, APART, SINGLE].map(|log| explore(trouble(1, 0, 0, calm(log, clients))))
}

/// The states with a client that is cut off, for logs with two copies and with one.
fn explore_cuts(clients: &[&str]) -> [usize; 2] {
    [BESIDE, SINGLE].map(|log| explore(trouble(0, 0, 1, calm(log, clients))))
}

#[test]
fn two_inserts() {
    assert_eq!(explore_places(&["i", "i"]), [3433, 3433, 6412, 9010, 2310]);
    assert_eq!(explore_cuts(&["i", "i"]), [7401, 2778]);
}

#[test]
fn one_reads() {
    assert_eq!(
        explore_places(&["i", "i", "g"]),
        [31_581, 31_581, 55_787, 77_312, 19_971]
    );
    assert_eq!(explore_cuts(&["i", "i", "g"]), [63_150, 21_933]);
}

#[test]
fn one_removes() {
    let logs = [BESIDE, CROSSED, SINGLE];
    let crash = logs.map(|log| explore(trouble(1, 0, 0, calm(log, &["i", "i", "r"]))));
    assert_eq!(crash, [119_671, 119_671, 59_477]);
    assert_eq!(explore(trouble(0, 0, 1, calm(SINGLE, &["i", "i", "r"]))), 61_810);
}

#[test]
fn an_insert_and_a_removal() {
    assert_eq!(explore_places(&["i", "r"]), [1459, 1459, 2632, 3823, 892]);
    assert_eq!(explore_cuts(&["i", "r"]), [1894, 604]);
}

#[test]
fn clients_remove_what_they_have_inserted() {
    assert_eq!(
        explore_places(&["ir", "i"]),
        [13_427, 13_435, 32_757, 50_962, 8605]
    );
    assert_eq!(explore_cuts(&["ir", "i"]), [27_160, 6838]);
}

#[test]
fn last_copies_of_logs_are_written() {
    let counts = [BESIDE, CROSSED].map(|log| explore(trouble(1, 0, 0, calm(log, &["it", "i", "g"]))));
    assert_eq!(counts, [37_878, 37_878]);
}

/// A node, a client, and one that is cut off; and two nodes that leave one copy of everything.
#[test]
fn several_fail() {
    let counts = [
        explore(trouble(1, 1, 1, calm(BESIDE, &["i", "i"]))),
        explore(trouble(0, 1, 0, calm(BESIDE, &["i", "i", "g"]))),
        explore(trouble(2, 0, 0, calm(APART, &["i", "i"]))),
    ];
    assert_eq!(counts, [68_445, 22_591, 36_238]);
}

/// One node holds the slots from the beginning.
#[test]
fn without_backups() {
    let alone = |log, clients| Twins {
        slots: vec![0],
        ..calm(log, clients)
    };
    let counts = [
        explore(trouble(0, 0, 1, alone(SINGLE, &["i", "i", "r"]))),
        explore(trouble(1, 0, 0, alone(&[1, 2], &["i", "i", "r"]))),
    ];
    assert_eq!(counts, [56_727, 103_285]);
}

#[test]
#[ignore = "two minutes; cargo test -p cenote-model --test twins -- --ignored --test-threads 1"]
fn larger_sizes() {
    let counts = [
        explore(trouble(1, 0, 0, calm(BESIDE, &["i", "i", "r", "g"]))),
        explore(trouble(1, 0, 0, calm(SINGLE, &["i", "i", "r", "g"]))),
        explore(trouble(1, 0, 1, calm(BESIDE, &["i", "i", "r"]))),
        explore(trouble(1, 0, 0, calm(OVERLAPPING, &["i", "i", "r"]))),
        explore(trouble(1, 0, 0, calm(APART, &["i", "i", "r"]))),
        explore(trouble(0, 0, 1, calm(BESIDE, &["i", "i", "r"]))),
        explore(trouble(2, 0, 0, calm(APART, &["i", "i", "g"]))),
        explore(trouble(2, 0, 1, calm(APART, &["i", "i"]))),
    ];
    assert_eq!(
        counts,
        [
            1_407_753, 678_743, 1_214_840, 250_357, 361_896, 332_055, 301_841, 264_690
        ]
    );
}

/// Whether planted faults violate this property.
fn violate(property: &'static str, faults: &[Fault], model: Twins) {
    let model = Twins {
        faults: faults.to_vec(),
        ..model
    };
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AllOf([property].into()))
        .spawn_bfs()
        .join();
    let path = checker.discovery(property);
    for step in path.expect("a counterexample").into_actions() {
        println!("{step:?}");
    }
}

const LINEARIZABLE: &str = "linearizable";
const BOUND: &str = "the key is bound to what it has to be at the end";

/// The backup of the log is the node whose loss leads to the question.
#[test]
fn a_log_at_the_slots_primary_alone_is_lost_with_it() {
    for log in [CROSSED, OVERLAPPING] {
        violate(
            LINEARIZABLE,
            &[Fault::BackupsFirst],
            trouble(1, 0, 0, calm(log, &["i", "i"])),
        );
    }
    let two_nodes = trouble(2, 0, 0, calm(APART, &["i", "i"]));
    violate(LINEARIZABLE, &[Fault::BackupsFirst], two_nodes);
}

#[test]
fn a_twin_that_is_being_removed_is_at_the_primary_still() {
    let faults = [Fault::BackupAlone];
    violate("one slot is shown", &faults, calm(BESIDE, &["i", "i", "r"]));
    violate(LINEARIZABLE, &faults, calm(BESIDE, &["i", "i", "r", "g"]));
    violate(BOUND, &faults, trouble(0, 0, 1, calm(BESIDE, &["i", "i", "r"])));
}

#[test]
fn a_log_that_says_bound_after_decided_is_taken_for_undone() {
    let faults = [Fault::BoundOverwrites];
    violate(BOUND, &faults, trouble(0, 0, 1, calm(SINGLE, &["i", "r"])));
    let both = [Fault::BoundOverwrites, Fault::BackupsFirst];
    violate(BOUND, &both, trouble(1, 0, 1, calm(APART, &["i", "r"])));
}

#[test]
fn a_reader_that_believes_bound_at_the_primary_sees_what_is_lost() {
    let model = trouble(1, 0, 0, calm(BESIDE, &["i", "i", "g"]));
    violate(LINEARIZABLE, &[Fault::ReaderBelieves], model);
}

#[test]
fn a_reader_that_does_not_tell_sees_what_is_lost() {
    let model = trouble(1, 0, 0, calm(BESIDE, &["i", "i", "g"]));
    violate(LINEARIZABLE, &[Fault::ReaderSilent], model);
}

#[test]
fn who_removes_tells_too_late() {
    violate(
        BOUND,
        &[Fault::ToldLate],
        trouble(1, 0, 0, calm(BESIDE, &["i", "r"])),
    );
}

#[test]
fn a_change_that_was_shown_is_undone() {
    violate(
        LINEARIZABLE,
        &[Fault::UndoneShown],
        trouble(1, 0, 0, calm(BESIDE, &["i", "i"])),
    );
}

#[test]
fn the_smaller_slot_is_not_always_the_one_that_was_shown() {
    violate(
        LINEARIZABLE,
        &[Fault::SmallerAlways],
        trouble(1, 0, 0, calm(APART, &["i", "i"])),
    );
}

#[test]
fn who_removes_believes_bound() {
    violate(
        BOUND,
        &[Fault::BoundBelieved],
        trouble(0, 0, 1, calm(SINGLE, &["i", "r"])),
    );
}
