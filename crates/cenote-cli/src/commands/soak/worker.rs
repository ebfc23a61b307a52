//! A worker process: finds out what became of its predecessor's operation in flight, verifies its own keys, and then
//! goes through the phases until it is killed or told to end.

use std::fs::File;
use std::io::Write;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cenote::memory::Mapped;
use cenote::{Options, Pool, Put};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::board::{Board, Bytes, Sum};
use super::family::Family;
use super::full::{self, Refusal, Room};
use super::lists;
use super::meter::{Counter, Kind, LARGE, Meter};
use super::phases::Progress;
use super::plan::{Phase, Plan, Plant, milliseconds};
use super::state::State;
use crate::trial::content::{Keyspace, Stamp, mix};
use crate::trial::control::Control;
use crate::trial::crew;
use crate::trial::fault::Fault;
use crate::trial::journal::{Action, Entry, Intent, Journal};

/// Refusals that a worker writes down; the others are counted.
const REFUSALS: u64 = 500;
/// Of so many operations, one has the planted fault.
const PLANT_EACH: u64 = 10;
const PAUSE_STEP: Duration = Duration::from_millis(2);

/// What a worker gets from the supervisor when it starts.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Orders {
    /// What all agree on.
    pub plan: Plan,
    /// Its number.
    pub worker: u32,
    /// How many processes of its number there were before.
    pub incarnation: u32,
}

/// A worker at work.
pub struct Worker<M: Mapped> {
    pub(super) plan: Plan,
    pub(super) me: u32,
    pool: Pool<M>,
    pub(super) state: Rc<State<M>>,
    pub(super) journal: Journal<Family>,
    pub(super) board: Board,
    pub(super) control: Control,
    pub(super) meter: Meter,
    pub(super) random: ChaCha8Rng,
    pub(super) progress: Progress,
    bytes: Bytes,
    /// What the board said not long ago.
    pub(super) seen: Sum,
    heartbeats: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Runs a worker; its fault is left in a file for the supervisor.
pub fn run(orders: Orders) -> bool {
    crew::die_with_parent();
    let done = match orders.plan.memory {
        cenote::MemoryKind::Coherent => work::<cenote::Coherent>(&orders),
        cenote::MemoryKind::Noncoherent => work::<cenote::Noncoherent>(&orders),
        cenote::MemoryKind::Delegated => work::<cenote::Delegated>(&orders),
    };
    crew::leave(&orders.plan.folder, orders.worker, orders.incarnation, done)
}

fn work<M: Mapped>(orders: &Orders) -> Result<(), Fault> {
    let Orders {
        plan,
        worker: me,
        incarnation,
    } = orders.clone();
    let draw = mix(mix(plan.seed) ^ u64::from(me) << 32 ^ u64::from(incarnation));
    let mut random = ChaCha8Rng::seed_from_u64(draw);
    let options = Options {
        // Some have the background thread.
        background_thread: random.random_bool(0.5),
        ..Options::default()
    };
    let mut journal = Journal::open(&plan.folder, me)?;
    let pool = Pool::<M>::open(&plan.pool, &options)?;
    let state = Rc::new(State::open(&pool, &plan, me)?);
    let mut meter = Meter::new(&plan.folder, me)?;
    if state.resolve_in_flight(&mut journal)?.is_some() {
        meter.count(Counter::InFlight, 1);
    }
    meter.count(
        Counter::Reads,
        state.verify_journal(&journal, random.random_bool(0.75))?,
    );
    meter.flush()?;
    let board = Board::open(&plan.folder, plan.workers)?;
    let mut worker = Worker {
        bytes: board.bytes(me)?,
        seen: board.sum()?,
        control: Control::open(&plan.folder, me)?,
        progress: Progress::of(&journal),
        me,
        pool,
        state,
        journal,
        board,
        meter,
        random,
        plan,
        heartbeats: milliseconds(),
        key: Vec::new(),
        value: Vec::new(),
    };
    worker.take_stock()?;
    worker.read_board()?;
    while !worker.control.shall_end() {
        worker.pause_if_wanted()?;
        let phase = worker.plan.phase(me);
        worker.meter.phase = phase;
        if !worker.step(phase)? {
            break;
        }
        worker.tick()?;
    }
    worker.meter.flush()?;
    Ok(())
}

impl<M: Mapped> Worker<M> {
    /// Counts by the journal what is live.
    fn take_stock(&mut self) -> Result<(), Fault> {
        (self.bytes.live, self.bytes.small) = (0, 0);
        for &family in Family::ALL {
            let entries = (0..).zip(self.journal.entries(family).to_vec());
            for (index, entry) in entries.filter(|(_, entry)| entry.version != 0) {
                let (key, value) = self.state.sizes(family, index, entry);
                self.add(key, value);
            }
        }
        self.board.tell(self.me, &self.bytes)?;
        Ok(())
    }

