//! The memory contract on the simulated machine. Code that is generic over [`Memory`] runs on it as it ships.

use std::ptr::NonNull;
use std::time::Duration;

use cenote::memory::delegated::Wish;
use cenote::memory::{Kernel, MappingError, Memory, swap_by_exchanges};
use corosensei::Yielder;

use super::op::{Kind, Op};
use super::order::From;
use super::store_buffer::{Data, Way};
use super::world::World;
use crate::clock::Clock;
use crate::machine::{Found, LINE, Use};
use crate::policy::Fault;
use crate::sweep::{self, Touch};

/// A host's view of a simulated pool. `COHERENT` says which of the two machines it is.
#[derive(Clone, Copy)]
pub struct SimMemory<const COHERENT: bool> {
    world: NonNull<World>,
    pub(super) host: u32,
    /// Whether read-modify-writes are the machine's, whatever the run says.
    is_direct: bool,
}

// SAFETY: a world and all its coroutines live on one operating system thread: `run` makes it, runs it to its end and
// drops it. The contract asks for these bounds because real memory is shared by threads.
unsafe impl<const COHERENT: bool> Send for SimMemory<COHERENT> {}
// SAFETY: as for `Send`.
unsafe impl<const COHERENT: bool> Sync for SimMemory<COHERENT> {}

/// Without a clock, a rest takes one wait for each of these, up to a maximum. Otherwise half a second of rests would be
/// over before the thousands of pauses between two polls of a lock.
const REST_PER_WAIT: Duration = Duration::from_micros(16);
const LONGEST_REST: Duration = Duration::from_millis(1);

/// What an exchange does with what its thread has stored before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strength {
    /// It takes effect first.
    Full,
    /// It may take effect later, and no thread may rely on more.
    Acquire,
    /// It may take effect later, where others count on seeing it: the sweep's doing.
    Weakened,
}

impl<const COHERENT: bool> SimMemory<COHERENT> {
    pub(super) fn new(world: NonNull<World>, host: u32) -> Self {
        Self {
            world,
            host,
            is_direct: false,
        }
    }

    #[allow(clippy::mut_from_ref)]
    pub(super) fn world(&self) -> &mut World {
        // SAFETY: the world outlives its coroutines, and they take turns: the one that runs is the only one that refers
        // to it, for the length of one statement.
        unsafe { &mut *self.world.as_ptr() }
    }

    /// The same memory without a server.
    pub(super) fn direct(self) -> Self {
        Self {
            is_direct: true,
            ..self
        }
    }

    /// Has the server execute `wish`, where there is a server and the process has a place; what the word held before.
    fn delegate(&self, at: u64, wish: Wish) -> Option<u64> {
        if self.is_direct {
            return None;
        }
        let world = self.world();
        let process = world.threads[world.current as usize].process;
        let client = world.processes[process as usize].client.clone()?;
        let thread = world.current as usize;
        world.threads[thread].exchanging = Some(at);
        // SAFETY: a sync word, as the caller of the accessor promised; simulated memory checks each access.
        let answer = unsafe { client.execute(&self.direct(), at, wish, || ()) };
        self.world().threads[thread].exchanging = None;
        answer
    }

    /// Waits for the running thread's turn to do `op`.
    pub(super) fn arrive(&self, op: Op) {
        arrive(self.world, op);
    }

    /// Whether the running thread is the server, and reads all mailboxes in one step. Then nothing happens between its
    /// fence and the last of its loads: they find what memory holds.
    fn reads_at_once(&self) -> bool {
        let world = self.world();
        self.is_direct && world.reads_at_once && world.server == Some(world.current)
    }

    /// Waits for the running thread's turn to do a sync operation. Where there is a clock, that is when the operation
    /// is done: its time is charged first.
    fn arrive_sync(&self, op: Op, found: Found) {
        self.arrive(op);
        if self.world().clock.is_some() {
            self.spend(op, found);
            self.arrive(op);
        }
    }

    pub(super) fn spend(&self, op: Op, found: Found) {
        self.world().charge(op, found);
    }

