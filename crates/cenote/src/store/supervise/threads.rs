//! Supervision of threads: restarts threads of one process that panic or fail, each as a new thread under the same
//! number.
//!
//! A thread that panics gives back what it held in a pool as it unwinds; the next owners of its locks are told. A
//! restarted thread has nothing of the last one: its pool's worker, its locks and its notes are its own.

use std::fmt::Display;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

use super::policy::{History, Jitter, after};
use super::{Policy, Then};

/// A thread to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadStart {
    /// The worker's number, from 0.
    pub worker: u32,
    /// How many workers there are.
    pub workers: u32,
    /// How often it was started before.
    pub restarts: u32,
}

/// How a worker's thread ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadEnd {
    /// It returned.
    Well,
    /// It returned an error, with this text.
    Failed(String),
    /// It panicked, with this message.
    Panicked(String),
    /// It never began.
    NotStarted(String),
}

impl Display for ThreadEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Well => write!(f, "ended well"),
            Self::Failed(why) => write!(f, "failed: {why}"),
            Self::Panicked(message) => write!(f, "panicked: {message}"),
            Self::NotStarted(why) => write!(f, "could not be started: {why}"),
        }
    }
}

/// The end of a worker's thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadEnded {
    /// Which start it was.
    pub start: ThreadStart,
    /// How it ended.
    pub end: ThreadEnd,
    /// What follows.
    pub then: Then,
}

/// What became of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadFate {
    /// How often it was started again.
    pub restarts: u32,
    /// How its last thread ended.
    pub end: ThreadEnd,
}

/// Which start ended, how, and after how long. The thread measures the time itself, as the receiver may be busy with
/// `ended` of others.
type EndNotice = (ThreadStart, ThreadEnd, Duration);

struct Slot {
    starts: u32,
    history: History,
    due: Option<Instant>,
    fate: ThreadFate,
}

/// Runs so many threads, and restarts threads that panic or fail, as the [policy](Policy) says. Returns the fate of
/// each when no thread runs and none will. Calls `ended` for each end, in the calling thread; if it breaks off, no
/// thread is restarted. The policy's grace and lost hosts mean nothing here: threads cannot be ended from outside.
///
/// Panics only if `ended` does; with `panic = "abort"` a panic of a thread ends the process.
pub fn run_threads<E: Display>(
    workers: u32,
    policy: &Policy,
    work: impl Fn(&ThreadStart) -> Result<(), E> + Sync,
    mut ended: impl FnMut(&ThreadEnded) -> ControlFlow<()>,
) -> Vec<ThreadFate> {
    let (now, mut jitter) = (Instant::now(), Jitter::new());
    let slot = |_| Slot {
        starts: 0,
        history: History::default(),
        due: Some(now),
        fate: ThreadFate {
            restarts: 0,
            end: ThreadEnd::Well,
        },
    };
    let mut slots: Vec<Slot> = (0..workers).map(slot).collect();
    let (tell, heard) = channel::<EndNotice>();
    let (mut running, mut goes_on) = (0u32, true);
    std::thread::scope(|scope| {
        loop {
            let now = Instant::now();
            for (n, slot) in slots.iter_mut().enumerate() {
                if slot.due.is_some_and(|due| due <= now) {
                    slot.due = None;
                    running += 1;
                    let start = ThreadStart {
                        worker: n as u32,
                        workers,
                        restarts: slot.starts,
                    };
                    slot.starts += 1;
                    begin(scope, &work, start, tell.clone());
                }
            }
            let next = slots.iter().filter_map(|slot| slot.due).min();
            let (start, end, ran) = match (running, next) {
                (0, None) => return,
                (_, None) => match heard.recv() {
                    Ok(end) => end,
                    // This thread has a sender itself.
                    Err(_) => return,
                },
                (_, Some(due)) => match heard.recv_timeout(due.saturating_duration_since(now)) {
                    Ok(end) => end,
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => continue,
                },
            };
            running -= 1;
            let Some(slot) = slots.get_mut(start.worker as usize) else {
                continue;
            };
            let is_failure = end != ThreadEnd::Well;
            let then = match goes_on {
                true => slot.history.follow(policy, is_failure, ran, &mut jitter),
                false => Then::Over,
            };
            if let Then::Restart(wait) = then {
                slot.due = Some(after(wait));
            }
            slot.fate = ThreadFate {
                restarts: start.restarts,
                end: end.clone(),
            };
            if ended(&ThreadEnded { start, end, then }).is_break() {
                goes_on = false;
                slots.iter_mut().for_each(|slot| slot.due = None);
            }
        }
    });
    slots.into_iter().map(|slot| slot.fate).collect()
}

