//! Events of locks, right and wrong.

use super::*;

const L: u64 = 9;

fn requested(process: u32) -> Event {
    Event::Requested { lock: L, process }
}

fn granted(process: u32) -> Event {
    Event::Granted {
        lock: L,
        process,
        mode: Mode::Exclusive,
    }
}

fn shared(process: u32) -> Event {
    Event::Granted {
        lock: L,
        process,
        mode: Mode::Shared,
    }
}

fn released(process: u32) -> Event {
    Event::Released { lock: L, process }
}

fn died(process: u32) -> Event {
    Event::Died { process }
}

/// Checks the events, at the steps 0, 1, 2, ...
fn checked(events: &[Event]) -> Result<(), Fault> {
    let trace: Vec<(u64, Event)> = (0..).zip(events.iter().copied()).collect();
    check(&trace)
}

#[test]
fn owners_take_turns() {
    let events = [
        requested(0),
        granted(0),
        requested(1),
        released(0),
        granted(1),
        requested(2),
        released(1),
        granted(2),
    ];
    assert_eq!(checked(&events), Ok(()));
}

#[test]
fn two_owners_at_once() {
    let two = Err(Fault::TwoOwners {
        step: 1,
        lock: L,
        process: 1,
        owner: 0,
        since: 0,
    });
    assert_eq!(checked(&[granted(0), granted(1), released(0)]), two);
    assert_eq!(checked(&[granted(0), shared(1)]), two);
    assert_eq!(checked(&[shared(0), granted(1)]), two);
    assert_eq!(checked(&[shared(0), shared(1)]), Ok(()));
}

#[test]
fn other_locks_have_other_owners() {
    let other = Event::Granted {
        lock: 3,
        process: 1,
        mode: Mode::Exclusive,
    };
    assert_eq!(checked(&[granted(0), other]), Ok(()));
}

#[test]
fn the_lock_of_a_dead_owner_is_taken_over() {
    assert_eq!(checked(&[requested(1), granted(0), died(0), granted(1)]), Ok(()));
    assert_eq!(checked(&[shared(0), shared(1), died(0), shared(2)]), Ok(()));
    assert!(checked(&[shared(0), shared(1), died(0), granted(2)]).is_err());
}

#[test]
fn a_lock_that_died_with_its_owner() {
    let fault = checked(&[granted(0), requested(1), requested(2), died(0), died(2)]).unwrap_err();
    assert_eq!(
        fault,
        Fault::Lost {
            lock: L,
            waiting: vec![1],
            last: LastOwner::Died { process: 0, step: 3 },
        }
    );
    assert_eq!(
        fault.to_string(),
        "lock 9 is lost: no living process owns it, and processes [1] wait for it; process 0 died at step 3 as its owner"
    );
}

#[test]
fn a_lock_that_nobody_was_told_of() {
    let last = LastOwner::Released { process: 0, step: 2 };
    let lost = Fault::Lost {
        lock: L,
        waiting: vec![1],
        last,
    };
    assert_eq!(checked(&[granted(0), requested(1), released(0)]), Err(lost));
    let never = Fault::Lost {
        lock: L,
        waiting: vec![1],
        last: LastOwner::None,
    };
    assert_eq!(checked(&[requested(1)]), Err(never));
}

#[test]
fn who_waits_for_the_living_or_no_longer_is_not_wronged() {
    assert_eq!(checked(&[granted(0), requested(1)]), Ok(()));
    assert_eq!(checked(&[granted(0), requested(1), died(0), died(1)]), Ok(()));
    let withdrawn = Event::Withdrawn { lock: L, process: 1 };
    assert_eq!(
        checked(&[granted(0), requested(1), withdrawn, released(0)]),
        Ok(())
    );
}

#[test]
fn a_release_by_somebody_else() {
    let fault = Fault::NotOwned {
        step: 1,
        lock: L,
        process: 1,
    };
    assert_eq!(checked(&[granted(0), released(1)]), Err(fault));
    let again = Fault::NotOwned {
        step: 2,
        lock: L,
        process: 0,
    };
    assert_eq!(checked(&[granted(0), released(0), released(0)]), Err(again));
}
