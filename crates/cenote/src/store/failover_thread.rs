//! The thread of the failover controller: moves the server lease to this host when the host that has it has failed.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::fence_command::CommandFence;
use super::monitor_options::MonitorOptions;
use super::options::Options;
use super::pool::map_pool;
use crate::causes::Setting;
use crate::error::{Error, Result};
use crate::memory::{LocalWord, Mapped, ProcessName, raise_priority};
use crate::pod::format::host_entry::HostInstance;
use crate::pod::hosts::failover::{FailoverController, Fencer, LeaseElection, LeaseEvent};
use crate::pod::hosts::fence::Fenced;
use crate::pod::hosts::lease::Lease;
use crate::pod::hosts::poll::Poll;

/// The time between two polls while there is something to do.
const BUSY: std::time::Duration = std::time::Duration::from_millis(1);

/// A failover controller on a thread of its own, which ends when this is dropped.
pub struct FailoverThread {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    ends: LocalWord,
    /// Whether a host has the lease.
    is_taken: LocalWord,
}

impl Fencer for CommandFence {
    fn fence(&mut self, host: HostInstance) -> Fenced {
        self.step(host.host, host.generation, Instant::now())
    }

    fn give_up(&mut self) {
        self.end_all();
    }
}

impl FailoverThread {
    /// Starts the failover controller of a host's monitor. It needs no place in the pool, and makes no exchange there.
    /// It calls `tell` with what it sees and does.
    pub fn start<M: Mapped>(
        path: impl AsRef<Path>,
        options: &Options,
        watch: &MonitorOptions,
        mut election: impl LeaseElection + Send + 'static,
        mut tell: impl FnMut(LeaseEvent) + Send + 'static,
    ) -> Result<Self> {
        let path = path.as_ref();
        let (mem, _, geometry) = map_pool::<M>(path, options.trust())?;
        let Some(command) = watch.fence.clone() else {
            return Err(Error::InvalidOption {
                option: Setting::Fence,
                value: "none".to_owned(),
                why: "a server executes this pool's exchanges; only a program (--fence) can make certain that its host is down",
            });
        };
        let lock_file = options.lock_file_of(path)?;
        let machine = ProcessName::here(lock_file).machine;
        let mut failover = FailoverController::new(mem, geometry, options.host, machine, watch.missed)?;
        let (poll, time_out) = (watch.poll, watch.fence_timeout);
        let shared = Arc::<Shared>::default();
        let theirs = shared.clone();
        let work = move || {
            raise_priority();
            let mut fence = CommandFence::new(command, time_out);
            let mut last: Option<Instant> = None;
            let mut trouble = None;
            while theirs.ends.load() == 0 {
                let now = Instant::now();
                let how = Poll::after(last.map(|last| now.duration_since(last)), poll);
                if how != Poll::Between {
                    last = Some(now);
                }
                let is_busy = match failover.poll(how, &mut election, &mut fence, &mut tell) {
                    Ok(is_busy) => is_busy,
                    Err(error) => {
                        let why = error.to_string();
                        if trouble.replace(why.clone()).as_ref() != Some(&why) {
                            tell(LeaseEvent::LeaseRetried { why });
                        }
                        false
                    }
                };
                theirs
                    .is_taken
                    .store(u64::from(matches!(failover.lease(), Lease::Of(_))));
                let due = last.map_or(now, |last| last + poll);
                let pause = due.saturating_duration_since(Instant::now());
                std::thread::sleep(if is_busy { pause.min(BUSY) } else { pause });
            }
        };
        let thread = std::thread::Builder::new()
            .name("cenote-failover".to_owned())
            .spawn(work)
            .map_err(|source| Error::Io {
                path: path.to_owned(),
                source,
            })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Whether a host has the lease: then there is an exchange server, or will be soon.
    pub fn is_lease_taken(&self) -> bool {
        self.shared.is_taken.load() != 0
    }
}

impl Drop for FailoverThread {
    fn drop(&mut self) {
        self.shared.ends.store(1);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread does not matter here.
            let _ = thread.join();
        }
    }
}
