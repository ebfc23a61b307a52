//! A run from its first step to its last.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::rc::Rc;

use cenote::pod::instance::limits::Limits;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::context::{Births, Body, Context};
use super::crash::Crash;
use super::delegation::Delegation;
use super::order::Order;
use super::stop::Stop;
use super::world::{Event, Life, Process, World};
use crate::clock::Clock;
use crate::machine::{Capacity, Machine, Shape};
use crate::policy::{Phase, Policy};
use crate::profile::Profile;

/// Bytes of a simulated thread's stack.
const STACK_BYTES: usize = 512 << 10;

/// What a run is made of, apart from the code.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The machine.
    pub shape: Shape,
    /// The host of each process that the run begins with.
    pub processes: Vec<u32>,
    /// The processes and threads that die.
    pub crashes: Vec<Crash>,
    /// After so many steps the run is stuck.
    pub steps_max: u64,
    /// Bytes that the simulated file system has.
    pub capacity: u64,
    /// What things cost; with it, threads run in the order of their virtual clocks, and nothing breaks.
    pub profile: Option<Profile>,
    /// Whether a read that does not find what it must see ends the run.
    pub checks_order: bool,
    /// Whether to keep a timeline.
    pub traces: bool,
    /// Whether read-modify-writes are executed by a server, and how it is found.
    pub delegated: Option<Delegation>,
    /// The thresholds of processes, if not the usual ones.
    pub limits: Option<Limits>,
}

impl Settings {
    /// A run of so many bytes on the usual machine, which keeps no time, and in which nothing breaks by itself.
    pub fn untimed(coherent: bool, bytes: u64, processes: Vec<u32>) -> Self {
        Self {
            shape: Shape {
                coherent,
                hosts: processes.iter().max().map_or(1, |last| last + 1),
                bytes,
                cache_lines: Capacity::ALL,
                prefetches: false,
                has_membarrier: true,
                persists_at_crash: false,
                coherent_bytes: 0,
                blind_exchanges: false,
            },
            processes,
            crashes: Vec::new(),
            steps_max: 10_000_000,
            capacity: u64::MAX,
            profile: None,
            checks_order: true,
            traces: false,
            delegated: None,
            limits: None,
        }
    }

    /// A run that keeps time, and in which nothing breaks: one process on each host, whose cache is as the profile says
    /// where so many threads share it.
    pub fn timed(profile: &Profile, coherent: bool, hosts: u32, threads: u32, bytes: u64) -> Self {
        Self {
            shape: Shape {
                coherent,
                hosts,
                bytes,
                cache_lines: profile.cache_lines(threads),
                prefetches: false,
                has_membarrier: true,
                persists_at_crash: false,
                coherent_bytes: 0,
                blind_exchanges: false,
            },
            processes: (0..hosts).collect(),
            crashes: Vec::new(),
            steps_max: u64::MAX,
            capacity: u64::MAX,
            profile: Some(profile.clone()),
            checks_order: false,
            traces: false,
            delegated: None,
            limits: None,
        }
    }
}

/// How the code under test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All threads that were not killed came to their end.
    Well,
    /// The run was stopped.
    Stopped(Stop),
    /// A thread panicked, with this message.
    Panicked(String),
}

/// What a run left.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// Steps.
    pub steps: u64,
    /// Everything that the policy answered; empty for runs with a profile.
    pub decisions: Vec<u32>,
    /// The threads that were killed, and when.
    pub deaths: Vec<(u32, u64)>,
    /// A checksum over all that happened.
    pub digest: u64,
    /// What happened, each with the step at which it did, if it was asked for. Histories count the same steps.
    pub timeline: Vec<(u64, Event)>,
    /// What the policy had drawn.
    pub parameters: String,
    /// Virtual time at the end, in picoseconds; 0 without a profile.
    pub time_ps: u64,
}

