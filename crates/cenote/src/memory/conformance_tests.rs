//! The conformance suite of the memory contract, run on every backend, and litmus tests of its ordering.
//!
//! Each test maps the same file twice, at different addresses, as two processes would. A litmus test runs the same
//! few instructions many times on two threads; it can show that a backend is wrong, never that it is right.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::Barrier;

use super::delegated::{MAILBOX_BYTES, Mailboxes, ServingLease, Words};
use super::{Coherent, Counting, Counts, CpuExchange, LINE, Mapped, Mapping, Noncoherent};
use super::{Delegated, Device, Liveness, MappingError};
use crate::memory::{OwnedWord, Published, SyncWord, Unpublished, WordLine};

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of the memory of this test, which nobody uses otherwise.
    unsafe { SyncWord::at(at) }
}

/// An owned word.
#[inline(always)]
fn owned_word(at: u64) -> OwnedWord {
    // SAFETY: an owned word of the memory of this test, which nobody uses otherwise.
    unsafe { OwnedWord::at(at) }
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

const LEN: u64 = 1 << 20;
/// Rounds of a litmus test.
const ROUNDS: u64 = 20_000;

/// Where the mailboxes are, for a backend that has some.
// SAFETY: within the mappings of these tests, which use these lines for nothing else.
const BOXES: Mailboxes = unsafe { Mailboxes::new(LEN / 2, MAILBOX_BYTES, 4, 2) };

/// A lock that one of the two views holds from the beginning.
struct Alone(bool);

impl Liveness for Alone {
    fn try_lock(&self, _number: u32) -> Result<bool, MappingError> {
        Ok(self.0)
    }

    fn unlock(&self, _number: u32) -> Result<(), MappingError> {
        Ok(())
    }

    fn is_locked(&self, _number: u32) -> Result<bool, MappingError> {
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
        mapping.reserve(0, LEN, Some(0)).unwrap();
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
    litmus_seq_cst_stores,
    litmus_line_order,
);

fn sync_words<M: Mapped>() {
    let (a, b) = two::<M>();
    assert_eq!(sync_word(64).load(&b), 0);
    sync_word(64).store(&a, 7);
    assert_eq!(
        (
            sync_word(64).load(&a),
            sync_word(64).load(&b),
            sync_word(72).load(&b)
        ),
        (7, 7, 0)
    );
    assert_eq!(sync_word(64).compare_exchange(&b, 7, 8), Ok(7));
    assert_eq!(sync_word(64).compare_exchange(&a, 7, 9), Err(8));
    sync_word(64).store_seq_cst(&a, 10);
    assert_eq!(sync_word(64).fetch_add(&b, u64::MAX), 10);
    assert_eq!(sync_word(64).fetch_or(&a, 0xf0), 9);
    assert_eq!(sync_word(64).fetch_and(&a, 0x0f), 0xf9);
    assert_eq!(sync_word(64).load(&b), 9);
    assert_eq!(sync_word(64).load_speculative(&b), 9);
}

fn owned_words<M: Mapped>() {
    let (owner, other) = two::<M>();
    owned_word(128).set(&owner, 5);
    assert_eq!(owned_word(128).get(&owner), 5);
    owner.persist(128, 8);
    assert_eq!(owned_word(128).peek(&other), 5);
}

fn protected_data<M: Mapped>() {
    let (writer, reader) = two::<M>();
    let text: Vec<u8> = (0..1000).map(|n| n as u8).collect();
    unpublished(4096, 1024).zero(&writer);
    unpublished(4096 + 3, text.len() as u64).write(&writer, &text);
    unpublished(8192, 8).write_word(&writer, 42);
    writer.write_back(4096, 1024);
    writer.fence();
    writer.persist(8192, 8);
    sync_word(64).store(&writer, 1);
    while sync_word(64).load(&reader) == 0 {}
    assert_eq!(published(4096 + 3, 1000).bytes(&reader), &text[..]);
    assert_eq!(published(4096, 3).bytes(&reader), [0; 3]);
    assert_eq!(published(8192, 8).bytes(&reader), 42u64.to_le_bytes());
    // Reuse: the reader drops the lines, the writer writes again.
    reader.invalidate(4096, 1024);
    reader.fence();
    unpublished(4096, b"again".len() as u64).write(&writer, b"again");
    writer.persist(4096, 5);
    assert_eq!(published(4096, 5).bytes(&reader), b"again");
}

fn lines<M: Mapped>() {
    let (a, b) = two::<M>();
    for n in 0..8 {
        sync_word(LINE + 8 * n).store(&a, n + 1);
    }
    assert_eq!(word_line(LINE).fetch(&b), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(sync_word(LINE + 56).load_speculative(&b), 8);
    sync_word(LINE + 16).store(&a, 7 << 48 | 5);
    sync_word(LINE + 56).store(&a, 7 << 48);
    word_line(LINE).fetch(&b);
    assert_eq!(word_line(LINE).tagged(&b, 7), 0b1000_0100);
    assert_eq!(word_line(LINE).tagged(&b, 0), 0b0111_1011);
    assert_eq!(word_line(LINE).tagged(&b, 0xffff), 0);
    b.prefetch(LINE);
    word_line(LINE).store_line(&a, [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(word_line(LINE).fetch(&b), [8, 7, 6, 5, 4, 3, 2, 1]);
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
                    sync_word(0).fetch_add(mem, 1);
                    sync_word(64).fetch_or(mem, 1 << (n % 64));
                    let mut seen = sync_word(128).load(mem);
                    while let Err(found) = sync_word(128).compare_exchange(mem, seen, seen + 1) {
                        seen = found;
                    }
                }
            });
        }
    });
    assert_eq!(
        (
            sync_word(0).load(&a),
            sync_word(64).load(&a),
            sync_word(128).load(&b)
        ),
        (2 * ROUNDS, u64::MAX, 2 * ROUNDS)
    );
}

