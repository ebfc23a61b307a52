//! What is a repetition, and what looking for it costs.

use std::ops::Bound::{Excluded, Included, Unbounded};

use super::super::operation::Operation::{self, CompareSwap, Delete, Get, Insert, Predecessor, Scan};
use super::{LOOKED_AT, Repeats};

/// For each operation the earlier one that has its answer.
fn found(operations: &[Operation]) -> Vec<Option<u32>> {
    let repeats = Repeats::find(operations);
    (0..operations.len()).map(|number| repeats.of(number)).collect()
}

fn update(key: u64) -> Operation {
    CompareSwap {
        key,
        expected: 1,
        value: 2,
    }
}

#[test]
fn a_get_is_repeated_until_its_key_changes() {
    let operations = [
        Get(1),
        Get(2),
        Get(1),
        Delete(1),
        Get(1),
        Get(2),
        Get(1),
        Insert(2, 7),
        update(2),
        Get(2),
        Get(2),
    ];
    let earlier = |number| Some(number);
    assert_eq!(
        found(&operations),
        [
            None,
            None,
            earlier(0),
            None,
            None,
            earlier(1),
            earlier(4),
            None,
            None,
            None,
            earlier(9)
        ]
    );
}

#[test]
fn a_predecessor_is_repeated_until_any_key_changes() {
    let operations = [
        Predecessor(9),
        Get(9),
        Predecessor(9),
        Delete(1),
        Predecessor(9),
        Predecessor(9),
    ];
    assert_eq!(found(&operations), [None, None, Some(0), None, None, Some(4)]);
}

#[test]
fn a_scan_is_repeated_until_a_key_between_its_ends_changes() {
    let scan = Scan(Included(10), Excluded(20));
    let same = Scan(Excluded(9), Included(19));
    let operations = [
        update(10),
        scan,
        update(20),
        same,
        Scan(Included(20), Excluded(10)),
        update(19),
        scan,
        Scan(Unbounded, Unbounded),
        same,
    ];
    assert_eq!(
        found(&operations),
        [None, None, None, Some(1), None, None, None, None, Some(6)]
    );
}

/// However many there are.
#[test]
fn changes_before_the_first_scan_do_not_matter() {
    let mut operations: Vec<Operation> = (0..1000).map(update).collect();
    operations.extend([Scan(Unbounded, Unbounded); 3]);
    assert_eq!(found(&operations)[1000..], [None, Some(1000), Some(1000)]);
    // Between them, more than are looked at.
    operations.push(update(5000));
    operations.push(Scan(Unbounded, Included(4999)));
    operations.push(Scan(Unbounded, Unbounded));
    assert_eq!(found(&operations)[1003..], [None, None, None]);
    let few: Vec<Operation> = (0..LOOKED_AT as u64).map(update).collect();
    let operations = [
        &few[..],
        &[
            Scan(Unbounded, Included(100)),
            update(101),
            Scan(Unbounded, Included(100)),
        ],
    ]
    .concat();
    assert_eq!(found(&operations).last(), Some(&Some(LOOKED_AT as u32)));
}

#[test]
fn where_nothing_is_repeated_nothing_is_sorted_or_looked_up() {
    let mut operations: Vec<Operation> = (0..100_000).map(update).collect();
    operations.extend([Scan(Unbounded, Included(3)), Scan(Unbounded, Included(4))]);
    assert_eq!(Repeats::find(&operations).steps, 2);
    let gets: Vec<Operation> = (0..100_000).map(Get).collect();
    assert!(Repeats::find(&gets).steps < 2_000);
}

/// A key in all places but some: wherever those are, the sample sees it.
#[test]
fn no_pattern_hides_what_is_repeated() {
    for apart in [2, 97, 100, 488] {
        let other = |n: u64| n.is_multiple_of(apart);
        let operations: Vec<Operation> = (0..500_000)
            .map(|n| Get(if other(n) { n + 1 } else { 0 }))
            .collect();
        let repeated = found(&operations).iter().flatten().count() as u64;
        assert_eq!(repeated, 500_000 - 500_000_u64.div_ceil(apart) - 1, "{apart}");
    }
}