    /// A sync operation that no load overtakes: what was there, past the caches.
    fn sync(&self, op: Op, change: impl FnOnce(u64) -> Option<u64>) -> u64 {
        self.exchange(op, Strength::Full, change)
    }

    /// The same, of a strength.
    fn exchange(&self, op: Op, strength: Strength, change: impl FnOnce(u64) -> Option<u64>) -> u64 {
        self.arrive_sync(op, Found::Hit);
        let world = self.world();
        match strength {
            Strength::Full => world.drain_own(),
            Strength::Acquire | Strength::Weakened => world.drain_extent(op.at, op.len),
        }
        world.check_use(op);
        world.reads(op.at, 8, From::Memory, true);
        let before = world.machine.load(op.at);
        if let Some(after) = change(before) {
            world.note_change(world.current, op.at, op.len);
            let waiting = match strength {
                Strength::Acquire => world.oldest_buffered(),
                Strength::Full | Strength::Weakened => None,
            };
            if strength == Strength::Full {
                world.goes_on(false);
            }
            let number = world.makes_before(op.at, 8, waiting);
            world.took_effect(op.at, 8, number, None);
            world.machine.store(op.at, after);
        }
        world.done(op, before);
        before
    }

    fn compare_and_exchange(
        &self,
        at: u64,
        (current, new): (u64, u64),
        strength: Strength,
    ) -> Result<u64, u64> {
        let delegated = self.delegate(at, Wish::CompareExchange(current, new));
        let is_blind = self.world().machine.shape().blind_exchanges;
        let before = delegated.unwrap_or_else(|| {
            let op = Op::word(Kind::CompareExchange, at, new);
            self.exchange(op, strength, |before| {
                (is_blind || before == current).then_some(new)
            })
        });
        match before == current || (is_blind && delegated.is_none()) {
            true => Ok(current),
            false => Err(before),
        }
    }

    /// A load of a sync word, past the caches.
    fn sync_load(&self, op: Op) -> u64 {
        self.arrive_sync(op, Found::Hit);
        self.world().check_use(op);
        self.find(op, true)
    }

    /// A load of another thread's owned word, past the caches. `must_see`: whether it must find what the owner has
    /// stored.
    fn peek(&self, at: u64, must_see: bool) -> u64 {
        let op = Op::word(Kind::Load, at, 0);
        self.arrive_sync(op, Found::Hit);
        self.find(op, must_see)
    }

    fn find(&self, op: Op, must_see: bool) -> u64 {
        let world = self.world();
        let own = world.forwarded(op.at, Way::Memory);
        let found = own.unwrap_or_else(|| {
            if must_see {
                world.reads(op.at, 8, From::Memory, true);
            }
            world.machine.load(op.at)
        });
        world.done(op, found);
        found
    }

    /// How cached accesses are buffered: on a coherent machine there is one way only.
    pub(super) const CACHED: Way = if COHERENT { Way::Memory } else { Way::Cache };

    /// Pins on incoherent memory are exchanges and stores of words in the process's own memory, which is not simulated.
    /// What the thread stored before them is visible before them.
    fn meets_own_process(&self) {
        if !COHERENT {
            self.world().drain_own();
        }
    }

    /// Whether a line is transferred word by word.
    fn tears(&self) -> bool {
        let world = self.world();
        world.clock.is_none() && world.fault(Fault::Tear, 2) == 1
    }
}

/// Waits for the running thread's turn to do `op`.
pub(super) fn arrive(world: NonNull<World>, op: Op) {
    // SAFETY: as in `SimMemory::world`; the reference ends before the switch.
    let goes_on = unsafe { &mut *world.as_ptr() }.arrive_from(op);
    if let Some(yielder) = goes_on {
        // SAFETY: the yielder belongs to the coroutine that is running, and lives on its stack until it ends.
        unsafe { &*yielder }.suspend(());
    }
}

impl World {
    /// Like [`World::arrive`]; the yielder to give way by, if the thread must.
    fn arrive_from(&mut self, op: Op) -> Option<*const Yielder<(), ()>> {
        let yielder = self.threads[self.current as usize].yielder;
        (!self.arrive(op)).then_some(yielder)
    }
}

