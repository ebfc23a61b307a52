//! From "there is no order" to a few lines that a person can follow.
//!
//! 1. *The last call.* The prefixes of a linearizable history are linearizable, so bisection finds the first return
//!    after which there is no order. Calls that were running at that moment count as pending, their results as unknown.
//! 2. *The cut.* Among the last few calls, the latest begin at which the fewest others were running: the calls before
//!    it are replaced by the configurations that they can lead to (`cut.rs`).
//! 3. *Reads.* A read whose absence leaves a violation is left out. Without it there would be more orders, not fewer,
//!    so what remains still proves the violation. This holds for nothing else: an absent write may be what a read saw.

use super::super::{Line, Specification, Violation};
use super::Options;
use super::cut::{Calls, Start, has_no_order, is_left, starts};
use super::search::{Found, Search};
use super::timeline::{End, Operation, Timeline, select};
use crate::history::History;
use std::cmp::Reverse;

/// How far back the cut may be, in calls.
const CUT_DISTANCE_MAX: usize = 24;
/// The most cuts that are tried.
const CUTS_MAX: usize = 4;
/// The most calls among which reads are left out one by one.
const PRUNED_MAX: usize = 256;

/// The calls on one part of a partitioned object, or all.
pub(super) struct Part<'a, S: Specification> {
    pub spec: &'a S,
    pub history: &'a History<S::Op, S::Ret>,
    pub members: &'a [usize],
    pub options: &'a Options,
}

impl<'a, S: Specification> Part<'a, S> {
    /// A violation of a part that has no order.
    pub fn explain(&self, key: Option<String>) -> Violation {
        let until = self.last_return();
        let known = self.known(until);
        let (cut, starts) = self.cut(&known);
        let (left, earlier): (Calls<'a, S>, Calls<'a, S>) =
            known.into_iter().partition(|call| is_left(call, cut));
        let shown = self.without_reads(&left, &starts, until);
        let mut lines: Vec<Line> = shown.iter().map(|call| self.line(call, until)).collect();
        lines.sort_by_key(|line| line.invoke);
        Violation {
            key,
            before: self.before(&starts),
            lines,
            earlier: earlier.len(),
            reads: left.len() - shown.len(),
        }
    }

    /// The calls that began until a step, as they were known then.
    fn known(&self, until: u64) -> Calls<'a, S> {
        select(self.history, self.members, self.options.durability, until)
    }

    /// The first return after which there is no order.
    fn last_return(&self) -> u64 {
        let events = self
            .members
            .iter()
            .filter_map(|&event| self.history.events().get(event));
        let mut returns: Vec<u64> = events.filter_map(|call| call.returned).collect();
        returns.sort_unstable();
        let has_order = |&until: &u64| {
            let timeline = Timeline::new(self.known(until));
            let mut search = Search::new(self.spec, timeline, self.spec.initial(), self.options.states_max);
            search.next_order() != Found::Nothing
        };
        let first = returns.partition_point(has_order);
        // If a prefix was too much for the search, bisection may miss: then all of it is the explanation.
        returns.get(first).copied().unwrap_or(u64::MAX)
    }

    /// The best cut, and the configurations there.
    fn cut(&self, known: &Calls<'a, S>) -> (u64, Vec<Start<S::State>>) {
        let returned = || known.iter().filter(|call| matches!(call.end, End::Return(_)));
        let running = |cut| {
            returned()
                .filter(|call| call.invoke < cut && is_left(call, cut))
                .count()
        };
        let last = returned().rev().take(CUT_DISTANCE_MAX);
        let mut cuts: Vec<u64> = last.map(|call| call.invoke).collect();
        cuts.sort_by_key(|&cut| (running(cut), Reverse(cut)));
        for cut in cuts.into_iter().take(CUTS_MAX) {
            if let Some(starts) = starts(self.spec, known, cut, self.options.states_max) {
                return (cut, starts);
            }
        }
        let initial = Start {
            state: self.spec.initial(),
            done: Vec::new(),
        };
        (0, vec![initial])
    }

    /// The calls that are left without the reads that it does not take.
    fn without_reads(&self, left: &Calls<'a, S>, starts: &[Start<S::State>], until: u64) -> Calls<'a, S> {
        let mut kept = left.clone();
        if left.len() > PRUNED_MAX {
            return kept;
        }
        let is_last = |call: &Operation<'_, S::Op, S::Ret>| call.end == End::Return(until);
        let is_read = |call: &Operation<'_, S::Op, S::Ret>| self.spec.is_read(call.op, call.result);
        for call in left.iter().filter(|call| is_read(call) && !is_last(call)) {
            let mut fewer = kept.clone();
            fewer.retain(|other| other.event != call.event);
            if has_no_order(self.spec, &fewer, starts, self.options.states_max) {
                kept = fewer;
            }
        }
        kept
    }

    /// The configurations in words, each once.
    fn before(&self, starts: &[Start<S::State>]) -> Vec<String> {
        let is_write = |event: &&usize| {
            let call = self.history.events().get(**event);
            call.is_some_and(|call| !self.spec.is_read(&call.op, call.result.as_ref()))
        };
        let word = |start: &Start<S::State>| {
            let done: Vec<String> = start
                .done
                .iter()
                .filter(is_write)
                .filter_map(|&event| self.history.events().get(event))
                .map(|call| format!("{}", call.invoke))
                .collect();
            if done.is_empty() {
                format!("{:?}", start.state)
            } else {
                format!(
                    "{:?} with the effect of what began at {}",
                    start.state,
                    done.join(", ")
                )
            }
        };
        let mut words: Vec<String> = starts.iter().map(word).collect();
        words.sort();
        words.dedup();
        words
    }

    fn line(&self, call: &Operation<'_, S::Op, S::Ret>, until: u64) -> Line {
        let event = self.history.events().get(call.event);
        Line {
            event: call.event,
            process: call.process,
            op: format!("{:?}", call.op),
            result: event
                .and_then(|event| event.result.as_ref())
                .map(|ret| format!("{ret:?}")),
            invoke: call.invoke,
            returned: event.and_then(|event| event.returned),
            lost: event.and_then(|event| event.lost),
            is_last: call.end == End::Return(until),
        }
    }
}
