//! A user's lock that threads of several hosts take, besides what they do. The thread that gives it back wakes threads
//! of its own host only, and clears the event count for all: threads of other hosts must check again by themselves. No
//! two may hold it, and every thread must get it in the end.

use std::cell::Cell;
use std::rc::Rc;

use cenote::Result;
use cenote::pod::Worker;
use cenote::sync::Timeout;
use cenote::sync::object::LockKind;

use super::Log;
use super::locks::Lock;
use crate::check::exclusion::Mode;
use crate::exec::{Context, SimMemory};

/// Most steps that an owner does nothing: long enough for others to sleep.
const PAUSES: u32 = 64;

/// The lock, and what is known of it outside the machine.
pub struct SharedLock {
    form: LockKind,
    log: Log,
    /// The thread that holds it, or held it when it was killed.
    holder: Cell<Option<u32>>,
}

impl SharedLock {
    pub fn new(seed: u64, log: &Log) -> Self {
        let forms = [LockKind::Queue, LockKind::Mutex, LockKind::Rw, LockKind::Spin];
        Self {
            form: forms[(seed % forms.len() as u64) as usize],
            log: log.clone(),
            holder: Cell::new(None),
        }
    }

    /// Makes it.
    pub fn prepare<const C: bool>(&self, worker: &Rc<Worker<SimMemory<C>>>) -> Result<()> {
        Lock::open(worker, self.form, 0).map(drop)
    }

    /// Takes it, holds it for so many steps, and gives it back.
    pub fn pass<const C: bool>(
        &self,
        context: &Context<C>,
        worker: &Rc<Worker<SimMemory<C>>>,
        drawn: u32,
    ) -> Result<()> {
        let lock = Lock::open(worker, self.form, 0)?;
        let held = lock.take(Mode::Exclusive, Timeout::Forever)?;
        let me = context.thread();
        if let Some(other) = self
            .holder
            .replace(Some(me))
            .filter(|&other| !context.was_killed(other))
        {
            self.log
                .fault(format!("thread {me} has the lock, and so has thread {other}"));
        }
        for _ in 0..drawn % PAUSES {
            context.wait();
        }
        self.holder.set(None);
        drop(held);
        Ok(())
    }
}