// SAFETY: the world checks each access and outlives its threads, of which one runs at a time.
unsafe impl<const COHERENT: bool> Memory for SimMemory<COHERENT> {
    const COHERENT: bool = COHERENT;
    const NAME: &'static str = "simulated";

    fn is_delegated(&self) -> bool {
        !self.is_direct && self.world().delegation.is_some()
    }

    fn reserve(&self, at: u64, len: u64, _huge_from: Option<u64>) -> Result<(), MappingError> {
        let op = Op::other(Kind::Kernel);
        self.arrive(op);
        let world = self.world();
        world.drain_own();
        let is_refused = world.refuses();
        world.done(op, u64::from(is_refused));
        self.spend(op, Found::Hit);
        match at.checked_add(len) {
            Some(end) if end <= self.world().capacity && !is_refused && !self.world().refuses_space() => {
                self.world().set_holes(at, len, false);
                Ok(())
            }
            _ => Err(MappingError::NoSpace { bytes: len }),
        }
    }

    unsafe fn punch(&self, at: u64, len: u64) -> Result<(), MappingError> {
        let op = Op::other(Kind::Kernel);
        self.arrive(op);
        self.world().done(op, 0);
        self.spend(op, Found::Hit);
        self.world().set_holes(at, len, true);
        Ok(())
    }

    fn kernel(&self) -> &dyn Kernel {
        self
    }

    fn relies_on_barrier(&self) -> bool {
        self.world().machine.shape().has_membarrier
    }

    fn barrier_everywhere(&self) -> bool {
        if !self.world().machine.shape().has_membarrier {
            return false;
        }
        let op = Op::other(Kind::Kernel);
        self.arrive(op);
        let world = self.world();
        world.drain_everybody();
        world.done(op, 0);
        self.spend(op, Found::Hit);
        true
    }

    fn pinned(&self) {
        self.world().pin();
        self.meets_own_process();
    }

    fn unpinned(&self) {
        self.meets_own_process();
        self.world().unpin();
    }

    fn tells_own_process(&self) {
        self.meets_own_process();
    }

    fn must_be_in_memory(&self, at: u64, len: u64) {
        if !COHERENT {
            self.world().must_be_in_memory(at, len);
        }
    }

    fn must_not_be_cached(&self, at: u64, len: u64) {
        if !COHERENT {
            self.world().must_not_be_cached(at, len);
        }
    }

    fn enter(&self, place: u32) -> bool {
        let world = self.world();
        let process = world.threads[world.current as usize].process;
        let client = world.processes[process as usize].client.clone();
        client.is_none_or(|client| client.enter(&self.direct(), place))
    }

    fn quiesce(&self) {
        self.delegate(0, Wish::Quiesce);
    }

    fn pause(&self) {
        let op = Op::other(Kind::Wait);
        self.arrive(op);
        let world = self.world();
        world.done(op, 0);
        world.passes(op.kind, |clock, thread| clock.pause(thread));
    }

    fn relax(&self) {
        let op = Op::other(Kind::Wait);
        self.arrive(op);
        self.world().drain_own();
        self.world().done(op, 0);
        self.spend(op, Found::Hit);
    }

    fn park(&self, time: Duration) {
        self.rest(time)
    }

    fn rest(&self, time: Duration) {
        self.relax();
        let world = self.world();
        if world.never_sleeps {
            return;
        }
        let sleeps = |clock: &mut Clock, thread| clock.spend_ps(thread, time.as_nanos() as u64 * 1_000);
        if world.passes(Kind::Wait, sleeps).is_some() {
            return;
        }
        for _ in 1..time.min(LONGEST_REST).as_micros() / REST_PER_WAIT.as_micros() {
            self.relax();
        }
    }

    unsafe fn load(&self, at: u64) -> u64 {
        if !COHERENT && sweep::is_weak(Touch::Load) {
            return self.weak_load(Kind::Speculate, at);
        }
        self.sync_load(Op::word(Kind::Load, at, 0))
    }

