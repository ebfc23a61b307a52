//! Cells over words of this process: no mapping, no assembly and no system call, so that Miri can run these tests
//! (`cargo +nightly miri test -p cenote --lib memory::cells`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::memory::racy_read::copy_atomically;
use crate::memory::{Kernel, MappingError};

/// Lines of words of this process.
#[derive(Clone)]
struct Words(Arc<[Line]>);

#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; 8]);

fn words(lines: usize) -> Words {
    Words((0..lines).map(|_| Line::default()).collect())
}

impl Words {
    fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "{at} is within a word");
        &self.0[at as usize / 64].0[at as usize / 8 % 8]
    }

    fn range(&self, at: u64, len: u64) -> *mut u8 {
        let bytes = size_of_val::<[Line]>(&self.0) as u64;
        assert!(at <= bytes && len <= bytes - at, "{at} with {len} is outside");
        self.0.as_ptr().cast::<u8>().wrapping_add(at as usize).cast_mut()
    }
}

// SAFETY: the words stay where they are as long as a clone lives, are accessed as atomics, and each offset is checked.
unsafe impl Memory for Words {
    const COHERENT: bool = true;
    const NAME: &'static str = "words";

    fn reserve(&self, _at: u64, _len: u64, _huge_from: Option<u64>) -> Result<(), MappingError> {
        Ok(())
    }

    fn kernel(&self) -> &dyn Kernel {
        unreachable!("nobody sleeps here")
    }

    unsafe fn load(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    unsafe fn store(&self, at: u64, value: u64) {
        self.word(at).store(value, Ordering::Release)
    }

    unsafe fn store_line(&self, at: u64, line: [u64; 8]) {
        for (at, word) in (at..).step_by(8).zip(line) {
            self.word(at).store(word, Ordering::Release);
        }
    }

    unsafe fn store_seq_cst(&self, at: u64, value: u64) {
        self.word(at).swap(value, Ordering::SeqCst);
    }

    unsafe fn compare_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.word(at)
            .compare_exchange(current, new, Ordering::SeqCst, Ordering::Acquire)
    }

    unsafe fn fetch_add(&self, at: u64, value: u64) -> u64 {
        self.word(at).fetch_add(value, Ordering::SeqCst)
    }

    unsafe fn fetch_or(&self, at: u64, value: u64) -> u64 {
        self.word(at).fetch_or(value, Ordering::SeqCst)
    }

    unsafe fn fetch_and(&self, at: u64, value: u64) -> u64 {
        self.word(at).fetch_and(value, Ordering::SeqCst)
    }

    unsafe fn load_speculative(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    unsafe fn fetch_line(&self, at: u64) -> [u64; 8] {
        std::array::from_fn(|n| self.word(at + 8 * n as u64).load(Ordering::Acquire))
    }

    fn prefetch(&self, _at: u64) {}

    unsafe fn owned_store(&self, at: u64, value: u64) {
        self.word(at).store(value, Ordering::Release)
    }

    unsafe fn owned_load(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    unsafe fn owned_peek(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    unsafe fn bytes(&self, at: u64, len: u64) -> &[u8] {
        // SAFETY: within the words, as was checked; by the caller's promise nobody writes them.
        unsafe { std::slice::from_raw_parts(self.range(at, len), len as usize) }
    }

    unsafe fn copy_out(&self, at: u64, to: &mut [u8]) {
        let range = self.range(at, to.len() as u64);
        // SAFETY: within the words, as was checked.
        unsafe { copy_atomically(range, to) }
    }

    unsafe fn write(&self, at: u64, data: &[u8]) {
        let range = self.range(at, data.len() as u64);
        // SAFETY: within the words, as was checked; by the caller's promise nobody else has them.
        unsafe { std::ptr::copy(data.as_ptr(), range, data.len()) }
    }

    unsafe fn write_word(&self, at: u64, value: u64) {
        self.word(at).store(value, Ordering::Relaxed)
    }

    unsafe fn zero(&self, at: u64, len: u64) {
        let range = self.range(at, len);
        // SAFETY: within the words, as was checked; by the caller's promise nobody else has them.
        unsafe { std::ptr::write_bytes(range, 0, len as usize) }
    }

    fn write_back(&self, _at: u64, _len: u64) {}

    fn invalidate(&self, _at: u64, _len: u64) {}

    fn fence(&self) {
        std::sync::atomic::fence(Ordering::SeqCst)
    }
}

#[test]
fn sync_words_are_shared_by_threads() {
    let mem = words(1);
    // SAFETY: a word of these words, shared in this way alone.
    let (word, other) = unsafe { (SyncWord::at(0), SyncWord::at(8)) };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..20 {
                    word.fetch_add(&mem, 1);
                    let mut seen = other.load(&mem);
                    while let Err(found) = other.compare_exchange(&mem, seen, seen + 2) {
                        seen = found;
                    }
                }
            });
        }
    });
    assert_eq!((word.load(&mem), other.load_speculative(&mem)), (60, 120));
    assert_eq!(word.fetch_or(&mem, 64), 60);
    assert_eq!(word.fetch_and(&mem, 64), 124);
    assert_eq!(word.swap(&mem, 7), 64);
    assert_eq!(word.fence_and_exchange(&mem, 6, 0), Err(7));
    assert_eq!(word.compare_exchange_acquire(&mem, 7, 9), Ok(7));
    word.store_seq_cst(&mem, word.load(&mem) + 1);
    word.exchange_as_last_server(&mem, 10, 11);
    assert_eq!(word.load(&mem), 11);
    word.store(&mem, 12);
    assert_eq!(word.load(&mem), 12);
}

