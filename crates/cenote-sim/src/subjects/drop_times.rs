//! When structures were dropped by their names, and when handles of them were opened, as a subject knows it; what
//! follows for what a handle may say; and the end of all: everything is dropped, and nothing may be left.

use std::cell::Cell;
use std::rc::Rc;

use cenote::index::dropping::{drop_named, finish_dropped};
use cenote::pod::Worker;
use cenote::pod::names::directory;
use cenote::{Dropped, Error, Result};

use super::Log;
use super::hash::account;
use super::pool::Member;
use crate::exec::{Context, SimMemory};

/// Moments of the drops of some names.
pub struct DropTimes<const N: usize> {
    names: [&'static str; N],
    log: Log,
    /// Counts moments: openings and drops.
    now: Cell<u64>,
    /// Handles of each name that were opened before this are of no use.
    dropped: [Cell<u64>; N],
    /// Drops of each name that have begun and not ended, and when the last one ended.
    dropping: [Cell<u64>; N],
    ended: [Cell<u64>; N],
}

/// When a handle began to be opened, and when it was open.
#[derive(Clone, Copy)]
pub struct Opened {
    began: u64,
    opened: u64,
}

impl<const N: usize> DropTimes<N> {
    pub fn new(names: [&'static str; N], log: Log) -> Self {
        let never = || [const { Cell::new(0) }; N];
        Self {
            names,
            log,
            now: Cell::default(),
            dropped: never(),
            dropping: never(),
            ended: never(),
        }
    }

    fn tick(&self) -> u64 {
        self.now.set(self.now.get() + 1);
        self.now.get()
    }

    /// Opens a handle.
    pub fn open<T>(&self, open: impl FnOnce() -> Result<T>) -> Result<(T, Opened)> {
        let began = self.tick();
        let handle = open()?;
        let opened = self.tick();
        Ok((handle, Opened { began, opened }))
    }

    /// Drops a name.
    pub fn drop_named<const C: bool>(&self, worker: &Rc<Worker<SimMemory<C>>>, name: usize) -> Result<()> {
        let began = self.tick();
        let dropping = &self.dropping[name];
        dropping.set(dropping.get() + 1);
        let outcome = drop_named(worker, self.names[name]);
        dropping.set(dropping.get() - 1);
        self.ended[name].set(self.tick());
        match outcome {
            Ok(Dropped::Freed) => {
                let dropped = &self.dropped[name];
                dropped.set(dropped.get().max(began));
                Ok(())
            }
            Ok(Dropped::InUse) | Err(Error::NoSuch { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Does something with a handle, and judges whether it may be of use, or not. Returns whether it is.
    pub fn on(&self, name: usize, handle: Opened, work: impl FnOnce() -> Result<()>) -> Result<bool> {
        let is_over = handle.opened < self.dropped[name].get();
        let what = self.names[name];
        match work() {
            Err(Error::Dropped) => {
                if self.dropping[name].get() == 0 && self.ended[name].get() < handle.began {
                    self.log
                        .fault(format!("{what} is said to be dropped, and nobody did so"));
                }
                Ok(false)
            }
            Ok(()) if is_over => {
                self.log.fault(format!("{what} is of use after it was dropped"));
                Ok(true)
            }
            done => done.map(|()| true),
        }
    }
}

/// Drops everything, and accounts for every byte.
pub fn drop_all<const C: bool>(context: &Context<C>, log: &Log) -> Result<()> {
    // Alone: a background thread would free what is being accounted for.
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        account(&worker, log)?;
        for named in directory::list(&*worker)? {
            if drop_named(&worker, &named.name)? != Dropped::Freed {
                log.fault(format!("nobody uses {named:?}, and it is not taken apart"));
            }
        }
        let left = finish_dropped(&worker)?;
        if left > 0 || directory::dropped(&worker).next().is_some() {
            log.fault(format!("{left} structures are left that nobody uses"));
        }
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
