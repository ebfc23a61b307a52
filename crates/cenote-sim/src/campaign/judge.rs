//! Judges a run by its end, by what its threads wrote down, and by the checkers.

use super::{Plan, Result};
use crate::check::spec::ordered::{Op, OrderedMap, Ret, by_key, is_well_formed};
use crate::check::{Partitioned, Verdict, leak, linear, notified, progress};
use crate::exec::{Ended, Outcome, Stop};
use crate::history::{Event, History};
use crate::subjects::Inner;

/// Why calls fit no order.
pub(super) struct Disorder {
    what: String,
    /// The step at which the last of them returned.
    pub(super) step: Option<u64>,
}

impl From<Verdict> for Disorder {
    fn from(verdict: Verdict) -> Self {
        let step = match &verdict {
            Verdict::Violation(violation) => violation.lines.iter().find(|line| line.is_last),
            _ => None,
        };
        Self {
            step: step.and_then(|line| line.returned),
            what: verdict.to_string(),
        }
    }
}

/// Configurations of a history with calls on several keys after which the search for an order is given up.
const CALLS_STATES_MAX: usize = 1 << 16;

impl Plan {
    pub(super) fn judge(
        &self,
        outcome: &Outcome,
        mut log: Inner,
    ) -> (Result, Option<History<Op, Ret>>, bool) {
        for &(thread, step) in &outcome.deaths {
            log.calls.lose(thread, step);
            for spent in log
                .spent
                .iter_mut()
                .filter(|spent| spent.process == thread && !spent.finished)
            {
                spent.live = false;
            }
        }
        let mut locks = std::mem::take(&mut log.locks);
        if !locks.is_empty() {
            let died = |&(process, step): &(u32, u64)| (step, notified::Event::Died { process });
            locks.extend(outcome.deaths.iter().map(died));
            locks.sort_by_key(|&(step, _)| step);
        }
        let notified = notified::check(&locks).map_err(|fault| fault.to_string());
        let faults = std::mem::take(&mut log.faults);
        let history = match log.calls.finish() {
            Ok(history) => history,
            Err(malformed) => return (Result::Wrong("history", malformed.to_string()), None, false),
        };
        let verdict = match notified {
            Err(fault) if !matches!(outcome.ended, Ended::Panicked(_)) => {
                Err(Result::Wrong("exclusion", fault))
            }
            _ => self.verdict(outcome, &faults, &history, log.account, &log.spent),
        };
        match verdict {
            Ok(is_by_key) => (Result::Passed, Some(history), is_by_key),
            Err(result) => (result, Some(history), false),
        }
    }

    fn verdict(
        &self,
        outcome: &Outcome,
        faults: &[String],
        history: &History<Op, Ret>,
        account: Option<leak::Account>,
        spent: &[progress::Spent],
    ) -> std::result::Result<bool, Result> {
        if let Some(wrong) = how_it_stopped(&outcome.ended) {
            return Err(wrong);
        }
        if let Some(fault) = faults.first() {
            return Err(Result::Wrong("faults", fault.clone()));
        }
        if outcome.ended == Ended::Stopped(Stop::Stuck) {
            return Err(Result::Stuck(format!(
                "{} steps, and not at an end",
                outcome.steps
            )));
        }
        let is_by_key = self
            .has_order(history)
            .map_err(|disorder| Result::Wrong("linearizability", disorder.what))?;
        match account.as_ref().map(leak::check) {
            None => {
                let never = "the auditor did not come to its account".to_owned();
                return Err(Result::Wrong("leaks", never));
            }
            Some(Err(leak)) => return Err(Result::Wrong("leaks", leak.to_string())),
            Some(Ok(())) => {}
        }
        match progress::check(spent, self.steps_of_128_operations() / 2) {
            Err(fault) => Err(Result::Wrong("progress", fault.to_string())),
            Ok(_) => Ok(is_by_key),
        }
    }

    /// Whether the calls fit some order; `Ok(true)` if only what they say of each key was found to.
    pub(super) fn has_order(&self, history: &History<Op, Ret>) -> std::result::Result<bool, Disorder> {
        let mut options = linear::Options {
            durability: self.durability(),
            ..linear::Options::default()
        };
        let is_look = |event: &Event<Op, Ret>| OrderedMap.key(&event.op).is_none();
        if !history.events().iter().any(is_look) {
            return match linear::check_parts(&OrderedMap, history, &options) {
                Verdict::Linearizable => Ok(false),
                other => Err(other.into()),
            };
        }
        if let Some(look) = history.events().iter().find(|event| !is_well_formed(event)) {
            return Err(Disorder {
                what: format!("process {}: {:?} -> {:?}", look.process, look.op, look.result),
                step: look.returned,
            });
        }
        // A fault of one key is found at once, and reported more simply.
        match by_key(history).map(|history| linear::check_parts(&OrderedMap, &history, &options)) {
            None | Some(Verdict::Linearizable) => {}
            Some(other) => return Err(other.into()),
        }
        options.states_max = CALLS_STATES_MAX;
        match linear::check(&OrderedMap, history, &options) {
            Verdict::Linearizable => Ok(false),
            Verdict::Undecided { .. } => Ok(true),
            violation => Err(violation.into()),
        }
    }
}

/// The result of a run that did not come to its end, or not well; whether it was stuck is asked last.
fn how_it_stopped(ended: &Ended) -> Option<Result> {
    let stop = match ended {
        Ended::Panicked(message) => return Some(Result::Crashed(message.clone())),
        Ended::Stopped(stop) => stop,
        Ended::Well => return None,
    };
    let (checker, what) = match stop {
        Stop::MixedUse(mixed, op) => (
            "mixed use",
            format!(
                "{} of the word at {:#x}, which the cache of host {} holds dirty",
                op.kind.name(),
                mixed.at,
                mixed.host
            ),
        ),
        Stop::Hole(op) => (
            "holes",
            format!(
                "{} of {} bytes at {:#x}, which were given back to the file system",
                op.kind.name(),
                op.len,
                op.at
            ),
        ),
        Stop::SliceChanged(changed) => ("slices", changed.to_string()),
        Stop::Stale(stale) => ("order", stale.to_string()),
        Stop::Unreliable(unreliable) => ("order", unreliable.to_string()),
        Stop::Overslept(overslept) => ("sleep", overslept.to_string()),
        Stop::Stuck => return None,
    };
    Some(Result::Wrong(checker, what))
}
