//! How hot subranges will be, and the heights in L2 that follow (the paper, section V). Feature `hotness`.
//!
//! A gated recurrent unit sees the last batches of a subrange and says of which class its hotness will be in the next
//! one; a class is a level of L2. A thread of its own trains it on each batch and applies it at the end of each window,
//! while modules execute:
//!
//! ```text
//! host     | find, plan, write batch b | launch |  wait  | read b | find, plan, write b + 1 | heights of b | launch | ...
//! modules  |                           |      execute b  |        |                         |              |  execute b + 1
//! trainer  |                           |   learn b, predict ...   |
//! ```
//!
//! Where batches overlap, the host finds what concerns batch b + 1 before it waits for the answers of batch b.
//!
//! The host awaits what the trainer has made of a batch before it launches the next one, so what a map does depends on
//! its operations alone, not on how fast the trainer is; a trainer that is too slow holds modules up, and
//! [`Report::awaited`] says for how long.
//!
//! | file | |
//! |---|---|
//! | `features` | a subrange in one batch, as the model's input |
//! | `thresholds` | which hotness makes which class |
//! | `model` | the network, by `candle` |
//! | `heights` | from probabilities to heights, each level with its capacity |
//! | `trainer` | what the thread does with a batch |
//!
//! **Failure.** If the thread ends, the map goes on without new heights, and the report says so: heights decide how
//! many pointers a search takes, and nothing else.

mod features;
mod heights;
mod model;
mod thresholds;
mod trainer;

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use trainer::Trainer;

/// Settings of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Batches after which heights are given, each with an epoch of training.
    pub window: u32,
    /// Subranges of each batch to learn from, at most. The paper has 8,192.
    pub samples: u32,
    /// The learning rate of Adam.
    pub rate: f64,
    /// Decides the first weights, and what is sampled.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: 8,
            samples: 1024,
            rate: 0.01,
            seed: 1,
        }
    }
}

/// What a batch asked of a subrange that a module has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    pub start: u64,
    pub last: u64,
    pub level: u8,
    pub module: u32,
    pub operations: u32,
    pub keys: u32,
}

/// A height that a subrange is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Height {
    pub start: u64,
    pub module: u32,
    pub height: u8,
}

/// How good predictions were. Each was about the window that followed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accuracy {
    /// Predictions.
    pub predictions: u64,
    /// Those whose class was the one that the label says.
    pub right: u64,
    /// Those that would have been right if each subrange kept the class that it had: to compare with.
    pub unchanged: u64,
    /// Those of the coldest class, which always saying so would have got right: to compare with.
    pub coldest: u64,
}

/// What the model has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Batches that it has learnt from.
    pub batches: u64,
    /// Heights that were given.
    pub heights: u64,
    /// How good predictions were.
    pub accuracy: Accuracy,
    /// How long the trainer has computed.
    pub training: Duration,
    /// The part of it between launches and the collections of their answers: in which modules were executing, unless
    /// batches [overlap](crate::map::Overlapped), whose answers may have waited.
    pub hidden: Duration,
    /// How long the host has waited for the trainer.
    pub awaited: Duration,
    /// From launches to the collections of their answers: how long the host has waited for modules, unless batches
    /// overlap.
    pub modules: Duration,
    /// Whether the trainer's thread has ended, so that there will be no more heights.
    pub ended: bool,
}

struct Done {
    heights: Vec<Height>,
    accuracy: Accuracy,
    began: Instant,
    ended: Instant,
}

/// The host's end of the pipeline.
pub(crate) struct Pipeline {
    jobs: Option<Sender<Vec<Observed>>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
    /// What goes to the trainer with the next launch.
    next: Option<Vec<Observed>>,
    /// Whether the trainer has a batch.
    busy: bool,
    launched: Option<Instant>,
    /// When modules executed, since the trainer got its batch.
    executing: Vec<(Instant, Instant)>,
    report: Report,
}

