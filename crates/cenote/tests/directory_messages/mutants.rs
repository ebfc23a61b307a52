//! Planted faults: each is seen on the simulated network, in a seed that the library as it is passes.

use cenote::mutant::{Mutant, choose};

use crate::random::run;

const PLANTED: [Mutant; 10] = [
    Mutant::DirectoryVersionNotChecked,
    Mutant::DirectoryEpochNotChecked,
    Mutant::DirectoryQueueLost,
    Mutant::DirectoryGrantOfOldTicket,
    Mutant::DirectoryEndedSessionHeard,
    Mutant::DirectoryNextReadersForgotten,
    Mutant::DirectoryDataNotKept,
    Mutant::DirectoryGiveUpOfOldTicket,
    Mutant::DirectoryForwardCountedTwice,
    Mutant::DirectoryForwardNotRepeated,
];

#[test]
fn every_planted_fault_is_seen() {
    let mut survived = Vec::new();
    for mutant in PLANTED {
        let shown = (1..=10_000).find_map(|seed| {
            choose(Some(mutant));
            let outcome = run(seed);
            choose(None);
            outcome.err().map(|fault| (seed, fault))
        });
        match shown {
            Some((seed, fault)) => {
                println!("{}: seed {seed}: {fault}", mutant.name());
                assert_eq!(run(seed), Ok(()), "the library as it is");
            }
            None => survived.push(mutant.name()),
        }
    }
    assert!(survived.is_empty(), "not seen: {survived:?}");
}
