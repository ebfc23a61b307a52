//! The parent's end: a thread for each worker process feeds it, counts what it has done, and replaces it if it dies.
//!
//! A record goes to the worker that its key's hash names, so that records of one key stay in their order. The parent
//! keeps what a worker was sent and did not answer; if the worker dies, its successor is sent all of that again, in
//! order. Some of those records are in the pool already; setting them again changes nothing in the end.

use std::collections::VecDeque;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use indicatif::ProgressBar;

use super::frame::{Answer, Chunk};
use crate::failure::Failure;
use crate::role::Role;

/// Chunks that a worker may be sent before it has answered; more than one, so that it never waits for us.
const AHEAD: usize = 3;
/// Deaths of workers in one place without a chunk done in between, after which something must be wrong.
const DEATHS_MAX: u32 = 5;

/// What the workers have in common.
#[derive(Clone)]
pub struct Job {
    /// The pool.
    pub pool: PathBuf,
    /// The map.
    pub map: String,
    /// Shows the records done.
    pub progress: ProgressBar,
}

/// What the workers have done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Records that are in the pool.
    pub records: u64,
    /// Workers that had to be replaced.
    pub replaced: u64,
}

/// Deals records to worker processes.
pub struct Dealer {
    places: Vec<Place>,
}

struct Place {
    chunk: Chunk,
    /// `None` when there is nothing more to come.
    to: Option<SyncSender<Chunk>>,
    thread: JoinHandle<Result<Done, Failure>>,
}

impl Dealer {
    /// Starts the workers.
    pub fn start(job: &Job, processes: usize) -> Result<Self, Failure> {
        let mut places = Vec::new();
        for _ in 0..processes {
            let (to, from) = sync_channel(1);
            let mut feeder = Feeder::new(job.clone())?;
            let thread = std::thread::Builder::new()
                .name("feeder".to_owned())
                .spawn(move || feeder.run(&from))
                .map_err(Failure::io("starting a thread"))?;
            places.push(Place {
                chunk: Chunk::new(),
                to: Some(to),
                thread,
            });
        }
        Ok(Self { places })
    }

    /// Deals a record; false when a worker has failed and there is no use in going on.
    pub fn deal(&mut self, key: &[u8], value: &[u8]) -> bool {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        let place = (hash % self.places.len() as u64) as usize;
        let place = &mut self.places[place];
        place.chunk.push(key, value);
        !place.chunk.is_full() || place.send()
    }

    /// Waits for all that was dealt.
    pub fn finish(mut self) -> Result<Done, Failure> {
        for place in &mut self.places {
            if place.chunk.records() > 0 {
                place.send();
            }
            place.to = None;
        }
        let mut all = Done::default();
        let mut failure = None;
        for place in self.places {
            match place.thread.join() {
                Ok(Ok(done)) => {
                    all.records += done.records;
                    all.replaced += done.replaced;
                }
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(_) => failure = failure.or(Some(Failure::failed("a thread of this command panicked"))),
            }
        }
        failure.map_or(Ok(all), Err)
    }
}

impl Place {
    fn send(&mut self) -> bool {
        let chunk = std::mem::replace(&mut self.chunk, Chunk::new());
        self.to.as_ref().is_some_and(|to| to.send(chunk).is_ok())
    }
}

/// A worker process and our ends of its pipes. Killed when dropped, if it has not ended.
struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Worker {
    fn start(pool: &Path, map: &str) -> Result<Self, Failure> {
        let pool = pool
            .to_str()
            .ok_or_else(|| Failure::misuse("the pool's path is not UTF-8"))?;
        let mut child = Role::Load
            .command([pool.to_owned(), map.to_owned()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Failure::io("starting a worker process"))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::failed("a worker process has no pipes"));
        };
        Ok(Self {
            child,
            stdin: Some(stdin),
            stdout: BufReader::new(stdout),
        })
    }

    fn send(&mut self, chunk: &mut Chunk) -> io::Result<()> {
        match &mut self.stdin {
            Some(stdin) => chunk.send(stdin),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Waits for its end.
    fn end(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        self.child.wait()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Feeder {
    job: Job,
    worker: Worker,
    /// Sent, not answered.
    open: VecDeque<Chunk>,
    deaths: u32,
    done: Done,
}

impl Feeder {
    fn new(job: Job) -> Result<Self, Failure> {
        let worker = Worker::start(&job.pool, &job.map)?;
        Ok(Self {
            job,
            worker,
            open: VecDeque::new(),
            deaths: 0,
            done: Done::default(),
        })
    }

    fn run(&mut self, from: &Receiver<Chunk>) -> Result<Done, Failure> {
        let mut more = true;
        while more || !self.open.is_empty() {
            let next = if !more || self.open.len() == AHEAD {
                None
            } else if self.open.is_empty() {
                from.recv().map_err(|_| more = false).ok()
            } else {
                from.try_recv()
                    .map_err(|error| more = error == TryRecvError::Empty)
                    .ok()
            };
            match next {
                Some(chunk) => {
                    self.open.push_back(chunk);
                    let sent = self.open.back_mut().map(|chunk| self.worker.send(chunk));
                    if matches!(sent, Some(Err(_))) {
                        self.replace()?;
                    }
                }
                None if self.open.is_empty() => {}
                None => self.hear()?,
            }
        }
        let status = self
            .worker
            .end()
            .map_err(Failure::io("waiting for a worker process"))?;
        if !status.success() && status.code().is_some() {
            return Err(Failure::failed(format!("a worker process ended with {status}")));
        }
        Ok(self.done)
    }

    fn hear(&mut self) -> Result<(), Failure> {
        match Answer::receive(&mut self.worker.stdout) {
            Ok(Answer::Done) => {
                let records = self.open.pop_front().map_or(0, |chunk| chunk.records().into());
                self.done.records += records;
                self.job.progress.inc(records);
                self.deaths = 0;
                Ok(())
            }
            Ok(Answer::Failed(why)) => Err(Failure::Failed(why)),
            Err(_) => self.replace(),
        }
    }

    /// Puts a new worker in the place of one that is dead, and sends it what the dead one had not answered.
    fn replace(&mut self) -> Result<(), Failure> {
        loop {
            // It may have said why before it ended.
            while let Ok(answer) = Answer::receive(&mut self.worker.stdout) {
                match answer {
                    Answer::Done => {
                        let records = self.open.pop_front().map_or(0, |chunk| chunk.records().into());
                        self.done.records += records;
                        self.job.progress.inc(records);
                        self.deaths = 0;
                    }
                    Answer::Failed(why) => return Err(Failure::Failed(why)),
                }
            }
            let status = self
                .worker
                .end()
                .map_err(Failure::io("waiting for a worker process"))?;
            self.deaths += 1;
            if self.deaths == DEATHS_MAX {
                return Err(Failure::failed(format!(
                    "worker processes die again and again, the last one with {status}; `cenote fsck` may tell why"
                )));
            }
            self.done.replaced += 1;
            self.worker = Worker::start(&self.job.pool, &self.job.map)?;
            let worker = &mut self.worker;
            if self.open.iter_mut().all(|chunk| worker.send(chunk).is_ok()) {
                return Ok(());
            }
        }
    }
}
