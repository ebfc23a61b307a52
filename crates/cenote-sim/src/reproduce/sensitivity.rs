//! How much each cost of the clock moves figures of virtual time, with one cost changed at a time.
//!
//! A cell is a form of map under a workload, or a lock under contention, as in the figures of 144 and of 32 threads. A
//! cost is a field of the [profile](crate::profile), or two that belong together. All else stays, the seed too; so what
//! a change moves by a few per cent may be a schedule that has become another one.

use cenote::Guidelines;
use cenote_ycsb::Workload;
use serde::Serialize;

use super::counting::Way;
use super::lupin_table2;
use super::sweep::{self, THREADS};
use super::{Progress, ReproduceError};
use crate::profile::Profile;
use crate::throughput::{Form, Outcome, Plan};

/// A cost: its name in the profile, and how it is made so many times what it is.
pub struct Cost {
    /// The field, or what two of them are about.
    pub name: &'static str,
    scale: fn(&mut Profile, f64),
}

macro_rules! costs {
    ($($name:literal: $($field:ident),+;)+) => {
        &[$(Cost {
            name: $name,
            scale: |profile, factor| { $(profile.$field = (profile.$field as f64 * factor) as _;)+ },
        }),+]
    };
}

/// All of them.
pub const COSTS: &[Cost] = costs! {
    "cache_bytes": cache_bytes;
    "own_cache_bytes": own_cache_bytes;
    "hit_ns": hit_ns;
    "shared_hit_ns": shared_hit_ns;
    "miss_ns": miss_ns;
    "transfer_ns": transfer_ns;
    "retention_ns": retention_ns;
    "bandwidth": host_bandwidth_gib_per_s, device_bandwidth_gib_per_s;
    "sync_load_ns": sync_load_ns;
    "sync_store_ns": sync_store_ns;
    "same_address_service_ns": same_address_service_ns;
    "exchange_ns": exchange_ns;
    "exchange_queues": exchange_queues;
    "exchange_service_ns": exchange_service_ns;
    "write_back_ns": write_back_ns;
    "flush_ns": flush_ns;
    "fence_ns": fence_ns;
    "compute_ns": compute_ns;
    "kernel_ns": kernel_ns;
    "pause_ns": pause_ns;
    "network_ns": network_ns;
};

/// What is measured on a map, in this order, on the same map.
const WORKLOADS: [Workload; 4] = [Workload::Load, Workload::C, Workload::B, Workload::A];

/// A case: some cells that one run, or one kind of run, fills.
#[derive(Clone, Copy)]
enum Case {
    /// On incoherent memory.
    Incoherent(Form, Guidelines),
    /// On remote DRAM with coherent caches.
    Coherent(Form),
    /// Table 2 of Lupin.
    Locks,
}

const CASES: [(&str, Case); 9] = [
    ("hash map, P3", Case::Incoherent(Form::Hash, Guidelines::P3)),
    ("hash map, SP", Case::Incoherent(Form::Hash, Guidelines::SP)),
    (
        "hash map, MQ",
        Case::Incoherent(Form::HashMessages, Guidelines::P3),
    ),
    ("hash map, CC", Case::Coherent(Form::Hash)),
    ("ordered map, P3", Case::Incoherent(Form::Ordered, Guidelines::P3)),
    (
        "ordered map, MQ",
        Case::Incoherent(Form::OrderedMessages, Guidelines::P3),
    ),
    ("Sherman", Case::Incoherent(Form::Sherman, Guidelines::P3)),
    ("ordered map, CC", Case::Coherent(Form::Ordered)),
    ("locks", Case::Locks),
];

/// The names of the cases.
pub fn cases() -> Vec<&'static str> {
    CASES.iter().map(|(name, _)| *name).collect()
}

/// What to vary, and where.
pub struct Wanted<'a> {
    /// Names of [cases]; all if there are none.
    pub cases: &'a [String],
    /// Names of [`COSTS`]; all if there are none.
    pub costs: &'a [String],
    /// By what each is multiplied.
    pub factor: f64,
    /// Records, and operations of each workload.
    pub records: u64,
    /// Runs of each, with seeds from 1; medians are reported.
    pub seeds: u64,
}

impl Wanted<'_> {
    fn costs(&self) -> impl Iterator<Item = &'static Cost> {
        COSTS.iter().filter(|cost| is_wanted(self.costs, cost.name))
    }
}

fn is_wanted(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|wanted| wanted == name)
}

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// The case.
    pub case: &'static str,
    /// What its cells are of: workloads, or locks.
    pub cells: Vec<&'static str>,
    /// Millions of operations a virtual second with the profile as it is.
    pub mops_per_s: Vec<f64>,
    /// One for each cost.
    pub changes: Vec<Change>,
}

/// What a cost moves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The cost.
    pub cost: &'static str,
    /// By how many per cent it moves each cell's throughput.
    pub percent: Vec<f64>,
}

/// Measures.
pub fn measure(wanted: &Wanted<'_>, progress: Progress<'_>) -> Result<Vec<Table>, ReproduceError> {
    let cases: Vec<_> = CASES
        .iter()
        .filter(|(name, _)| is_wanted(wanted.cases, name))
        .collect();
    let variants = 1 + wanted.costs().count();
    let total = cases.len() * variants;
    cases
        .iter()
        .enumerate()
        .map(|(n, (name, case))| {
            let figures = figures(*case, wanted, &|done, of| {
                progress(n * variants + done * variants / of.max(1), total);
            })?;
            Ok(table(name, *case, wanted, &figures))
        })
        .collect()
}