/// Starts a thread that says how it ended.
fn begin<'scope, E: Display>(
    scope: &'scope Scope<'scope, '_>,
    work: &'scope (impl Fn(&ThreadStart) -> Result<(), E> + Sync),
    start: ThreadStart,
    tell: Sender<EndNotice>,
) {
    let refused = tell.clone();
    let body = move || {
        let began = Instant::now();
        // Others see what a panic leaves half done only in the pool, which is made for that, or in what `work` shares
        // itself. An error may panic too, when it is formatted or dropped; a thread that did not report its end would
        // be waited for for ever.
        let end = match catch_unwind(AssertUnwindSafe(|| {
            work(&start).map_err(|error| error.to_string())
        })) {
            Ok(Ok(())) => ThreadEnd::Well,
            Ok(Err(why)) => ThreadEnd::Failed(why),
            Err(panic) => {
                let message = message_of(&*panic);
                // Dropping the panic's payload may panic again.
                if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
                    std::mem::forget(another);
                }
                ThreadEnd::Panicked(message)
            }
        };
        // If nobody receives it, the receiver has panicked itself.
        let _ = tell.send((start, end, began.elapsed()));
    };
    let named = Builder::new().name(format!("worker {}", start.worker));
    if let Err(error) = named.spawn_scoped(scope, body) {
        let _ = refused.send((start, ThreadEnd::NotStarted(error.to_string()), Duration::ZERO));
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::time::Duration;

    fn quick() -> Policy {
        Policy {
            wait_first: Duration::from_micros(100),
            restarts_max: 3,
            ..Policy::default()
        }
    }

    #[test]
    fn who_panics_or_fails_is_started_again_and_given_up_at_last() {
        let seen = Mutex::new(Vec::new());
        let mut ends = Vec::new();
        let fates = run_threads(
            3,
            &quick(),
            |start| {
                seen.lock().unwrap().push((start.worker, start.restarts));
                match (start.worker, start.restarts) {
                    (0, 0) => panic!("once"),
                    (1, _) => Err("always"),
                    _ => Ok(()),
                }
            },
            |ended| {
                ends.push(ended.clone());
                ControlFlow::Continue(())
            },
        );
        let fate = |restarts, end| ThreadFate { restarts, end };
        assert_eq!(
            fates,
            [
                fate(1, ThreadEnd::Well),
                fate(3, ThreadEnd::Failed("always".to_owned())),
                fate(0, ThreadEnd::Well),
            ]
        );
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0)]);
        let panicked: Vec<_> = ends
            .iter()
            .filter(|one| one.end == ThreadEnd::Panicked("once".to_owned()))
            .collect();
        assert!(matches!(panicked[..], [one] if matches!(one.then, Then::Restart(_))));
        assert_eq!(ends.iter().filter(|one| one.then == Then::GivenUp).count(), 1);
    }

    /// Whose drop, and whose text, panic.
    struct Bomb;

    impl Display for Bomb {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("no text")
        }
    }

    struct Drops;

    impl Drop for Drops {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[test]
    fn who_panics_with_what_panics_ends_all_the_same() {
        let policy = Policy {
            restarts_max: 1,
            ..quick()
        };
        let (told, fates) = channel();
        // A thread that ends and does not say so is waited for for ever.
        std::thread::spawn(move || {
            let fates = run_threads(
                2,
                &policy,
                |start| match start.worker {
                    0 => Err(Bomb),
                    _ => std::panic::panic_any(Drops),
                },
                |_| ControlFlow::Continue(()),
            );
            let _ = told.send(fates);
        });
        let panicked = |message: &str| ThreadFate {
            restarts: 1,
            end: ThreadEnd::Panicked(message.to_owned()),
        };
        let fates = fates.recv_timeout(Duration::from_secs(20));
        assert_eq!(fates, Ok(vec![panicked("no text"), panicked("no message")]));
    }

    #[test]
    fn who_fails_at_once_waits_longer_each_time_however_long_the_ends_are_heard() {
        let policy = Policy {
            wait_first: Duration::from_millis(1),
            wait_most: Duration::from_millis(16),
            restarts_max: 5,
            ..Policy::default()
        };
        let mut waits = [Duration::ZERO; 2];
        run_threads(
            2,
            &policy,
            |_| Err("at once"),
            |ended| {
                if let Then::Restart(wait) = ended.then {
                    waits[ended.start.worker as usize] = wait;
                }
                std::thread::sleep(Duration::from_millis(50));
                ControlFlow::Continue(())
            },
        );
        // Between half of 16 ms and all of it.
        assert!(
            waits.iter().all(|wait| *wait >= Duration::from_millis(8)),
            "{waits:?}"
        );
    }

    #[test]
    fn a_wait_beyond_all_clocks_is_no_panic() {
        let policy = Policy {
            wait_first: Duration::MAX,
            wait_most: Duration::MAX,
            ..Policy::default()
        };
        let (told, ended) = channel();
        std::thread::spawn(move || {
            run_threads(
                2,
                &policy,
                |start| match start.worker {
                    0 => Err("at once"),
                    _ => {
                        std::thread::sleep(Duration::from_millis(100));
                        Ok(())
                    }
                },
                |one| {
                    let _ = told.send(one.start.worker);
                    match one.start.worker {
                        0 => ControlFlow::Continue(()),
                        _ => ControlFlow::Break(()),
                    }
                },
            );
            let _ = told.send(u32::MAX);
        });
        let heard: Vec<u32> = ended.iter().collect();
        assert_eq!(heard, [0, 1, u32::MAX]);
    }

    #[test]
    fn nobody_is_started_again_once_told_to_break_off() {
        let policy = Policy {
            restart: super::super::Restart::Always,
            ..quick()
        };
        let fates = run_threads(
            4,
            &policy,
            |start| match start.worker {
                2 if start.restarts < 2 => Err("not yet"),
                _ => Ok(()),
            },
            |ended| match (ended.start.worker, ended.start.restarts) {
                (2, 2) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            },
        );
        assert_eq!(fates[2].restarts, 2);
        assert_eq!(
            run_threads(0, &policy, |_| Ok::<(), &str>(()), |_| ControlFlow::Break(())),
            []
        );
    }
}
