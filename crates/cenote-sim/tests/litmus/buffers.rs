//! Store buffers: a load may pass an older store, and nothing else may be seen in another order (x86-TSO).
//!
//! The exhaustive policy buffers nothing, so the tests look for what is allowed in random runs, and for what is forbidden in
//! both.

use cenote::memory::Memory;

use super::guarantees::never;
use super::harness::{FLAG, Found, Litmus, NEIGHBOUR, Registers, Thread, X, Y};

/// A word that nobody changes.
const Z: u64 = X + 512;

const WEAK: Registers = [0; 4];

fn is_weak(found: &Found) -> bool {
    found.registers[..2] == [0, 0]
}

/// The end of a thread empties its buffer: not right after the last load.
fn lives_on<const C: bool>(t: &Thread<'_, C>) {
    t.mem.load(Z);
}

/// Both store, and read the other's word, with something in between.
fn store_buffering<const C: bool>(t: &Thread<'_, C>, between: impl Fn(&Thread<'_, C>)) {
    let (own, other) = if t.number == 0 { (X, Y) } else { (Y, X) };
    t.mem.store(own, 1);
    between(t);
    t.find(t.number as usize, t.mem.load(other));
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
            0 => t.mem.owned_store(own, 1),
            _ => t.mem.write_word(own, 1),
        }
        t.find(t.number as usize, t.mem.load_speculative(other));
        lives_on(t);
    };
    Litmus::new(2, owned).first(is_weak);
}

/// What drains a buffer: neither of the two finds nothing.
#[test]
fn fences_exchanges_and_system_calls_drain() {
    let drained: [fn(&Thread<'_, true>); 5] = [
        |t| store_buffering(t, |t| t.mem.fence()),
        |t| store_buffering(t, |t| t.mem.announce(FLAG, 1)),
        |t| store_buffering(t, |t| assert!(t.mem.fetch_add(FLAG, 1) < 2)),
        |t| store_buffering(t, |t| assert!(t.mem.compare_exchange(FLAG, 7, 8).is_err())),
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
            t.mem.store(X, 1);
            t.find(0, t.mem.load(Y));
            lives_on(t);
        }
        _ => {
            t.mem.store(Y, 1);
            assert!(t.mem.barrier_everywhere());
            t.find(1, t.mem.load(X));
        }
    });
    never(&with, |found| found[..2] == [0, 0], &[]);
    let fence_of_one = Litmus::new(2, |t: &Thread<'_, true>| match t.number {
        0 => {
            t.mem.store(X, 1);
            t.find(0, t.mem.load(Y));
            lives_on(t);
        }
        _ => {
            t.mem.store(Y, 1);
            t.mem.fence();
            t.find(1, t.mem.load(X));
        }
    });
    fence_of_one.first(is_weak);
}

#[test]
fn a_thread_sees_its_own_stores_at_once() {
    fn threads<const C: bool>(t: &Thread<'_, C>) {
        if t.number == 0 {
            t.mem.store(X, 1);
            t.find(0, t.mem.load(X));
            t.mem.owned_store(Y, 2);
            t.find(1, t.mem.owned_load(Y));
            t.mem.write(FLAG, &[3; 16]);
            t.find(2, u64::from(t.mem.bytes(FLAG, 16)[15]));
            t.mem.store(NEIGHBOUR, 4);
            t.find(3, t.mem.fetch_line(X)[1]);
        } else {
            t.mem.load(Z);
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
            t.mem.write(X, &[1; 8]);
            t.mem.owned_store(NEIGHBOUR, 1);
            t.mem.store(FLAG, 1);
        } else {
            t.find(0, t.mem.load(FLAG));
            t.find(1, t.mem.owned_peek(NEIGHBOUR));
            t.find(2, t.mem.read_word(X));
        }
    });
    never(
        &messages,
        |found| found[0] == 1 && (found[1] == 0 || found[2] == 0) || found[1] == 1 && found[2] == 0,
        &[],
    );
    let load_buffering = Litmus::new(2, |t: &Thread<'_, true>| {
        let (own, other) = if t.number == 0 { (X, Y) } else { (Y, X) };
        t.find(t.number as usize, t.mem.load(other));
        t.mem.store(own, 1);
    });
    never(&load_buffering, |found| found[..2] == [1, 1], &[]);
    let independent_reads = Litmus::new(4, |t: &Thread<'_, true>| match t.number {
        0 => t.mem.store(X, 1),
        1 => t.mem.store(Y, 1),
        2 => {
            t.find(0, t.mem.load(X));
            t.find(1, t.mem.load(Y));
        }
        _ => {
            t.find(2, t.mem.load(Y));
            t.find(3, t.mem.load(X));
        }
    });
    never(&independent_reads, |found| *found == [1, 0, 1, 0], &[]);
}

/// What a process has executed takes effect although it is killed.
#[test]
fn the_stores_of_the_dead_are_seen() {
    let mut litmus = Litmus::new(1, |t: &Thread<'_, true>| {
        t.mem.store(X, 1);
        t.mem.store(Y, 1);
        t.mem.load(FLAG);
    })
    .dies_at(2);
    litmus.audit = |t| {
        t.find(0, t.mem.load(X));
        t.find(1, t.mem.load(Y));
    };
    never(&litmus, |found| found[..2] != [1, 1], &[]);
}

/// A line is loaded and stored in ascending order, with others in between.
#[test]
fn a_line_is_half_stored_and_half_loaded() {
    let stored = Litmus::new(2, |t: &Thread<'_, true>| match t.number {
        0 => t.mem.store_line(X, [1; 8]),
        _ => {
            t.find(1, t.mem.load(X + 56));
            t.find(0, t.mem.load(X));
            let line = t.mem.fetch_line(X);
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
            t.mem.announce(X, 1);
            t.mem.announce(X + 56, 1);
        }
        _ => {
            let line = t.mem.fetch_line(X);
            t.find(0, line[0]);
            t.find(1, line[7]);
        }
    });
    loaded.first(|found| found.registers[..2] == [0, 1]);
}
