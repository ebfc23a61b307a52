//! Lupin, tables 3 and 4: the speed of work whose workers may be killed, and how much deaths slow it down. Measured on
//! this machine, on inputs that are generated into `/dev/shm`.
//!
//! Everything of a round runs before the next round begins, in the same order, so that other load on the machine hits
//! all alike. The median of the rounds is reported. The output of every run is compared with that of the sequential
//! form.

use std::path::Path;
use std::time::Instant;

use cenote::{Coherent, Options, Pool};
use cenote_mapreduce::{Alone, Job, Spec, Workload, generate, open};
use cenote_sim::reproduce::{Charted, Figure, Origin, Progress, Quantity, Row};
use rayon::prelude::*;

use crate::commands::mapreduce::engine::{self, Form, Order};
use crate::failure::Failure;

/// The names of the tables.
pub const NAMES: [&str; 2] = ["lupin/table3", "lupin/table4"];

const SECONDS: Quantity = Quantity {
    name: "time",
    unit: "s",
};
const SPEEDUP: Quantity = Quantity {
    name: "over sequential",
    unit: "times",
};
const SLOWDOWN: Quantity = Quantity {
    name: "slowdown",
    unit: "%",
};

/// How long a task should take, in milliseconds: the paper's least is 5.
const TASK_MS: u64 = 8;

/// How much is done.
#[derive(Clone, Copy)]
struct Scale {
    rounds: usize,
    /// Of the size of inputs that make a few seconds of work.
    share: f64,
}

const FULL: Scale = Scale {
    rounds: 3,
    share: 1.0,
};

