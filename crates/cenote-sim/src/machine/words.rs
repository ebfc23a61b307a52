//! A stretch of simulated memory: what the devices hold, or a host's mirror of it.
//!
//! Each is as long as the pool and zeroed lazily by the operating system, so that a mirror costs what is touched of it.
//! Code under test gets plain references into them, as it does from real memory; that is why they are raw.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::LINE;

/// Aligned words, addressed by byte offsets.
pub struct Words {
    /// What was allocated, with room to align `base` in.
    allocation: *mut u8,
    base: *mut u64,
    len: u64,
    /// Pages that were written to.
    touched: Box<[Cell<bool>]>,
    /// What each word has held before, oldest first, if that is kept.
    past: RefCell<Option<BTreeMap<u64, Vec<u64>>>>,
}

const PAGE: u64 = 4096;

thread_local! {
    /// Unused stretches of zeroes, for later runs: most runs are short, and need as many bytes as the one before.
    static IDLE: RefCell<Vec<Words>> = const { RefCell::new(Vec::new()) };
}

/// Stretches kept, and their greatest length.
const IDLE_MAX: usize = 16;
const IDLE_BYTES_MAX: u64 = 64 << 20;

const ALIGN: usize = 4096;

impl Words {
    /// Zeroes. `len` is in bytes, a multiple of a line.
    pub fn new(len: u64) -> Self {
        assert!(len > 0 && len.is_multiple_of(LINE), "memory of whole lines");
        let idle = IDLE.with_borrow_mut(|idle| {
            let place = idle.iter().position(|words| words.len == len)?;
            Some(idle.swap_remove(place))
        });
        idle.unwrap_or_else(|| Self::allocate(len))
    }

    fn allocate(len: u64) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout is not empty.
        let allocation = unsafe { alloc_zeroed(layout) };
        if allocation.is_null() {
            handle_alloc_error(layout);
        }
        let skipped = allocation.addr().wrapping_neg() % ALIGN;
        // SAFETY: the layout has room for `ALIGN` bytes more than `len`.
        let base = unsafe { allocation.add(skipped) }.cast::<u64>();
        Self {
            allocation,
            base,
            len,
            touched: vec![Cell::new(false); len.div_ceil(PAGE) as usize].into(),
            past: RefCell::new(None),
        }
    }

    /// Makes it zeroes again.
    fn clear(&mut self) {
        for (page, touched) in self.touched.iter().enumerate() {
            if touched.take() {
                let at = page as u64 * PAGE;
                // SAFETY: the page, or what there is of it, lies within the allocation.
                unsafe {
                    self.base
                        .add((at / 8) as usize)
                        .cast::<u8>()
                        .write_bytes(0, (self.len - at).min(PAGE) as usize);
                }
            }
        }
    }

    /// Of a word's alignment only: with a greater one, the allocator would write all the zeroes at once.
    fn layout(len: u64) -> Layout {
        Layout::from_size_align(len as usize + ALIGN, align_of::<u64>())
            .unwrap_or_else(|_| panic!("{len} bytes of simulated memory"))
    }

    fn word(&self, at: u64) -> *mut u64 {
        assert!(at < self.len, "offset {at:#x} lies outside {:#x} bytes", self.len);
        // SAFETY: the aligned word lies within the allocation, as was just checked.
        unsafe { self.base.add((at / 8) as usize) }
    }

    /// The word around an offset.
    pub fn get(&self, at: u64) -> u64 {
        // SAFETY: in bounds and aligned; everything runs on one operating system thread.
        unsafe { self.word(at).read() }
    }

    /// Sets the word around an offset.
    pub fn set(&self, at: u64, value: u64) {
        let word = self.word(at);
        self.note_past(at, value);
        self.touched[(at / PAGE) as usize].set(true);
        // SAFETY: as for `get`.
        unsafe { word.write(value) }
    }

    /// From now on what words have held before is kept.
    pub fn keep_past(&self) {
        self.past.borrow_mut().get_or_insert_default();
    }

    /// What the word around an offset has held before, oldest first.
    pub fn past(&self, at: u64) -> Vec<u64> {
        let past = self.past.borrow();
        past.as_ref()
            .and_then(|past| past.get(&(at & !7)).cloned())
            .unwrap_or_default()
    }

    /// A word is about to hold something else.
    fn note_past(&self, at: u64, value: u64) {
        if let Some(past) = &mut *self.past.borrow_mut() {
            let before = self.get(at);
            if before != value {
                past.entry(at & !7).or_default().push(before);
            }
        }
    }

    /// The line around an offset.
    pub fn line(&self, at: u64) -> [u64; 8] {
        // SAFETY: as for `get`; memory is made of whole lines, and its base is aligned to them.
        unsafe { self.word(at & !(LINE - 1)).cast::<[u64; 8]>().read() }
    }

    /// Sets the line around an offset.
    pub fn set_line(&self, at: u64, line: [u64; 8]) {
        let at = at & !(LINE - 1);
        for (n, word) in line.into_iter().enumerate() {
            self.note_past(at + 8 * n as u64, word);
        }
        let first = self.word(at);
        self.touched[(at / PAGE) as usize].set(true);
        // SAFETY: as for `line`.
        unsafe { first.cast::<[u64; 8]>().write(line) }
    }

    /// The bytes of a range, as they are and as they change.
    pub fn bytes(&self, at: u64, len: u64) -> &[u8] {
        assert!(
            at <= self.len && len <= self.len - at,
            "{len} bytes at offset {at:#x} lie outside {:#x} bytes",
            self.len
        );
        // SAFETY: in bounds. By the contract of protected data nobody changes published bytes that somebody may read;
        // where the code under test breaks the contract, a reader sees a change of plain bytes on the same thread.
        unsafe { std::slice::from_raw_parts(self.base.cast::<u8>().add(at as usize), len as usize) }
    }

    /// The offset of bytes that were given out by [`Words::bytes`]; `None` if they are others.
    pub fn offset_of(&self, bytes: &[u8]) -> Option<u64> {
        let at = bytes.as_ptr().addr().checked_sub(self.base.addr())? as u64;
        (at < self.len).then_some(at)
    }

    /// Copies bytes in.
    pub fn write(&self, at: u64, data: &[u8]) {
        let _ = self.bytes(at, data.len() as u64);
        if let Some(past) = &mut *self.past.borrow_mut() {
            for word in (at & !7..at + data.len() as u64).step_by(8) {
                past.entry(word).or_default().push(self.get(word));
            }
        }
        let pages = at / PAGE..(at + data.len() as u64).div_ceil(PAGE);
        for page in pages {
            self.touched[page as usize].set(true);
        }
        // SAFETY: in bounds, as was just checked; the source may lie in the same memory, which `copy` allows.
        unsafe {
            std::ptr::copy(data.as_ptr(), self.base.cast::<u8>().add(at as usize), data.len());
        }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        let kept = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            let keeps = idle.len() < IDLE_MAX && self.len <= IDLE_BYTES_MAX;
            if keeps {
                self.clear();
                idle.push(Self {
                    allocation: self.allocation,
                    base: self.base,
                    len: self.len,
                    touched: std::mem::take(&mut self.touched),
                    past: RefCell::new(None),
                });
            }
            keeps
        });
        if kept != Ok(true) {
            // SAFETY: allocated with the same layout; nothing refers to it any more, as a world outlives its
            // coroutines.
            unsafe { dealloc(self.allocation, Self::layout(self.len)) }
        }
    }
}
