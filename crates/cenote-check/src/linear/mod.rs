//! Linearizability (Herlihy & Wing 1990): is there an order of the calls that the specification allows, in which every
//! call that ended before another began comes before it?
//!
//! The search is that of Wing & Gong (1993) with the improvements of Lowe (2017, "Testing for linearizability"): a
//! doubly linked list of the calls that are not ordered yet (`timeline.rs`), a cache of the configurations that failed
//! (`search.rs`), where a configuration is the set of ordered calls (`taken.rs`) and the state they lead to. Horn &
//! Kroening (2015, "Faster linearizability checking via P-compositionality") check each part of a partitioned object
//! for itself. Two things are added: a read that is possible now is ordered now and never reconsidered, and calls that
//! may take effect or not are tried only when nothing else is left.
//!
//! **Pending calls** may take effect once or never. When at the latest is the [`Durability`].

mod cut;
mod explain;
mod search;
mod taken;
mod timeline;

use super::{Partitioned, Specification, Verdict};
use crate::history::History;
use search::{Found, Search};
use std::collections::BTreeMap;
use timeline::{Timeline, select};

/// Until when a call may take effect whose process died in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Before the death or never: strict linearizability (Aguilera & Frølund 2003).
    #[default]
    Strict,
    /// At any time, even long after: durable linearizability (Izraelevitz, Mendes & Scott 2016), where survivors or the
    /// recovery may finish what the dead began. Calls that returned keep their order across crashes.
    Durable,
}

/// How to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What a crash may leave behind.
    pub durability: Durability,
    /// The most configurations that a search of one part keeps before it gives up. Each takes a few hundred bytes.
    pub states_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            durability: Durability::Strict,
            states_max: 1 << 20,
        }
    }
}

/// Checks a history as a whole.
pub fn check<S: Specification>(spec: &S, history: &History<S::Op, S::Ret>, options: &Options) -> Verdict {
    let members: Vec<usize> = (0..history.events().len()).collect();
    check_part(spec, history, &members, None, options)
}

/// Checks each part of a history for itself; the whole, if one of its calls touches several parts. Of several parts
/// with a violation, the one with the least key is reported.
pub fn check_parts<S: Partitioned>(spec: &S, history: &History<S::Op, S::Ret>, options: &Options) -> Verdict {
    let mut parts: BTreeMap<S::Key, Vec<usize>> = BTreeMap::new();
    for (index, event) in history.events().iter().enumerate() {
        match spec.key(&event.op) {
            Some(key) => parts.entry(key).or_default().push(index),
            None => return check(spec, history, options),
        }
    }
    let mut verdict = Verdict::Linearizable;
    for (key, members) in parts {
        match check_part(spec, history, &members, Some(format!("{key:?}")), options) {
            Verdict::Linearizable => {}
            Verdict::Undecided { key, states } => verdict = Verdict::Undecided { key, states },
            violation => return violation,
        }
    }
    verdict
}

fn check_part<S: Specification>(
    spec: &S,
    history: &History<S::Op, S::Ret>,
    members: &[usize],
    key: Option<String>,
    options: &Options,
) -> Verdict {
    let timeline = Timeline::new(select(history, members, options.durability, u64::MAX));
    let mut search = Search::new(spec, timeline, spec.initial(), options.states_max);
    match search.next_order() {
        Found::Order => Verdict::Linearizable,
        Found::GaveUp => Verdict::Undecided {
            key,
            states: options.states_max,
        },
        Found::Nothing => {
            let part = explain::Part {
                spec,
                history,
                members,
                options,
            };
            Verdict::Violation(Box::new(part.explain(key)))
        }
    }
}

#[cfg(test)]
mod brute_tests;
#[cfg(test)]
mod generated;
#[cfg(test)]
mod scale_tests;
#[cfg(test)]
mod tests;
