//! The background thread of a process that has a pool open, where there must be one or is asked for one.
//!
//! On incoherent memory it serves flush rounds and looks after the announcements of idle workers; memory would never
//! be reused without it. Where asked for, it recovers dead processes as soon as the kernel knows that they are dead.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::collect::collect_inherited;
use crate::pod::flush::Attendant;
use crate::pod::recovery::recover_dead;
use crate::pod::{Pod, Worker};

const TICK: Duration = Duration::from_millis(1);
/// Ticks between two looks for the dead.
const TICKS_PER_LOOK: u32 = 4;

/// A running background thread; ends when it is dropped.
pub(super) struct Agent {
    stop: Arc<dyn Fn() -> bool + Send + Sync>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Starts it, if this memory needs it or `wanted` asks for it.
    pub(super) fn start_if_needed<M: Memory>(pod: &Arc<Pod<M>>, wanted: bool) -> Result<Option<Self>> {
        if M::COHERENT && !wanted {
            return Ok(None);
        }
        let (begun, begins) = std::sync::mpsc::sync_channel(1);
        let its_pod = pod.clone();
        let thread = std::thread::Builder::new()
            .name("cenote-agent".to_owned())
            .spawn(move || match Worker::attach(&its_pod, true) {
                Ok(worker) => {
                    drop(its_pod);
                    let _ = begun.send(Ok(()));
                    run(&worker, wanted)
                }
                Err(error) => drop(begun.send(Err(error))),
            })
            .map_err(|source| Error::Io {
                path: pod.path().to_owned(),
                source,
            })?;
        // A thread that ends without a word has panicked.
        begins.recv().unwrap_or(Err(Error::Forked))?;
        let ours = pod.clone();
        let stop = Arc::new(move || {
            ours.close();
            !ours.is_forked()
        });
        Ok(Some(Self {
            stop,
            thread: Some(thread),
        }))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let thread = self.thread.take();
        if (self.stop)() {
            if let Some(thread) = thread {
                let _ = thread.join();
            }
        } else {
            // A forked child has no such thread.
            std::mem::forget(thread);
        }
    }
}

fn run<M: Memory>(worker: &Worker<M>, recover: bool) {
    let mut attendant = Attendant::default();
    let mut ticks = 0u32;
    while !worker.pod().is_closing() {
        // A damaged pool is reported to those who use it; there is nobody to report it to here.
        if !M::COHERENT {
            attendant.tick(worker);
        }
        let _ = collect_inherited(worker);
        if recover && ticks.is_multiple_of(TICKS_PER_LOOK) {
            let _ = recover_dead(worker);
        }
        ticks = ticks.wrapping_add(1);
        std::thread::sleep(TICK);
    }
}
