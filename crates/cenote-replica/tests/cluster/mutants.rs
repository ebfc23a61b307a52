//! Planted faults in the shipped code: each is found by some run of its plan, which the code as it is passes.

use cenote_replica::mutant::{Mutant, choose};

use super::full::{parts_of_splits, try_in_vain};
use super::held::blocks::{
    eras_while_marks_are_on_their_way, keep_up_after_a_sweep_beside_a_change, put_beside_a_late_mark,
    put_in_a_block_that_is_cut_at_its_primary, put_over_what_is_freed,
};
use super::held::twins::{Before, insert_beside_removal, late_insert};
use super::held::unheard::{Silence, insert_unheard};
use super::lost::read_beside_what_is_lost;
use super::plan::Plan;
use super::reuse::{log_over_reuse, read_over_reuse};
use super::run::run;
use super::stopped::insert_beside_one_that_stands_still;
use super::torn::put_over_half_a_log;

/// Seeds that a planted fault may pass.
const SEEDS: u64 = 10_000;

/// What shows a fault soonest.
fn plan(mutant: Mutant) -> Plan {
    let hot = Plan {
        replicas: 3,
        nodes: 4,
        keys: 1,
        clients: 6,
        ..Plan::default()
    };
    let alone = Plan {
        replicas: 1,
        client_crashes: 2,
        ..Plan::default()
    };
    let growing = Plan {
        keys: 200,
        operations: 80,
        groups: 2,
        ..Plan::default()
    };
    let crashing = Plan {
        client_crashes: 2,
        cuts: 2,
        node_crashes: 1,
        ..growing.clone()
    };
    let long = Plan {
        client_crashes: 2,
        cuts: 6,
        node_crashes: 1,
        operations: 100,
        ..Plan::default()
    };
    // Blocks of clients that have gone, whose objects others retire as well.
    let adopting = Plan {
        clients: 6,
        client_crashes: 4,
        operations: 60,
        ..Plan::default()
    };
    let writing = Plan {
        longest: 7_000,
        ..Plan::default()
    };
    let dying = Plan {
        clients: 6,
        client_crashes: 4,
        operations: 40,
        ..writing.clone()
    };
    match mutant {
        Mutant::ExtentsAfterHead | Mutant::ExtentsKept => writing,
        Mutant::ExtentsFreedAtOnce => Plan {
            upkeep_beside: true,
            unsteady: true,
            ..writing
        },
        Mutant::ExtentsForgotten | Mutant::ExtentsTaken => dying,
        Mutant::HalfIsMajority | Mutant::MinorityKept | Mutant::LoserNotAwaiting => hot,
        Mutant::AloneAsOthers | Mutant::CellNotWritten => alone,
        Mutant::TwinsIgnored | Mutant::TwinsBothStay => alone,
        Mutant::SealTakenForChange | Mutant::ContentReadEarly => growing,
        Mutant::FingerprintBelieved | Mutant::SuccessorIgnored => growing,
        Mutant::DecisionUnasked | Mutant::DecisionNotTold | Mutant::AdoptedShown => crashing,
        Mutant::DoubtForgotten => long,
        Mutant::AdoptedForgotten => adopting,
        Mutant::NotSwept => adopting,
        Mutant::BusySwept | Mutant::FreedTwice => Plan {
            upkeep_beside: true,
            ..adopting
        },
        // Without deaths, after which clients look for what is left.
        Mutant::ReplacedKept => Plan {
            client_crashes: 0,
            ..long
        },
        Mutant::LoserReplaced | Mutant::ConditionOverlooked | Mutant::ConditionUnasked => Plan {
            conditional: true,
            ..hot
        },
        Mutant::FenceOverlooked
        | Mutant::DivisionLeft
        | Mutant::RightPageLate
        | Mutant::PageOverwritten
        | Mutant::LeafBelieved
        | Mutant::GapOverlooked => super::ordered::plan(),
        Mutant::CachedForEver
        | Mutant::ReplacingUnsaid
        | Mutant::ToldLate
        | Mutant::BoundBelieved
        | Mutant::LogAtOnce
        | Mutant::BoundOverwrites
        | Mutant::AdoptedFreed
        | Mutant::FreedUnpinned
        | Mutant::PassedOverLearnt
        | Mutant::SizeBelieved
        | Mutant::TakenBackUnfreed
        | Mutant::RemovalPassed
        | Mutant::LateForEver
        | Mutant::OffersForgotten
        | Mutant::LostInTheWay
        | Mutant::WonOverwrites
        | Mutant::TwinUntold
        | Mutant::FailedKept
        | Mutant::UndoneShown => {
            unreachable!("found by a schedule of its own")
        }
    }
}

/// Whether a schedule of its own finds a fault.
fn has_schedule(mutant: Mutant) -> bool {
    let planned = [
        Mutant::CachedForEver,
        Mutant::ReplacingUnsaid,
        Mutant::ToldLate,
        Mutant::BoundBelieved,
        Mutant::LogAtOnce,
        Mutant::BoundOverwrites,
        Mutant::AdoptedFreed,
        Mutant::FreedUnpinned,
        Mutant::PassedOverLearnt,
        Mutant::SizeBelieved,
        Mutant::TakenBackUnfreed,
        Mutant::RemovalPassed,
        Mutant::LateForEver,
        Mutant::OffersForgotten,
        Mutant::LostInTheWay,
        Mutant::WonOverwrites,
        Mutant::TwinUntold,
        Mutant::FailedKept,
        Mutant::UndoneShown,
    ];
    planned.contains(&mutant)
}

/// The first seed for a fault. Those before it show two rare ones no sooner, and would take a minute.
fn first(mutant: Mutant) -> u64 {
    match mutant {
        Mutant::DoubtForgotten => 1_900,
        _ => 1,
    }
}

