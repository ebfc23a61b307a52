//! The conformance suite of the memory contract, run on every backend, and litmus tests of its ordering.
//!
//! Each test maps the same file twice, at different addresses, as two processes would. A litmus test runs the same
//! few instructions many times on two threads; it can show that a backend is wrong, never that it is right.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::Barrier;

use super::delegated::{MAILBOX_BYTES, Mailboxes, ServingLease, Words};
use super::{Coherent, Counting, Counts, CpuExchange, LINE, Mapped, Mapping, Memory, Noncoherent};
use super::{Delegated, Device, Liveness, MapError};

const LEN: u64 = 1 << 20;
/// Rounds of a litmus test.
const ROUNDS: u64 = 20_000;

/// Where the mailboxes are, for a backend that has some.
// SAFETY: within the mappings of these tests, which use these lines for nothing else.
const BOXES: Mailboxes = unsafe { Mailboxes::new(LEN / 2, MAILBOX_BYTES, 4, 2) };

/// A lock that one of the two views holds from the beginning.
struct Alone(bool);

impl Liveness for Alone {
    fn try_lock(&self, _number: u32) -> Result<bool, MapError> {
        Ok(self.0)
    }

    fn unlock(&self, _number: u32) -> Result<(), MapError> {
        Ok(())
    }

    fn is_locked(&self, _number: u32) -> Result<bool, MapError> {
        Ok(!self.0)
    }
}

/// The server lease of a process that shares a kernel with all others.
struct Always;

impl ServingLease for Always {
    fn may_serve(&self, _words: &dyn Words) -> bool {
        true
    }

    fn begin(&self, _words: &dyn Words) -> bool {
        true
    }

    fn end(&self, _words: &dyn Words) {}
}

/// Two views of the same memory.
fn two<M: Mapped>() -> (M, M) {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    let view = |place| {
        let mapping = Mapping::of_file(file.try_clone().unwrap(), LEN).unwrap();
        mapping.reserve(0, LEN, true).unwrap();
        let mem = M::over(Arc::new(mapping)).unwrap();
        let serves = Alone(place == 0);
        mem.serve(BOXES, Box::new(serves), 0, Box::new(Always)).unwrap();
        assert!(mem.enter(place));
        mem
    };
    (view(0), view(1))
}

macro_rules! on_every_backend {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            use super::*;
            #[test]
            fn coherent() { super::$name::<Coherent>() }
            #[test]
            fn noncoherent() { super::$name::<Noncoherent<CpuExchange>>() }
            #[test]
            fn counting() { super::$name::<Counting<Noncoherent>>() }
            #[test]
            fn delegated() { super::$name::<Delegated>() }
        })*
    };
}

on_every_backend!(
    sync_words,
    owned_words,
    protected_data,
    lines,
    read_modify_writes_are_atomic,
    offsets_outside_are_refused,
    litmus_message_passing,
    litmus_announcements,
    litmus_line_order,
);

fn sync_words<M: Mapped>() {
    let (a, b) = two::<M>();
    assert_eq!(b.load(64), 0);
    a.store(64, 7);
    assert_eq!((a.load(64), b.load(64), b.load(72)), (7, 7, 0));
    assert_eq!(b.compare_exchange(64, 7, 8), Ok(7));
    assert_eq!(a.compare_exchange(64, 7, 9), Err(8));
    a.announce(64, 10);
    assert_eq!(b.fetch_add(64, u64::MAX), 10);
    assert_eq!(a.fetch_or(64, 0xf0), 9);
    assert_eq!(a.fetch_and(64, 0x0f), 0xf9);
    assert_eq!(b.load(64), 9);
    assert_eq!(b.load_speculative(64), 9);
}

fn owned_words<M: Mapped>() {
    let (owner, other) = two::<M>();
    owner.owned_store(128, 5);
    assert_eq!(owner.owned_load(128), 5);
    owner.persist(128, 8);
    assert_eq!(other.owned_peek(128), 5);
}