thread_local! {
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

fn stack() -> DefaultStack {
    STACKS.with_borrow_mut(Vec::pop).unwrap_or_else(|| {
        DefaultStack::new(STACK_BYTES).unwrap_or_else(|error| panic!("a coroutine's stack: {error}"))
    })
}

type Fiber = Coroutine<(), (), (), DefaultStack>;

struct Runner<const COHERENT: bool> {
    world: NonNull<World>,
    births: Births<COHERENT>,
    fibers: Vec<Option<Fiber>>,
}

/// Runs `prepare` alone, then all processes from `body`, then `audit` alone.
pub fn run<const COHERENT: bool>(
    settings: &Settings,
    policy: Box<dyn Policy>,
    prepare: Body<COHERENT>,
    body: Rc<dyn Fn(Context<COHERENT>)>,
    audit: Body<COHERENT>,
) -> Outcome {
    let clock = settings
        .profile
        .clone()
        .map(|profile| Clock::new(&profile, &settings.shape));
    let mut world = World::new(Machine::new(settings.shape), policy, clock, settings.steps_max);
    world.order = settings.checks_order.then(|| Order::new(settings.shape));
    world.timeline = settings.traces.then(Vec::new);
    world.capacity = settings.capacity;
    world.delegation = settings.delegated;
    world.limits = settings.limits;
    let world = NonNull::from(Box::leak(Box::new(world)));
    let mut runner = Runner {
        world,
        births: Rc::default(),
        fibers: Vec::new(),
    };
    let ended = runner.phases(settings, prepare, body, audit);
    runner.give_up();
    // SAFETY: leaked above; no coroutine is left that could refer to it.
    let world = *unsafe { Box::from_raw(world.as_ptr()) };
    Outcome {
        ended: ended.unwrap_or(Ended::Well),
        steps: world.steps,
        decisions: world.decisions,
        deaths: world.deaths,
        digest: world.digest,
        timeline: world.timeline.unwrap_or_default(),
        parameters: world.policy.parameters(),
        time_ps: world.clock.map_or(0, |clock| clock.latest_ps()),
    }
}

impl<const COHERENT: bool> Runner<COHERENT> {
    #[allow(clippy::mut_from_ref)]
    fn world(&self) -> &mut World {
        // SAFETY: the world lives as long as the runner; used between switches only.
        unsafe { &mut *self.world.as_ptr() }
    }

    /// `None` if all went well.
    fn phases(
        &mut self,
        settings: &Settings,
        prepare: Body<COHERENT>,
        body: Rc<dyn Fn(Context<COHERENT>)>,
        audit: Body<COHERENT>,
    ) -> Option<Ended> {
        self.world().enter(Phase::Prepare);
        // Nobody else is there, so exchanges need no server yet.
        self.start((0, u32::MAX), None, prepare, None);
        if let Some(ended) = self.until_all_ended() {
            return Some(ended);
        }
        self.world().enter(Phase::Run);
        let delegated = settings.delegated;
        for (number, &host) in settings.processes.iter().enumerate() {
            let crash = settings
                .crashes
                .iter()
                .find(|crash| crash.process == number as u32);
            let of_body = body.clone();
            let body = Box::new(move |context| of_body(context));
            self.start((host, number as u32), crash.copied(), body, delegated);
        }
        let is_missed = |process: &Process| process.restarts && process.life == Life::Killed;
        loop {
            if let Some(ended) = self.until_all_ended_or(|world| world.processes.iter().any(is_missed)) {
                return Some(ended);
            }
            let Some(dead) = self
                .world()
                .processes
                .iter_mut()
                .find(|process| is_missed(process))
            else {
                break;
            };
            dead.restarts = false;
            let (place, of_body) = ((dead.host, dead.origin), body.clone());
            self.start(place, None, Box::new(move |context| of_body(context)), delegated);
        }
        self.world().enter(Phase::Audit);
        self.start((0, u32::MAX), None, audit, delegated);
        self.until_all_ended()
    }

    fn start(
        &mut self,
        (host, origin): (u32, u32),
        crash: Option<Crash>,
        body: Body<COHERENT>,
        delegated: Option<Delegation>,
    ) {
        Context::of_new_process(self.world, &self.births, host, origin, crash, body, delegated);
    }

    fn until_all_ended(&mut self) -> Option<Ended> {
        self.until_all_ended_or(|_| false)
    }

    /// Runs until no thread can run, or something is `due` between two switches; `Some` if it ended badly.
    fn until_all_ended_or(&mut self, due: impl Fn(&World) -> bool) -> Option<Ended> {
        loop {
            if let Some(stop) = self.world().stop.clone() {
                return Some(Ended::Stopped(stop));
            }
            if due(self.world()) {
                return None;
            }
            for (context, body) in self.births.take() {
                let thread = context.thread() as usize;
                self.fibers
                    .resize_with(self.fibers.len().max(thread + 1), || None);
                self.fibers[thread] = Some(fiber(self.world, context, body));
            }
            let world = self.world();
            if world.ended {
                if world.runnable.is_empty() {
                    return None;
                }
                world.pick();
            }
            let current = self.world().current as usize;
            let Some(fiber) = self.fibers.get_mut(current).and_then(Option::as_mut) else {
                return Some(Ended::Panicked(format!("thread {current} has nothing to run")));
            };
            match catch_unwind(AssertUnwindSafe(|| fiber.resume(()))) {
                Ok(CoroutineResult::Yield(())) => {}
                Ok(CoroutineResult::Return(())) => {
                    if let Some(fiber) = self.fibers[current].take() {
                        STACKS.with_borrow_mut(|stacks| stacks.push(fiber.into_stack()));
                    }
                    self.world().retire_current();
                }
                Err(panic) => {
                    self.fibers[current] = None;
                    return Some(Ended::Panicked(message_of(&*panic)));
                }
            }
        }
    }

    /// Drops what is left of killed threads: their stacks, not their values.
    fn give_up(&mut self) {
        for mut fiber in self.fibers.drain(..).flatten() {
            // SAFETY: the values on the stack are leaked on purpose: a killed process runs no destructors. Nothing
            // outside refers to them: what threads share is reference counted, and leaked with them.
            unsafe { fiber.force_reset() };
            STACKS.with_borrow_mut(|stacks| stacks.push(fiber.into_stack()));
        }
    }
}

fn fiber<const COHERENT: bool>(
    world: NonNull<World>,
    context: Context<COHERENT>,
    body: Body<COHERENT>,
) -> Fiber {
    Coroutine::with_stack(stack(), move |yielder: &Yielder<(), ()>, ()| {
        let thread = context.thread() as usize;
        // SAFETY: between switches; the reference ends with the statement.
        unsafe { &mut *world.as_ptr() }.threads[thread].yielder = yielder;
        body(context);
    })
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
