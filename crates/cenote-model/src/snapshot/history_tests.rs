//! All short histories, beside stateright's own tester, which keeps the whole history and searches for an order of it.

use stateright::semantics::register::{Register, RegisterOp, RegisterRet};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester};

use super::history::History;

/// What each client calls, in this order: to write this value, or to read.
type Calls = [&'static [u64]];
const READ: u64 = 0;

#[derive(Clone)]
struct Both {
    history: History,
    tester: LinearizabilityTester<usize, Register<u64>>,
    /// For each client: calls that it has begun, and whether it is in the last of them.
    begun: Vec<(usize, bool)>,
}

/// Goes through all that can follow; counts the histories that are linearizable, and those that are not.
fn follow(calls: &Calls, both: &Both, counts: &mut [u32; 2]) {
    let is_linearizable = both.tester.serialized_history().is_some();
    assert_eq!(
        both.history.is_linearizable(),
        is_linearizable,
        "{:?}",
        both.tester
    );
    counts[usize::from(!is_linearizable)] += 1;
    if !is_linearizable {
        return;
    }
    for (client, calls_of) in calls.iter().enumerate() {
        let (begun, is_calling) = both.begun[client];
        if !is_calling {
            let Some(call) = calls_of.get(begun) else { continue };
            let mut next = both.clone();
            next.begun[client] = (begun + 1, true);
            let op = match call {
                &READ => {
                    next.history.begins_read(client);
                    RegisterOp::Read
                }
                value => {
                    next.history.begins_write(client, *value);
                    RegisterOp::Write(*value)
                }
            };
            next.tester.on_invoke(client, op).unwrap();
            follow(calls, &next, counts);
            continue;
        }
        let answers: Vec<Option<u64>> = match calls_of[begun - 1] {
            READ => (0..4).map(Some).collect(),
            _ => vec![None],
        };
        for answer in answers {
            let mut next = both.clone();
            next.begun[client] = (begun, false);
            let ret = match answer {
                Some(value) => {
                    next.history.ends_read(client, value);
                    RegisterRet::ReadOk(value)
                }
                None => {
                    next.history.ends_write(client);
                    RegisterRet::WriteOk
                }
            };
            next.tester.on_return(client, ret).unwrap();
            follow(calls, &next, counts);
        }
    }
}

#[test]
fn both_say_the_same_of_all_short_histories() {
    let plans: [&Calls; 4] = [
        &[&[1, READ], &[2, READ]],
        &[&[1], &[2], &[READ, READ]],
        &[&[1, 2], &[READ, READ]],
        &[&[1], &[READ, 3], &[READ]],
    ];
    let mut counts = [0; 2];
    for calls in plans {
        let both = Both {
            history: History::new(calls.len(), 0),
            tester: LinearizabilityTester::new(Register(0)),
            begun: vec![(0, false); calls.len()],
        };
        follow(calls, &both, &mut counts);
    }
    println!("{counts:?}");
    assert!(counts.iter().all(|count| *count > 1000), "{counts:?}");
}
