//! A failing run for people: what is wrong, the simplest schedule that shows it, its last steps, and how to repeat it.

use std::fmt;

use serde::Serialize;

use super::{Plan, Result, Run, same_way};
use crate::exec::Event;
use crate::schedule;
use crate::subjects::Subject;

/// Runs that a search for a simpler schedule may take.
const SHRINK_RUNS: u32 = 400;

/// A failing run.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// The checker that saw it; `progress` if a thread waits for ever, `panic` if the code panicked.
    pub checker: &'static str,
    /// What it says.
    pub what: String,
    /// What was drawn from the seed.
    pub drawn: String,
    /// What the policy drew.
    pub parameters: String,
    /// How to repeat the schedule: a command, or a call for an index that the command does not know.
    pub repeat: String,
    /// The schedule, as [`schedule::decode`] reads it.
    pub schedule: String,
    /// The last steps before the fault has shown. Histories count the same steps.
    pub timeline: Vec<String>,
}

impl Plan {
    /// Says of a failing run what is wrong, with so many of the steps that led to it. Unless the schedule is to stay as
    /// it is, it is shrunk first.
    pub fn failure(&self, seed: u64, run: &Run, shrinks: bool, steps: usize) -> Failure {
        let mut decisions = run.outcome.decisions.clone();
        if shrinks {
            decisions = self.shrink(seed, decisions, &run.result, SHRINK_RUNS);
        }
        let simplest = self.replay(seed, decisions.clone());
        // What is wrong in the schedule that is told; in the run itself, should its decisions not repeat it.
        let result = match same_way(&simplest.result, &run.result) {
            true => &simplest.result,
            false => &run.result,
        };
        let (checker, what) = match result {
            Result::Wrong(checker, what) => (*checker, what.clone()),
            Result::Stuck(what) => ("progress", what.clone()),
            Result::Crashed(what) => ("panic", what.clone()),
            Result::Passed => ("none", String::new()),
        };
        let schedule = schedule::encode(&decisions);
        let shown = self.shown(&simplest);
        Failure {
            seed,
            checker,
            what,
            drawn: self.drawn(seed),
            parameters: run.outcome.parameters.clone(),
            repeat: self.repeat(seed, &schedule),
            schedule,
            timeline: timeline(&simplest.outcome.timeline, shown, steps),
        }
    }

    /// The step at which a fault has shown, where the run goes on after it: the return of a call that fits no order.
    fn shown(&self, run: &Run) -> u64 {
        match (&run.result, &run.history) {
            (Result::Wrong("linearizability", _), Some(history)) => {
                let disorder = self.has_order(history).err();
                disorder.and_then(|disorder| disorder.step).unwrap_or(u64::MAX)
            }
            _ => u64::MAX,
        }
    }

    fn repeat(&self, seed: u64, schedule: &str) -> String {
        let arguments = self.arguments(seed);
        match self.subject {
            Subject::Own(_) => {
                format!("plan.replay({seed}, schedule::decode(\"{schedule}\")?)\nof the plan {arguments}")
            }
            _ => format!("cenote sim {arguments} --replay '{schedule}'"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.drawn)?;
        writeln!(f, "{}: {}", self.checker, self.what)?;
        writeln!(f, "policy: {}\n", self.parameters)?;
        writeln!(
            f,
            "the schedule that is repeated below, the steps that led to it:"
        )?;
        for step in &self.timeline {
            writeln!(f, "{step}")?;
        }
        write!(f, "\nrepeat it with")?;
        self.repeat.lines().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// The last events of a timeline up to a step, a line each.
fn timeline(events: &[(u64, Event)], to: u64, last: usize) -> Vec<String> {
    let events = &events[..events.partition_point(|(step, _)| *step <= to)];
    events[events.len().saturating_sub(last)..]
        .iter()
        .map(|(step, event)| format!("{step:>7}  {}", text(event)))
        .collect()
}

fn text(event: &Event) -> String {
    match event {
        Event::Done { thread, op, found } => format!(
            "thread {thread:<3} {:<11} {:#010x} +{:<4} stored {:#x}, found {found:#x}",
            op.kind.name(),
            op.at,
            op.len,
            op.value
        ),
        Event::Drained { thread, at } => format!("thread {thread:<3} drained     {at:#010x}"),
        Event::Evicted { host, line } => format!("host {host} evicts {line:#010x}"),
        Event::Killed { process } => format!("process {process} is killed"),
        Event::KilledThread { thread } => format!("thread {thread} dies"),
    }
}
