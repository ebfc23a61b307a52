//! Store buffers: a load may pass an older store, and nothing else may be seen in another order (x86-TSO).
//!
//! The exhaustive policy buffers nothing, so the tests look for what is allowed in random runs, and for what is
//! forbidden in both.

use cenote::memory::Memory;

use super::guarantees::never;
use super::harness::{FLAG, Found, Litmus, NEIGHBOUR, Registers, Thread, X, Y};
use cenote::memory::{OwnedWord, Published, SyncWord, Unpublished, WordLine};

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of simulated memory, which checks each access.
    unsafe { SyncWord::at(at) }
}

/// An owned word.
#[inline(always)]
fn owned_word(at: u64) -> OwnedWord {
    // SAFETY: an owned word of simulated memory, which checks each access.
    unsafe { OwnedWord::at(at) }
}

/// A line of words.
#[inline(always)]
fn word_line(at: u64) -> WordLine {
    // SAFETY: a line of words of simulated memory, which checks each access.
    unsafe { WordLine::at(at) }
}

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Published::at(at, len) }
}

/// Unpublished bytes.
#[inline(always)]
fn unpublished(at: u64, len: u64) -> Unpublished {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Unpublished::at(at, len) }
}

/// A word that nobody changes.
const Z: u64 = X + 512;

const WEAK: Registers = [0; 4];

fn is_weak(found: &Found) -> bool {
    found.registers[..2] == [0, 0]
}

/// The end of a thread empties its buffer: not right after the last load.
fn lives_on<const C: bool>(t: &Thread<'_, C>) {
    sync_word(Z).load(&t.mem);
}

/// Both store, and read the other's word, with something in between.
fn store_buffering<const C: bool>(t: &Thread<'_, C>, between: impl Fn(&Thread<'_, C>)) {
    let (own, other) = if t.number == 0 { (X, Y) } else { (Y, X) };
    sync_word(own).store(&t.mem, 1);
    between(t);
    t.find(t.number as usize, sync_word(other).load(&t.mem));
    lives_on(t);
}

