//! Modules that are worker threads of this process, each with memory that no other thread touches.
//!
//! A thread has as many modules as it takes; they are dealt out in turn. Batches and answers go through channels, so a
//! round costs a message to each thread and one back, and no lock is held while a program runs. Dropping the backend
//! ends the threads.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use super::{Counters, Malformed, Meter, Modules, ModulesError, Program};

/// Batches for the modules of one thread, with their numbers.
type Work = Vec<(usize, Vec<u8>)>;

struct Done {
    module: usize,
    answers: Result<Vec<u8>, Malformed>,
    meter: Meter,
    memory: u64,
}

struct Worker {
    work: Option<Sender<Work>>,
    done: Receiver<Vec<Done>>,
    thread: Option<JoinHandle<()>>,
}

/// Worker threads. The parameter is the [`Program`] that they execute.
pub struct Threads<P> {
    workers: Vec<Worker>,
    modules: usize,
    memory: Vec<u64>,
    counters: Counters,
    launched: bool,
    program: std::marker::PhantomData<fn() -> P>,
}

impl<P: Program> Threads<P> {
    /// As many modules as there are programs, on so many threads (at least one, at most one for each module).
    ///
    /// # Errors
    /// There is no program, or the system starts no more threads.
    pub fn new(programs: Vec<P>, threads: usize) -> Result<Self, ModulesError> {
        let modules = programs.len();
        if modules == 0 {
            return Err(ModulesError::NoModules);
        }
        let threads = threads.clamp(1, modules);
        let memory = programs.iter().map(Program::memory_bytes).collect();
        let mut parts: Vec<Vec<P>> = (0..threads).map(|_| Vec::new()).collect();
        for (module, program) in programs.into_iter().enumerate() {
            parts[module % threads].push(program);
        }
        let start = |part: Vec<P>| {
            let (work, jobs) = channel();
            let (results, done) = channel();
            let thread = Builder::new()
                .name("near-module".to_owned())
                .spawn(move || serve(part, threads, &jobs, &results))
                .map_err(|error| ModulesError::threads(&error))?;
            Ok(Worker {
                work: Some(work),
                done,
                thread: Some(thread),
            })
        };
        Ok(Self {
            workers: parts.into_iter().map(start).collect::<Result<_, _>>()?,
            modules,
            memory,
            counters: Counters::default(),
            launched: false,
            program: std::marker::PhantomData,
        })
    }
}

/// The first module of a thread that has ended.
fn lost(thread: usize) -> ModulesError {
    ModulesError::Lost {
        module: thread,
        why: "its worker thread has ended".to_owned(),
    }
}

/// What a thread does: batches as they come, until nobody can send any more.
fn serve<P: Program>(
    mut programs: Vec<P>,
    threads: usize,
    jobs: &Receiver<Work>,
    results: &Sender<Vec<Done>>,
) {
    for work in jobs {
        let mut done = Vec::with_capacity(work.len());
        for (module, batch) in work {
            let Some(program) = programs.get_mut(module / threads) else {
                return;
            };
            let (mut answers, mut meter) = (Vec::new(), Meter::default());
            let outcome = program.run(&batch, &mut answers, &mut meter);
            done.push(Done {
                module,
                answers: outcome.map(|()| answers),
                meter,
                memory: program.memory_bytes(),
            });
        }
        if results.send(done).is_err() {
            return;
        }
    }
}

impl<P: Program> Modules for Threads<P> {
    fn count(&self) -> usize {
        self.modules
    }

    fn launch(&mut self, batches: Vec<Vec<u8>>) -> Result<(), ModulesError> {
        if self.launched {
            return Err(ModulesError::RoundPending);
        }
        if batches.len() != self.modules {
            return Err(ModulesError::Batches {
                given: batches.len(),
                modules: self.modules,
            });
        }
        let threads = self.workers.len();
        let mut parts: Vec<Work> = (0..threads).map(|_| Vec::new()).collect();
        for (module, batch) in batches.into_iter().enumerate() {
            self.counters.sent += batch.len() as u64;
            if !batch.is_empty() {
                parts[module % threads].push((module, batch));
            }
        }
        for (thread, (worker, part)) in self.workers.iter().zip(parts).enumerate() {
            let lost = lost(thread);
            let Some(sender) = &worker.work else {
                return Err(lost);
            };
            sender.send(part).map_err(|_| lost)?;
        }
        self.counters.rounds += 1;
        self.launched = true;
        Ok(())
    }

    fn collect(&mut self) -> Result<Vec<Vec<u8>>, ModulesError> {
        if !std::mem::take(&mut self.launched) {
            return Err(ModulesError::NoRound);
        }
        let mut all = vec![Vec::new(); self.modules];
        let mut failed = None;
        for (thread, worker) in self.workers.iter().enumerate() {
            let Ok(done) = worker.done.recv() else {
                failed.get_or_insert(lost(thread));
                continue;
            };
            for one in done {
                self.counters.chases += one.meter.chases;
                self.memory[one.module] = one.memory;
                match one.answers {
                    Ok(answers) => {
                        self.counters.received += answers.len() as u64;
                        all[one.module] = answers;
                    }
                    Err(cause) => {
                        let module = one.module;
                        failed.get_or_insert(ModulesError::Malformed { module, cause });
                    }
                }
            }
        }
        failed.map_or(Ok(all), Err)
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn memory_bytes(&self) -> u64 {
        self.memory.iter().sum()
    }
}

impl<P> Drop for Threads<P> {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.work = None;
            if let Some(thread) = worker.thread.take() {
                // A thread that panicked has said so itself.
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
#[path = "contract_tests.rs"]
mod tests;
