//! What a simulated thread knows of its place, and what it can ask of the run.

use std::cell::Cell;
use std::path::Path;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use cenote::memory::delegated::Client;
use cenote::memory::{Killer, Liveness, ProcessName};
use cenote::pod::instance::limits::Limits;
use cenote::pod::instance::process::Identity;

use super::backend::{SimMemory, arrive};
use super::crash::Crash;
use super::delegation::Delegation;
use super::held::{Held, Slices};
use super::liveness::{SimKiller, SimLiveness};
use super::op::{Kind, Op};
use super::regions::Profiled;
use super::store_buffer::StoreBuffer;
use super::traffic::Traffic;
use super::world::{Life, Process, Thread, World};
use crate::clock::Spent;
use crate::machine::Found;
use crate::policy::{Fault, Phase};

/// A thread's place in a run.
#[derive(Clone)]
pub struct Context<const COHERENT: bool> {
    world: NonNull<World>,
    process: u32,
    thread: u32,
    host: u32,
    births: Births<COHERENT>,
}

/// What a thread does.
pub type Body<const COHERENT: bool> = Box<dyn FnOnce(Context<COHERENT>)>;

/// Threads that have been spawned and have no coroutine yet.
pub(super) type Births<const COHERENT: bool> =
    std::rc::Rc<std::cell::RefCell<Vec<(Context<COHERENT>, Body<COHERENT>)>>>;

/// How long a thread sleeps that waits for others.
const SHORTEST_SLEEP_PS: u64 = 100_000;
const LONGEST_SLEEP_PS: u64 = 5_000_000;

impl<const COHERENT: bool> Context<COHERENT> {
    #[allow(clippy::mut_from_ref)]
    fn world(&self) -> &mut World {
        // SAFETY: as in `SimMemory`: one thread at a time, for the length of one statement.
        unsafe { &mut *self.world.as_ptr() }
    }

    /// The first thread of a new process on a host.
    pub(super) fn of_new_process(
        world: NonNull<World>,
        births: &Births<COHERENT>,
        host: u32,
        origin: u32,
        crash: Option<Crash>,
        body: Body<COHERENT>,
        delegated: Option<Delegation>,
    ) -> u32 {
        // SAFETY: called between switches, or by the thread that runs.
        let state = unsafe { &mut *world.as_ptr() };
        let process = state.processes.len() as u32;
        state.processes.push(Process {
            host,
            life: Life::Alive,
            steps: 0,
            restarts: crash.is_some_and(|crash| crash.restarts),
            origin,
            attaches: false,
            crash,
            client: delegated.map(|delegated| Arc::new(Client::new(delegated.boxes))),
        });
        let context = Self {
            world,
            process,
            thread: 0,
            host,
            births: births.clone(),
        };
        context.spawn_boxed(body, None);
        if let Some(delegated) = delegated {
            context.spawn(move |context| delegated.serve(&context));
        }
        process
    }

    /// Whether a server executes read-modify-writes.
    pub fn is_delegated(&self) -> bool {
        self.world().delegation.is_some()
    }

    /// This thread executes exchanges from now on, or does no more.
    pub(super) fn serves(&self, does: bool) {
        self.world().server = does.then_some(self.thread);
        if does {
            self.world().owed.is_taken_over();
        }
    }

    /// This thread, which executes exchanges, begins a pass. In most passes it reads all mailboxes in one step: of two
    /// requests in one pass it then finds both if it finds the later one.
    pub(super) fn begins_pass(&self) {
        let world = self.world();
        world.owed.passes += 1;
        world.reads_at_once = world.clock.is_none() && world.fault(Fault::ReadSingly, 2) == 0;
    }

    /// Whether this is the last thread of its process.
    pub(super) fn is_last(&self) -> bool {
        let of_process = |thread: &&Thread| thread.process == self.process && thread.alive;
        self.world().threads.iter().filter(of_process).count() == 1
    }

    /// The memory as this thread's host sees it.
    pub fn memory(&self) -> SimMemory<COHERENT> {
        SimMemory::new(self.world, self.host)
    }

    /// The locks by which others see whether this process lives.
    pub fn liveness(&self) -> Box<dyn Liveness> {
        self.liveness_on(0)
    }

    /// The same on one of several machines, whose kernels know nothing of each other's locks; 0 is none of them.
    pub fn liveness_on(&self, machine: u32) -> Box<dyn Liveness> {
        Box::new(SimLiveness {
            world: self.world,
            process: self.process,
            kernel: machine,
        })
    }

    /// What kills other processes, as this machine's kernel does: they take a few steps more. Processes of a host below
    /// `restarts` begin anew.
    pub fn killer(&self, restarts: u32) -> Box<dyn Killer> {
        self.killer_on(0, restarts)
    }

