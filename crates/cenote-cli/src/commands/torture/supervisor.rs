//! The supervisor: starts workers, kills them at random moments, starts them again, and watches that the others move.

use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::content::Family;
use super::latency::Measures;
use super::plan::Plan;
use super::worker::Orders;
use crate::failure::Failure;
use crate::role::Role;
use crate::trial::agenda::Agenda;
use crate::trial::crew::{Crew, Since};
use crate::trial::fault::Fault;
use crate::trial::journal::Journal;

/// A worker that does not move for so long, although it was not stopped and does not wait for a processor, is blocked.
const BLOCKED_AFTER: Duration = Duration::from_secs(5);
const POLL_EVERY: Duration = Duration::from_millis(250);

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Workers killed.
    pub kills: u64,
    /// Workers started again.
    pub restarts: u64,
    /// Workers stopped for a while, killed or not after that.
    pub stops: u64,
}

/// What is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The next kill of the schedule.
    Strike,
    /// A kill of one worker, if it still is this incarnation.
    Kill(u32, u32),
    /// A stopped worker goes on, if it still is this incarnation.
    Continue(u32, u32),
    /// A worker is started.
    Start(u32),
    /// Check whether all workers move.
    Poll,
}

/// A worker, as it is watched.
struct Slot {
    journal: Journal<Family>,
    heartbeat: u64,
    moved: Since,
}

/// A run in progress.
pub struct Supervisor<'a> {
    plan: &'a Plan,
    crew: Crew,
    random: ChaCha8Rng,
    slots: Vec<Slot>,
    agenda: Agenda<Event>,
    kills_per_second: f64,
    next_strike: Instant,
    /// What happened so far.
    pub counts: Counts,
    /// What went wrong.
    pub faults: Vec<Fault>,
}

impl<'a> Supervisor<'a> {
    /// Makes journals; starts no worker yet.
    pub fn new(plan: &'a Plan, kills_per_second: f64) -> Result<Self, Failure> {
        let failure = |error| Failure::io(plan.folder.display())(error);
        let now = Instant::now();
        let crew = Crew::new(Role::Torture, &plan.folder, plan.workers)?;
        let mut slots = Vec::new();
        for worker in 0..plan.workers {
            Journal::<Family>::create(&plan.folder, worker).map_err(failure)?;
            slots.push(Slot {
                journal: Journal::open(&plan.folder, worker).map_err(failure)?,
                heartbeat: 0,
                moved: crew.since_now(worker),
            });
        }
        let mut agenda = Agenda::default();
        (0..plan.workers).for_each(|worker| agenda.add(now, Event::Start(worker)));
        agenda.add(now + POLL_EVERY, Event::Poll);
        agenda.add(now, Event::Strike);
        Ok(Self {
            plan,
            crew,
            random: ChaCha8Rng::seed_from_u64(plan.seed),
            slots,
            agenda,
            kills_per_second,
            next_strike: now,
            counts: Counts::default(),
            faults: Vec::new(),
        })
    }

    /// Runs for some time, or until something is wrong.
    pub fn run(&mut self, time: Duration, mut each: impl FnMut(&Counts)) -> Result<(), Failure> {
        let end = Instant::now() + time;
        while Instant::now() < end && self.faults.is_empty() {
            self.reap();
            let now = Instant::now();
            match self.agenda.take_due(now) {
                Some(event) => self.handle(event, now)?,
                None => {
                    each(&self.counts);
                    std::thread::sleep(self.agenda.idle(now).min(Duration::from_millis(2)));
                }
            }
        }
        Ok(())
    }

