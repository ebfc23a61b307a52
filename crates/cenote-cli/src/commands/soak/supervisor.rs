//! The supervisor: starts workers, kills and stops them at random moments, starts them again, and has them pause for
//! checkpoints.

use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::board::Board;
use super::checkpoint::{self, Checkpoint};
use super::family::Family;
use super::full::Refusal;
use super::meter::{Counter, Measures};
use super::plan::Plan;
use super::worker::Orders;
use crate::failure::Failure;
use crate::role::Role;
use crate::trial::agenda::Agenda;
use crate::trial::crew::{Crew, Since};
use crate::trial::fault::Fault;
use crate::trial::journal::Journal;
use crate::trial::waits::Steal;

/// A worker that does not move for so long, although it was not stopped and does not wait for a processor, is blocked.
const BLOCKED_AFTER: Duration = Duration::from_secs(15);
const POLL_EVERY: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(5);
/// Faults after which a run ends: the first says most.
const FAULTS: usize = 1;

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Workers killed.
    pub kills: u64,
    /// Workers started again.
    pub restarts: u64,
    /// Workers stopped for a while.
    pub stops: u64,
}

/// What is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The next kill or stop.
    Strike,
    /// A stopped worker goes on, if it still is this incarnation.
    Continue(u32, u32),
    /// A worker is started.
    Start(u32),
    /// Check whether all workers move.
    Poll,
}

/// A run in progress.
pub struct Supervisor<'a> {
    plan: &'a Plan,
    crew: Crew,
    board: Board,
    random: ChaCha8Rng,
    agenda: Agenda<Event>,
    kills_per_second: f64,
    /// The last heartbeats, and when they changed.
    moved: Vec<(u64, Since)>,
    before: Measures,
    steal: Steal,
    pauses: u64,
    /// What happened so far.
    pub counts: Counts,
    /// What went wrong.
    pub faults: Vec<Fault>,
    /// What was found.
    pub checkpoints: Vec<Checkpoint>,
}

impl<'a> Supervisor<'a> {
    /// Makes all files; starts no worker yet.
    pub fn new(plan: &'a Plan, kills_per_second: f64) -> Result<Self, Failure> {
        let failure = |error| Failure::io(plan.folder.display())(error);
        let now = Instant::now();
        for worker in 0..plan.workers {
            Journal::<Family>::create(&plan.folder, worker).map_err(failure)?;
            Measures::create(&plan.folder, worker).map_err(failure)?;
        }
        let mut agenda = Agenda::default();
        (0..plan.workers).for_each(|worker| agenda.add(now, Event::Start(worker)));
        agenda.add(now + POLL_EVERY, Event::Poll);
        agenda.add(now + POLL_EVERY, Event::Strike);
        let crew = Crew::new(Role::Soak, &plan.folder, plan.workers)?;
        Ok(Self {
            plan,
            moved: (0..plan.workers)
                .map(|worker| (0, crew.since_now(worker)))
                .collect(),
            crew,
            board: Board::create(&plan.folder, plan.workers).map_err(failure)?,
            random: ChaCha8Rng::seed_from_u64(plan.seed),
            agenda,
            kills_per_second,
            before: Measures::new(),
            steal: Steal::new(),
            pauses: 0,
            counts: Counts::default(),
            faults: Vec::new(),
            checkpoints: Vec::new(),
        })
    }

    /// Runs for some time with a checkpoint now and then, or until something is wrong.
    pub fn run(
        &mut self,
        time: Duration,
        interval: Duration,
        mut each: impl FnMut(&Self, Duration),
    ) -> Result<(), Failure> {
        let end = Instant::now() + time;
        let mut next = Instant::now() + interval;
        while Instant::now() < end && self.faults.len() < FAULTS {
            self.reap();
            let now = Instant::now();
            if now >= next {
                next = now + interval;
                self.checkpoint()?;
            }
            match self.agenda.take_due(now) {
                Some(event) => self.handle(event, now)?,
                None => {
                    each(self, end.saturating_duration_since(now));
                    std::thread::sleep(self.agenda.idle(now).min(STEP));
                }
            }
        }
        Ok(())
    }