    /// The same on one of several machines.
    pub fn killer_on(&self, machine: u32, restarts: u32) -> Box<dyn Killer> {
        Box::new(SimKiller {
            world: self.world,
            restarts,
            kernel: machine,
        })
    }

    /// Whether a process has neither ended nor died.
    pub fn is_alive(&self, process: u32) -> bool {
        let found = self.world().processes.get(process as usize);
        found.is_some_and(|process| process.life == Life::Alive)
    }

    /// Whether a thread was killed, with its process or alone.
    pub fn was_killed(&self, thread: u32) -> bool {
        self.world().deaths.iter().any(|&(dead, _)| dead == thread)
    }

    /// Whether any thread was killed.
    pub fn was_anybody_killed(&self) -> bool {
        !self.world().deaths.is_empty()
    }

    /// How often this thread has waited for something.
    pub fn waits(&self) -> u64 {
        self.world().threads[self.thread as usize].waits
    }

    /// Whether any process of a host of at least this number has neither ended nor died, besides this one.
    pub fn is_anybody_alive(&self, host: u32) -> bool {
        let others = self.world().processes.iter().enumerate();
        others
            .filter(|(number, _)| *number != self.process as usize)
            .any(|(_, other)| other.host >= host && other.life == Life::Alive)
    }

    /// Whether a process was killed whose locks the kernel has not dropped yet.
    pub fn is_anybody_dying(&self) -> bool {
        self.world().is_anybody_dying()
    }

    /// How many processes were killed so far.
    pub fn killed(&self) -> usize {
        self.world().killed()
    }

    /// The process among those that the run begins with that this one is, or replaces.
    pub fn origin(&self) -> u32 {
        self.world().processes[self.process as usize].origin
    }

    /// Whether a process runs, or is about to begin, in the place of one of the processes that the run begins with.
    pub fn is_manned(&self, origin: u32) -> bool {
        let mut in_place = self
            .world()
            .processes
            .iter()
            .filter(|other| other.origin == origin);
        in_place.any(|other| other.life == Life::Alive || (other.life == Life::Killed && other.restarts))
    }

    /// Ends all processes of a host at once, and its cache is lost. Other processes begin in their places if
    /// `restarts`.
    pub fn power_off(&self, host: u32, restarts: bool) {
        let op = Op::word(Kind::Kernel, u64::from(host), 2);
        arrive(self.world, op);
        self.world().power_off(host, restarts);
        self.world().done(op, 0);
        self.world().charge(op, Found::Hit);
    }

    /// From now on each host has a kernel of its own: a notification wakes threads of the notifier's host only.
    pub fn is_apart(&self) {
        self.world().is_apart = true;
    }

    /// What this process says of itself, on a machine that is no part of a pod: kernel locks say who lives.
    pub fn identity(&self) -> Identity {
        self.identity_on(0)
    }

    /// What this process says of itself as a process of a host in a pod.
    pub fn identity_on(&self, host: u32) -> Identity {
        Identity {
            path: Path::new("simulated").to_owned(),
            host,
            name: ProcessName {
                pid: self.process,
                started: 1,
                namespace: 1,
                machine: 1,
            },
            since: 0,
        }
    }

    /// This process: a number that no other has or had.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// This thread: a number that no other has or had.
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// The host.
    pub fn host(&self) -> u32 {
        self.host
    }

    /// The present step, for histories: it grows with everything that happens.
    pub fn step(&self) -> u64 {
        self.world().steps += 1;
        self.world().steps
    }

    /// Steps that this thread has taken.
    pub fn own_steps(&self) -> u64 {
        self.world().threads[self.thread as usize].steps
    }

    /// Whether this thread's last sleep ended with its timeout: nothing has woken it.
    pub fn overslept(&self) -> bool {
        self.world().threads[self.thread as usize].overslept
    }

    /// Virtual time of this thread in picoseconds; 0 in runs that keep none.
    pub fn now_ps(&self) -> u64 {
        let thread = self.thread;
        self.world()
            .clock
            .as_ref()
            .map_or(0, |clock| clock.now_ps(thread))
    }

    /// What of this thread's operations reached memory; all zeroes in runs that keep no time.
    pub fn traffic(&self) -> Traffic {
        self.world().threads[self.thread as usize].traffic
    }

    /// Where this thread's virtual time went; nothing in runs that keep none.
    pub fn spent(&self) -> Spent {
        let thread = self.thread;
        let clock = self.world().clock.as_ref();
        clock.map_or(Spent::default(), |clock| clock.spent(thread))
    }

    /// From now on it is noted where in the library time goes, of threads that [measure](Self::measure).
    pub fn profile_regions(&self) {
        self.world().regions.get_or_insert_default();
    }

    /// What this thread does from now on is measured as a part of this, or is not.
    pub fn measure(&self, measured: Option<u32>) {
        self.world().threads[self.thread as usize].measured = measured;
    }

