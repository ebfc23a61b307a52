//! What the figures rest on: ours has one transaction an inter-node acquisition, others have more, and every run finds
//! fresh data.

use std::sync::Arc;

use cenote::sync::directory::queue::Permission;
use cenote_locked::words::Touch;
use cenote_ycsb::Workload;

use super::{Outcome, Plan, Scheme, Script, Transaction, Work, measure};
use crate::msi::NetworkProfile;

fn plan(profile: &str, scheme: Scheme, nodes: u8, read_percent: u32) -> Plan {
    Plan {
        scheme,
        profile: NetworkProfile::load(profile).unwrap(),
        nodes,
        threads: 1,
        locks: 1,
        data_bytes: 4096,
        work: Work::Shares(read_percent),
        think_ns: 0,
        warm_ns: 0,
        run_ns: 10_000_000,
        seed: 7,
    }
}

fn measured(plan: &Plan) -> Outcome {
    measure(plan).unwrap_or_else(|error| panic!("{} nodes: {error}", plan.nodes))
}

const OTHERS: [Scheme; 6] = [
    Scheme::Mcs,
    Scheme::Posix,
    Scheme::PerCore,
    Scheme::Cohort,
    Scheme::CohortClose,
    Scheme::Service,
];

/// Transactions that write one page and read another, and some that only read.
fn script() -> Script {
    let transaction = |n: u32| {
        let is_read_only = n % 4 == 3;
        let touch = |line, writes| Touch { line, writes };
        let touches = vec![touch(64 * (n % 5), false), touch(64 * (n % 3) + n, !is_read_only)];
        let wants = match is_read_only {
            true => Permission::Shared,
            false => Permission::Exclusive,
        };
        Transaction { wants, touches }
    };
    Script {
        transactions: (0..12).map(transaction).collect(),
        computes_ns: 1000,
    }
}

#[test]
fn transactions_on_one_node_wait_for_the_network_only_until_it_has_all_lines() {
    let outcome = measured(&Plan {
        work: Work::Transactions(Arc::new(script())),
        data_bytes: 0,
        threads: 1,
        ..plan("ethernet", Scheme::OURS, 1, 0)
    });
    // The first misses, and the lock.
    assert!(
        outcome.operations > 1000 && outcome.transactions < 20,
        "{outcome:?}"
    );
}

#[test]
fn a_directory_lock_is_one_transaction_with_its_data() {
    for profile in NetworkProfile::names() {
        for nodes in 1..=8 {
            for read_percent in [0, 30, 50, 95, 99, 100] {
                let outcome = measured(&plan(profile, Scheme::OURS, nodes, read_percent));
                assert!(outcome.crossed > 0);
                assert_eq!(
                    outcome.transactions, outcome.crossed,
                    "{profile}, {nodes} nodes, {read_percent} % read"
                );
            }
        }
    }
}

#[test]
fn data_apart_are_a_second_transaction() {
    let apart = Scheme::Directory {
        keeps: true,
        combines: false,
    };
    let outcome = measured(&plan("ethernet", apart, 4, 0));
    assert_eq!(outcome.transactions_each(), Some(2.0));
}

#[test]
fn other_locks_have_more_transactions() {
    for (scheme, least) in [(Scheme::Mcs, 4.0), (Scheme::Posix, 3.0), (Scheme::PerCore, 6.0)] {
        let each = |nodes| {
            let outcome = measured(&plan("ethernet", scheme, nodes, 0));
            outcome.transactions_each().unwrap()
        };
        let (few, many) = (each(2), each(8));
        assert!(many >= least, "{scheme:?}: {many}");
        // The queue lock stays at its number; the others grow with the nodes.
        match scheme {
            Scheme::Mcs => assert!(many < few * 2.0, "{few} {many}"),
            _ => assert!(many > few * 1.5, "{scheme:?}: {few} {many}"),
        }
    }
}

#[test]
fn all_kinds_of_work_run_on_all_kinds_of_locks() {
    for scheme in OTHERS.into_iter().chain([Scheme::OURS]) {
        let works = [
            Work::Shares(50),
            Work::Buckets(Workload::A, 1000),
            Work::Transactions(Arc::new(script())),
        ];
        for work in works {
            let plan = Plan {
                work: work.clone(),
                threads: 3,
                locks: 4,
                nodes: 3,
                ..plan("ethernet", scheme, 3, 0)
            };
            let outcome = measured(&plan);
            assert!(outcome.operations > 0, "{scheme:?}, {work:?}");
            let again = measured(&plan);
            assert_eq!(
                outcome, again,
                "{scheme:?}, {work:?}: the same seed, the same run"
            );
        }
    }
}

#[test]
fn a_directory_lock_is_faster_than_every_other_in_every_workload() {
    for read_percent in [0, 50, 95] {
        for nodes in [2, 8] {
            let ours = measured(&plan("ethernet", Scheme::OURS, nodes, read_percent));
            for scheme in OTHERS {
                let other = measured(&plan("ethernet", scheme, nodes, read_percent));
                let (ours, other) = (ours.crossed_mean_us(), other.crossed_mean_us());
                assert!(
                    ours < other,
                    "{scheme:?}, {nodes} nodes, {read_percent} %: {ours:?} {other:?}"
                );
            }
        }
    }
}

#[test]
fn readers_of_directory_locks_scale_with_the_nodes() {
    let reads = |nodes| {
        measured(&Plan {
            work: Work::Buckets(Workload::C, 1000),
            threads: 4,
            locks: 32,
            warm_ns: 5_000_000,
            run_ns: 1_000_000,
            ..plan("ethernet", Scheme::OURS, nodes, 0)
        })
        .mops()
    };
    let (one, eight) = (reads(1), reads(8));
    assert!(eight > 7.5 * one, "{one} {eight}");
}
