//! Sleep by an event count: a thread that is woken in time passes, and a missing call ends the run.

use std::time::Duration;

use cenote::memory::Memory;
use cenote_sim::exec::{Ended, Overslept, Stop};

use super::harness::{FLAG, Found, Litmus, Thread};
use cenote::memory::SyncWord;

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of simulated memory, which checks each access.
    unsafe { SyncWord::at(at) }
}

const TIME: Duration = Duration::from_millis(1);

fn oversleeps(found: &Found) -> bool {
    found.outcome.ended
        == Ended::Stopped(Stop::Overslept(Overslept {
            thread: 1,
            event_count: FLAG,
        }))
}

/// Thread 0 sleeps until the word is not 0; thread 1 changes it, and wakes the sleeper if `wakes`.
fn sleeps(t: &Thread<'_, true>, wakes: bool) {
    if t.number == 0 {
        while sync_word(FLAG).load(&t.mem) == 0 {
            t.mem.kernel().wait(&[], &[(FLAG, 0)], TIME);
        }
        t.find(0, 1);
    } else {
        sync_word(FLAG).fetch_add(&t.mem, 1);
        if wakes {
            t.mem.kernel().wake(FLAG);
        }
    }
}

#[test]
fn who_is_woken_goes_on() {
    let seen = Litmus::new(2, |t: &Thread<'_, true>| sleeps(t, true)).walks(3_000);
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [[1, 0, 0, 0]]);
}

#[test]
fn a_change_alone_wakes_nobody() {
    Litmus::new(2, |t: &Thread<'_, true>| sleeps(t, false)).first(oversleeps);
}

#[test]
fn who_dies_before_the_call_leaves_sleepers_who_look_later() {
    let notifications = |t: &Thread<'_, true>| {
        if t.number == 0 {
            sync_word(FLAG).fetch_add(&t.mem, 1);
            t.mem.kernel().wake(FLAG);
        } else {
            t.mem.kernel().wait(&[], &[(FLAG, 0)], TIME);
        }
    };
    Litmus::new(2, notifications).dies_at(2).walks(3_000);
}
