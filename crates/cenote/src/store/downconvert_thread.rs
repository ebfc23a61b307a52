//! The thread of a process that gives directory locks up when another process asks, while the process's other threads
//! are elsewhere.
//!
//! It begins with the first such lock that the process opens on incoherent memory, and ends with the pool.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::{Pod, Worker};
use crate::sync::directory::asked;
use crate::sync::directory::downconvert::Downconverter;

/// The running thread. Dropping it ends it.
pub(super) struct DownconvertThread {
    stop: Box<dyn Fn() -> bool + Send>,
    thread: Option<JoinHandle<()>>,
}

impl DownconvertThread {
    /// Starts the thread.
    pub(super) fn start<M: Memory>(pod: &Arc<Pod<M>>) -> Result<Self> {
        let (begun, begins) = std::sync::mpsc::sync_channel(1);
        let its_pod = pod.clone();
        // A worker belongs to the thread that attaches it.
        let work = move || match Worker::attach(&its_pod, true) {
            Ok(worker) => {
                drop(its_pod);
                let _ = begun.send(Ok(()));
                let mut agent = Downconverter::new(&worker);
                while !worker.pod().is_closing() {
                    agent.tick_and_sleep(&worker);
                }
            }
            Err(error) => drop(begun.send(Err(error))),
        };
        let thread = std::thread::Builder::new()
            .name("cenote-locks".to_owned())
            .spawn(work);
        let thread = thread.map_err(|source| Error::Io {
            path: pod.path().to_owned(),
            source,
        })?;
        begins.recv().unwrap_or(Err(Error::Forked))?;
        let ours = pod.clone();
        let stop = Box::new(move || {
            ours.close();
            asked::wake_downconvert_thread(&ours);
            !ours.is_forked()
        });
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for DownconvertThread {
    fn drop(&mut self) {
        let thread = self.thread.take();
        match (self.stop)() {
            true => drop(thread.map(JoinHandle::join)),
            // A forked child has no such thread.
            false => std::mem::forget(thread),
        }
    }
}