    /// Where in the library the time of what was measured went, for the mean of so many operations on a map.
    pub fn profiled(&self, measured: u32, operations: u64) -> Option<Profiled> {
        let regions = self.world().regions.as_ref()?;
        Some(regions.profiled(measured, operations))
    }

    /// Lets time pass on this thread that is not spent in memory: computing, or sleeping.
    pub fn spend_ps(&self, time: u64) {
        let thread = self.thread;
        if let Some(clock) = &mut self.world().clock {
            clock.spend_ps(thread, time);
        }
    }

    /// From now on threads do not sleep but check again at once, as threads do that have a core each.
    pub fn never_sleep(&self) {
        self.world().never_sleeps = true;
    }

    /// Lets others run.
    pub fn wait(&self) {
        let op = Op::other(Kind::Wait);
        arrive(self.world, op);
        self.world().drain_own();
        self.world().done(op, 0);
        self.world().charge(op, Found::Hit);
    }

    /// Waits until `missing` is zero. A scheduler that knows what the thread waits for need not run it before. Where
    /// there is a clock, the thread polls, and sleeps longer and longer in between, up to some microseconds.
    pub fn wait_for(&self, missing: &Rc<Cell<u32>>) {
        let thread = self.thread as usize;
        self.world().threads[thread].until = Some(missing.clone());
        let mut sleep = SHORTEST_SLEEP_PS;
        while missing.get() > 0 {
            self.wait();
            self.spend_ps(sleep);
            sleep = (sleep * 2).min(LONGEST_SLEEP_PS);
        }
        self.world().threads[thread].until = None;
    }

    /// From now on the file system refuses now and then to reserve bytes, or does no more.
    pub fn make_space_scarce(&self, is_scarce: bool) {
        self.world().is_space_scarce = is_scarce;
    }

    /// This thread holds bytes that it was given, until [`Context::release`]: no thread may change them.
    pub fn hold(&self, bytes: &[u8]) -> Held {
        self.world().hold(bytes)
    }

    /// From now on only what threads say that they hold is watched, and not all that they were given under a pin.
    pub fn watch_held_alone(&self) {
        self.world().watches_given = false;
    }

    /// This thread does not hold them any longer.
    pub fn release(&self, held: Held) {
        self.world().release(held);
    }

    /// How often the file system has said that it has no space, although it has.
    pub fn refusals(&self) -> u64 {
        self.world().refusals
    }

    /// A word of memory, without a step.
    pub fn peek(&self, at: u64) -> u64 {
        self.world().machine.load(at)
    }

    /// The thresholds that processes have in this run, if not the usual ones.
    pub fn limits(&self) -> Option<Limits> {
        self.world().limits
    }

    /// Tells the policy that all threads have come to where the run begins in earnest.
    pub fn gathered(&self) {
        self.world().enter(Phase::Gathered);
    }

    /// This process dies at its next step. Another begins in its place if the run's settings have a crash of it that
    /// restarts, whenever that was to be.
    pub fn die_next(&self) {
        let process = self.process;
        self.world().processes[process as usize].crash = Some(Crash {
            process,
            step: 0,
            restarts: false,
            alone: false,
        });
    }

    /// Starts another thread of this process.
    pub fn spawn(&self, body: impl FnOnce(Self) + 'static) {
        self.spawn_boxed(Box::new(body), None);
    }

    /// Starts another thread of this process, and counts it until it ends or dies.
    pub fn spawn_counted(&self, counted: &Rc<Cell<u32>>, body: impl FnOnce(Self) + 'static) {
        counted.set(counted.get() + 1);
        self.spawn_boxed(Box::new(body), Some(counted.clone()));
    }

    fn spawn_boxed(&self, body: Body<COHERENT>, counted: Option<Rc<Cell<u32>>>) {
        let world = self.world();
        if !world.ended {
            // The new thread sees what its parent has stored.
            world.drain_own();
        }
        let thread = world.threads.len() as u32;
        world.threads.push(Thread {
            process: self.process,
            alive: true,
            next: Op::other(Kind::Start),
            exchanging: None,
            overslept: false,
            pending: Vec::new(),
            yielder: std::ptr::null(),
            steps: 0,
            until: None,
            counted,
            traffic: Traffic::default(),
            measured: None,
            waits: 0,
            stores: StoreBuffer::default(),
            slices: Slices::default(),
        });
        world.runnable.push(thread);
        let parent = self.thread;
        if world.phase == Phase::Audit {
            world.follows_ended(thread);
        }
        world.starts(parent, thread);
        if let Some(clock) = &mut world.clock {
            clock.begin(thread, parent);
        }
        let context = Self {
            thread,
            ..self.clone()
        };
        self.births.borrow_mut().push((context, body));
    }
}
