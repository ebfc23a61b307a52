//! A mutant's seeds in slices, each in a process of its own: what the simulator's killed processes had is never freed,
//! up to a megabyte a run.

use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use cenote::mutant::Mutant;
use cenote_sim::campaign::Plan;
use cenote_sim::subjects::Subject;

use super::table;
use super::trial::{Outcome, Report, SEEDS_MAX, Slice};

/// Seeds of a process.
const SLICE: u64 = 1_000;
/// The argument that has a process run a slice.
pub const ARGUMENT: &str = "--slice";

/// How far the library without a mutant has passed each plan.
pub struct Clean {
    all: bool,
    passed: Mutex<Vec<(Plan, u64)>>,
}

impl Clean {
    /// It must pass all seeds up to the one that shows a mutant, or only that one.
    pub fn new(all: bool) -> Self {
        Self {
            all,
            passed: Mutex::new(Vec::new()),
        }
    }

    /// Up to which seed it has passed a plan.
    fn of(&self, plan: &Plan) -> u64 {
        let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = passed.iter().filter(|(known, _)| known == plan);
        known.map(|&(_, seeds)| seeds).max().unwrap_or(0)
    }

    /// Notes that it has passed a plan up to a seed.
    fn note(&self, plan: &Plan, seeds: u64) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        match passed.iter_mut().find(|(known, _)| known == plan) {
            Some((_, known)) => *known = seeds.max(*known),
            None => passed.push((plan.clone(), seeds)),
        }
    }
}

/// Runs a mutant's plan, perhaps with another subject, until a seed shows it.
pub fn run(mutant: Mutant, subject: Option<Subject>, clean: &Clean) -> Result<Report, String> {
    let start = Instant::now();
    let plan = plan(mutant, subject);
    let (mut seeds, mut outcome) = (0, Outcome::Survived);
    while seeds < SEEDS_MAX && matches!(outcome, Outcome::Survived) {
        let slice = Slice {
            first: seeds + 1,
            seeds: SLICE,
            passed: clean.of(&plan),
            all: clean.all,
        };
        (seeds, outcome) = apart(mutant, &plan, slice)?;
        if clean.all && !matches!(outcome, Outcome::CleanFails(_)) {
            clean.note(&plan, seeds);
        }
    }
    Ok(Report {
        mutant,
        plan,
        outcome,
        seeds,
        time: start.elapsed(),
    })
}

/// A mutant's plan, perhaps with another subject.
fn plan(mutant: Mutant, subject: Option<Subject>) -> Plan {
    let plan = table::trial(mutant).plan;
    Plan {
        subject: subject.unwrap_or(plan.subject),
        ..plan
    }
}

/// Runs a slice in another process.
fn apart(mutant: Mutant, plan: &Plan, slice: Slice) -> Result<(u64, Outcome), String> {
    let text = |error: &dyn std::fmt::Display| format!("a slice of {}: {error}", mutant.name());
    let program = std::env::current_exe().map_err(|error| text(&error))?;
    let output = Command::new(program)
        .args([ARGUMENT, mutant.name(), plan.subject.name()])
        .args([slice.first, slice.seeds, slice.passed, slice.all.into()].map(|number| number.to_string()))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| text(&error))?;
    if !output.status.success() {
        return Err(text(&output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| text(&error))
}

/// What such a process does: runs the slice that its arguments tell of, and prints what came of it.
pub fn serve(arguments: &[String]) -> Result<(), String> {
    let [name, subject, numbers @ ..] = arguments else {
        return Err(format!("`{ARGUMENT}` needs a mutant and a subject"));
    };
    let mutant = Mutant::ALL.iter().find(|mutant| mutant.name() == name);
    let mutant = *mutant.ok_or_else(|| format!("no mutant is called `{name}`"))?;
    let numbers: Vec<u64> = numbers.iter().flat_map(|number| number.parse()).collect();
    let &[first, seeds, passed, all] = numbers.as_slice() else {
        return Err(format!("`{ARGUMENT}` needs four numbers"));
    };
    let slice = Slice {
        first,
        seeds,
        passed,
        all: all != 0,
    };
    let plan = plan(mutant, Subject::named(subject));
    let done = serde_json::to_string(&slice.run(mutant, &plan)).map_err(|error| error.to_string())?;
    println!("{done}");
    Ok(())
}