    /// The last checkpoint, and the end of all workers.
    pub fn finish(&mut self) -> Result<(), Failure> {
        if self.faults.is_empty() {
            self.checkpoint()?;
        }
        self.crew
            .control()
            .end()
            .map_err(Failure::io("the control file"))?;
        let since = self.since_now();
        while (0..self.plan.workers).any(|worker| self.crew.pid(worker).is_some()) {
            self.reap();
            for worker in 0..self.plan.workers {
                let is_late = self.crew.is_at_work(worker) && self.is_late(worker, &since);
                if is_late {
                    self.blocked(worker);
                }
                if is_late || self.crew.is_stopped(worker) {
                    self.crew.kill(worker);
                }
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    /// From now on all are to move.
    fn since_now(&self) -> Vec<Since> {
        (0..self.plan.workers)
            .map(|worker| self.crew.since_now(worker))
            .collect()
    }

    fn is_late(&self, worker: u32, since: &[Since]) -> bool {
        self.crew.time_since(worker, since[worker as usize]) > BLOCKED_AFTER
    }

    fn handle(&mut self, event: Event, now: Instant) -> Result<(), Failure> {
        match event {
            Event::Strike => self.strike(now)?,
            Event::Continue(worker, incarnation) if self.crew.is(worker, incarnation) => self.resume(worker),
            Event::Continue(..) => {}
            Event::Start(worker) => self.start(worker)?,
            Event::Poll => {
                self.check();
                self.agenda.add(now + POLL_EVERY, Event::Poll);
            }
        }
        Ok(())
    }

    /// The next kill or stop of the schedule, and when the one after it comes.
    fn strike(&mut self, now: Instant) -> Result<(), Failure> {
        let uniform: f64 = self.random.random_range(0.000_001..1.0);
        let wait = (-uniform.ln() / self.kills_per_second).min(5.0 / self.kills_per_second);
        self.agenda
            .add(now + Duration::from_secs_f64(wait), Event::Strike);
        let alive = self.crew.at_work();
        if alive.is_empty() {
            return Ok(());
        }
        let victim = alive[self.random.random_range(0..alive.len())];
        // If this cannot be written, a refusal may be called false; then the checkpoint reports that files cannot be
        // written.
        let _ = self.board.stop(victim);
        if self.random.random_bool(0.7) {
            self.counts.kills += u64::from(self.crew.kill(victim));
        } else {
            self.crew.stop(victim)?;
            self.counts.stops += 1;
            let milliseconds = 2000f64.powf(self.random.random_range(0.3..1.0));
            let incarnation = self.crew.incarnation(victim);
            let until = now + Duration::from_secs_f64(milliseconds / 1e3);
            self.agenda.add(until, Event::Continue(victim, incarnation));
        }
        Ok(())
    }

    fn resume(&mut self, worker: u32) {
        self.crew.resume(worker);
        let _ = self.board.stopped_until_now(worker);
        self.moved[worker as usize].1 = self.crew.since_now(worker);
    }

    fn start(&mut self, worker: u32) -> Result<(), Failure> {
        let orders = Orders {
            plan: self.plan.clone(),
            worker,
            incarnation: self.crew.incarnation(worker),
        };
        self.counts.restarts += u64::from(orders.incarnation > 0);
        self.crew.start(worker, &orders)?;
        self.moved[worker as usize].1 = self.crew.since_now(worker);
        Ok(())
    }

    /// Takes note of processes that have ended.
    fn reap(&mut self) {
        for (worker, fault) in self.crew.reap() {
            self.faults.extend(fault);
            let _ = self.board.clear(worker);
            let delay = if self.random.random_bool(0.5) {
                0
            } else {
                self.random.random_range(0..1000)
            };
            self.agenda.add(
                Instant::now() + Duration::from_millis(delay),
                Event::Start(worker),
            );
        }
    }

    /// Checks whether all living workers move.
    fn check(&mut self) {
        let heartbeats = self.board.heartbeats().unwrap_or_default();
        for (worker, heartbeats) in (0..).zip(heartbeats) {
            let moved = &mut self.moved[worker as usize];
            if heartbeats != moved.0 || !self.crew.is_at_work(worker) {
                *moved = (heartbeats, self.crew.since_now(worker));
            } else if self.crew.time_since(worker, moved.1) > BLOCKED_AFTER {
                self.blocked(worker);
            }
        }
    }

    fn blocked(&mut self, worker: u32) {
        let last = Journal::<Family>::open(&self.plan.folder, worker)
            .ok()
            .and_then(|journal| journal.in_flight());
        let seconds = BLOCKED_AFTER.as_secs();
        self.faults
            .push(self.crew.blocked(worker, seconds, &format!("{last:?}")));
    }

    /// Has all workers pause, takes the checkpoint, and has them go on.
    fn checkpoint(&mut self) -> Result<(), Failure> {
        for worker in 0..self.plan.workers {
            if self.crew.is_stopped(worker) {
                self.resume(worker);
            }
        }
        self.pauses += 1;
        let failure = || Failure::io("the files of the run");
        self.crew.control().pause(self.pauses).map_err(failure())?;
        let since = self.since_now();
        loop {
            self.reap();
            if !self.faults.is_empty() {
                return Ok(());
            }
            let now = Instant::now();
            match self.agenda.take_due(now) {
                // They are killed again after it.
                Some(Event::Strike) => {
                    self.agenda.add(now + POLL_EVERY, Event::Strike);
                }
                Some(event) => self.handle(event, now)?,
                None => std::thread::sleep(STEP),
            }
            let all = (0..self.plan.workers).all(|worker| self.crew.is_at_work(worker));
            if all && self.board.are_paused(self.pauses).map_err(failure())? {
                break;
            }
            // Those that have paused wait for no processor.
            if (0..self.plan.workers).all(|worker| self.is_late(worker, &since)) {
                let text = "the workers do not all come to a checkpoint";
                let mut fault = Fault::problem(text);
                fault.found_by = "the supervisor".to_owned();
                self.faults.push(fault);
                return Ok(());
            }
        }
        let taken = match self.plan.memory {
            cenote::MemoryKind::Coherent => self.look_closely::<cenote::Coherent>(),
            cenote::MemoryKind::Noncoherent => self.look_closely::<cenote::Noncoherent>(),
            cenote::MemoryKind::Delegated => self.look_closely::<cenote::Delegated>(),
        };
        self.faults.extend(taken.err());
        self.crew.control().pause(0).map_err(failure())?;
        let since = self.since_now();
        for (moved, since) in self.moved.iter_mut().zip(since) {
            moved.1 = since;
        }
        Ok(())
    }

    fn look_closely<M: cenote::memory::Mapped>(&mut self) -> Result<(), Fault> {
        let (mut checkpoint, faults) = checkpoint::take::<M>(self.plan)?;
        checkpoint.stolen_by_host_ms = self.steal.since_last_poll() as f64 / 1e6;
        checkpoint::add_measures(&mut checkpoint, self.plan, &mut self.before)?;
        self.checkpoints.push(checkpoint);
        self.faults.extend(faults);
        Ok(())
    }

    /// What was counted, up to now.
    pub fn count(&self, counter: Counter) -> u64 {
        (0..self.plan.workers)
            .filter_map(|worker| Measures::read(&self.plan.folder, worker).ok())
            .map(|measures| measures.count(counter))
            .sum()
    }

    /// The refusals for which there was no reason, as far as they were written down.
    pub fn false_refusals(&self) -> Vec<Refusal> {
        let files = (0..self.plan.workers).map(|worker| self.plan.folder.join(format!("refusals-{worker}")));
        let texts = files.filter_map(|path| std::fs::read_to_string(path).ok());
        let mut refusals: Vec<Refusal> = texts
            .flat_map(|text| {
                let lines = text.lines();
                let read: Vec<Refusal> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
                read
            })
            .collect();
        refusals.sort_by_key(|refusal| refusal.at_ms);
        refusals
    }
}