/// A workload with its input's size, and what the paper has of it: the time on 16 hosts and the speedup over one
/// thread, and the slowdowns by one and by eight deaths.
struct Case {
    workload: Workload,
    bytes: u64,
    paper: [f64; 2],
    slowdowns: [f64; 2],
    /// The names of the rows: sequential, rayon, one process, two processes; then one death and eight.
    rows: [&'static str; 4],
    deaths: [&'static str; 3],
}

/// A case whose rows are named after it.
macro_rules! case {
    ($workload:ident, $name:literal, $bytes:expr, $paper:expr, $slowdowns:expr) => {
        Case {
            workload: Workload::$workload,
            bytes: $bytes,
            paper: $paper,
            slowdowns: $slowdowns,
            rows: [
                concat!($name, ", sequential"),
                concat!($name, ", rayon, 2 threads"),
                concat!($name, ", 1 process"),
                concat!($name, ", 2 processes"),
            ],
            deaths: [
                concat!($name, ", no death"),
                concat!($name, ", 1 death"),
                concat!($name, ", 8 deaths"),
            ],
        }
    };
}

const CASES: [Case; 6] = [
    case!(Wordcount, "word count", 256 << 20, [0.68, 28.0], [0.0, 2.9]),
    case!(Kmeans, "k-means", 64 << 20, [3.86, 28.8], [0.0, 2.5]),
    case!(Matrix, "matrix multiply", 18 << 20, [5.24, 31.7], [0.0, 4.6]),
    case!(Histogram, "histogram", 3 << 30, [0.25, 12.2], [0.0, 7.8]),
    case!(Blackscholes, "black-scholes", 24 << 20, [2.36, 26.5], [0.0, 0.0]),
    case!(Dedup, "dedup", 128 << 20, [0.73, 15.9], [3.4, 6.3]),
];

/// Makes a table, if it is one of these.
pub fn make(name: &str, folder: &Path, progress: Progress<'_>) -> Option<Result<Figure, Failure>> {
    match name {
        "lupin/table3" => Some(table3(FULL, folder, progress)),
        "lupin/table4" => Some(table4(FULL, folder, progress)),
        _ => None,
    }
}

/// A case's input, and the settings of its job.
struct Prepared {
    folder: tempfile::TempDir,
    spec: Spec,
    /// Checksum of the output, by the sequential form.
    wanted: u32,
}

impl Prepared {
    fn new(case: &Case, scale: Scale, folder: &Path) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("lupin-")
            .tempdir_in(folder)
            .map_err(Failure::io(folder.display()))?;
        let input = folder.path().join("input");
        let file = std::fs::File::create(&input).map_err(Failure::io(input.display()))?;
        let mut writer = std::io::BufWriter::new(file);
        generate(
            case.workload,
            (case.bytes as f64 * scale.share) as u64,
            1,
            &mut writer,
        )?;
        std::io::Write::flush(&mut writer).map_err(Failure::io(input.display()))?;
        let mut spec = Spec::new(case.workload, input);
        spec.grain = engine::grain_for(&spec, TASK_MS)?;
        let mut prepared = Self {
            folder,
            spec,
            wanted: 0,
        };
        let mut sum = Sum(0);
        cenote_mapreduce::alone(&*open(&prepared.spec)?, &mut sum)?;
        prepared.wanted = sum.0;
        Ok(prepared)
    }

    /// Seconds of a run, whose output must be the right one.
    fn timed(&self, run: impl FnOnce(&mut Sum) -> Result<f64, Failure>) -> Result<f64, Failure> {
        let mut sum = Sum(0);
        let seconds = run(&mut sum)?;
        match sum.0 == self.wanted {
            true => Ok(seconds),
            false => Err(Failure::failed(format!(
                "{}: the output is not that of the sequential form",
                self.spec.workload.name()
            ))),
        }
    }

    fn sequential(&self) -> Result<f64, Failure> {
        self.timed(|sum| {
            let order = self.order(Form::Alone, 1, 0);
            Ok(engine::carry_out(&order, sum, &|_, _| {})?.seconds)
        })
    }

    /// The same tasks by threads of one process, without a pool: what cannot survive a death of its process.
    fn by_rayon(&self, threads: usize) -> Result<f64, Failure> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| Failure::failed(error.to_string()))?;
        self.timed(|sum| {
            let job = open(&self.spec)?;
            let (job, data): (&dyn Job, _) = (&*job, Alone::new(&*job));
            let begun = Instant::now();
            for (phase, tasks) in job.phases().into_iter().enumerate() {
                let run = |task| data.run(job, phase, task);
                pool.install(|| (0..tasks).into_par_iter().try_for_each(run))?;
            }
            let seconds = begun.elapsed().as_secs_f64();
            job.finish(&data, sum)?;
            Ok(seconds)
        })
    }

    /// By processes on a fresh pool, of which so many die.
    fn by_processes(&self, workers: u32, crashes: u64) -> Result<f64, Failure> {
        self.timed(|sum| {
            let order = self.order(Form::Processes, workers, crashes);
            let path = self.folder.path().join("pool");
            let _pool: Pool<Coherent> = Pool::create(&path, &Options::default())?;
            let done = engine::carry_out(&order, sum, &|_, _| {});
            std::fs::remove_file(&path).map_err(Failure::io(path.display()))?;
            let done = done?;
            match u64::from(done.restarts) == crashes {
                true => Ok(done.seconds),
                false => Err(Failure::failed(format!(
                    "{crashes} workers should have died, and {} did",
                    done.restarts
                ))),
            }
        })
    }

    fn order(&self, form: Form, workers: u32, crashes: u64) -> Order {
        let pool: Option<&Path> = match form {
            Form::Alone => None,
            _ => Some(self.folder.path()),
        };
        Order {
            spec: self.spec.clone(),
            form,
            workers,
            pool: pool.map(|folder| folder.join("pool")),
            name: "job".to_owned(),
            crashes,
        }
    }
}

/// A checksum of what is written.
struct Sum(u32);