    fn footprint(&self, key: usize, value: usize) -> (u64, bool) {
        full::footprint(M::COHERENT, key, value)
    }

    fn add(&mut self, key: usize, value: usize) {
        let (bytes, is_small) = self.footprint(key, value);
        self.bytes.live += bytes;
        if is_small {
            self.bytes.small += bytes;
            self.bytes.small_most = self.bytes.small_most.max(self.bytes.small);
        }
    }

    /// What was added is not there after all, or no longer.
    fn subtract(&mut self, key: usize, value: usize) -> u64 {
        let (bytes, is_small) = self.footprint(key, value);
        self.bytes.live = self.bytes.live.saturating_sub(bytes);
        if is_small {
            self.bytes.small = self.bytes.small.saturating_sub(bytes);
        }
        bytes
    }

    /// Now and then: shows that it moves, and keeps what was measured.
    pub(super) fn tick(&mut self) -> Result<(), Fault> {
        self.heartbeats += 1;
        self.board.heartbeat(self.me, self.heartbeats)?;
        self.read_board()?;
        Ok(self.meter.tick()?)
    }

    /// Reads what all workers have said, while it is in no operation.
    pub(super) fn read_board(&mut self) -> Result<(), Fault> {
        self.seen = self.board.sum()?;
        Ok(self.board.is_between(self.me, &self.seen)?)
    }

    /// Makes the pause that is wanted.
    fn pause_if_wanted(&mut self) -> Result<(), Fault> {
        let wanted = self.control.wanted_pause();
        if wanted == 0 {
            return Ok(());
        }
        self.meter.flush()?;
        self.board.pause(self.me, wanted)?;
        while self.control.wanted_pause() == wanted && !self.control.shall_end() {
            std::thread::sleep(PAUSE_STEP);
            self.tick()?;
        }
        self.board.pause(self.me, 0)?;
        self.meter.forget_spikes();
        Ok(())
    }

    /// Whether to stop whatever takes long.
    pub(super) fn is_wanted(&self) -> bool {
        self.control.wanted_pause() != 0 || self.control.shall_end()
    }

    /// Does something and measures how long it takes.
    pub(super) fn time<R>(&mut self, kind: Kind, bytes: usize, work: impl FnOnce(&State<M>) -> R) -> R {
        let start = Instant::now();
        let result = work(&self.state);
        let control = &mut self.control;
        self.meter
            .record(kind, bytes, start.elapsed(), || control.was_stopped());
        result
    }

