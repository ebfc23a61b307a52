//! A pool on a simulated machine, and processes that have it open, put together from the library's layers. The store
//! layer does the same with a file.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use cenote::index::hooks;
use cenote::pod::format::geometry::{Geometry, Parameters};
use cenote::pod::format::superblock::{COMMITTED, HEADER_BYTES, MemoryKind, Superblock};
use cenote::pod::instance::limits::Limits;
use cenote::pod::reclaim::collect::collect_adopted;
use cenote::pod::reclaim::flush::FlushServer;
use cenote::pod::{Pod, Worker, alloc::growth, commit::recovery};
use cenote::sync::directory::downconvert::Downconverter;
use cenote::{Error, Result};

use crate::exec::{Context, SimMemory};
use cenote::memory::Published;

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Published::at(at, len) }
}

/// A simulated pool's tables: small, so that a run is short.
pub fn parameters(coherent: bool, frames_max: u64) -> Parameters {
    Parameters {
        kind: if coherent {
            MemoryKind::Coherent
        } else {
            MemoryKind::Noncoherent
        },
        max_frames: frames_max,
        processes: 16,
        workers: 24,
        entries: 4,
        hosts: 16,
    }
}

/// Bytes of memory that a pool with these parameters needs.
pub fn bytes(parameters: Parameters) -> u64 {
    Geometry::new(parameters).mapped
}

/// Makes the machine's memory a pool with so many frames.
pub fn format<const C: bool>(context: &Context<C>, parameters: Parameters, frames: u64) -> Result<()> {
    let superblock = Superblock {
        parameters,
        id: 1,
        created: 0,
    };
    let memory = context.memory();
    superblock.format(&memory)?;
    let pod = Arc::new(limited(
        context,
        Pod::join(
            memory,
            superblock,
            context.identity(),
            context.liveness(),
            hooks(),
        )?,
    ));
    growth::commit_initial(&Worker::attach(&pod, false)?, frames)
}

/// How long the background thread sleeps, where there is time: as long as that of the store layer.
const TICK_PS: u64 = 1_000_000_000;
/// After so many of its ticks it scans all directory locks of the process; else it answers for those that are asked
/// for.
const TICKS_PER_SCAN: u32 = 20;

/// A process that has the pool open.
pub struct Member<const C: bool> {
    /// Its view of the pool.
    pub pod: Arc<Pod<SimMemory<C>>>,
    /// How many of its threads have not ended.
    running: Rc<Cell<u32>>,
    /// Whether its background thread has not ended.
    serving: Rc<Cell<u32>>,
}

impl<const C: bool> Member<C> {
    /// Opens the pool, recovers the dead, and starts the background thread if `attended`.
    pub fn join(context: &Context<C>, attended: bool) -> Result<Self> {
        let memory = context.memory();
        let mut head = [0; HEADER_BYTES];
        head.copy_from_slice(published(0, HEADER_BYTES as u64).bytes(&memory));
        let superblock = Superblock::decode(Path::new("simulated"), &head)?;
        let pod = Arc::new(limited(
            context,
            Pod::join(
                memory,
                superblock,
                context.identity(),
                context.liveness(),
                hooks(),
            )?,
        ));
        recovery::recover_dead(&Worker::attach(&pod, false)?)?;
        let serving = Rc::default();
        if attended {
            let pod = pod.clone();
            context.spawn_counted(&serving, move |agent| {
                // A worker's thread is the one that attaches it.
                let worker = loop {
                    match Worker::attach(&pod, true) {
                        Ok(worker) => break worker,
                        // A repairer keeps it out until it has seen this process, or has ended.
                        Err(Error::Repairing { .. }) if !pod.is_closing() => agent.wait(),
                        Err(Error::Repairing { .. }) => return,
                        Err(error) => panic!("the background thread: {error}"),
                    }
                };
                drop(pod);
                let mut flush_server = FlushServer::begin(&worker);
                let mut locks = Downconverter::new(&worker);
                let mut ticks = 0_u32;
                while !worker.pod().is_closing() {
                    flush_server.tick(&worker, 1);
                    let _ = collect_adopted(&worker);
                    locks.answer(&worker);
                    if ticks.is_multiple_of(TICKS_PER_SCAN) {
                        locks.scan(&worker);
                    }
                    ticks = ticks.wrapping_add(1);
                    agent.wait();
                    agent.spend_ps(TICK_PS);
                }
                FlushServer::end(&worker);
            });
        }
        Ok(Self {
            pod,
            running: Rc::default(),
            serving,
        })
    }

    /// Starts a thread of the process that works on the pool.
    pub fn spawn(
        &self,
        context: &Context<C>,
        work: impl FnOnce(Context<C>, Arc<Pod<SimMemory<C>>>) + 'static,
    ) {
        let pod = self.pod.clone();
        context.spawn_counted(&self.running, move |context| work(context, pod));
    }

    /// Waits until the threads have ended, and leaves the pool. On incoherent memory, for its background thread too:
    /// when this has returned, the process may join again.
    pub fn leave(self, context: &Context<C>) {
        context.wait_for(&self.running);
        self.pod.close();
        if !C {
            context.wait_for(&self.serving);
        }
    }
}

/// A process's view of a pool, with the thresholds of the run.
pub fn limited<const C: bool>(context: &Context<C>, pod: Pod<SimMemory<C>>) -> Pod<SimMemory<C>> {
    // Maps are small: whether one is too large is asked at each removal.
    let limits = context.limits().unwrap_or(Limits {
        removals: 0,
        ..Limits::usual::<SimMemory<C>>()
    });
    pod.with_limits(limits)
}

/// What tells whether a pool may be full: it has grown to its maximum, or the file system has refused to let it grow.
pub fn space_is_out<const C: bool>(
    context: &Context<C>,
    parameters: Parameters,
) -> impl Fn() -> bool + 'static {
    let context = context.clone();
    move || context.refusals() > 0 || context.peek(COMMITTED.offset()) >= parameters.max_frames
}

/// Whether an error is what a full pool answers.
pub fn is_full(error: &Error) -> bool {
    matches!(error, Error::Full { .. })
}
