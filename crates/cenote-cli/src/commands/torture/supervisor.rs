//! The supervisor: starts workers, kills them at random moments, starts them again, and watches that the others move.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::agenda::{Agenda, Event};
use super::journal::Journal;
use super::latency::Measures;
use super::plan::{Control, Fault, Plan};
use super::worker::Orders;
use crate::commands::worker::Role;
use crate::failure::Failure;

/// A worker that does not move for as long, while nobody has stopped it, is blocked.
const BLOCKED_AFTER: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(250);

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

struct Slot {
    child: Option<Child>,
    incarnation: u32,
    is_stopped: bool,
    stops: u64,
    /// Whether we killed it, so that its end is no surprise.
    is_killed: bool,
    journal: Journal,
    heartbeat: u64,
    moved: Instant,
}

/// A run in progress.
pub struct Supervisor<'a> {
    plan: &'a Plan,
    control: Control,
    random: ChaCha8Rng,
    slots: Vec<Slot>,
    agenda: Agenda,
    kills_per_second: f64,
    next_strike: Instant,
    /// What happened so far.
    pub counts: Counts,
    /// What went wrong.
    pub faults: Vec<Fault>,
}

impl<'a> Supervisor<'a> {
    /// Makes journals; starts nobody yet.
    pub fn new(plan: &'a Plan, kills_per_second: f64) -> Result<Self, Failure> {
        let failure = |error| Failure::io(plan.folder.display())(error);
        let now = Instant::now();
        let mut slots = Vec::new();
        for worker in 0..plan.workers {
            Journal::create(&plan.folder, worker).map_err(failure)?;
            slots.push(Slot {
                child: None,
                incarnation: 0,
                is_stopped: false,
                stops: 0,
                is_killed: false,
                journal: Journal::open(&plan.folder, worker).map_err(failure)?,
                heartbeat: 0,
                moved: now,
            });
        }
        let mut agenda = Agenda::default();
        (0..plan.workers).for_each(|worker| agenda.add(now, Event::Start(worker)));
        agenda.add(now + LOOK_EVERY, Event::Look);
        agenda.add(now, Event::Strike);
        Ok(Self {
            plan,
            control: Control::create(&plan.folder, plan.workers).map_err(failure)?,
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

    /// Ends everybody: some by asking, the others by killing. Some journals then end in the middle.
    pub fn finish(&mut self) -> Result<(), Failure> {
        for worker in 0..self.slots.len() {
            if self.slots[worker].is_stopped || self.random.random_bool(0.5) {
                self.counts.kills += u64::from(self.kill(worker as u32));
            }
        }
        self.control.end().map_err(Failure::io("the control file"))?;
        let patience = Instant::now() + BLOCKED_AFTER;
        while self.slots.iter().any(|slot| slot.child.is_some()) {
            self.reap();
            if Instant::now() > patience {
                for worker in 0..self.slots.len() as u32 {
                    if self.slots[worker as usize].child.is_some() && !self.slots[worker as usize].is_killed {
                        self.blocked(worker);
                        self.kill(worker);
                    }
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
            Event::Kill(worker, incarnation) if self.is(worker, incarnation) => {
                self.counts.kills += u64::from(self.kill(worker));
            }
            Event::Continue(worker, incarnation) if self.is(worker, incarnation) => {
                self.signal(worker, libc::SIGCONT);
                let slot = &mut self.slots[worker as usize];
                (slot.is_stopped, slot.moved) = (false, now);
            }
            Event::Kill(..) | Event::Continue(..) => {}
            Event::Start(worker) => self.start(worker)?,
            Event::Look => {
                self.look(now);
                self.agenda.add(now + LOOK_EVERY, Event::Look);
            }
        }
        Ok(())
    }

    fn is(&self, worker: u32, incarnation: u32) -> bool {
        let slot = &self.slots[worker as usize];
        slot.child.is_some() && slot.incarnation == incarnation && !slot.is_killed
    }

    /// The next kill of the schedule, and when the one after it comes.
    fn strike(&mut self, now: Instant) -> Result<(), Failure> {
        let can_die = |slot: &Slot| slot.child.is_some() && !slot.is_killed && !slot.is_stopped;
        let mut alive: Vec<u32> = (0..self.slots.len())
            .filter(|n| can_die(&self.slots[*n]))
            .map(|n| n as u32)
            .collect();
        if alive.is_empty() {
            // Nobody is there: the kill is owed.
            self.agenda.add(now + Duration::from_millis(1), Event::Strike);
            return Ok(());
        }
        let victim = alive.swap_remove(self.random.random_range(0..alive.len()));
        let millis =
            |random: &mut ChaCha8Rng, most: u64| Duration::from_micros(random.random_range(100..most * 1000));
        match self.random.random_range(0..100) {
            0..70 => self.counts.kills += u64::from(self.kill(victim)),
            70..82 => {
                self.counts.kills += u64::from(self.kill(victim));
                if !alive.is_empty() {
                    let second = alive[self.random.random_range(0..alive.len())];
                    self.counts.kills += u64::from(self.kill(second));
                }
            }
            82..84 => {
                for worker in alive.into_iter().chain([victim]) {
                    self.counts.kills += u64::from(self.kill(worker));
                }
            }
            draw => {
                self.stop(victim)?;
                let until = now + millis(&mut self.random, 20);
                let incarnation = self.slots[victim as usize].incarnation;
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

    fn signal(&self, worker: u32, signal: i32) {
        if let Some(child) = &self.slots[worker as usize].child {
            // SAFETY: a plain system call; the process is our child and was not waited for yet, so that its id
            // is still its own.
            unsafe { libc::kill(child.id() as libc::pid_t, signal) };
        }
    }

    fn stop(&mut self, worker: u32) -> Result<(), Failure> {
        let slot = &mut self.slots[worker as usize];
        (slot.is_stopped, slot.stops) = (true, slot.stops + 1);
        self.counts.stops += 1;
        let stops = slot.stops;
        self.control
            .announce_stop(worker, stops)
            .map_err(Failure::io("the control file"))?;
        self.signal(worker, libc::SIGSTOP);
        Ok(())
    }

    fn kill(&mut self, worker: u32) -> bool {
        let slot = &mut self.slots[worker as usize];
        let dies = slot.child.is_some() && !slot.is_killed;
        if dies {
            slot.is_killed = true;
            self.signal(worker, libc::SIGKILL);
        }
        dies
    }

    fn start(&mut self, worker: u32) -> Result<(), Failure> {
        let slot = &mut self.slots[worker as usize];
        let orders = Orders {
            plan: self.plan.clone(),
            worker,
            incarnation: slot.incarnation,
        };
        let orders = serde_json::to_string(&orders).map_err(|error| Failure::failed(error.to_string()))?;
        let log = self.plan.folder.join(format!("log-{worker}"));
        let log = File::options()
            .append(true)
            .create(true)
            .open(&log)
            .map_err(Failure::io(log.display()))?;
        let mut command = Role::Torture.command([orders]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        slot.child = Some(
            command
                .spawn()
                .map_err(Failure::io("starting a worker process"))?,
        );
        (slot.is_killed, slot.is_stopped, slot.moved) = (false, false, Instant::now());
        let incarnation = slot.incarnation;
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
        for worker in 0..self.slots.len() {
            let slot = &mut self.slots[worker];
            let Some(Ok(Some(status))) = slot.child.as_mut().map(Child::try_wait) else {
                continue;
            };
            slot.child = None;
            slot.incarnation += 1;
            let expected = status.success() || slot.is_killed && status.signal() == Some(libc::SIGKILL);
            if !expected {
                self.surprise(worker as u32, status);
            }
            let delay = if self.random.random_bool(0.5) {
                0
            } else {
                self.random.random_range(0..60_000)
            };
            self.agenda.add(
                Instant::now() + Duration::from_micros(delay),
                Event::Start(worker as u32),
            );
        }
    }

    /// A worker has ended by itself: because of a fault that it found, or for a worse reason.
    fn surprise(&mut self, worker: u32, status: ExitStatus) {
        let path = Fault::path(&self.plan.folder, worker);
        let left = std::fs::read_to_string(path)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok());
        self.faults.push(left.unwrap_or_else(|| {
            let log =
                std::fs::read_to_string(self.plan.folder.join(format!("log-{worker}"))).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(5).collect();
            let tail = tail.into_iter().rev().collect::<Vec<_>>().join("; ");
            let mut fault = Fault::problem(format!("worker {worker} ended by itself ({status}): {tail}"));
            fault.found_by = "the supervisor".to_owned();
            fault
        }));
    }

    /// Looks whether everybody who lives moves.
    fn look(&mut self, now: Instant) {
        let mut blocked = Vec::new();
        for (worker, slot) in self.slots.iter_mut().enumerate() {
            let heartbeat = Measures::read(&slot.journal).map_or(0, |measures| measures.heartbeat());
            if heartbeat != slot.heartbeat || slot.child.is_none() || slot.is_stopped || slot.is_killed {
                (slot.heartbeat, slot.moved) = (heartbeat, now);
            } else if now.duration_since(slot.moved) > BLOCKED_AFTER {
                blocked.push(worker as u32);
            }
        }
        blocked.into_iter().for_each(|worker| self.blocked(worker));
    }

    fn blocked(&mut self, worker: u32) {
        let slot = &self.slots[worker as usize];
        let pid = slot.child.as_ref().map_or(0, Child::id);
        let last = Journal::open(&self.plan.folder, worker)
            .ok()
            .and_then(|journal| journal.in_flight());
        let about = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let mut fault = Fault::problem(format!(
            "worker {worker} (process {pid}) is blocked: it has not moved for {} s; in flight: {last:?}; it waits in \
             {:?}, system call {:?}",
            BLOCKED_AFTER.as_secs(),
            about("wchan"),
            about("syscall").trim_end(),
        ));
        fault.found_by = "the supervisor".to_owned();
        self.faults.push(fault);
    }
}

impl Drop for Supervisor<'_> {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            if let Some(child) = &mut slot.child {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}