    /// Ends all workers: some are asked to end, the others are killed. Some journals then end in the middle.
    pub fn finish(&mut self) -> Result<(), Failure> {
        for worker in 0..self.plan.workers {
            if self.crew.is_stopped(worker) || self.random.random_bool(0.5) {
                self.counts.kills += u64::from(self.crew.kill(worker));
            }
        }
        self.crew
            .control()
            .end()
            .map_err(Failure::io("the control file"))?;
        let since: Vec<Since> = (0..self.plan.workers)
            .map(|worker| self.crew.since_now(worker))
            .collect();
        while (0..self.plan.workers).any(|worker| self.crew.pid(worker).is_some()) {
            self.reap();
            for worker in self.crew.at_work() {
                if self.crew.time_since(worker, since[worker as usize]) > BLOCKED_AFTER {
                    self.blocked(worker);
                    self.crew.kill(worker);
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// What all workers have measured.
    pub fn measures(&self) -> Measures {
        let mut all = Measures::new();
        for slot in &self.slots {
            if let Ok(measures) = Measures::read(&slot.journal) {
                all.add(&measures);
            }
        }
        all
    }

    fn handle(&mut self, event: Event, now: Instant) -> Result<(), Failure> {
        match event {
            Event::Strike => self.strike(now)?,
            Event::Kill(worker, incarnation) if self.crew.is(worker, incarnation) => {
                self.counts.kills += u64::from(self.crew.kill(worker));
            }
            Event::Continue(worker, incarnation) if self.crew.is(worker, incarnation) => {
                self.crew.resume(worker);
                self.slots[worker as usize].moved = self.crew.since_now(worker);
            }
            Event::Kill(..) | Event::Continue(..) => {}
            Event::Start(worker) => self.start(worker)?,
            Event::Poll => {
                self.check();
                self.agenda.add(now + POLL_EVERY, Event::Poll);
            }
        }
        Ok(())
    }

    /// The next kill of the schedule, and when the one after it comes.
    fn strike(&mut self, now: Instant) -> Result<(), Failure> {
        let mut alive = self.crew.at_work();
        if alive.is_empty() {
            // No worker is there: the kill is owed.
            self.agenda.add(now + Duration::from_millis(1), Event::Strike);
            return Ok(());
        }
        let victim = alive.swap_remove(self.random.random_range(0..alive.len()));
        let millis =
            |random: &mut ChaCha8Rng, most: u64| Duration::from_micros(random.random_range(100..most * 1000));
        match self.random.random_range(0..100) {
            0..70 => self.counts.kills += u64::from(self.crew.kill(victim)),
            70..82 => {
                self.counts.kills += u64::from(self.crew.kill(victim));
                if !alive.is_empty() {
                    let second = alive[self.random.random_range(0..alive.len())];
                    self.counts.kills += u64::from(self.crew.kill(second));
                }
            }
            82..84 => {
                for worker in alive.into_iter().chain([victim]) {
                    self.counts.kills += u64::from(self.crew.kill(worker));
                }
            }
            draw => {
                self.crew.stop(victim)?;
                self.counts.stops += 1;
                let until = now + millis(&mut self.random, 20);
                let incarnation = self.crew.incarnation(victim);
                let is_killed = draw < 95;
                let event = if is_killed {
                    Event::Kill(victim, incarnation)
                } else {
                    Event::Continue(victim, incarnation)
                };
                self.agenda.add(until, event);
                if !is_killed {
                    // This was no kill; the next one comes at once.
                    self.agenda.add(now, Event::Strike);
                    return Ok(());
                }
            }
        }
        let uniform: f64 = self.random.random_range(0.000_001..1.0);
        let wait = (-uniform.ln() / self.kills_per_second).min(5.0 / self.kills_per_second);
        self.next_strike += Duration::from_secs_f64(wait);
        self.agenda.add(self.next_strike, Event::Strike);
        Ok(())
    }

    fn start(&mut self, worker: u32) -> Result<(), Failure> {
        let incarnation = self.crew.incarnation(worker);
        let orders = Orders {
            plan: self.plan.clone(),
            worker,
            incarnation,
        };
        self.crew.start(worker, &orders)?;
        self.slots[worker as usize].moved = self.crew.since_now(worker);
        if incarnation > 0 {
            self.counts.restarts += 1;
        }
        // Some die young: while they open the pool, recover, or read their journal.
        if self.random.random_bool(0.25) && self.next_strike > Instant::now() {
            let at = Instant::now() + Duration::from_micros(self.random.random_range(0..12_000));
            self.agenda.add(at, Event::Kill(worker, incarnation));
        }
        Ok(())
    }

    /// Takes note of processes that have ended.
    fn reap(&mut self) {
        for (worker, fault) in self.crew.reap() {
            self.faults.extend(fault);
            let delay = if self.random.random_bool(0.5) {
                0
            } else {
                self.random.random_range(0..60_000)
            };
            self.agenda.add(
                Instant::now() + Duration::from_micros(delay),
                Event::Start(worker),
            );
        }
    }

    /// Checks whether all living workers move.
    fn check(&mut self) {
        for worker in 0..self.plan.workers {
            let slot = &mut self.slots[worker as usize];
            let heartbeat = Measures::read(&slot.journal).map_or(0, |measures| measures.heartbeat());
            if heartbeat != slot.heartbeat || !self.crew.is_at_work(worker) {
                (slot.heartbeat, slot.moved) = (heartbeat, self.crew.since_now(worker));
            } else if self.crew.time_since(worker, slot.moved) > BLOCKED_AFTER {
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
}
