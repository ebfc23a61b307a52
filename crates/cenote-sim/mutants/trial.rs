//! One mutant, from seed to seed until it is seen.

use std::time::{Duration, Instant};

use cenote::mutant::{Mutant, choose};
use cenote_sim::campaign::{Plan, Result as Ended};

use super::table;

/// A mutant that passes so many seeds has survived.
pub const SEEDS_MAX: u64 = 2000;

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

    /// Runs what is missing up to a seed; the seed that fails, and what was found.
    fn check(&mut self, plan: &Plan, seed: u64) -> Result<(), (u64, String)> {
        choose(None);
        if !self.all {
            return check_one(plan, seed);
        }
        let known = match self.passed.iter().position(|(known, _)| known == plan) {
            Some(known) => known,
            None => {
                self.passed.push((plan.clone(), 0));
                self.passed.len() - 1
            }
        };
        while self.passed[known].1 < seed {
            check_one(plan, self.passed[known].1 + 1)?;
            self.passed[known].1 += 1;
        }
        Ok(())
    }
}

fn check_one(plan: &Plan, seed: u64) -> Result<(), (u64, String)> {
    match plan.run(seed).result {
        Ended::Passed => Ok(()),
        failed => Err((seed, seen(failed).finding)),
    }
}

/// Runs a mutant's plan until it is seen.
pub fn run(mutant: Mutant, clean: &mut Clean) -> Report {
    let start = Instant::now();
    let plan = table::trial(mutant).plan;
    choose(Some(mutant));
    let shown = (1..=SEEDS_MAX)
        .map(|seed| (seed, plan.run(seed).result))
        .find(|(_, result)| *result != Ended::Passed);
    let (seeds, outcome) = match shown {
        None => (SEEDS_MAX, Outcome::Survived),
        Some((seed, failed)) => match clean.check(&plan, seed) {
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
