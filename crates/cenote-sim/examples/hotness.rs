//! What the model of hotness is worth: how good its predictions are, what they gain, and how far training hides behind
//! modules.
//!
//! `cargo run --release -p cenote-sim --features hotness --example hotness -- [MODULES [KEYS [BATCH [ALPHAS [BATCHES [simulated]]]]]]`,
//! for example `-- 2048 4194304 1048576 0,0.6,0.99,1.2 24`.
//!
//! Each line is one map with the model beside one without it, on the same batches of gets. Hot sets drift: `moving`,
//! the hot keys are neighbours, and their middle goes on by a share of them each batch; `changing`, they are scattered,
//! and some of the hottest are replaced by others each batch. Chases and Mops/s are virtual, by the `upmem` profile;
//! accuracy is that of all predictions after the first quarter of the batches. Training is measured in real time on
//! this machine, and `idle` are shares of real time on worker threads that execute modules.

use std::error::Error;
use std::time::{Duration, Instant};

use cenote_near::device::Skiplist;
use cenote_near::hotness::{Report, Settings};
use cenote_near::map::{Config, Map};
use cenote_near::modules::{Counters, Modules, Profile, Simulated, Threads};
use cenote_sim::near_runs::{Drift, HotKeys};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

struct Shape {
    modules: usize,
    keys: u64,
    batch: usize,
    batches: usize,
}

struct Run {
    counters: Counters,
    report: Option<Report>,
    first: Option<Report>,
    wall: Duration,
    in_modules: Duration,
}

