//! Many simulated runs, as many at a time as the machine has cores. Each is one thread, and does not depend on the
//! others.

use std::sync::{Mutex, PoisonError};

use cenote::Guidelines;
use cenote_ycsb::Workload;

use super::{Progress, Quantity, ReproduceError};
use crate::profile::Profile;
use crate::throughput::{Form, Outcome, Plan, measure};

/// What sweeps are about.
pub const THROUGHPUT: Quantity = Quantity {
    name: "throughput",
    unit: "Mops/s",
};

/// Threads of the paper's machine that work, on three of its sockets; the fourth has the memory.
pub const THREADS: u32 = 144;
const HOSTS: u32 = 3;
/// Records and operations of each workload. The paper has 100 M records.
pub const RECORDS: u64 = 100_000;
const PAPER_RECORDS: u64 = 100_000_000;

/// All without the guidelines' optimisations, on coherent memory of DRAM: the paper's ideal. The profile says which
/// DRAM; values are overwritten in place, or replaced as the paper's indexes do.
pub fn coherent(
    form: Form,
    profile: &str,
    in_place: bool,
    threads: u32,
    workloads: &[Workload],
) -> Result<Plan, ReproduceError> {
    let guidelines = match in_place {
        true => Guidelines::IN_PLACE,
        false => Guidelines::SP,
    };
    plan(form, profile, true, guidelines, threads, workloads)
}

/// On remote CXL memory without coherence.
pub fn incoherent(
    form: Form,
    guidelines: Guidelines,
    threads: u32,
    workloads: &[Workload],
) -> Result<Plan, ReproduceError> {
    plan(form, "cxl-remote-wide", false, guidelines, threads, workloads)
}

fn plan(
    form: Form,
    profile: &str,
    coherent: bool,
    guidelines: Guidelines,
    threads: u32,
    workloads: &[Workload],
) -> Result<Plan, ReproduceError> {
    let plan = Plan {
        form,
        hosts: HOSTS,
        threads,
        coherent,
        workloads: workloads.to_vec(),
        records: PAPER_RECORDS,
        ranks: PAPER_RECORDS,
        operations: PAPER_RECORDS,
        guidelines,
        replicates_epoch: guidelines.replicate,
        trace: None,
        profile: Profile::load(profile)?,
        seed: 1,
        profiles_regions: false,
    };
    Ok(with_records(plan, RECORDS))
}

/// The same plan with so many records, and operations of each workload. The cache has the same share of them as it had
/// of those before.
pub fn with_records(mut plan: Plan, records: u64) -> Plan {
    plan.profile.cache_bytes = plan.profile.cache_bytes * records / plan.records.max(1);
    plan.records = records;
    plan.operations = records;
    plan
}

/// How far a sweep has come.
struct Sweep<O, E> {
    begun: usize,
    done: usize,
    outcomes: Vec<Option<O>>,
    failure: Option<E>,
}

/// Runs all plans; their outcomes in the same order.
pub fn run(plans: &[Plan], progress: Progress<'_>) -> Result<Vec<Outcome>, ReproduceError> {
    Ok(each(plans, measure, progress)?)
}

/// Measures plans of any kind; their outcomes in the same order.
pub fn each<P: Sync, O: Send, E: Send>(
    plans: &[P],
    measure: impl Fn(&P) -> Result<O, E> + Sync,
    progress: Progress<'_>,
) -> Result<Vec<O>, E> {
    let sweep = Mutex::new(Sweep {
        begun: 0,
        done: 0,
        outcomes: plans.iter().map(|_| None).collect(),
        failure: None,
    });
    // A thread that panicked has left it whole: each change is one statement.
    let locked = || sweep.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || {
        let mut sweep = locked();
        let n = sweep.begun;
        sweep.begun += 1;
        (sweep.failure.is_none()).then_some((n, plans.get(n)?))
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((n, plan)) = next() {
                    let outcome = measure(plan);
                    let mut sweep = locked();
                    match outcome {
                        Ok(outcome) => sweep.outcomes[n] = Some(outcome),
                        Err(error) => drop(sweep.failure.get_or_insert(error)),
                    }
                    sweep.done += 1;
                    progress(sweep.done, plans.len());
                }
            });
        }
    });
    let Sweep {
        outcomes, failure, ..
    } = sweep.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failure {
        Some(failure) => Err(failure),
        None => Ok(outcomes.into_iter().flatten().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(form: Form, threads: u32) -> Plan {
        Plan {
            records: 200,
            operations: 200,
            ..incoherent(form, Guidelines::P3, threads, &[Workload::Load, Workload::A]).unwrap()
        }
    }

    #[test]
    fn all_forms_run_and_outcomes_are_in_order() {
        let plans: Vec<Plan> = Form::ALL.into_iter().map(|form| small(form, 6)).collect();
        let outcomes = run(&plans, &|done, of| assert!(done <= of)).unwrap();
        for (plan, outcome) in plans.iter().zip(&outcomes) {
            assert_eq!(outcome, &measure(plan).unwrap(), "{:?}", plan.form);
            let done: Vec<u64> = outcome.workloads.iter().map(|done| done.operations).collect();
            assert_eq!(done, [200, 200], "{:?}", plan.form);
        }
    }

    #[test]
    fn a_plan_that_cannot_be_run_ends_the_sweep() {
        let wrong = Plan {
            workloads: vec![Workload::C, Workload::Load],
            ..small(Form::Hash, 2)
        };
        let error = run(&[small(Form::Hash, 2), wrong], &|_, _| {}).unwrap_err();
        assert!(error.to_string().contains("give it first"), "{error}");
    }
}
