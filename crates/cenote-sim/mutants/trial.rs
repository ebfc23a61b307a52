//! Seeds of one mutant, until one shows it.

use std::time::Duration;

use cenote::mutant::{Mutant, choose};
use cenote_sim::campaign::{Plan, Result as Ended, Run};
use cenote_sim::exec::Crash;
use cenote_sim::sweep::take_moments;
use serde::{Deserialize, Serialize};

/// A mutant that passes so many seeds has survived.
pub const SEEDS_MAX: u64 = 20_000;

/// What a mutant's trial came to.
pub struct Report {
    pub mutant: Mutant,
    pub plan: Plan,
    pub outcome: Outcome,
    /// Seeds that were run; the last is the one that shows it.
    pub seeds: u64,
    pub time: Duration,
}

impl Report {
    pub fn is_caught(&self) -> bool {
        matches!(self.outcome, Outcome::Caught(_))
    }
}

#[derive(Serialize, Deserialize)]
pub enum Outcome {
    Caught(Caught),
    Survived,
    /// The library without a mutant does not pass a seed that it must: what was found.
    CleanFails(String),
}

/// What showed a mutant.
#[derive(Serialize, Deserialize)]
pub struct Caught {
    pub checker: String,
    pub finding: String,
}

/// Some of a mutant's seeds, and which of them the library without a mutant must pass.
#[derive(Clone, Copy)]
pub struct Slice {
    /// The first seed.
    pub first: u64,
    /// How many.
    pub seeds: u64,
    /// Up to this seed the library has passed the plan.
    pub passed: u64,
    /// Whether it must pass all seeds up to the one that shows the mutant, or only that one.
    pub all: bool,
}

impl Slice {
    /// Runs the seeds until one shows the mutant; the last that was run, and what came of it.
    pub fn run(self, mutant: Mutant, plan: &Plan) -> (u64, Outcome) {
        choose(Some(mutant));
        let last = self.first + self.seeds - 1;
        let shown = (self.first..=last).find_map(|seed| show(plan, seed));
        choose(None);
        let (seed, failed, clean) = match shown {
            None if self.all => (last, None, self.check(plan, last)),
            None => (last, None, Ok(())),
            Some((seed, dying, failed)) => {
                let dies = dying.map_or(Ok(()), |dying| passes(seed, plan.run_dying(seed, dying)));
                (seed, Some(failed), dies.and_then(|()| self.check(plan, seed)))
            }
        };
        match (clean, failed) {
            (Err((seed, finding)), _) => (seed, Outcome::CleanFails(finding)),
            (Ok(()), None) => (seed, Outcome::Survived),
            (Ok(()), Some(failed)) => (seed, Outcome::Caught(seen(failed))),
        }
    }

    /// Runs the library as it is up to a seed; the seed that fails, and what was found.
    fn check(self, plan: &Plan, seed: u64) -> Result<(), (u64, String)> {
        let first = if self.all { self.passed + 1 } else { seed };
        (first..=seed).try_for_each(|seed| passes(seed, plan.run(seed)))
    }
}

fn passes(seed: u64, run: Run) -> Result<(), (u64, String)> {
    match run.result {
        Ended::Passed => Ok(()),
        failed => Err((seed, seen(failed).finding)),
    }
}

/// A run that shows a mutant: its seed, the deaths if they are not the seed's, and how it ended.
type Shown = (u64, Option<Vec<Crash>>, Ended);

/// Runs a seed, and then again with a process that dies soon after it passed the mutant.
fn show(plan: &Plan, seed: u64) -> Option<Shown> {
    take_moments();
    let result = plan.run(seed).result;
    if result != Ended::Passed {
        return Some((seed, None, result));
    }
    let moments = take_moments();
    if plan.crashes == 0 || moments.is_empty() {
        return None;
    }
    let dying = plan.dies_soon(seed, &moments, 0);
    let result = plan.run_dying(seed, dying.clone()).result;
    (result != Ended::Passed).then_some((seed, Some(dying), result))
}

fn seen(failed: Ended) -> Caught {
    let (checker, finding) = match failed {
        Ended::Wrong(checker, finding) => (checker, finding),
        Ended::Stuck(finding) => ("progress", finding),
        Ended::Crashed(finding) => ("panic", finding),
        Ended::Passed => ("none", String::new()),
    };
    Caught {
        checker: checker.to_owned(),
        finding,
    }
}