/// The cells of a case, first with the profile as it is, then with each cost changed.
fn figures(case: Case, wanted: &Wanted<'_>, progress: Progress<'_>) -> Result<Vec<Vec<f64>>, ReproduceError> {
    let plan = match case {
        Case::Incoherent(form, guidelines) => sweep::incoherent(form, guidelines, THREADS, &WORKLOADS)?,
        Case::Coherent(form) => sweep::coherent(form, "dram-remote", false, THREADS, &WORKLOADS)?,
        Case::Locks => return locks(wanted, progress),
    };
    let plan = sweep::with_records(plan, wanted.records);
    let seeds = wanted.seeds.max(1);
    let plans: Vec<Plan> = profiles(&plan.profile, wanted)
        .flat_map(|profile| (1..=seeds).map(move |seed| (profile.clone(), seed)))
        .map(|(profile, seed)| Plan {
            profile,
            seed,
            ..plan.clone()
        })
        .collect();
    let outcomes = sweep::run(&plans, progress)?;
    let rates = |outcome: &Outcome| outcome.workloads.iter().map(|done| done.mops_per_s).collect();
    Ok(outcomes
        .chunks(seeds as usize)
        .map(|outcomes| medians(outcomes.iter().map(rates).collect()))
        .collect())
}

/// The median of each cell over all runs, which have the same cells.
fn medians(runs: Vec<Vec<f64>>) -> Vec<f64> {
    let cells = runs.first().map_or(0, Vec::len);
    (0..cells)
        .map(|cell| {
            let mut of_cell: Vec<f64> = runs.iter().map(|run| run[cell]).collect();
            of_cell.sort_by(f64::total_cmp);
            of_cell[of_cell.len() / 2]
        })
        .collect()
}

/// A profile as it is, and with each cost changed.
fn profiles(base: &Profile, wanted: &Wanted<'_>) -> impl Iterator<Item = Profile> {
    let changed = wanted.costs().map(|cost| {
        let mut profile = base.clone();
        (cost.scale)(&mut profile, wanted.factor);
        profile
    });
    std::iter::once(base.clone()).chain(changed)
}

/// Increments of a counter a microsecond, under each lock.
fn locks(wanted: &Wanted<'_>, progress: Progress<'_>) -> Result<Vec<Vec<f64>>, ReproduceError> {
    let base = Profile::load("dram")?;
    let profiles: Vec<_> = profiles(&base, wanted).collect();
    let of = profiles.len();
    profiles
        .iter()
        .enumerate()
        .map(|(done, profile)| {
            progress(done, of);
            let trial = |seed| {
                let time = |way| lupin_table2::measure(way, lupin_table2::THREADS, seed, profile);
                let times = Way::LOCKS.map(time).into_iter();
                times.map(|time| Ok(1.0 / time?)).collect()
            };
            let trials: Result<_, ReproduceError> = (1..=wanted.seeds.max(1)).map(trial).collect();
            Ok(medians(trials?))
        })
        .collect()
}

fn table(name: &'static str, case: Case, wanted: &Wanted<'_>, figures: &[Vec<f64>]) -> Table {
    let (base, changed) = figures
        .split_first()
        .map_or((&[][..], figures), |(base, changed)| (base, changed));
    let percent = |figures: &Vec<f64>| -> Vec<f64> {
        let pairs = figures.iter().zip(base);
        pairs.map(|(new, old)| (new / old - 1.0) * 100.0).collect()
    };
    Table {
        case: name,
        cells: match case {
            Case::Locks => Way::LOCKS.map(Way::name).to_vec(),
            _ => WORKLOADS.map(Workload::name).to_vec(),
        },
        mops_per_s: base.to_vec(),
        changes: wanted
            .costs()
            .zip(changed)
            .map(|(cost, figures)| Change {
                cost: cost.name,
                percent: percent(figures),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(cases: &[&str], costs: &[&str]) -> Vec<Table> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let wanted = Wanted {
            cases: &owned(cases),
            costs: &owned(costs),
            factor: 2.0,
            records: 2_000,
            seeds: 1,
        };
        measure(&wanted, &|done, of| assert!(done <= of)).unwrap()
    }

    fn change<'t>(table: &'t Table, cost: &str) -> &'t [f64] {
        &table
            .changes
            .iter()
            .find(|change| change.cost == cost)
            .unwrap()
            .percent
    }

    #[test]
    fn costs_of_another_machine_move_nothing() {
        let tables = tables(
            &["hash map, P3", "hash map, CC"],
            &["transfer_ns", "network_ns", "exchange_ns", "sync_load_ns"],
        );
        let [incoherent, coherent] = &tables[..] else {
            panic!("{tables:?}")
        };
        for cost in ["transfer_ns", "network_ns"] {
            assert_eq!(change(incoherent, cost), [0.0; 4], "{cost}");
        }
        for cost in ["sync_load_ns", "exchange_ns", "network_ns"] {
            assert_eq!(change(coherent, cost), [0.0; 4], "{cost}");
        }
        // Load, which makes some loads past the caches in each operation.
        assert!(change(incoherent, "sync_load_ns")[0] < -5.0, "{tables:?}");
        assert!(change(coherent, "transfer_ns")[3] < -20.0, "{tables:?}");
    }

    #[test]
    fn every_cost_scales_a_field_of_its_own() {
        let base = Profile::load("cxl-remote-wide").unwrap();
        let changed: Vec<Profile> = COSTS
            .iter()
            .map(|cost| {
                let mut profile = base.clone();
                (cost.scale)(&mut profile, 2.0);
                profile
            })
            .collect();
        for (n, profile) in changed.iter().enumerate() {
            assert_ne!(profile, &base, "{}", COSTS[n].name);
            assert!(!changed[..n].contains(profile), "{}", COSTS[n].name);
        }
    }
}
