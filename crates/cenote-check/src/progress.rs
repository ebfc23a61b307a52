//! Progress: a living instance finishes what it began within a bound of its own steps, whichever others are stopped or
//! dead.
//!
//! Only own steps count. An instance that runs alone while all others are stopped needs a bounded number of them if the
//! code is obstruction-free; if it needs no more under any schedule, the code is wait-free (Herlihy 1991, "Wait-free
//! synchronization"). Which of the two is asked depends on the schedule that the steps were counted under. A checker of
//! finite runs cannot tell "never" from "not yet": the run must give every living instance `bound` own steps for each
//! operation before it ends.

/// What one operation took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// Whose operation.
    pub process: u32,
    /// Which one, counted from 0 within the process.
    pub operation: usize,
    /// The steps that the process itself made in it.
    pub own_steps: u64,
    /// Whether it returned.
    pub finished: bool,
    /// Whether the process lived when the run ended.
    pub live: bool,
}

/// An operation without progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It did not return.
    #[error(
        "process {} never finishes its operation {}: {} own steps so far, {bound} are allowed",
        spent.process, spent.operation, spent.own_steps
    )]
    Unfinished {
        /// The operation.
        spent: Spent,
        /// What is allowed.
        bound: u64,
    },
    /// It returned late.
    #[error(
        "process {} took {} own steps for its operation {}, {bound} are allowed",
        spent.process, spent.own_steps, spent.operation
    )]
    TooLong {
        /// The operation.
        spent: Spent,
        /// What is allowed.
        bound: u64,
    },
}

/// Checks every operation of a living instance; those of the dead owe nothing. Returns the most own steps that one
/// took, or the first fault.
pub fn check(trace: &[Spent], bound: u64) -> Result<u64, Fault> {
    let mut most = 0;
    for &spent in trace.iter().filter(|spent| spent.live) {
        if !spent.finished {
            return Err(Fault::Unfinished { spent, bound });
        }
        if spent.own_steps > bound {
            return Err(Fault::TooLong { spent, bound });
        }
        most = most.max(spent.own_steps);
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(process: u32, own_steps: u64, finished: bool, live: bool) -> Spent {
        Spent {
            process,
            operation: 3,
            own_steps,
            finished,
            live,
        }
    }

    #[test]
    fn the_living_finish_and_the_dead_owe_nothing() {
        let trace = [
            spent(0, 100, true, true),
            spent(1, 7, false, false),
            spent(2, 500, true, false),
            spent(3, 40, true, true),
        ];
        assert_eq!(check(&trace, 100), Ok(100));
        assert_eq!(check(&[], 0), Ok(0));
    }

    #[test]
    fn one_step_too_many_is_a_fault() {
        let late = spent(0, 101, true, true);
        let fault = check(&[late], 100).unwrap_err();
        assert_eq!(
            fault,
            Fault::TooLong {
                spent: late,
                bound: 100
            }
        );
        assert_eq!(
            fault.to_string(),
            "process 0 took 101 own steps for its operation 3, 100 are allowed"
        );
    }

    #[test]
    fn an_operation_that_does_not_return_is_a_fault_however_few_its_steps() {
        let stuck = spent(5, 2, false, true);
        let fault = check(&[spent(1, 1, true, true), stuck], 100).unwrap_err();
        assert_eq!(
            fault,
            Fault::Unfinished {
                spent: stuck,
                bound: 100
            }
        );
        assert_eq!(
            fault.to_string(),
            "process 5 never finishes its operation 3: 2 own steps so far, 100 are allowed"
        );
    }
}