fn protected_data<M: Mapped>() {
    let (writer, reader) = two::<M>();
    let text: Vec<u8> = (0..1000).map(|n| n as u8).collect();
    writer.zero(4096, 1024);
    writer.write(4096 + 3, &text);
    writer.write_word(8192, 42);
    writer.write_back(4096, 1024);
    writer.fence();
    writer.persist(8192, 8);
    writer.store(64, 1);
    while reader.load(64) == 0 {}
    assert_eq!(reader.bytes(4096 + 3, 1000), &text[..]);
    assert_eq!(reader.bytes(4096, 3), [0; 3]);
    assert_eq!(reader.bytes(8192, 8), 42u64.to_le_bytes());
    // Reuse: the reader drops the lines, the writer writes again.
    reader.invalidate(4096, 1024);
    reader.fence();
    writer.write(4096, b"again");
    writer.persist(4096, 5);
    assert_eq!(reader.bytes(4096, 5), b"again");
}

fn lines<M: Mapped>() {
    let (a, b) = two::<M>();
    for n in 0..8 {
        a.store(LINE + 8 * n, n + 1);
    }
    assert_eq!(b.fetch_line(LINE), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(b.load_speculative(LINE + 56), 8);
    a.store(LINE + 16, 7 << 48 | 5);
    a.store(LINE + 56, 7 << 48);
    b.fetch_line(LINE);
    assert_eq!(b.tagged(LINE, 7), 0b1000_0100);
    assert_eq!(b.tagged(LINE, 0), 0b0111_1011);
    assert_eq!(b.tagged(LINE, 0xffff), 0);
    b.prefetch(LINE);
    a.store_line(LINE, [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(b.fetch_line(LINE), [8, 7, 6, 5, 4, 3, 2, 1]);
    b.quiesce();
    assert_eq!(super::lines(60, 10).collect::<Vec<_>>(), [0, 64]);
    assert_eq!(super::lines(64, 64).collect::<Vec<_>>(), [64]);
    assert_eq!(super::lines(64, 0).count(), 0);
    assert_eq!(super::lines(65, 0).count(), 0);
}

fn read_modify_writes_are_atomic<M: Mapped>() {
    let (a, b) = two::<M>();
    std::thread::scope(|scope| {
        for mem in [&a, &b] {
            scope.spawn(move || {
                for n in 0..ROUNDS {
                    mem.fetch_add(0, 1);
                    mem.fetch_or(64, 1 << (n % 64));
                    let mut seen = mem.load(128);
                    while let Err(found) = mem.compare_exchange(128, seen, seen + 1) {
                        seen = found;
                    }
                }
            });
        }
    });
    assert_eq!(
        (a.load(0), a.load(64), b.load(128)),
        (2 * ROUNDS, u64::MAX, 2 * ROUNDS)
    );
}

fn offsets_outside_are_refused<M: Mapped>() {
    let (mem, _) = two::<M>();
    let mem = std::panic::AssertUnwindSafe(mem);
    for at in [LEN, LEN + 64, u64::MAX - 7] {
        // Without the assertion an offset is only kept within the reservation.
        if cfg!(debug_assertions) {
            assert!(std::panic::catch_unwind(|| mem.load(at)).is_err(), "{at:#x}");
        }
        assert!(
            std::panic::catch_unwind(|| mem.bytes(at, 8).len()).is_err(),
            "{at:#x}"
        );
    }
    assert!(std::panic::catch_unwind(|| mem.bytes(64, u64::MAX - 8).len()).is_err());
    assert_eq!(mem.bytes(LEN - 8, 8), [0; 8]);
}

/// Runs `left` and `lease` at the same time, round after round, and `check` after each.
fn rounds<M: Mapped, L: Send, R: Send>(
    left: impl Fn(&M, u64) -> L + Sync,
    lease: impl Fn(&M, u64) -> R + Sync,
    check: impl Fn(u64, L, R),
) {
    let (a, b) = two::<M>();
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::channel();
        let (lease, barrier, b) = (&lease, &barrier, &b);
        scope.spawn(move || {
            for round in 1..=ROUNDS / 10 {
                barrier.wait();
                if send.send(lease(b, round)).is_err() {
                    return;
                }
            }
        });
        for round in 1..=ROUNDS / 10 {
            barrier.wait();
            let left = left(&a, round);
            check(round, left, receive.recv().unwrap());
        }
    });
}

/// A reader that sees the flag sees what was written back before it.
fn litmus_message_passing<M: Mapped>() {
    rounds::<M, _, _>(
        |mem, round| {
            // Out of place: each round publishes another line.
            let data = 4096 + (round % 1024) * LINE;
            mem.write_word(data, round);
            mem.persist(data, 8);
            mem.store(0, round);
        },
        |mem, round| {
            while mem.load(0) != round {
                std::hint::spin_loop();
            }
            let data = 4096 + (round % 1024) * LINE;
            mem.invalidate(data, 8);
            mem.fence();
            u64::from_le_bytes(mem.bytes(data, 8).try_into().unwrap())
        },
        |round, (), seen| assert_eq!(seen, round),
    );
}

/// Of two threads that announce and then load, at least one sees the other.
fn litmus_announcements<M: Mapped>() {
    let side = |mine: u64, theirs: u64| {
        move |mem: &M, round: u64| {
            mem.announce(mine, round);
            mem.load(theirs)
        }
    };
    rounds::<M, _, _>(side(0, 64), side(64, 0), |round, left, lease| {
        assert!(
            left == round || lease == round,
            "round {round}: {left} and {lease}"
        );
    });
}

/// The words of a fetched line are read in ascending order: a later word is never older than an earlier one.
fn litmus_line_order<M: Mapped>() {
    rounds::<M, _, _>(
        |mem, round| {
            // Written in descending order, so that a reader in ascending order may only see newer words further up.
            for n in (0..8).rev() {
                mem.store(LINE + 8 * n, round);
            }
        },
        |mem, _| mem.fetch_line(LINE),
        |round, (), line| {
            assert!(
                line.windows(2).all(|pair| pair[0] <= pair[1]),
                "round {round}: {line:?}"
            );
        },
    );
}

#[test]
fn counting_counts_what_reaches_memory() {
    let (mem, _) = two::<Counting<Noncoherent>>();
    Counts::reset();
    mem.load(0);
    mem.fetch_line(64);
    mem.fetch_line(128);
    mem.load_speculative(128);
    mem.bytes(60, 8);
    mem.store(0, 1);
    let counts = Counts::current();
    assert_eq!(
        (counts.sync_loads, counts.line_fetches, counts.protected_lines),
        (1, 2, 2)
    );
    assert_eq!((counts.sync_stores, counts.lines_from_memory()), (1, 5));
}

#[test]
fn reserved_bytes_extend_the_file_and_anonymous_memory_has_none() {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    let mapping = Mapping::of_file(file, 64 << 20).unwrap();
    assert_eq!((mapping.len(), mapping.file_len().unwrap()), (64 << 20, 0));
    mapping.reserve(1 << 20, 1 << 20, false).unwrap();
    assert_eq!(mapping.file_len().unwrap(), 2 << 20);
    assert!(!mapping.is_empty());
    let mem = Coherent::over(Arc::new(Mapping::anonymous(1 << 20).unwrap())).unwrap();
    mem.store(8, 1);
    assert_eq!((mem.load(8), mem.mapping().file_len().unwrap()), (1, 1 << 20));
}

#[test]
fn a_device_is_mapped_in_whole_pieces_and_has_its_bytes_already() {
    const PIECE: u64 = 8 << 20;
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.set_len(2 * PIECE).unwrap();
    let device = Device {
        len: 2 * PIECE,
        align: PIECE,
    };
    let map = |len| Mapping::of_device(file.try_clone().unwrap(), device, len);
    assert!(map(2 * PIECE + LINE).is_err());
    let mapping = map(PIECE + LINE).unwrap();
    assert_eq!(
        (mapping.len(), mapping.file_len().unwrap()),
        (PIECE + LINE, 2 * PIECE)
    );
    mapping.reserve(PIECE, PIECE, true).unwrap();
    let beyond = mapping.reserve(PIECE, PIECE + 1, true);
    assert!(
        matches!(beyond, Err(MapError::NoSpace { bytes }) if bytes == PIECE + 1),
        "{beyond:?}"
    );
    assert!(mapping.punch(0, PIECE).is_err());
    // Nothing of it was reserved on the file system.
    assert_eq!(file.metadata().unwrap().blocks(), 0);
    file.write_all_at(b"pool", 0).unwrap();
    assert_eq!(&mapping.fresh_head::<4>().unwrap(), b"pool");
    let mem = Coherent::over(Arc::new(mapping)).unwrap();
    // A piece that is larger than a huge page, from one of its multiples on.
    assert!((mem.bytes(0, 1).as_ptr() as u64).is_multiple_of(PIECE));
}
