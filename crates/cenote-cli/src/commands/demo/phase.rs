//! A phase of the demo as its supervisor sees it: start workers, kill some in the middle of a unit, wait for the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cenote::{Map, Pool};
use indicatif::ProgressBar;
use serde::Serialize;

use super::worker::{self, Claim, Report};
use crate::failure::Failure;
use crate::role::Role;

/// No phase takes as long.
const TIMEOUT: Duration = Duration::from_secs(40);

/// What is done, and when workers are killed.
pub struct Phase<'a> {
    /// The pool's file.
    pub path: &'a Path,
    /// The phase's number.
    pub number: usize,
    /// Units of work.
    pub units: usize,
    /// Workers at first.
    pub workers: u32,
    /// Shares of the work after which one is killed, and whether a new one then joins.
    pub kills: &'a [(f64, bool)],
}

/// A worker that was killed.
#[derive(Debug, Serialize)]
pub struct Killed {
    /// Its process id.
    pub process: u32,
    /// The unit that it was in the middle of.
    pub unit: usize,
    /// The process that finished it.
    pub finished_by: Option<u32>,
    /// How long after the kill.
    pub after_ms: f64,
}

/// How a phase went.
#[derive(Debug, Default, Serialize)]
pub struct Outcome {
    /// How long it took.
    pub seconds: f64,
    /// The workers that were killed.
    pub killed: Vec<Killed>,
    /// Processes that did something.
    pub processes: usize,
    /// Operations of the survivors.
    pub operations: u64,
    /// Units that were taken over from the dead.
    pub taken_over: u64,
    /// The longest operation of a survivor.
    pub longest_ms: f64,
}

impl Phase<'_> {
    fn start(&self) -> Result<Child, Failure> {
        let args = [
            "work".to_owned(),
            self.path.display().to_string(),
            self.number.to_string(),
        ];
        let mut command = Role::Demo.command(args);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().map_err(Failure::io("starting a worker process"))
    }

    /// Runs it. `tell` is called with the text of each kill.
    pub fn run(&self, pool: &Pool, bar: &ProgressBar, tell: impl Fn(String)) -> Result<Outcome, Failure> {
        let units = pool.map(&format!("units-{}", self.number))?;
        let start = Instant::now();
        let mut workers = Vec::new();
        for _ in 0..self.workers {
            workers.push(self.start()?);
        }
        let mut guard = Guard(workers);
        let mut due = self.kills.iter();
        let mut next = due.next();
        let mut outcome = Outcome::default();
        let mut deaths: BTreeMap<usize, (u32, Instant)> = BTreeMap::new();
        while !guard.0.is_empty() {
            let claims = claims(&units)?;
            let done = claims.values().filter(|claim| claim.done).count();
            bar.set_position(done as u64);
            self.note_finished(&claims, &mut deaths, &mut outcome);
            if let Some((share, joins)) = next
                && done as f64 >= share * self.units as f64
                && let Some((pid, unit)) = guard.kill_in_the_middle(&claims)
            {
                deaths.insert(unit, (pid, Instant::now()));
                tell(format!(
                    "process {pid} in the middle of unit {unit}, {done} of {} done{}",
                    self.units,
                    if *joins {
                        "; a new process joins"
                    } else {
                        "; nobody new"
                    }
                ));
                if *joins {
                    guard.0.push(self.start()?);
                }
                next = due.next();
            }
            guard.reap()?;
            if start.elapsed() > TIMEOUT {
                return Err(Failure::failed(format!(
                    "the workers have not finished within {} s; {done} of {} units are done",
                    TIMEOUT.as_secs(),
                    self.units
                )));
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        let claims = claims(&units)?;
        bar.set_position(claims.len() as u64);
        self.note_finished(&claims, &mut deaths, &mut outcome);
        let undone = self.units - claims.values().filter(|claim| claim.done).count();
        if undone > 0 || !deaths.is_empty() {
            return Err(Failure::failed(format!(
                "{undone} units of work were left undone"
            )));
        }
        outcome.seconds = start.elapsed().as_secs_f64();
        outcome.processes = claims
            .values()
            .map(|claim| claim.process.0)
            .collect::<BTreeSet<_>>()
            .len();
        self.collect_reports(pool, &mut outcome)?;
        Ok(outcome)
    }

    fn note_finished(
        &self,
        claims: &BTreeMap<usize, Claim>,
        deaths: &mut BTreeMap<usize, (u32, Instant)>,
        outcome: &mut Outcome,
    ) {
        deaths.retain(|unit, (process, at)| {
            let done = claims.get(unit).filter(|claim| claim.done);
            if let Some(claim) = done {
                let by = claim.taken_from.map(|_| claim.process.0);
                let after_ms = at.elapsed().as_secs_f64() * 1e3;
                outcome.killed.push(Killed {
                    process: *process,
                    unit: *unit,
                    finished_by: by,
                    after_ms,
                });
            }
            done.is_none()
        });
    }

    fn collect_reports(&self, pool: &Pool, outcome: &mut Outcome) -> Result<(), Failure> {
        for pair in pool.map("reports")?.iter() {
            let (key, value) = pair?;
            if key.starts_with(format!("{}/", self.number).as_bytes()) {
                let report: Report = serde_json::from_slice(&value).map_err(|error| {
                    Failure::failed(format!("a worker's report is not readable: {error}"))
                })?;
                outcome.operations += report.operations;
                outcome.taken_over += report.taken_over;
                outcome.longest_ms = outcome.longest_ms.max(report.longest_us as f64 / 1e3);
            }
        }
        Ok(())
    }
}

fn claims(units: &Map) -> Result<BTreeMap<usize, Claim>, Failure> {
    let mut claims = BTreeMap::new();
    for pair in units.iter() {
        let (key, value) = pair?;
        let unit = std::str::from_utf8(&key).ok().and_then(|key| key.parse().ok());
        let unit = unit.ok_or_else(|| Failure::failed(format!("a unit has the key {key:?}")))?;
        claims.insert(unit, worker::parse(&value)?);
    }
    Ok(claims)
}

/// The workers that live; killed if we fail.
struct Guard(Vec<Child>);

impl Guard {
    /// Kills a worker in the middle of a unit, if there is one.
    fn kill_in_the_middle(&mut self, claims: &BTreeMap<usize, Claim>) -> Option<(u32, usize)> {
        if self.0.len() < 2 {
            return None;
        }
        let busy = claims.iter().filter(|(_, claim)| !claim.done);
        for (unit, claim) in busy {
            if let Some(at) = self.0.iter().position(|child| child.id() == claim.process.0) {
                let mut child = self.0.swap_remove(at);
                let (killed, ended) = (child.kill(), child.wait());
                // One that ended by itself just now was not killed.
                let is_dead = killed.is_ok() && ended.is_ok_and(|status| !status.success());
                return is_dead.then_some((claim.process.0, *unit));
            }
        }
        None
    }

    fn reap(&mut self) -> Result<(), Failure> {
        let mut failed = None;
        self.0.retain_mut(|child| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) if status.success() => false,
            Ok(Some(status)) => {
                failed = Some(Failure::failed(format!(
                    "worker process {} has failed: {status}",
                    child.id()
                )));
                false
            }
            Err(error) => {
                failed = Some(Failure::io("waiting for a worker process")(error));
                false
            }
        });
        failed.map_or(Ok(()), Err)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