    unsafe fn store(&self, at: u64, value: u64) {
        if self.delegate(at, Wish::Store(value)).is_some() {
            return;
        }
        let op = Op::word(Kind::Store, at, value);
        self.arrive_sync(op, Found::Hit);
        let world = self.world();
        world.check_use(op);
        let before = world.machine.load(at);
        world.put(at, Data::Word(value), Way::Memory);
        world.done(op, before);
    }

    unsafe fn store_line(&self, at: u64, line: [u64; 8]) {
        let op = Op::range(Kind::Store, at, LINE);
        self.arrive_sync(op, Found::Hit);
        self.world().check_use(op);
        if self.world().server == Some(self.world().current) {
            self.world().owed.stores(at);
        }
        if self.tears() {
            for (n, word) in line.into_iter().enumerate() {
                let op = Op::word(Kind::Store, at + 8 * n as u64, word);
                if n > 0 {
                    self.arrive(op);
                }
                let world = self.world();
                world.put(op.at, Data::Word(word), Way::Memory);
                world.done(op, 0);
            }
        } else {
            let bytes = line.iter().flat_map(|word| word.to_le_bytes()).collect();
            let world = self.world();
            world.put(at, Data::Bytes(bytes), Way::Memory);
            world.done(op, line[0]);
        }
    }

    unsafe fn store_seq_cst(&self, at: u64, value: u64) {
        self.sync(Op::word(Kind::StoreSeqCst, at, value), |_| Some(value));
    }