impl Pipeline {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system starts no more threads; what it says.
    pub fn start(settings: Settings) -> io::Result<Self> {
        let (jobs, batches) = channel();
        let (results, done) = channel();
        let thread = Builder::new()
            .name("near-hotness".to_owned())
            .spawn(move || serve(settings, &batches, &results))?;
        Ok(Self {
            jobs: Some(jobs),
            done,
            thread: Some(thread),
            next: None,
            busy: false,
            launched: None,
            executing: Vec::new(),
            report: Report::default(),
        })
    }

    /// What the trainer gets with the next launch.
    pub fn observe(&mut self, observed: Vec<Observed>) {
        self.next = Some(observed);
    }

    /// The heights that the trainer has found since it was last asked; waits for it.
    pub fn heights(&mut self) -> Vec<Height> {
        if !std::mem::take(&mut self.busy) {
            return Vec::new();
        }
        let began = Instant::now();
        let received = self.done.recv();
        self.report.awaited += began.elapsed();
        let Ok(done) = received else {
            self.report.ended = true;
            return Vec::new();
        };
        self.report.batches += 1;
        self.report.training += done.ended - done.began;
        for (from, to) in self.executing.drain(..) {
            let (from, to) = (from.max(done.began), to.min(done.ended));
            self.report.hidden += to.saturating_duration_since(from);
        }
        self.report.accuracy.add(done.accuracy);
        self.report.heights += done.heights.len() as u64;
        done.heights
    }

    /// Modules were launched. While the trainer has a batch, the next one stays here.
    pub fn launched(&mut self) {
        self.launched = Some(Instant::now());
        if self.busy {
            return;
        }
        if let (Some(observed), Some(jobs)) = (self.next.take(), &self.jobs) {
            self.executing.clear();
            self.busy = jobs.send(observed).is_ok();
            self.report.ended |= !self.busy;
        }
    }

    /// All modules are done.
    pub fn collected(&mut self) {
        if let Some(launched) = self.launched.take() {
            let now = Instant::now();
            self.report.modules += now - launched;
            self.executing.push((launched, now));
        }
    }

    /// Totals, without the batch that the trainer is at.
    pub fn report(&self) -> Report {
        self.report
    }
}

impl Accuracy {
    fn add(&mut self, more: Self) {
        self.predictions += more.predictions;
        self.right += more.right;
        self.unchanged += more.unchanged;
        self.coldest += more.coldest;
    }
}

/// What the thread does, until nobody sends any more, or the model fails.
fn serve(settings: Settings, batches: &Receiver<Vec<Observed>>, results: &Sender<Done>) {
    // The library divides large products over the threads of the pool that it is called in: this one has the calling
    // thread's stead alone.
    let Ok(pool) = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .use_current_thread()
        .build()
    else {
        return;
    };
    let Ok(mut trainer) = Trainer::new(settings) else {
        return;
    };
    for observed in batches {
        let began = Instant::now();
        let Ok((heights, accuracy)) = pool.install(|| trainer.learn(observed)) else {
            return;
        };
        let ended = Instant::now();
        let done = Done {
            heights,
            accuracy,
            began,
            ended,
        };
        if results.send(done).is_err() {
            return;
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As when a plan has a round of its own before the batch's.
    #[test]
    fn the_trainer_has_one_batch_at_a_time() {
        let mut pipeline = Pipeline::start(Settings::default()).unwrap();
        let launch = |pipeline: &mut Pipeline| {
            pipeline.launched();
            pipeline.collected();
        };
        pipeline.observe(Vec::new());
        launch(&mut pipeline);
        for batches in 1..5 {
            pipeline.observe(Vec::new());
            launch(&mut pipeline);
            assert!(pipeline.heights().is_empty());
            assert_eq!(pipeline.report().batches, batches);
            launch(&mut pipeline);
        }
        pipeline.heights();
        assert_eq!(pipeline.report().batches, 5);
    }
}
