//! What the threads of a run write down for the checkers. It lies outside the simulated machine: nothing happens to it.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use cenote::memory::Memory;
use cenote::pod::Pod;
use cenote::pod::instance::failures::Failure;

use super::pool;
use crate::check::leak::Account;
use crate::check::notified;
use crate::check::progress::Spent;
use crate::check::spec::map;
use crate::check::spec::ordered::{Op, Ret};
use crate::exec::Context;
use crate::history::Recorder;

/// A log that all threads of a run share.
#[derive(Clone, Default)]
pub struct Log {
    inner: Rc<RefCell<Inner>>,
    /// Whether a pool may be full now, where that can be told.
    may_be_full: Rc<OnceCell<Box<dyn Fn() -> bool>>>,
    may_be_damaged: Rc<Cell<bool>>,
}

/// What was written.
#[derive(Default)]
pub struct Inner {
    /// Calls on a map; what the history calls a process is a thread here.
    pub calls: Recorder<Op, Ret>,
    /// What cannot be right by itself.
    pub faults: Vec<String>,
    /// Where all bytes were at the end.
    pub account: Option<Account>,
    /// What happened to locks.
    pub locks: Vec<(u64, notified::Event)>,
    /// What each call took of its thread's own steps.
    pub spent: Vec<Spent>,
}

impl Log {
    /// Writes a fault down.
    pub fn fault(&self, text: impl Into<String>) {
        self.inner.borrow_mut().faults.push(text.into());
    }

    /// A pool may be full if it has grown to its maximum, or if the file system has once refused to let it grow.
    pub fn may_be_full_if(&self, may_be: impl Fn() -> bool + 'static) {
        let _ = self.may_be_full.set(Box::new(may_be));
    }

    /// Whether an error says that the pool is full, and it may be.
    pub fn is_full(&self, error: &cenote::Error) -> bool {
        pool::is_full(error) && self.may_be_full.get().is_none_or(|may_be| may_be())
    }

    /// Writes a fault down, if there is one. That the pool is full is none if it may be.
    pub fn check<R>(&self, what: &str, result: cenote::Result<R>) -> Option<R> {
        result
            .map_err(|error| {
                if !self.is_full(&error) {
                    self.fault(format!("{what}: {error}"))
                }
            })
            .ok()
    }

    /// Checks that a process could recover all the dead that it found. What it could not recover because the pool is
    /// full is left for later.
    pub fn check_recovered<M: Memory>(&self, pod: &Pod<M>) {
        let is_left =
            |failure: &&Failure| !self.may_be_damaged.get() && !failure.why.starts_with("the pool is full");
        if let Some(failure) = pod.failures().iter().find(is_left) {
            self.fault(format!("not recovered: {failure}"));
        }
    }

    /// The run damages something, which cannot be recovered.
    pub fn may_be_damaged(&self) {
        self.may_be_damaged.set(true);
    }

    /// Writes down a call about one key and its result; `None` if there was none.
    pub fn call<const C: bool>(
        &self,
        context: &Context<C>,
        op: map::Op,
        work: impl FnOnce(&map::Op) -> Option<map::Ret>,
    ) {
        self.call_any(context, Op::Point(op.clone()), |_| work(&op).map(Ret::Point));
    }

    /// Writes down a read of several keys, of which only the result says what was asked.
    pub fn read_several<const C: bool>(
        &self,
        context: &Context<C>,
        work: impl FnOnce() -> Option<(Op, Ret)>,
    ) {
        self.read_each(context, || work().into_iter().collect());
    }

    /// Writes down a call that reads several keys, one after the other in any order: as one call for each.
    pub fn read_each<const C: bool>(&self, context: &Context<C>, work: impl FnOnce() -> Vec<(Op, Ret)>) {
        let begun = context.step();
        for (op, ret) in work() {
            let calls = &mut self.inner.borrow_mut().calls;
            let ticket = calls.invoke(context.thread(), op, begun);
            calls.complete(ticket, ret, context.step());
        }
    }

    /// Writes down a call that writes several keys, one after the other in any order: as one call for each. Whether it
    /// has come to its end is what `work` returns; else each may have taken effect.
    pub fn write_each<const C: bool>(
        &self,
        context: &Context<C>,
        pairs: &[(u64, u64)],
        work: impl FnOnce() -> bool,
    ) {
        let begun = context.step();
        let invoke = |&(key, value): &(u64, u64)| {
            let calls = &mut self.inner.borrow_mut().calls;
            calls.invoke(context.thread(), Op::Point(map::Op::Write { key, value }), begun)
        };
        let tickets: Vec<_> = pairs.iter().map(invoke).collect();
        if work() {
            let step = context.step();
            for ticket in tickets {
                let calls = &mut self.inner.borrow_mut().calls;
                calls.complete(ticket, Ret::Point(map::Ret::Done), step);
            }
        }
    }

    /// Writes down a call and its result; `None` if there was none.
    pub fn call_any<const C: bool>(
        &self,
        context: &Context<C>,
        op: Op,
        work: impl FnOnce(&Op) -> Option<Ret>,
    ) {
        let before = context.own_steps();
        let ticket = self
            .inner
            .borrow_mut()
            .calls
            .invoke(context.thread(), op.clone(), context.step());
        let spent = {
            let mut inner = self.inner.borrow_mut();
            inner.spent.push(Spent {
                process: context.thread(),
                operation: 0,
                own_steps: 0,
                finished: false,
                live: true,
            });
            inner.spent.len() - 1
        };
        let result = work(&op);
        let step = context.step();
        let mut inner = self.inner.borrow_mut();
        if let Some(result) = result {
            inner.calls.complete(ticket, result, step);
        }
        inner.spent[spent].operation = spent;
        inner.spent[spent].own_steps = context.own_steps() - before;
        inner.spent[spent].finished = true;
    }

    /// Writes down what happens to a lock.
    pub fn lock<const C: bool>(&self, context: &Context<C>, event: notified::Event) {
        self.inner.borrow_mut().locks.push((context.step(), event));
    }

    /// Sets the account.
    pub fn account(&self, account: Account) {
        self.inner.borrow_mut().account = Some(account);
    }

    /// What was written, after the run.
    pub fn take(&self) -> Inner {
        self.inner.take()
    }
}