fn run<M: Modules>(
    mut map: Map<Timed<M>>,
    hot: &HotKeys,
    shape: &Shape,
    model: bool,
) -> Result<Run, Box<dyn Error>> {
    map.load(&hot.pairs())?;
    if model {
        map.predict_hotness(Settings::default())?;
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let warm = shape.batches / 4;
    let (mut before, mut first, mut in_modules, mut wall) =
        (Counters::default(), None, Duration::ZERO, Duration::ZERO);
    for number in 0..shape.batches {
        if number == warm {
            (before, first) = (map.counters(), map.hotness());
            (in_modules, wall) = (map.modules().executing, Duration::ZERO);
        }
        let batch = hot.batch(number, shape.batch, &mut rng);
        let began = Instant::now();
        map.execute(&batch)?;
        wall += began.elapsed();
    }
    let after = map.counters();
    Ok(Run {
        counters: Counters {
            rounds: after.rounds - before.rounds,
            chases: after.chases - before.chases,
            virtual_ns: after.virtual_ns - before.virtual_ns,
            module_ns: after.module_ns - before.module_ns,
            host_ns: after.host_ns - before.host_ns,
            ..after
        },
        report: map.hotness(),
        first,
        wall,
        in_modules: map.modules().executing - in_modules,
    })
}

/// Modules, and how long the host has waited for them.
struct Timed<M> {
    modules: M,
    launched: Option<Instant>,
    executing: Duration,
}

impl<M> Timed<M> {
    fn new(modules: M) -> Self {
        Self {
            modules,
            launched: None,
            executing: Duration::ZERO,
        }
    }
}

impl<M: Modules> Modules for Timed<M> {
    fn count(&self) -> usize {
        self.modules.count()
    }

    fn launch(&mut self, batches: Vec<Vec<u8>>) -> Result<(), cenote_near::modules::ModulesError> {
        self.launched = Some(Instant::now());
        self.modules.launch(batches)
    }

    fn collect(&mut self) -> Result<Vec<Vec<u8>>, cenote_near::modules::ModulesError> {
        let answers = self.modules.collect();
        self.executing += self
            .launched
            .take()
            .map_or(Duration::ZERO, |began| began.elapsed());
        answers
    }

    fn host_steps(&mut self, steps: u64) {
        self.modules.host_steps(steps);
    }

    fn counters(&self) -> Counters {
        self.modules.counters()
    }

    fn memory_bytes(&self) -> u64 {
        self.modules.memory_bytes()
    }
}

fn programs(count: usize) -> Vec<Skiplist> {
    (0..count as u64)
        .map(|module| Skiplist::new(64 << 20, module))
        .collect()
}

fn simulated(shape: &Shape) -> Result<Map<Timed<Simulated<Skiplist>>>, Box<dyn Error>> {
    let modules = Simulated::new(programs(shape.modules), Profile::upmem()?)?;
    Ok(Map::new(Config::default(), Timed::new(modules))?)
}

/// One worker thread, so that it, the host and the trainer have a core each where there are two: the host waits while
/// the others work.
fn threads(shape: &Shape) -> Result<Map<Timed<Threads<Skiplist>>>, Box<dyn Error>> {
    let modules = Threads::new(programs(shape.modules), 1)?;
    Ok(Map::new(Config::default(), Timed::new(modules))?)
}

fn share(part: Duration, whole: Duration) -> f64 {
    100.0 * part.as_secs_f64() / whole.as_secs_f64().max(1e-9)
}

fn line(label: &str, alpha: f64, shape: &Shape, with: &Run, without: &Run) {
    let operations = (shape.batch * (shape.batches - shape.batches / 4)) as f64;
    let (report, first) = (with.report.unwrap_or_default(), with.first.unwrap_or_default());
    let accuracy = |count: fn(&Report) -> u64| {
        let predictions = report.accuracy.predictions - first.accuracy.predictions;
        100.0 * (count(&report) - count(&first)) as f64 / predictions.max(1) as f64
    };
    let mops = |run: &Run| operations * 1e3 / run.counters.virtual_ns.max(1) as f64;
    println!(
        "{label:9} {alpha:<5} {:8} {:6.1} {:9.1} {:8.1} {:7.2} {:7.2} {:8.2} {:8.2} {:6.2}x",
        report.accuracy.predictions - first.accuracy.predictions,
        accuracy(|report| report.accuracy.right),
        accuracy(|report| report.accuracy.unchanged),
        accuracy(|report| report.accuracy.coldest),
        without.counters.chases as f64 / operations,
        with.counters.chases as f64 / operations,
        mops(without),
        mops(with),
        mops(with) / mops(without),
    );
}

fn idle(label: &str, alpha: f64, with: &Run, without: &Run) {
    let report = with.report.unwrap_or_default();
    let host = |run: &Run| share(run.in_modules, run.wall);
    println!(
        "{label:9} {alpha:<5} training {:.2} ms a batch, {:.0} % of it while modules execute; the host awaits it {:.2} ms a batch. Idle, without: host {:.0} %, modules {:.0} %. With: host and trainer's core {:.0} %, modules {:.0} %. Real time of a batch with over without: {:.2}",
        report.training.as_secs_f64() * 1e3 / report.batches.max(1) as f64,
        share(report.hidden, report.training),
        report.awaited.as_secs_f64() * 1e3 / report.batches.max(1) as f64,
        host(without),
        100.0 - host(without),
        host(with) - share(report.hidden, with.wall),
        100.0 - host(with),
        with.wall.as_secs_f64() / without.wall.as_secs_f64(),
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |or: u64| arguments.next().map_or(Ok(or), |text| text.parse());
    let (modules, keys, batch) = (number(2048)?, number(1 << 22)?, number(1 << 20)?);
    let alphas = arguments.next().unwrap_or_else(|| "0,0.6,0.99,1.2".to_owned());
    let alphas = alphas
        .split(',')
        .map(str::parse)
        .collect::<Result<Vec<f64>, _>>()?;
    let shape = Shape {
        modules: modules as usize,
        keys,
        batch: batch as usize,
        batches: arguments.next().map_or(Ok(24), |text| text.parse())?,
    };
    let real = arguments.next().is_none_or(|which| which != "simulated");
    println!(
        "{} modules, {keys} keys, {} batches of {batch} gets, seed 1. Chases and Mops/s are simulated, profile upmem.",
        shape.modules, shape.batches
    );
    println!(
        "{:9} {:5} {:>8} {:>6} {:>9} {:>8} {:>15} {:>17}",
        "hot set",
        "alpha",
        "guesses",
        "right%",
        "as before%",
        "coldest%",
        "chases: without,with",
        "Mops/s: without,with"
    );
    for drift in [Drift::Moving, Drift::Changing] {
        let label = drift.name();
        for &alpha in &alphas {
            let hot = HotKeys::new(shape.keys, alpha, drift);
            let without = run(simulated(&shape)?, &hot, &shape, false)?;
            let with = run(simulated(&shape)?, &hot, &shape, true)?;
            line(label, alpha, &shape, &with, &without);
            if real {
                let without = run(threads(&shape)?, &hot, &shape, false)?;
                let with = run(threads(&shape)?, &hot, &shape, true)?;
                idle(label, alpha, &with, &without);
            }
        }
    }
    Ok(())
}
