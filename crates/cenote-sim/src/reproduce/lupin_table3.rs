//! Lupin, table 3, with as many workers as the paper has: a [task list](super::lupin_hosts) on 1 to 16 simulated hosts,
//! of one or two threads each. Tasks compute and touch only the list's memory, or read their input from the pool as
//! fast as the paper's histogram.

use cenote::pod::tasks::Plan;

use super::lupin_hosts::{Task, Work};
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::profile::Profile;

pub const NAME: &str = "lupin/table3-hosts";

/// Hosts, and threads of each.
const SWEEP: [[u32; 2]; 6] = [[1, 1], [1, 2], [2, 2], [4, 2], [8, 2], [16, 2]];
const WORKERS: u32 = 32;
/// In each of two phases.
const TASKS: u64 = 800;
/// "All individual tasks in our benchmarks execute for less than 5 ms".
const TASK_PS: u64 = 5_000_000_000;
/// A task that reads. On hardware whose memory does not bind it, 32 workers of the paper's histogram read 33 GB/s: 1.03
/// each, so 4 KiB in 3.97 us. A worker alone reads that in 0.97 (simulated); the rest is computing.
const READING_TASK: Task = Task::Read {
    bytes: 64 << 10,
    piece_ps: 3_000_000,
};

const SPEEDUP: Quantity = Quantity {
    name: "speedup",
    unit: "",
};
const TIME: Quantity = Quantity {
    name: "time",
    unit: "ms",
};

struct Case {
    name: &'static str,
    profile: &'static str,
    coherent: bool,
    task: Task,
    /// The least and the most of the paper's programs of this kind, 32 workers in 16 machines.
    paper: Option<[f64; 2]>,
}

/// All but histogram and dedup, whose serial sections are a part of the time.
const COMPUTING: [f64; 2] = [26.5, 31.7];
/// Histogram, which the memory's bandwidth binds; the greater one is that of 32 workers on one machine.
const READING: [f64; 2] = [12.2, 13.2];

const CASES: [Case; 4] = [
    Case {
        name: "computing, incoherent",
        profile: "cxl-remote-wide",
        coherent: false,
        task: Task::Compute(TASK_PS),
        paper: Some(COMPUTING),
    },
    Case {
        name: "computing, coherent",
        profile: "dram",
        coherent: true,
        task: Task::Compute(TASK_PS),
        paper: None,
    },
    Case {
        name: "reading, incoherent",
        profile: "cxl-remote-wide",
        coherent: false,
        task: READING_TASK,
        paper: Some(READING),
    },
    Case {
        name: "reading, coherent",
        profile: "dram",
        coherent: true,
        task: READING_TASK,
        paper: None,
    },
];

impl Case {
    fn time(&self, [hosts, threads]: [u32; 2], profile: &Profile) -> Result<f64, ReproduceError> {
        let work = Work {
            figure: NAME,
            hosts,
            threads,
            plan: Plan::phases(vec![TASKS, TASKS]),
            task: self.task,
            deaths: 0,
        };
        match self.coherent {
            true => work.time::<true>(profile),
            false => work.time::<false>(profile),
        }
    }
}

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut rows = Vec::new();
    for (n, case) in CASES.iter().enumerate() {
        let profile = Profile::load(case.profile)?;
        let mut alone = None;
        for (m, [hosts, threads]) in SWEEP.into_iter().enumerate() {
            let (workers, time) = (hosts * threads, case.time([hosts, threads], &profile)?);
            let speedup = *alone.get_or_insert(time) / time;
            rows.push(match case.paper.filter(|_| workers == WORKERS) {
                Some(paper) => Row::in_range(case.name, workers, SPEEDUP, paper, speedup),
                None => Row::new(case.name, workers, SPEEDUP, None, speedup),
            });
            rows.push(Row::new(case.name, workers, TIME, None, time));
            progress(n * SWEEP.len() + m + 1, CASES.len() * SWEEP.len());
        }
    }
    Ok(Figure {
        name: NAME,
        title: "A task list by 1 to 32 workers",
        source: "Lupin, section 5, table 3",
        origin: Origin::Simulated,
        conditions: "profiles cxl-remote-wide (incoherent) and dram (coherent), two workers a host",
        charted: Charted::Threads(SPEEDUP),
        rows,
        notes: vec![
            "1,600 tasks in two phases, each 5 ms of virtual time, or 64 KiB of the pool that nobody has read before, 1.03 GB/s by a worker alone.",
            "The paper's range for computing is that of word count, k-means, matrix product and Black-Scholes on 16 virtual machines; for reading, its histogram on 16 and on one.",
            "Dedup (15.9 in the paper) has serial sections, which a task list has not.",
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_computes_scales_and_what_reads_is_bound_by_the_memory() {
        let speedup = |case: &Case| {
            let profile = Profile::load(case.profile).unwrap();
            case.time([1, 1], &profile).unwrap() / case.time([16, 2], &profile).unwrap()
        };
        let [computing, reading] = [&CASES[0], &CASES[2]].map(speedup);
        assert!(computing > 30.0, "{computing}");
        assert!((8.0..20.0).contains(&reading), "{reading}");
    }
}