    /// Gives a key a value; whether the pool took it.
    pub(super) fn put(&mut self, family: Family, index: u32, era: u32) -> Result<bool, Fault> {
        let before = self.journal.entry(family, index);
        let version = self.journal.sequence() as u32 + 1;
        let after = Entry {
            version,
            era,
            sequence: 0,
        };
        family.key(self.me, index, era, &mut self.key);
        let stamp = Stamp {
            writer: self.me,
            version,
        };
        self.state
            .content
            .value(family, &self.key, stamp, &mut self.value);
        let (key, len) = (self.key.len(), self.value.len());
        if len > LARGE {
            self.read_board()?;
        }
        self.add(key, len);
        self.board.tell(self.me, &self.bytes)?;
        let intent = self.journal.intend(Action::Put, family, index, after)?;
        let (name, mut value) = (std::mem::take(&mut self.key), std::mem::take(&mut self.value));
        let is_there = before.version != 0 && before.era == era;
        let outcome = match self.planted() {
            Some(Plant::Lose) if is_there => Ok(Put::Replaced),
            Some(Plant::Refuse) => Err(cenote::Error::Full {
                needed: len as u64,
                why: cenote::causes::Shortage::AtMaximum,
                largest: None,
            }),
            plant => {
                if let (Some(Plant::Tear), Some(last)) = (plant, value.last_mut()) {
                    *last ^= 1;
                }
                self.time(Kind::of_put(len), len, |state| {
                    state.map(family).put(&name, &value)
                })
            }
        };
        (self.key, self.value) = (name, value);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                self.subtract(key, len);
                let needed = self.footprint(key, len).0;
                self.refused(&intent, needed, error)?;
                return Ok(false);
            }
        };
        if (outcome == Put::Replaced) != is_there {
            let fault = format!("the outcome {outcome:?} of {intent:?} does not fit");
            return Err(if is_there {
                Fault::lost(fault)
            } else {
                Fault::phantom(fault)
            });
        }
        self.journal.acknowledge(&intent, intent.after)?;
        if before.version != 0 {
            let (key, value) = self.state.sizes(family, index, before);
            self.bytes.unlinked += self.subtract(key, value);
        }
        self.bytes.unlinked += full::index_garbage(family);
        self.done()?;
        Ok(true)
    }

    /// Removes a key that is there; whether that was done.
    pub(super) fn remove(&mut self, family: Family, index: u32) -> Result<bool, Fault> {
        let before = self.journal.entry(family, index);
        let after = Entry { version: 0, ..before };
        family.key(self.me, index, before.era, &mut self.key);
        let intent = self.journal.intend(Action::Remove, family, index, after)?;
        let name = std::mem::take(&mut self.key);
        let outcome = self.time(Kind::Remove, 0, |state| state.map(family).remove(&name));
        self.key = name;
        match outcome {
            Ok(true) => {}
            Ok(false) => return Err(Fault::lost(format!("{intent:?} found nothing"))),
            Err(error) => {
                self.refused(&intent, full::index_garbage(family), error)?;
                return Ok(false);
            }
        }
        self.journal.acknowledge(&intent, intent.after)?;
        let (key, value) = self.state.sizes(family, index, before);
        self.bytes.unlinked += self.subtract(key, value) + full::index_garbage(family);
        self.done()?;
        Ok(true)
    }

    /// The fault to plant with this operation.
    fn planted(&self) -> Option<Plant> {
        let is_due = self.me == 0 && self.journal.sequence().is_multiple_of(PLANT_EACH);
        self.plan.plant.filter(|_| is_due)
    }

    fn done(&mut self) -> Result<(), Fault> {
        self.meter.count(Counter::Writes, 1);
        Ok(self.board.tell(self.me, &self.bytes)?)
    }

    /// An operation failed: if for want of room, nothing has changed, and it is judged; all else is a fault.
    fn refused(&mut self, intent: &Intent<Family>, needed: u64, error: cenote::Error) -> Result<(), Fault> {
        let cenote::Error::Full { .. } = error else {
            return Err(Fault::problem(format!("{intent:?}: {error}")));
        };
        self.journal.acknowledge(intent, intent.before)?;
        let now = self.board.sum()?;
        self.board.tell(self.me, &self.bytes)?;
        let at = self.pool.worker()?;
        let room = Room {
            retired: self.pool.stat()?.retired_bytes,
            longest: [full::longest_room(&at, false)?, full::longest_room(&at, true)?],
        };
        let mut refusal = Refusal {
            at_ms: milliseconds().saturating_sub(self.plan.began),
            worker: self.me,
            phase: self.meter.phase,
            operation: format!("{:?} in {}", intent.action, intent.family.map_name(self.me)),
            error: error.to_string(),
            ..full::judge(&self.plan, [self.seen, now], room, needed)
        };
        self.meter.count(Counter::Refused, 1);
        self.meter
            .count(Counter::FalselyRefused, u64::from(refusal.is_false));
        if refusal.is_false && self.progress.refusals < REFUSALS {
            refusal.lists = lists::all(&at)?;
            self.progress.refusals += 1;
            let path = self.plan.folder.join(format!("refusals-{}", self.me));
            let mut file = File::options().append(true).create(true).open(path)?;
            let text = serde_json::to_string(&refusal).unwrap_or_default();
            file.write_all(format!("{text}\n").as_bytes())?;
        }
        // Nothing of it may be there.
        self.state.verify_undone(intent)?;
        std::thread::sleep(Duration::from_millis(1));
        Ok(())
    }

    /// Reads an own key, and checks it.
    pub(super) fn get(&mut self, family: Family, index: u32) -> Result<(), Fault> {
        let entry = self.journal.entry(family, index);
        family.key(self.me, index, entry.era, &mut self.key);
        let name = std::mem::take(&mut self.key);
        let found = self.time(Kind::Get, 0, |state| state.map(family).get(&name));
        self.key = name;
        self.state.compare(family, index, entry, found?.as_deref())?;
        self.meter.count(Counter::Reads, 1);
        Ok(())
    }

    /// Which phase it is in by the plan.
    pub(super) fn is_in(&self, phase: Phase) -> bool {
        self.plan.phase(self.me) == phase
    }
}
