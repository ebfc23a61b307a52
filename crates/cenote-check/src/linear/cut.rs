//! A history cut in two at a step: the configurations that the calls before it can lead to, and what is left to order.
//!
//! Every order of a history begins with a shortest part that contains all calls that ended before the cut. No call of
//! this part began after the cut, for it would come after all of those. So the history has an order exactly if what is
//! left has one from one of the configurations that such parts lead to. Calls that were running at the cut may be in
//! the part or not; those that return later are ordered with the result that they will have.

use super::super::Specification;
use super::search::{Found, Search};
use super::timeline::{End, Operation, Timeline};

/// The most configurations that are listed; more explain nothing.
const STARTS_MAX: usize = 64;

/// Calls of an object with the specification `S`.
pub(super) type Calls<'h, S> = Vec<Operation<'h, <S as Specification>::Op, <S as Specification>::Ret>>;

/// A configuration at the cut.
#[derive(Debug)]
pub(super) struct Start<State> {
    pub state: State,
    /// The calls that were running at the cut and took effect before it, by their place in the history.
    pub done: Vec<usize>,
}

/// The configurations at the step `cut`; `None` if they are too many to list.
pub(super) fn starts<S: Specification>(
    spec: &S,
    calls: &Calls<'_, S>,
    cut: u64,
    states_max: usize,
) -> Option<Vec<Start<S::State>>> {
    let mut early: Calls<'_, S> = calls.iter().filter(|call| call.invoke < cut).cloned().collect();
    for call in &mut early {
        call.end = match call.end {
            End::Return(step) if step >= cut => End::Later,
            End::Expiry(step) if step >= cut => End::Open,
            end => end,
        };
    }
    let running: Vec<usize> = calls
        .iter()
        .filter(|call| is_left(call, cut))
        .map(|call| call.event)
        .collect();
    let mut search = Search::new(spec, Timeline::new(early), spec.initial(), states_max);
    let mut starts = Vec::new();
    loop {
        match search.next_order() {
            Found::Order if starts.len() < STARTS_MAX => starts.push(Start {
                state: search.state().clone(),
                done: running
                    .iter()
                    .copied()
                    .filter(|&event| search.has_ordered(event))
                    .collect(),
            }),
            Found::Nothing => return Some(starts),
            Found::Order | Found::GaveUp => return None,
        }
    }
}

/// Whether a call may take effect at the cut or later.
pub(super) fn is_left<Op, Ret>(call: &Operation<'_, Op, Ret>, cut: u64) -> bool {
    match call.end {
        End::Return(step) | End::Expiry(step) => step >= cut,
        End::Open | End::Later => true,
    }
}

/// Whether the calls that are left at a cut have no order, whatever they start from.
pub(super) fn has_no_order<S: Specification>(
    spec: &S,
    left: &Calls<'_, S>,
    starts: &[Start<S::State>],
    states_max: usize,
) -> bool {
    starts.iter().all(|start| {
        let undone = left.iter().filter(|call| !start.done.contains(&call.event));
        let timeline = Timeline::new(undone.cloned().collect());
        let mut search = Search::new(spec, timeline, start.state.clone(), states_max);
        search.next_order() == Found::Nothing
    })
}
