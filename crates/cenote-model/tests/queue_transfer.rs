//! All states of the queue transfer. Their number is kept: if it changes, so has the protocol.

use cenote_model::queue_transfer::QueueTransfer;
use stateright::{Checker, Model};

fn explore(nodes: u8, deaths: u8) -> usize {
    let model = QueueTransfer {
        nodes,
        deaths,
        checks_version: true,
    };
    let checker = model.checker().spawn_bfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}

#[test]
fn four_nodes() {
    assert_eq!((explore(4, 0), explore(4, 1)), (7804, 132_152));
}

#[test]
fn three_nodes() {
    assert_eq!((explore(3, 0), explore(3, 1), explore(3, 2)), (467, 4798, 26_745));
}

/// The planted fault: a waiter is in no queue.
#[test]
fn a_transfer_whose_version_is_not_checked_loses_a_request() {
    let model = QueueTransfer {
        nodes: 3,
        deaths: 0,
        checks_version: false,
    };
    let checker = model.checker().spawn_bfs().join();
    let path = checker.discovery("every waiter is next, in the queue, or on its way there");
    println!("{}", path.expect("a lost request"));
}
