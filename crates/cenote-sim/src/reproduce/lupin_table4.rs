//! Lupin, table 4, with as many hosts as the paper has: a [task list](super::lupin_hosts) on 16 simulated hosts with
//! two threads each, of which 0, 1 and 8 die, each right before it commits. A task is nothing but 5 ms of virtual time.

use cenote::pod::tasks::Plan;

use super::lupin_hosts::{Task, Work};
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::profile::Profile;

pub const NAME: &str = "lupin/table4-hosts";

const HOSTS: u32 = 16;
/// Of each host.
const THREADS: u32 = 2;
/// Of each thread, in each of two phases.
const TASKS: u64 = 50;
const TASK_PS: u64 = 5_000_000_000;

const TIME: Quantity = Quantity {
    name: "time",
    unit: "ms",
};
const SLOWDOWN: Quantity = Quantity {
    name: "slowdown",
    unit: "%",
};
/// The least and the most of the paper's six programs, by one death and by eight.
const PAPER: [[f64; 2]; 2] = [[0.0, 3.4], [0.0, 7.8]];
const DEATHS: [u64; 3] = [0, 1, 8];
const INCOHERENT: [&str; 3] = [
    "incoherent, no death",
    "incoherent, 1 death",
    "incoherent, 8 deaths",
];
const COHERENT: [&str; 3] = ["coherent, no death", "coherent, 1 death", "coherent, 8 deaths"];

fn work(deaths: u64) -> Work {
    let tasks = u64::from(HOSTS * THREADS) * TASKS;
    Work {
        figure: NAME,
        hosts: HOSTS,
        threads: THREADS,
        plan: Plan::phases(vec![tasks, tasks]),
        task: Task::Compute(TASK_PS),
        deaths,
    }
}

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut rows = Vec::new();
    for (n, (cases, profile)) in [(INCOHERENT, "cxl-remote-wide"), (COHERENT, "dram")]
        .into_iter()
        .enumerate()
    {
        let profile = Profile::load(profile)?;
        let mut without = 0.0;
        for (m, (case, deaths)) in cases.into_iter().zip(DEATHS).enumerate() {
            let time = match n {
                0 => work(deaths).time::<false>(&profile)?,
                _ => work(deaths).time::<true>(&profile)?,
            };
            progress(3 * n + m + 1, 6);
            rows.push(Row::new(case, HOSTS * THREADS, TIME, None, time));
            match m {
                0 => without = time,
                _ => {
                    let slowdown = (time / without - 1.0) * 100.0;
                    let paper = PAPER[m - 1];
                    rows.push(Row::in_range(case, HOSTS * THREADS, SLOWDOWN, paper, slowdown));
                }
            }
        }
    }
    Ok(Figure {
        name: NAME,
        title: "A task list on 16 hosts, of which some die right before they commit",
        source: "Lupin, section 5, table 4",
        origin: Origin::Simulated,
        conditions: "profiles cxl-remote-wide (incoherent) and dram (coherent)",
        charted: Charted::Cases([SLOWDOWN, TIME]),
        rows,
        notes: vec![
            "A task is 5 ms of virtual time, with no memory accesses of its own. Two threads a host, 3,200 tasks in two phases.",
            "A process that starts in a dead one's place takes 12.3 ms until it joins: the slowest of the paper's three programs (section 2.2).",
            "The paper's range is that of its six programs, measured on 16 virtual machines.",
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_cost_little_more_than_the_work_that_is_lost() {
        let profile = Profile::load("dram").unwrap();
        let [without, with] = [0, 8].map(|deaths| work(deaths).time::<true>(&profile).unwrap());
        // 100 rounds of 5 ms, and what the list costs.
        assert!((500.0..520.0).contains(&without), "{without}");
        // Eight processes' two tasks and starts, over 32 threads: some 4 tasks' time each.
        assert!(with > without && with < without * 1.1, "{with} and {without}");
    }
}