    unsafe fn compare_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        let mut strength = Strength::Full;
        if sweep::is_weak(Touch::Exchange) {
            sweep::passed(self.world().moment(), self.world().has_buffered());
            strength = Strength::Weakened;
        }
        self.compare_and_exchange(at, (current, new), strength)
    }

    unsafe fn compare_exchange_acquire(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.compare_and_exchange(at, (current, new), Strength::Acquire)
    }

    unsafe fn swap(&self, at: u64, value: u64) -> u64 {
        if self.is_delegated() {
            // SAFETY: the caller's promise.
            return unsafe { swap_by_exchanges(self, at, value) };
        }
        self.sync(Op::word(Kind::FetchModify, at, value), |_| Some(value))
    }

    unsafe fn fetch_add(&self, at: u64, value: u64) -> u64 {
        if let Some(before) = self.delegate(at, Wish::Add(value)) {
            return before;
        }
        self.sync(Op::word(Kind::FetchModify, at, value), |before| {
            Some(before.wrapping_add(value))
        })
    }

    unsafe fn fetch_or(&self, at: u64, value: u64) -> u64 {
        if let Some(before) = self.delegate(at, Wish::Or(value)) {
            return before;
        }
        self.sync(Op::word(Kind::FetchModify, at, value), |before| {
            Some(before | value)
        })
    }

    unsafe fn fetch_and(&self, at: u64, value: u64) -> u64 {
        if let Some(before) = self.delegate(at, Wish::And(value)) {
            return before;
        }
        self.sync(Op::word(Kind::FetchModify, at, value), |before| {
            Some(before & value)
        })
    }

    unsafe fn load_speculative(&self, at: u64) -> u64 {
        if self.reads_at_once() {
            return self.world().machine.load(at);
        }
        self.cached_load(Kind::Speculate, at)
    }

    unsafe fn fetch_line(&self, at: u64) -> [u64; 8] {
        self.fetch(at, true)
    }

    /// Without a clock one by one, so that others come in between.
    unsafe fn fetch_lines(&self, at: u64, lines: &mut [[u64; 8]]) {
        if self.world().clock.is_none() {
            for (n, line) in lines.iter_mut().enumerate() {
                *line = self.fetch(at + n as u64 * LINE, true);
            }
            return;
        }
        let len = LINE * lines.len() as u64;
        let op = Op::range(Kind::FetchLine, at, len);
        self.arrive_sync(op, Found::Missed(lines.len() as u32));
        let world = self.world();
        world.drain_lines(at, len);
        world.begin(at, len, true);
        world.complete();
        world.fetch(self.host, at, len);
        for (word, at) in lines.iter_mut().flatten().zip((at..).step_by(8)) {
            *word = world.load_cached(self.host, at, Use::Shared).0;
        }
        world.done(op, 0);
    }

    fn reads_private(&self, lines: u64) {
        self.world()
            .passes(Kind::Read, |clock, thread| clock.spend_hits(thread, lines));
    }

    fn prefetch(&self, at: u64) {
        let op = Op::range(Kind::Prefetch, at & !(LINE - 1), LINE);
        self.arrive(op);
        let world = self.world();
        if !COHERENT {
            world.begin(at, 1, true);
        }
        world.done(op, 0);
        self.spend(op, Found::Hit);
    }

    unsafe fn owned_store(&self, at: u64, value: u64) {
        self.cached_store(Kind::OwnedStore, at, value);
    }

    unsafe fn owned_store_lazily(&self, at: u64, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.owned_store(at, value) };
        self.world().is_lazy(at);
    }

    unsafe fn owned_load(&self, at: u64) -> u64 {
        self.cached_load(Kind::OwnedLoad, at)
    }

    unsafe fn owned_peek(&self, at: u64) -> u64 {
        if !COHERENT && sweep::is_weak(Touch::Peek) {
            return self.weak_load(Kind::OwnedLoad, at);
        }
        self.peek(at, true)
    }

    unsafe fn owned_peek_speculative(&self, at: u64) -> u64 {
        self.peek(at, false)
    }

    unsafe fn owned_peek_line_speculative(&self, at: u64) -> [u64; 8] {
        self.fetch(at, false)
    }

    unsafe fn bytes(&self, at: u64, len: u64) -> &[u8] {
        let op = Op::range(Kind::Read, at, len);
        self.arrive(op);
        let world = self.world();
        world.drain_extent(at, len);
        let found = world.fetch(self.host, at, len);
        world.reads(at, len, From::Cache, false);
        if COHERENT {
            world.give(at, len);
        }
        world.done(op, 0);
        self.spend(op, found);
        self.world().machine.bytes(self.host, at, len)
    }

    /// Without a clock all is read at once, as by [`Memory::bytes`].
    unsafe fn bytes_in_part(&self, at: u64, len: u64) -> &[u8] {
        let world = self.world();
        if world.clock.is_none() {
            // SAFETY: the caller's promise.
            return unsafe { self.bytes(at, len) };
        }
        world.drain_extent(at, len);
        world.machine.show(self.host, at, len);
        self.world().machine.bytes(self.host, at, len)
    }

    fn reads(&self, at: u64, len: u64) {
        if self.world().clock.is_none() {
            return;
        }
        let op = Op::range(Kind::Read, at, len);
        self.arrive(op);
        let world = self.world();
        let found = world.fetch(self.host, at, len);
        world.done(op, 0);
        self.spend(op, found);
    }

    unsafe fn copy_out(&self, at: u64, to: &mut [u8]) {
        // SAFETY: the caller's promise.
        to.copy_from_slice(unsafe { self.bytes(at, to.len() as u64) });
    }

    unsafe fn write(&self, at: u64, data: &[u8]) {
        let op = Op::range(Kind::Write, at, data.len() as u64);
        self.arrive(op);
        let world = self.world();
        let found = world.put(at, Data::Bytes(data.into()), Self::CACHED);
        world.done(op, data.len() as u64);
        self.spend(op, found);
    }

    unsafe fn write_word(&self, at: u64, value: u64) {
        self.cached_store(Kind::Write, at, value);
    }

    unsafe fn zero(&self, at: u64, len: u64) {
        // In pieces of a page: no thread sees a difference, and a level would be a large temporary.
        let zeroes = [0; 4096];
        let mut from = at;
        while from < at + len {
            let piece = (at + len - from).min(4096);
            // SAFETY: the caller's promise.
            unsafe { self.write(from, &zeroes[..piece as usize]) };
            from += piece;
        }
    }

    fn write_back(&self, at: u64, len: u64) {
        if sweep::is_weak(Touch::WriteBack) {
            sweep::passed(
                self.world().moment(),
                !COHERENT && self.world().has_dirty(at, len),
            );
            return;
        }
        self.begin(Op::range(Kind::WriteBack, at, len), false);
    }

    fn invalidate(&self, at: u64, len: u64) {
        if sweep::is_weak(Touch::Invalidate) {
            sweep::passed(
                self.world().moment(),
                !COHERENT && self.world().has_lines(at, len),
            );
            return;
        }
        if self.reads_at_once() {
            return;
        }
        self.begin(Op::range(Kind::Invalidate, at, len), true);
    }

    fn fence(&self) {
        if sweep::is_weak(Touch::Fence) {
            sweep::passed(self.world().moment(), self.world().has_begun());
            return;
        }
        let op = Op::other(Kind::Fence);
        self.arrive(op);
        self.world().drain_own();
        let completed = self.world().complete();
        self.world().done(op, completed as u64);
        self.spend(op, Found::Missed(completed as u32));
    }
}