impl std::io::Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = crc32c::crc32c_append(self.0, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn row(case: &'static str, threads: u32, quantity: Quantity, paper: Option<f64>, ours: f64) -> Row {
    Row {
        panel: "",
        case,
        threads,
        quantity,
        paper,
        paper_most: None,
        ours: Some(ours),
        ratio: paper.filter(|paper| *paper != 0.0).map(|paper| ours / paper),
    }
}

fn median(rounds: &[f64]) -> f64 {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn table3(scale: Scale, folder: &Path, progress: Progress<'_>) -> Result<Figure, Failure> {
    let (mut rows, mut done) = (Vec::new(), 0);
    let runs = CASES.len() * scale.rounds * 4;
    for case in &CASES {
        let prepared = Prepared::new(case, scale, folder)?;
        let mut times = [const { Vec::new() }; 4];
        for _ in 0..scale.rounds {
            for (n, times) in times.iter_mut().enumerate() {
                times.push(match n {
                    0 => prepared.sequential()?,
                    1 => prepared.by_rayon(2)?,
                    2 => prepared.by_processes(1, 0)?,
                    _ => prepared.by_processes(2, 0)?,
                });
                done += 1;
                progress(done, runs);
            }
        }
        let sequential = median(&times[0]);
        for (n, (name, times)) in case.rows.into_iter().zip(&times).enumerate() {
            let (time, is_pod, threads) = (median(times), n == 3, 1 + u32::from(n % 2 == 1));
            let [seconds, speedup] = case.paper.map(|paper| is_pod.then_some(paper));
            rows.push(row(name, threads, SECONDS, seconds, time));
            rows.push(row(name, threads, SPEEDUP, speedup, sequential / time));
        }
    }
    Ok(Figure {
        name: NAMES[0],
        title: "MapReduce and PARSEC workloads by workers that may be killed",
        source: "Lupin, section 5, table 3",
        origin: Origin::Measured,
        conditions: "on this machine, two workers, coherent memory",
        charted: Charted::Cases([SECONDS, SPEEDUP]),
        rows,
        notes: vec![
            "The paper's numbers are those of 16 virtual machines with 2 processors each, on CXL memory, with inputs of its own: \
             times cannot be compared, and its speedups are those of 32 processors. They stand beside two processes.",
            "Sequential, and rayon: the same tasks, results in memory of one process, which no death of that process survives.",
            "Times are from the start of the workers to the last result; starting processes and opening the pool are in them, \
             reading and writing files is part of tasks, writing the output is not.",
            "All forms' outputs are compared, and equal.",
        ],
    })
}

fn table4(scale: Scale, folder: &Path, progress: Progress<'_>) -> Result<Figure, Failure> {
    let (mut rows, mut done) = (Vec::new(), 0);
    let runs = CASES.len() * scale.rounds * 3;
    for case in &CASES {
        let prepared = Prepared::new(case, scale, folder)?;
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..scale.rounds {
            for (times, crashes) in times.iter_mut().zip([0, 1, 8]) {
                times.push(prepared.by_processes(2, crashes)?);
                done += 1;
                progress(done, runs);
            }
        }
        let without = median(&times[0]);
        let papers = [None, Some(case.slowdowns[0]), Some(case.slowdowns[1])];
        for ((name, times), paper) in case.deaths.into_iter().zip(&times).zip(papers) {
            let time = median(times);
            rows.push(row(name, 2, SECONDS, None, time));
            if paper.is_some() {
                rows.push(row(name, 2, SLOWDOWN, paper, (time / without - 1.0) * 100.0));
            }
        }
    }
    Ok(Figure {
        name: NAMES[1],
        title: "Slowdown by workers that are killed right before they commit",
        source: "Lupin, section 5, table 4",
        origin: Origin::Measured,
        conditions: "on this machine, two workers, coherent memory",
        charted: Charted::Cases([SLOWDOWN, SECONDS]),
        rows,
        notes: vec![
            "The paper kills 1 and 8 of 16 workers. Here two workers die 1 and 8 times together, evenly spaced over the tasks; \
             each is started again with the same number.",
            "Every death is right before a commit: a whole task's work is lost.",
            "Outputs are compared with those of the sequential form, and equal.",
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_paper() {
        assert_eq!(CASES.len(), Workload::ALL.len());
        for (case, workload) in CASES.iter().zip(Workload::ALL) {
            assert_eq!(case.workload, workload);
        }
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    }
}
