//! Runs of the near-memory map, and of what it is compared with, on simulated modules: an index is loaded, executes
//! batches to warm up, and then batches that are measured.
//!
//! All times are virtual, by a profile of modules (`upmem`): a model, not a measurement of hardware. Keys are drawn by
//! a zipfian distribution over the loaded keys, whose ranks are scattered over them.

mod batch;
#[cfg(feature = "hotness")]
mod hot;
mod text;

use std::sync::Arc;

use cenote_near::baseline::{Form, Index, Tree, range};
use cenote_near::map::{Config, Map, MapError};
use cenote_near::modules::{Counters, Profile, ProfileError};
use cenote_ycsb::{Workload, key_of_record};

pub use batch::{Batches, Kind};
#[cfg(feature = "hotness")]
pub use hot::{Drift, HotKeys, HotOutcome, HotPlan, predict};
pub use text::{Text, TextError};

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// The near-memory map.
    Near,
    /// The same, with batches that overlap.
    Overlapped,
    /// The near-memory map without redistribution: subranges stay where they are.
    Static,
    /// A range of keys for each module.
    Range,
    /// Nodes distributed, with recorded paths ([`Form::JumpPush`]).
    JumpPush,
    /// Nodes distributed, upper levels everywhere ([`Form::PimTree`]).
    PimTree,
}

impl Design {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Overlapped => "overlapped",
            Self::Static => "near, static",
            Self::Range => "range",
            Self::JumpPush => "jump-push",
            Self::PimTree => "pim-tree",
        }
    }

    /// Whether it changes by what it executes, and has to warm up.
    fn adapts(self) -> bool {
        matches!(self, Self::Near | Self::Overlapped)
    }
}

/// What is done with the words of a text, of which [`Plan::keys`] are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextWork {
    /// Lookups of the last passage of a word, which is drawn from all words of the text.
    Last,
    /// Insertions of the words behind those that are loaded.
    Insert,
}

/// What batches consist of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Operations of one kind.
    Each(Kind),
    /// A workload of YCSB.
    Ycsb(Workload),
    /// Words of a text.
    Text(TextWork, Arc<Text>),
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is run.
    pub design: Design,
    /// What batches consist of.
    pub work: Work,
    /// The zipfian exponent; 0 is uniform.
    pub alpha: f64,
    /// Modules.
    pub modules: usize,
    /// Keys that are loaded.
    pub keys: u64,
    /// Operations of a batch; of scans a sixteenth.
    pub batch: usize,
    /// Batches before those that count.
    pub warm: usize,
    /// Batches that count.
    pub batches: usize,
    /// Everything is drawn from it.
    pub seed: u64,
}

/// What a run has shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Millions of operations in a virtual second.
    pub mops: f64,
    /// Rounds for each batch.
    pub rounds: f64,
    /// Pointer chases for each operation.
    pub chases: f64,
    /// Bytes between host and modules for each operation.
    pub bytes: f64,
    /// The busiest module's load over the mean, in the last batch.
    pub imbalance: f64,
    /// Bytes in modules and on the host.
    pub memory: u64,
    /// Virtual milliseconds of a batch: the host computes while modules do not, the busiest module of each round does,
    /// and what is between.
    pub parts_ms: [f64; 3],
}

/// Why a run has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum NearRunError {
    /// The profile of modules cannot be read.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The index failed.
    #[error("{design}, zipfian {alpha}: {error}")]
    Index {
        /// Which one.
        design: &'static str,
        /// With which exponent.
        alpha: f64,
        /// Why.
        error: MapError,
    },
}

/// An empty index.
fn index(plan: &Plan) -> Result<Box<dyn Index>, NearRunError> {
    let profile = Profile::upmem()?;
    let config = Config::default();
    let failed = |error| plan.failed(error);
    Ok(match plan.design {
        Design::Near | Design::Overlapped => {
            Box::new(Map::simulated(config, plan.modules, profile).map_err(failed)?)
        }
        Design::Static => {
            let config = Config {
                adaptive: false,
                ..config
            };
            Box::new(Map::simulated(config, plan.modules, profile).map_err(failed)?)
        }
        Design::Range => Box::new(range::simulated(&config, plan.modules, profile).map_err(failed)?),
        Design::JumpPush => Box::new(Tree::simulated(Form::JumpPush, plan.modules, profile).map_err(failed)?),
        Design::PimTree => Box::new(Tree::simulated(Form::PimTree, plan.modules, profile).map_err(failed)?),
    })
}

impl Plan {
    fn failed(&self, error: MapError) -> NearRunError {
        NearRunError::Index {
            design: self.design.name(),
            alpha: self.alpha,
            error,
        }
    }

    /// Batches before those that count: an index that does not adapt, and is not changed, needs none.
    fn warm_batches(&self) -> usize {
        let changes = match &self.work {
            Work::Each(kind) => kind.changes_keys(),
            Work::Ycsb(workload) => matches!(workload, Workload::D | Workload::E),
            Work::Text(work, _) => *work == TextWork::Insert,
        };
        if self.design.adapts() || changes {
            self.warm
        } else {
            0
        }
    }
}