#[test]
fn a_load_passes_an_older_store() {
    Litmus::new(2, |t: &Thread<'_, true>| store_buffering(t, |_| {})).first(is_weak);
    Litmus::new(2, |t: &Thread<'_, false>| store_buffering(t, |_| {})).first(is_weak);
}

#[test]
fn all_schedules_are_without_buffers() {
    let seen = Litmus::new(2, |t: &Thread<'_, true>| store_buffering(t, |_| {})).all(8);
    assert!(!seen.contains_key(&WEAK));
}

#[test]
fn stores_through_caches_and_of_data_wait_too() {
    let owned = |t: &Thread<'_, true>| {
        let (own, other) = if t.number == 0 { (X, Y) } else { (Y, X) };
        match t.number {
            0 => owned_word(own).set(&t.mem, 1),
            _ => unpublished(own, 8).write_word(&t.mem, 1),
        }
        t.find(t.number as usize, sync_word(other).load_speculative(&t.mem));
        lives_on(t);
    };
    Litmus::new(2, owned).first(is_weak);
}

/// What drains a buffer: neither of the two finds nothing.
#[test]
fn fences_exchanges_and_system_calls_drain() {
    let drained: [fn(&Thread<'_, true>); 5] = [
        |t| store_buffering(t, |t| t.mem.fence()),
        |t| store_buffering(t, |t| sync_word(FLAG).store_seq_cst(&t.mem, 1)),
        |t| store_buffering(t, |t| assert!(sync_word(FLAG).fetch_add(&t.mem, 1) < 2)),
        |t| {
            store_buffering(t, |t| {
                assert!(sync_word(FLAG).compare_exchange(&t.mem, 7, 8).is_err())
            })
        },
        |t| store_buffering(t, |t| t.mem.relax()),
    ];
    for threads in drained {
        never(&Litmus::new(2, threads), |found| found[..2] == [0, 0], &[]);
    }
}

/// The reader stores and loads; the other one executes a barrier for both.
#[test]
fn a_barrier_everywhere_stands_for_the_readers_fence() {
    let with = Litmus::new(2, |t: &Thread<'_, true>| match t.number {
        0 => {
            sync_word(X).store(&t.mem, 1);
            t.find(0, sync_word(Y).load(&t.mem));
            lives_on(t);
        }
        _ => {
            sync_word(Y).store(&t.mem, 1);
            assert!(t.mem.barrier_everywhere());
            t.find(1, sync_word(X).load(&t.mem));
        }
    });
    never(&with, |found| found[..2] == [0, 0], &[]);
    let fence_of_one = Litmus::new(2, |t: &Thread<'_, true>| match t.number {
        0 => {
            sync_word(X).store(&t.mem, 1);
            t.find(0, sync_word(Y).load(&t.mem));
            lives_on(t);
        }
        _ => {
            sync_word(Y).store(&t.mem, 1);
            t.mem.fence();
            t.find(1, sync_word(X).load(&t.mem));
        }
    });
    fence_of_one.first(is_weak);
}

#[test]
fn a_thread_sees_its_own_stores_at_once() {
    fn threads<const C: bool>(t: &Thread<'_, C>) {
        if t.number == 0 {
            sync_word(X).store(&t.mem, 1);
            t.find(0, sync_word(X).load(&t.mem));
            owned_word(Y).set(&t.mem, 2);
            t.find(1, owned_word(Y).get(&t.mem));
            unpublished(FLAG, [3; 16].len() as u64).write(&t.mem, &[3; 16]);
            t.find(2, u64::from(published(FLAG, 16).bytes(&t.mem)[15]));
            sync_word(NEIGHBOUR).store(&t.mem, 4);
            t.find(3, word_line(X).fetch(&t.mem)[1]);
        } else {
            sync_word(Z).load(&t.mem);
        }
    }
    never(
        &Litmus::new(2, threads::<true>),
        |found| *found != [1, 2, 3, 4],
        &[],
    );
    never(
        &Litmus::new(2, threads::<false>),
        |found| *found != [1, 2, 3, 4],
        &[],
    );
}

/// Messages, load buffering and independent reads, on coherent memory, whatever the stores are.
#[test]
fn nothing_else_is_seen_in_another_order() {
    let messages = Litmus::new(2, |t: &Thread<'_, true>| {
        if t.number == 0 {
            unpublished(X, [1; 8].len() as u64).write(&t.mem, &[1; 8]);
            owned_word(NEIGHBOUR).set(&t.mem, 1);
            sync_word(FLAG).store(&t.mem, 1);
        } else {
            t.find(0, sync_word(FLAG).load(&t.mem));
            t.find(1, owned_word(NEIGHBOUR).peek(&t.mem));
            t.find(2, published(X, 8).read_word(&t.mem));
        }
    });
    never(
        &messages,
        |found| found[0] == 1 && (found[1] == 0 || found[2] == 0) || found[1] == 1 && found[2] == 0,
        &[],
    );
    let load_buffering = Litmus::new(2, |t: &Thread<'_, true>| {
        let (own, other) = if t.number == 0 { (X, Y) } else { (Y, X) };
        t.find(t.number as usize, sync_word(other).load(&t.mem));
        sync_word(own).store(&t.mem, 1);
    });
    never(&load_buffering, |found| found[..2] == [1, 1], &[]);
    let independent_reads = Litmus::new(4, |t: &Thread<'_, true>| match t.number {
        0 => sync_word(X).store(&t.mem, 1),
        1 => sync_word(Y).store(&t.mem, 1),
        2 => {
            t.find(0, sync_word(X).load(&t.mem));
            t.find(1, sync_word(Y).load(&t.mem));
        }
        _ => {
            t.find(2, sync_word(Y).load(&t.mem));
            t.find(3, sync_word(X).load(&t.mem));
        }
    });
    never(&independent_reads, |found| *found == [1, 0, 1, 0], &[]);
}

/// What a process has executed takes effect although it is killed.
#[test]
fn the_stores_of_the_dead_are_seen() {
    let mut litmus = Litmus::new(1, |t: &Thread<'_, true>| {
        sync_word(X).store(&t.mem, 1);
        sync_word(Y).store(&t.mem, 1);
        sync_word(FLAG).load(&t.mem);
    })
    .dies_at(2);
    litmus.audit = |t| {
        t.find(0, sync_word(X).load(&t.mem));
        t.find(1, sync_word(Y).load(&t.mem));
    };
    never(&litmus, |found| found[..2] != [1, 1], &[]);
}

/// A line is loaded and stored in ascending order, with others in between.
#[test]
fn a_line_is_half_stored_and_half_loaded() {
    let stored = Litmus::new(2, |t: &Thread<'_, true>| match t.number {
        0 => word_line(X).store_line(&t.mem, [1; 8]),
        _ => {
            t.find(1, sync_word(X + 56).load(&t.mem));
            t.find(0, sync_word(X).load(&t.mem));
            let line = word_line(X).fetch(&t.mem);
            t.find(2, line[0]);
            t.find(3, line[7]);
        }
    });
    // Of what is stored in ascending order, the end is not seen without the beginning.
    let is_backwards = |found: &Registers| found[1] == 1 && found[0] == 0;
    never(&stored, is_backwards, &[[0; 4], [1; 4]]);
    stored.first(|found| found.registers[2..] == [1, 0]);
    let loaded = Litmus::new(2, |t: &Thread<'_, true>| match t.number {
        0 => {
            sync_word(X).store_seq_cst(&t.mem, 1);
            sync_word(X + 56).store_seq_cst(&t.mem, 1);
        }
        _ => {
            let line = word_line(X).fetch(&t.mem);
            t.find(0, line[0]);
            t.find(1, line[7]);
        }
    });
    loaded.first(|found| found.registers[..2] == [0, 1]);
}