#[test]
fn what_an_owner_writes_others_peek() {
    let mem = words(2);
    // SAFETY: words of these words, which this test alone sets.
    let (word, line) = unsafe { (OwnedWord::at(72), WordLine::at(64)) };
    word.set(&mem, 5);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!((word.peek(&mem), word.peek_speculative(&mem)), (5, 5)));
    });
    word.set_lazily(&mem, word.get(&mem) | 3 << 48);
    assert_eq!(line.fetch(&mem)[1], 5 | 3 << 48);
    assert_eq!(line.tagged(&mem, 3), 0b10);
    line.store_line(&mem, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(line.peek_speculative(&mem), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn unpublished_bytes_are_published_and_read() {
    let mem = words(4);
    // SAFETY: a word of its own, shared in this way alone.
    let slot = unsafe { SyncWord::at(0) };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: nobody reads these lines before the slot says that they are there.
            let (all, tail) = unsafe { (Unpublished::at(64, 128), Unpublished::at(72, 100)) };
            all.zero(&mem);
            all.write_word(&mem, 21);
            tail.write(&mem, b"twenty-one bytes long");
            slot.store(&mem, 64);
        });
        while slot.load(&mem) == 0 {
            std::thread::yield_now();
        }
    });
    // SAFETY: published, and written no more.
    let (head, text) = unsafe { (Published::at(64, 8), Published::at(72, 21)) };
    assert_eq!(head.read_word(&mem), 21);
    assert_eq!(text.bytes(&mem), b"twenty-one bytes long");
    assert_eq!(text.bytes_in_part(&mem), b"twenty-one bytes long");
    assert_eq!(text.copied(&mem), b"twenty-one bytes long");
}

#[test]
fn bytes_are_copied_while_others_change_them() {
    let mem = words(2);
    // SAFETY: shared as a sync word by one thread, and copied out by another, which makes no reference.
    let (word, bytes) = unsafe { (SyncWord::at(64), Published::at(64, 8)) };
    std::thread::scope(|scope| {
        scope.spawn(|| (0..20).for_each(|n| word.store(&mem, n * 0x0101_0101_0101_0101)));
        for _ in 0..20 {
            let copy = bytes.copied(&mem);
            // A whole word is loaded at once.
            assert!(copy.iter().all(|byte| *byte == copy[0]), "{copy:?}");
        }
    });
    for at in 0..9 {
        for len in 0..=(16 - at) {
            // SAFETY: as before; nobody writes now.
            let copy = unsafe { Published::at(64 + at, len) }.copied(&mem);
            let word = word.load(&mem).to_ne_bytes();
            let expected: Vec<u8> = (at..at + len)
                .map(|n| *word.get(n as usize).unwrap_or(&0))
                .collect();
            assert_eq!(copy, expected, "{len} bytes from {at} on");
        }
    }
}

#[test]
#[should_panic(expected = "more bytes than there is room for")]
fn nothing_is_written_beyond_the_range_of_a_cell() {
    // SAFETY: bytes that nobody else has.
    unsafe { Unpublished::at(0, 4) }.write(&words(1), b"fifth");
}
