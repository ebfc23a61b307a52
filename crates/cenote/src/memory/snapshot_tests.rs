//! What a view without a place reads, and when it says that it holds.

use std::sync::Arc;

use super::{Bounds, Snapshot};
use crate::memory::{Coherent, Mapped, Mapping, Memory, Noncoherent};

const EPOCH: u64 = 192;
const COMMITTED: u64 = 128;
const LIMIT: u64 = 1 << 16;

fn bounds(is_strict: bool) -> Bounds {
    Bounds {
        epoch: EPOCH,
        committed: (COMMITTED, 7),
        limit: LIMIT,
        steps: 1 << 12,
        is_strict,
    }
}

fn memory<M: Mapped>() -> M {
    let mem = M::over(Arc::new(Mapping::anonymous(2 * LIMIT).unwrap())).unwrap();
    mem.store(EPOCH, 8 << 1);
    mem.store(COMMITTED, 7);
    for at in (4096..LIMIT).step_by(8) {
        mem.store(at, at);
    }
    mem
}

fn reads_what_is_there_and_stores_nothing<M: Mapped>() {
    let mem = memory::<M>();
    let snapshot = Snapshot::new(mem.clone(), bounds(true));
    let mut all = vec![0; (LIMIT - 4096) as usize];
    for (at, bytes) in (4096u64..).step_by(8).zip(all.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&at.to_le_bytes());
    }
    for (at, len) in [
        (4096, 8),
        (4097, 1),
        (4099, 70),
        (5000, 6001),
        (LIMIT - 1, 1),
        (9000, 0),
    ] {
        let from = (at - 4096) as usize;
        assert_eq!(
            snapshot.bytes(at, len),
            &all[from..from + len as usize],
            "{at} {len}"
        );
    }
    assert_eq!(snapshot.load(4096), 4096);
    assert_eq!(snapshot.fetch_line(8192)[7], 8248);
    assert_eq!(snapshot.load(COMMITTED), 7);
    snapshot.store(4096, 1);
    snapshot.write(4096, &[1; 64]);
    assert_eq!(snapshot.compare_exchange(4096, 4096, 1), Err(4096));
    assert_eq!(snapshot.fetch_add(4096, 1), 4096);
    assert_eq!(mem.load(4096), 4096);
    // What is outside is nothing.
    assert_eq!((snapshot.load(LIMIT), snapshot.load(!7)), (0, 0));
    assert_eq!(snapshot.bytes(LIMIT - 8, 16), [0; 16]);
    assert_eq!(snapshot.fetch_line(LIMIT), [0; 8]);
    assert!(snapshot.holds());
}

#[test]
fn what_is_there_is_read_and_nothing_is_stored() {
    reads_what_is_there_and_stores_nothing::<Coherent>();
    reads_what_is_there_and_stores_nothing::<Noncoherent>();
}

#[test]
fn what_was_given_stays_as_it_was_read_and_is_not_believed_once_the_epoch_moves() {
    let mem = memory::<Coherent>();
    let snapshot = Snapshot::new(mem.clone(), bounds(true));
    let given = snapshot.bytes(4096, 16);
    mem.store(4096, 1);
    assert_eq!(given[..8], 4096u64.to_le_bytes());
    // The epoch's replicas are being updated: the epoch is unchanged.
    mem.store(EPOCH, 8 << 1 | 1);
    assert!(snapshot.holds());
    mem.store(EPOCH, 9 << 1);
    assert!(!snapshot.holds());
    // The reader notices it on the way, too: then everything reads as nothing.
    let read: Vec<u64> = (0..1000).map(|_| snapshot.load(8192)).collect();
    assert_eq!((read.last(), snapshot.is_exhausted()), (Some(&0), false));
}

#[test]
fn what_was_read_while_the_pool_grew_is_not_believed() {
    let mem = memory::<Coherent>();
    let snapshot = Snapshot::new(mem.clone(), bounds(true));
    mem.store(COMMITTED, 8);
    assert_eq!(snapshot.load(COMMITTED), 7);
    assert!(!snapshot.holds());
}

#[test]
fn a_loose_attempt_goes_on_and_says_so() {
    let mem = memory::<Coherent>();
    let snapshot = Snapshot::new(mem.clone(), bounds(false));
    mem.store(EPOCH, 9 << 1);
    assert!((0..1000).all(|_| snapshot.load(8192) == 8192));
    assert!(!snapshot.holds());
}

#[test]
fn an_attempt_ends_after_its_steps() {
    let snapshot = Snapshot::new(memory::<Coherent>(), bounds(false));
    let reads = (0..1 << 20).take_while(|_| snapshot.load(8192) != 0).count();
    // The epoch is polled every 64 steps.
    assert!(
        reads <= (1 << 12) + 64 && snapshot.is_exhausted() && !snapshot.holds(),
        "{reads}"
    );
    assert_eq!(snapshot.bytes(8192, 1 << 15).len(), 1 << 15);
}
