//! What a view without a place reads, and when it says that it holds.

use std::sync::Arc;

use super::{Bounds, Snapshot};
use crate::memory::{Coherent, Mapped, Mapping, Noncoherent};
use crate::memory::{Published, SyncWord, Unpublished, WordLine};

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of the memory of this test, which nobody uses otherwise.
    unsafe { SyncWord::at(at) }
}

/// A line of words.
#[inline(always)]
fn word_line(at: u64) -> WordLine {
    // SAFETY: a line of words of the memory of this test, which nobody uses otherwise.
    unsafe { WordLine::at(at) }
}

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of the memory of this test, which nobody uses otherwise.
    unsafe { Published::at(at, len) }
}

/// Unpublished bytes.
#[inline(always)]
fn unpublished(at: u64, len: u64) -> Unpublished {
    // SAFETY: bytes of the memory of this test, which nobody uses otherwise.
    unsafe { Unpublished::at(at, len) }
}

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
    sync_word(EPOCH).store(&mem, 8 << 1);
    sync_word(COMMITTED).store(&mem, 7);
    for at in (4096..LIMIT).step_by(8) {
        sync_word(at).store(&mem, at);
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
            published(at, len).bytes(&snapshot),
            &all[from..from + len as usize],
            "{at} {len}"
        );
    }
    assert_eq!(sync_word(4096).load(&snapshot), 4096);
    assert_eq!(word_line(8192).fetch(&snapshot)[7], 8248);
    assert_eq!(sync_word(COMMITTED).load(&snapshot), 7);
    sync_word(4096).store(&snapshot, 1);
    unpublished(4096, [1; 64].len() as u64).write(&snapshot, &[1; 64]);
    assert_eq!(sync_word(4096).compare_exchange(&snapshot, 4096, 1), Err(4096));
    assert_eq!(sync_word(4096).fetch_add(&snapshot, 1), 4096);
    assert_eq!(sync_word(4096).load(&mem), 4096);
    // What is outside is nothing.
    assert_eq!(
        (sync_word(LIMIT).load(&snapshot), sync_word(!7).load(&snapshot)),
        (0, 0)
    );
    assert_eq!(published(LIMIT - 8, 16).bytes(&snapshot), [0; 16]);
    assert_eq!(word_line(LIMIT).fetch(&snapshot), [0; 8]);
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
    let given = published(4096, 16).bytes(&snapshot);
    sync_word(4096).store(&mem, 1);
    assert_eq!(given[..8], 4096u64.to_le_bytes());
    // The epoch's replicas are being updated: the epoch is unchanged.
    sync_word(EPOCH).store(&mem, 8 << 1 | 1);
    assert!(snapshot.holds());
    sync_word(EPOCH).store(&mem, 9 << 1);
    assert!(!snapshot.holds());
    // The reader notices it on the way, too: then everything reads as nothing.
    let read: Vec<u64> = (0..1000).map(|_| sync_word(8192).load(&snapshot)).collect();
    assert_eq!((read.last(), snapshot.is_exhausted()), (Some(&0), false));
}

#[test]
fn what_was_read_while_the_pool_grew_is_not_believed() {
    let mem = memory::<Coherent>();
    let snapshot = Snapshot::new(mem.clone(), bounds(true));
    sync_word(COMMITTED).store(&mem, 8);
    assert_eq!(sync_word(COMMITTED).load(&snapshot), 7);
    assert!(!snapshot.holds());
}

#[test]
fn a_loose_attempt_goes_on_and_says_so() {
    let mem = memory::<Coherent>();
    let snapshot = Snapshot::new(mem.clone(), bounds(false));
    sync_word(EPOCH).store(&mem, 9 << 1);
    assert!((0..1000).all(|_| sync_word(8192).load(&snapshot) == 8192));
    assert!(!snapshot.holds());
}

#[test]
fn an_attempt_ends_after_its_steps() {
    let snapshot = Snapshot::new(memory::<Coherent>(), bounds(false));
    let reads = (0..1 << 20)
        .take_while(|_| sync_word(8192).load(&snapshot) != 0)
        .count();
    // The epoch is polled every 64 steps.
    assert!(
        reads <= (1 << 12) + 64 && snapshot.is_exhausted() && !snapshot.holds(),
        "{reads}"
    );
    assert_eq!(published(8192, 1 << 15).bytes(&snapshot).len(), 1 << 15);
}
