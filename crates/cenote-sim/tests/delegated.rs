//! Every subject with a server that executes exchanges, whose processes die at any step, the server's too. A failure prints the
//! command that repeats it. `CENOTE_SIM_SEEDS` sets how many seeds each subject gets.

use cenote_sim::campaign::{Plan, PolicyKind, Result as Ended};
use cenote_sim::subjects::Subject;

#[test]
fn every_subject_with_a_server_that_dies() {
    let seeds = std::env::var("CENOTE_SIM_SEEDS")
        .map_or(12, |text| text.parse().expect("CENOTE_SIM_SEEDS is a number"));
    // A pool whose exchanges a server executes is for one machine.
    let subjects = Subject::ALL
        .into_iter()
        .filter(|&subject| !matches!(subject, Subject::Hosts | Subject::Mourners | Subject::Seat));
    for subject in subjects {
        for (seed, crashes) in (1..=seeds).zip([0, 1, 2].into_iter().cycle()) {
            let plan = Plan {
                subject,
                coherent: false,
                delegated: true,
                hosts: 3,
                threads: 2,
                operations: 8,
                crashes,
                draws_guidelines: true,
                prefetches: false,
                blind_exchanges: false,
                policy: PolicyKind::Random,
                profile: None,
                // Who waits for a server takes steps.
                steps_max: 60_000_000,
            };
            let run = plan.run(seed);
            let repeat = format!("repeat it with: cenote sim {}", plan.arguments(seed));
            assert_eq!(run.result, Ended::Passed, "{repeat}");
        }
    }
}
