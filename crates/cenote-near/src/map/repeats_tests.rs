//! What is a repetition, and what looking for it costs.

use std::ops::Bound::{Excluded, Included, Unbounded};

use super::super::net::Net;
use super::super::operation::Operation::{self, CompareSwap, Delete, Get, Insert, Predecessor, Scan};
use super::{LOOKED_AT, Repeats, Role};

/// For each operation the earlier one that has its answer.
fn found(operations: &[Operation]) -> Vec<Option<u32>> {
    let repeats = Repeats::find(operations);
    let same = |number| match repeats.role(number) {
        Role::Same(earlier) => Some(earlier),
        _ => None,
    };
    (0..operations.len()).map(same).collect()
}

fn roles(operations: &[Operation]) -> Vec<Role> {
    let repeats = Repeats::find(operations);
    (0..operations.len()).map(|number| repeats.role(number)).collect()
}

fn update(key: u64) -> Operation {
    CompareSwap {
        key,
        expected: 1,
        value: 2,
    }
}

#[test]
fn operations_on_a_key_are_one_command() {
    let operations = [
        Get(1),
        Get(2),
        Get(1),
        Delete(1),
        Insert(3, 4),
        Insert(1, 5),
        Get(1),
        update(3),
        Insert(4, 4),
    ];
    use Role::{Alone, Follows, Leads};
    let repeats = Repeats::find(&operations);
    let roles: Vec<Role> = (0..operations.len()).map(|number| repeats.role(number)).collect();
    assert_eq!(
        roles,
        [
            Leads(0),
            Alone,
            Follows(0),
            Follows(0),
            Leads(1),
            Follows(0),
            Follows(0),
            Follows(1),
            Alone
        ]
    );
    assert_eq!(repeats.nets[0], Net::Fixed(Some(5)));
    assert_eq!(repeats.nets[1].after(None), Some(4));
    assert_eq!(repeats.nets[1].after(Some(1)), Some(2));
}

/// Else the scan would find what comes after it.
#[test]
fn no_change_goes_with_what_is_before_a_read_of_other_keys() {
    use Role::{Alone, Follows, Leads};
    for read in [Predecessor(9), Scan(Included(1), Included(2))] {
        let operations = [Insert(1, 5), read, Get(1), Delete(1), Get(1), Get(1)];
        assert_eq!(
            roles(&operations),
            [Leads(0), Alone, Follows(0), Leads(1), Follows(1), Follows(1)]
        );
    }
}

/// Of two updates that compare with different values neither may take effect, or both.
#[test]
fn what_does_not_fit_is_a_command_of_its_own() {
    use Role::{Alone, Follows, Leads};
    let swap = |expected, value| CompareSwap {
        key: 1,
        expected,
        value,
    };
    let operations = [swap(1, 2), swap(3, 4), Get(1), swap(2, 3), swap(4, 5), Get(1)];
    assert_eq!(
        roles(&operations),
        [Alone, Leads(0), Follows(0), Alone, Leads(1), Follows(1)]
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
    assert!(Repeats::find(&operations).steps < 2_000);
    let gets: Vec<Operation> = (0..100_000).map(Get).collect();
    assert!(Repeats::find(&gets).steps < 2_000);
}

#[test]
fn roles_of_lone_operations_take_no_memory() {
    let operations: Vec<Operation> = (0..1000).map(|key| Insert(key, key)).collect();
    assert!(Repeats::find(&operations).roles.is_empty());
}

/// A key in all places but some: wherever those are, the sample sees it.
#[test]
fn no_pattern_hides_what_is_repeated() {
    for apart in [2, 97, 100, 488] {
        let other = |n: u64| n.is_multiple_of(apart);
        let operations: Vec<Operation> = (0..500_000)
            .map(|n| Get(if other(n) { n + 1 } else { 0 }))
            .collect();
        let follows = |role: &&Role| matches!(role, Role::Follows(_));
        let repeated = roles(&operations).iter().filter(follows).count() as u64;
        assert_eq!(repeated, 500_000 - 500_000_u64.div_ceil(apart) - 1, "{apart}");
    }
}