impl<const COHERENT: bool> SimMemory<COHERENT> {
    fn cached_load(&self, kind: Kind, at: u64) -> u64 {
        let op = Op::word(kind, at, 0);
        self.arrive(op);
        let world = self.world();
        let (value, found) = match world.forwarded(at, Self::CACHED) {
            Some(own) => (own, Found::Hit),
            None => {
                if !matches!(kind, Kind::Speculate) {
                    world.reads(at, 8, From::Cache, false);
                }
                let usage = match kind {
                    Kind::OwnedLoad => Use::Own,
                    _ => Use::Shared,
                };
                world.load_cached(self.host, at, usage)
            }
        };
        world.done(op, value);
        self.spend(op, found);
        value
    }

    /// A load past the cache that was weakened to one of what the host's cache has, which may be as old as the run.
    fn weak_load(&self, kind: Kind, at: u64) -> u64 {
        let op = Op::word(kind, at, 0);
        self.arrive(op);
        let world = self.world();
        let (value, found) = match world.forwarded(at, Self::CACHED) {
            Some(own) => (own, Found::Hit),
            None => match world.old_copy(self.host, at) {
                Some(old) => (old, Found::Hit),
                None => {
                    world.reads(at, 8, From::Cache, true);
                    world.load_cached(self.host, at, Use::Shared)
                }
            },
        };
        sweep::passed(world.moment(), value != world.machine.load(at));
        world.done(op, value);
        self.spend(op, found);
        value
    }

    /// Fetches a line afresh; checks that the reader finds what it must see if `must_see`.
    fn fetch(&self, at: u64, must_see: bool) -> [u64; 8] {
        let at = at & !(LINE - 1);
        let op = Op::range(Kind::FetchLine, at, LINE);
        self.arrive_sync(op, Found::Missed(1));
        let tears = self.tears();
        let world = self.world();
        world.drain_lines(at, LINE);
        world.begin(at, LINE, true);
        world.complete();
        world.fetch(self.host, at, LINE);
        let mut line = [0; 8];
        for (n, word) in line.iter_mut().enumerate() {
            let op = Op::word(Kind::FetchLine, at + 8 * n as u64, 0);
            if tears && n > 0 {
                self.arrive(op);
            }
            let world = self.world();
            if must_see {
                world.reads(op.at, 8, From::Cache, true);
            }
            *word = world.load_cached(self.host, op.at, Use::Shared).0;
            if tears {
                world.done(op, *word);
            }
        }
        if !tears {
            let sum = line.iter().fold(0, |sum: u64, word| sum.rotate_left(7) ^ word);
            self.world().done(op, sum);
        }
        line
    }

    fn cached_store(&self, kind: Kind, at: u64, value: u64) {
        let op = Op::word(kind, at, value);
        self.arrive(op);
        let world = self.world();
        let found = world.put(at, Data::Word(value), Self::CACHED);
        world.done(op, 0);
        self.spend(op, found);
    }

    fn begin(&self, op: Op, drops: bool) {
        self.arrive(op);
        let world = self.world();
        if !COHERENT {
            world.drain_lines(op.at, op.len);
            world.begin(op.at, op.len, drops);
        }
        world.done(op, 0);
        self.spend(op, Found::Hit);
    }
}
