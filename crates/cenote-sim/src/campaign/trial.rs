//! Many seeds of one plan, up to the first that fails: for a program that brings its own index. `cenote sim` does the
//! same, and more.

use std::fmt;

use super::{Failure, Plan, Result};

/// Steps of a failing run that are told.
const TIMELINE: usize = 40;

/// What runs came to that all passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// How many there were.
    pub runs: u64,
    /// Their steps.
    pub steps: u64,
    /// Threads that died with their processes.
    pub deaths: u64,
    /// Calls that their threads made.
    pub calls: u64,
    /// Calls that got an answer; the others ended with their process, or were told that the pool is full.
    pub answered: u64,
}

impl Plan {
    /// Runs seeds. The first that fails is shrunk and reported.
    pub fn try_seeds(
        &self,
        seeds: impl IntoIterator<Item = u64>,
    ) -> std::result::Result<Passed, Box<Failure>> {
        let mut passed = Passed::default();
        for seed in seeds {
            let run = self.run(seed);
            if run.result != Result::Passed {
                return Err(Box::new(self.failure(seed, &run, true, TIMELINE)));
            }
            let events = run.history.as_ref().map_or(&[][..], |history| history.events());
            passed.runs += 1;
            passed.steps += run.outcome.steps;
            passed.deaths += run.outcome.deaths.len() as u64;
            passed.calls += events.len() as u64;
            passed.answered += events.iter().filter(|event| event.result.is_some()).count() as u64;
        }
        Ok(passed)
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            runs,
            steps,
            deaths,
            calls,
            answered,
        } = self;
        write!(f, "{runs} runs passed: {steps} steps, {calls} calls of which ")?;
        write!(f, "{answered} were answered, {deaths} threads died")
    }
}