/// Runs a plan. The same plan has the same outcome.
pub fn measure(plan: &Plan) -> Result<Outcome, NearRunError> {
    let failed = |error| plan.failed(error);
    let mut pairs: Vec<(u64, u64)> = match &plan.work {
        Work::Text(_, text) => text.keys(plan.keys as usize).into_iter().zip(0..).collect(),
        Work::Each(_) | Work::Ycsb(_) => (0..plan.keys)
            .map(|record| (key_of_record(record), record))
            .collect(),
    };
    pairs.sort_unstable();
    let mut batches = Batches::new(plan);
    if plan.design == Design::Overlapped {
        return overlapped(plan, &pairs, batches);
    }
    let mut index = index(plan)?;
    index.load(&pairs).map_err(failed)?;
    drop(pairs);
    for _ in 0..plan.warm_batches() {
        index.execute(&batches.draw()).map_err(failed)?;
    }
    let before = index.counters();
    let mut operations = 0;
    for _ in 0..plan.batches {
        let batch = batches.draw();
        operations += batch.len();
        index.execute(&batch).map_err(failed)?;
    }
    let after = index.counters();
    Ok(outcome(plan, &*index, [before, after], operations))
}

/// The same with batches that overlap: from when one is sent to when another one is.
fn overlapped(plan: &Plan, pairs: &[(u64, u64)], mut batches: Batches) -> Result<Outcome, NearRunError> {
    let failed = |error| plan.failed(error);
    let mut map = Map::simulated(Config::default(), plan.modules, Profile::upmem()?).map_err(failed)?;
    map.load(pairs).map_err(failed)?;
    let mut sending = map.overlapped();
    for _ in 0..plan.warm_batches().max(1) {
        sending.send(batches.draw()).map_err(failed)?;
    }
    let before = sending.counters();
    let mut operations = 0;
    for _ in 0..plan.batches {
        let batch = batches.draw();
        operations += batch.len();
        sending.send(batch).map_err(failed)?;
    }
    let after = sending.counters();
    sending.finish().map_err(failed)?;
    Ok(outcome(plan, &map, [before, after], operations))
}

fn outcome(plan: &Plan, index: &dyn Index, [before, after]: [Counters; 2], operations: usize) -> Outcome {
    let each = |now: u64, then: u64| (now - then) as f64 / operations.max(1) as f64;
    let ms = |now: u64, then: u64| (now - then) as f64 / 1e6 / plan.batches.max(1) as f64;
    let all_ms = ms(after.virtual_ns, before.virtual_ns);
    let (host, module) = (
        ms(after.host_ns, before.host_ns) - ms(after.overlapped_ns, before.overlapped_ns),
        ms(after.module_ns, before.module_ns),
    );
    let loads = index.loads();
    let busiest = loads.iter().max().copied().unwrap_or(0) as f64;
    Outcome {
        mops: 1e3 / each(after.virtual_ns, before.virtual_ns).max(f64::MIN_POSITIVE),
        rounds: (after.rounds - before.rounds) as f64 / plan.batches.max(1) as f64,
        chases: each(after.chases, before.chases),
        bytes: each(after.sent + after.received, before.sent + before.received),
        imbalance: busiest * loads.len() as f64 / loads.iter().sum::<u64>().max(1) as f64,
        memory: index.memory_bytes(),
        parts_ms: [host, module, all_ms - host - module],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(design: Design, work: Work) -> Plan {
        Plan {
            design,
            work,
            alpha: 1.2,
            modules: 16,
            keys: 4_000,
            batch: 2_000,
            warm: 2,
            batches: 1,
            seed: 3,
        }
    }

    #[test]
    fn every_design_runs_every_work_and_a_plan_has_one_outcome() {
        let designs = [
            Design::Near,
            Design::Overlapped,
            Design::Static,
            Design::Range,
            Design::JumpPush,
            Design::PimTree,
        ];
        for design in designs {
            for work in Kind::ALL
                .map(Work::Each)
                .into_iter()
                .chain([Workload::A, Workload::D, Workload::E].map(Work::Ycsb))
            {
                let plan = small(design, work);
                let outcome = measure(&plan).unwrap();
                assert!(
                    outcome.mops > 0.0 && outcome.rounds >= 1.0,
                    "{plan:?}: {outcome:?}"
                );
                assert!(
                    outcome.imbalance >= 1.0 && outcome.memory > 0,
                    "{plan:?}: {outcome:?}"
                );
            }
        }
        let plan = small(Design::Near, Work::Each(Kind::Insert));
        assert_eq!(measure(&plan).unwrap(), measure(&plan).unwrap());
    }

    #[test]
    fn under_skew_a_range_for_each_module_has_one_module_do_the_work() {
        let near = measure(&small(Design::Near, Work::Each(Kind::Get))).unwrap();
        let range = measure(&small(Design::Range, Work::Each(Kind::Get))).unwrap();
        assert!(range.imbalance > 2.0 * near.imbalance, "{near:?} {range:?}");
    }
}
