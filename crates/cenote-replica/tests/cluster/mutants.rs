//! Planted faults in the shipped code: each is found by some run of its plan, which the code as it is passes.

use cenote_replica::mutant::{Mutant, choose};

use super::run::{Plan, run};

/// Seeds that a planted fault may pass.
const SEEDS: u64 = 3_000;

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
        cuts: 3,
        node_crashes: 1,
        operations: 40,
        ..Plan::default()
    };
    match mutant {
        Mutant::HalfIsMajority | Mutant::MinorityKept | Mutant::LoserNotAwaiting => hot,
        Mutant::AloneAsOthers | Mutant::CellNotWritten => alone,
        Mutant::TwinsIgnored | Mutant::TwinsBothStay => alone,
        Mutant::SealTakenForChange | Mutant::ContentReadEarly => growing,
        Mutant::FingerprintBelieved | Mutant::SuccessorIgnored => growing,
        Mutant::DecisionUnasked | Mutant::DecisionNotTold | Mutant::AdoptedShown => crashing,
        Mutant::DoubtForgotten | Mutant::TakenBackUnfreed => long,
    }
}

#[test]
fn planted_faults_are_found() {
    for mutant in Mutant::ALL {
        let plan = plan(*mutant);
        choose(Some(*mutant));
        let seen = (1..=SEEDS).find_map(|seed| Some((seed, run(&plan, seed).err()?)));
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
