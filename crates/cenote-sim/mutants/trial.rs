//! One mutant, from seed to seed until it is seen.

use std::time::{Duration, Instant};

use cenote::mutant::{Mutant, choose};
use cenote_sim::campaign::{Plan, Result as Ended, Run};
use cenote_sim::exec::Crash;
use cenote_sim::sweep::take_moments;

use super::table;

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

pub enum Outcome {
    Caught(Caught),
    Survived,
    /// The library without a mutant does not pass a seed that it must: what was found.
    CleanFails(String),
}

/// What showed a mutant.
pub struct Caught {
    pub checker: &'static str,
    pub finding: String,
}

/// The library without a mutant, on the same plans and seeds.
pub struct Clean {
    /// Whether it must pass all seeds up to the one that shows the mutant, or only that one.
    all: bool,
    /// The seeds that each plan has passed: all up to this one.
    passed: Vec<(Plan, u64)>,
}

impl Clean {
    pub fn new(all: bool) -> Self {
        Self {
            all,
            passed: Vec::new(),
        }
    }

    /// Runs what is missing up to a seed, and that with the deaths that show the mutant; the seed that fails, and what was found.
    fn check(&mut self, plan: &Plan, seed: u64, dying: Option<&[Crash]>) -> Result<(), (u64, String)> {
        choose(None);
        if let Some(dying) = dying {
            passes(seed, plan.run_dying(seed, dying.to_vec()))?;
        }
        if !self.all {
            return passes(seed, plan.run(seed));
        }
        let known = match self.passed.iter().position(|(known, _)| known == plan) {
            Some(known) => known,
            None => {
                self.passed.push((plan.clone(), 0));
                self.passed.len() - 1
            }
        };
        while self.passed[known].1 < seed {
            let next = self.passed[known].1 + 1;
            passes(next, plan.run(next))?;
            self.passed[known].1 += 1;
        }
        Ok(())
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

/// Runs a mutant's plan until it is seen.
pub fn run(mutant: Mutant, clean: &mut Clean) -> Report {
    let start = Instant::now();
    let plan = table::trial(mutant).plan;
    choose(Some(mutant));
    let shown = (1..=SEEDS_MAX).find_map(|seed| show(&plan, seed));
    let (seeds, outcome) = match shown {
        None => (SEEDS_MAX, Outcome::Survived),
        Some((seed, dying, failed)) => match clean.check(&plan, seed, dying.as_deref()) {
            Ok(()) => (seed, Outcome::Caught(seen(failed))),
            Err((seed, finding)) => (seed, Outcome::CleanFails(finding)),
        },
    };
    Report {
        mutant,
        plan,
        outcome,
        seeds,
        time: start.elapsed(),
    }
}

fn seen(failed: Ended) -> Caught {
    let (checker, finding) = match failed {
        Ended::Wrong(checker, finding) => (checker, finding),
        Ended::Stuck(finding) => ("progress", finding),
        Ended::Crashed(finding) => ("panic", finding),
        Ended::Passed => ("none", String::new()),
    };
    Caught { checker, finding }
}