fn offsets_outside_are_refused<M: Mapped>() {
    let (mem, _) = two::<M>();
    let mem = std::panic::AssertUnwindSafe(mem);
    for at in [LEN, LEN + 64, u64::MAX - 7] {
        // Without the assertion an offset is only kept within the reservation.
        if cfg!(debug_assertions) {
            assert!(
                std::panic::catch_unwind(|| sync_word(at).load(&*mem)).is_err(),
                "{at:#x}"
            );
        }
        assert!(
            std::panic::catch_unwind(|| published(at, 8).bytes(&*mem).len()).is_err(),
            "{at:#x}"
        );
    }
    assert!(std::panic::catch_unwind(|| published(64, u64::MAX - 8).bytes(&*mem).len()).is_err());
    assert_eq!(published(LEN - 8, 8).bytes(&*mem), [0; 8]);
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
            unpublished(data, 8).write_word(mem, round);
            mem.persist(data, 8);
            sync_word(0).store(mem, round);
        },
        |mem, round| {
            while sync_word(0).load(mem) != round {
                std::hint::spin_loop();
            }
            let data = 4096 + (round % 1024) * LINE;
            mem.invalidate(data, 8);
            mem.fence();
            u64::from_le_bytes(published(data, 8).bytes(mem).try_into().unwrap())
        },
        |round, (), seen| assert_eq!(seen, round),
    );
}

/// Of two threads that each do a sequentially consistent store and then load, at least one sees the other.
fn litmus_seq_cst_stores<M: Mapped>() {
    let side = |mine: u64, theirs: u64| {
        move |mem: &M, round: u64| {
            sync_word(mine).store_seq_cst(mem, round);
            sync_word(theirs).load(mem)
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
                sync_word(LINE + 8 * n).store(mem, round);
            }
        },
        |mem, _| word_line(LINE).fetch(mem),
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
    sync_word(0).load(&mem);
    word_line(64).fetch(&mem);
    word_line(128).fetch(&mem);
    sync_word(128).load_speculative(&mem);
    published(60, 8).bytes(&mem);
    sync_word(0).store(&mem, 1);
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
    mapping.reserve(1 << 20, 1 << 20, None).unwrap();
    assert_eq!(mapping.file_len().unwrap(), 2 << 20);
    assert!(!mapping.is_empty());
    let mem = Coherent::over(Arc::new(Mapping::anonymous(1 << 20).unwrap())).unwrap();
    sync_word(8).store(&mem, 1);
    assert_eq!(
        (sync_word(8).load(&mem), mem.mapping().file_len().unwrap()),
        (1, 1 << 20)
    );
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
    mapping.reserve(PIECE, PIECE, Some(PIECE)).unwrap();
    let beyond = mapping.reserve(PIECE, PIECE + 1, Some(0));
    assert!(
        matches!(beyond, Err(MappingError::NoSpace { bytes }) if bytes == PIECE + 1),
        "{beyond:?}"
    );
    assert!(mapping.punch(0, PIECE).is_err());
    // Nothing of it was reserved on the file system.
    assert_eq!(file.metadata().unwrap().blocks(), 0);
    file.write_all_at(b"pool", 0).unwrap();
    assert_eq!(&mapping.fresh_head::<4>().unwrap(), b"pool");
    let mem = Coherent::over(Arc::new(mapping)).unwrap();
    // A piece that is larger than a huge page, from one of its multiples on.
    assert!((published(0, 1).bytes(&mem).as_ptr() as u64).is_multiple_of(PIECE));
}
