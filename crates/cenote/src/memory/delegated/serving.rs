//! Who serves: a thread of each process stands by, and the one whose process holds a certain lock is the server.
//!
//! The lock is given back by the kernel when the process that holds it has made its last access; so there is never more than
//! one server, and a stopped one keeps everybody waiting until it goes on or is killed. Across hosts that share no kernel, the
//! lock must be one that only the living hold: see `docs/protocols/exchange.md`.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::mailbox::Mailboxes;
use super::server::Server;
use crate::memory::{ForkWatch, Liveness, LocalWord, MapError, Memory, forked};

/// Between two looks of one who stands by.
const STANDBY: Duration = Duration::from_micros(500);
/// How long a server looks again and again after the last request.
const BUSY: Duration = Duration::from_millis(2);
/// Between two looks of a server that has had nothing to do for longer than that.
const IDLE: Duration = Duration::from_micros(100);

/// A thread that serves, or stands by. Ends when it is dropped; what it has planned is carried out first.
pub struct Serving {
    ends: Arc<LocalWord>,
    watch: ForkWatch,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Starts the thread. `lock` is the number of the lock by which the server is found.
    pub(crate) fn start<M: Memory>(
        mem: M,
        boxes: Mailboxes,
        limit: u64,
        liveness: Box<dyn Liveness>,
        lock: u32,
        watch: ForkWatch,
    ) -> Result<Self, MapError> {
        let ends = Arc::new(LocalWord::new(0));
        let told = ends.clone();
        let thread = std::thread::Builder::new()
            .name("cenote-exchange".to_owned())
            .spawn(move || {
                while told.load() == 0 {
                    // A kernel that refuses to answer will refuse the others as well; nothing is served on a guess.
                    if liveness.try_lock(lock).unwrap_or(false) {
                        serve(mem.clone(), boxes, limit, &told);
                        let _ = liveness.unlock(lock);
                    } else {
                        std::thread::sleep(STANDBY);
                    }
                }
            })
            .map_err(|source| MapError::Os {
                what: "starting the thread that executes exchanges",
                source,
            })?;
        Ok(Self {
            ends,
            watch,
            thread: Some(thread),
        })
    }
}

fn serve<M: Memory>(mem: M, boxes: Mailboxes, limit: u64, told: &LocalWord) {
    let mut server = Server::take_over(mem.clone(), boxes, limit);
    let mut last = Instant::now();
    let mut looks = 0u32;
    while told.load() == 0 {
        if server.pass() > 0 {
            looks = 0;
            continue;
        }
        looks = looks.wrapping_add(1);
        if looks == 1 {
            last = Instant::now();
        }
        if !looks.is_multiple_of(64) {
            mem.pause();
        } else if last.elapsed() < BUSY {
            mem.relax();
        } else {
            std::thread::sleep(IDLE);
            looks = 63;
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let thread = self.thread.take();
        if forked(self.watch) {
            // A forked child has no such thread.
            std::mem::forget(thread);
            return;
        }
        self.ends.store(1);
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}