#[test]
fn planted_faults_are_found() {
    let only = std::env::var("CENOTE_TEST_MUTANT").ok();
    for mutant in Mutant::ALL.iter().filter(|mutant| !has_schedule(**mutant)) {
        if only.as_ref().is_some_and(|only| only != mutant.name()) {
            continue;
        }
        let plan = plan(*mutant);
        choose(Some(*mutant));
        let seen = (first(*mutant)..=SEEDS).find_map(|seed| Some((seed, run(&plan, seed).err()?)));
        choose(None);
        let (seed, why) = seen.unwrap_or_else(|| panic!("{}: not found: {}", mutant.name(), mutant.what()));
        let clean = run(&plan, seed);
        assert!(
            clean.is_ok(),
            "{}: seed {seed} fails without it: {clean:?}",
            mutant.name()
        );
        println!("{}: seed {seed}: {why}", mutant.name());
    }
}

#[test]
fn an_object_of_an_era_before_that_is_believed_is_found() {
    choose(Some(Mutant::CachedForEver));
    let found = read_over_reuse();
    choose(None);
    assert_eq!(found, b"one", "the value before the last");
}

#[test]
fn a_put_that_is_taken_for_a_twin_is_found() {
    choose(Some(Mutant::ReplacingUnsaid));
    let late = late_insert(Before::Put);
    choose(None);
    assert!(late.inserted, "an insert of a key that was bound: {late:?}");
}

#[test]
fn an_insert_that_is_forgotten_is_found() {
    for (mutant, silence) in [
        (Mutant::BoundBelieved, Silence::Told),
        (Mutant::ToldLate, Silence::Untold),
        (Mutant::BoundOverwrites, Silence::Late),
    ] {
        choose(Some(mutant));
        let once = insert_unheard(silence);
        choose(None);
        let twice = once.inserted == Some(true) && once.removed == Some(true) && once.found.is_some();
        assert!(twice, "{mutant:?}: inserted once, removed, and there: {once:?}");
    }
}

#[test]
fn a_log_that_is_believed_too_early_is_found() {
    choose(Some(Mutant::LogAtOnce));
    let late = late_insert(Before::Seen);
    choose(None);
    assert!(late.inserted && late.seen.is_some(), "seen and undone: {late:?}");
}

#[test]
fn two_inserts_that_are_done_are_found() {
    choose(Some(Mutant::UndoneShown));
    let late = late_insert(Before::Insert);
    choose(None);
    assert!(late.first && late.inserted, "{late:?}");
}

#[test]
fn memory_that_is_given_twice_is_found() {
    choose(Some(Mutant::AdoptedFreed));
    let found = put_over_what_is_freed();
    choose(None);
    assert_eq!(found, None, "another key has its memory");
}

#[test]
fn marks_of_a_time_before_that_are_believed_are_found() {
    choose(Some(Mutant::TakenBackUnfreed));
    let found = put_beside_a_late_mark();
    choose(None);
    assert_eq!(found, None, "another key has its memory");
}

#[test]
fn eras_that_go_on_too_early_are_found() {
    choose(Some(Mutant::FreedUnpinned));
    let [begun, oldest] = eras_while_marks_are_on_their_way();
    choose(None);
    assert!(begun < oldest, "{begun}, {oldest}");
}

#[test]
fn marks_that_are_learnt_and_not_heeded_are_found() {
    choose(Some(Mutant::PassedOverLearnt));
    let is_free = keep_up_after_a_sweep_beside_a_change();
    choose(None);
    assert!(!is_free, "it is lost");
}

#[test]
fn a_block_that_is_cut_at_one_node_is_found() {
    choose(Some(Mutant::SizeBelieved));
    let found = put_in_a_block_that_is_cut_at_its_primary();
    choose(None);
    assert!(found.contains(&None), "other keys have its memory: {found:?}");
}

#[test]
fn an_insert_that_passes_a_removal_is_found() {
    choose(Some(Mutant::RemovalPassed));
    let passed = insert_beside_removal(false);
    choose(None);
    assert!(
        passed.inserted == Some(true) && passed.then == Some(b"first".to_vec()),
        "{passed:?}"
    );
}

#[test]
fn an_insert_that_fails_for_another_one_is_found() {
    choose(Some(Mutant::TwinUntold));
    let (inserted, _) = insert_beside_one_that_stands_still(2);
    choose(None);
    assert!(inserted.is_err(), "{inserted:?}");
}

#[test]
fn memory_of_changes_that_fail_is_missed() {
    choose(Some(Mutant::FailedKept));
    let kept = (0..8).find_map(|blocks| try_in_vain(8, blocks).err());
    choose(None);
    assert!(kept.is_some());
}

#[test]
fn a_log_that_is_written_to_memory_that_is_used_again_is_found() {
    choose(Some(Mutant::LateForEver));
    let found = log_over_reuse();
    choose(None);
    assert!(found.is_err(), "the memory of another value: {found:?}");
}

#[test]
fn a_decision_that_is_overwritten_in_part_is_found() {
    choose(Some(Mutant::WonOverwrites));
    let found = put_over_half_a_log();
    choose(None);
    assert_eq!(found.as_deref(), Some(&b"second"[..]), "what was replaced");
}

#[test]
fn what_is_lost_and_in_the_way_is_found() {
    choose(Some(Mutant::LostInTheWay));
    let [kept, _] = read_beside_what_is_lost();
    choose(None);
    assert!(kept.is_err(), "{kept:?}");
}

#[test]
fn parts_that_nobody_offers_any_more_are_missed() {
    choose(Some(Mutant::OffersForgotten));
    let lost = parts_of_splits();
    choose(None);
    assert!(lost > 0);
}
