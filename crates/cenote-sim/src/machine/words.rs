//! A stretch of simulated memory: what the devices hold, or a host's mirror of it.
//!
//! Each is as long as the pool and zeroed lazily by the operating system, so that a mirror costs what is touched of it.
//! Code under test gets plain references into them, as it does from real memory; that is why they are raw.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use super::LINE;

/// Aligned words, addressed by byte offsets.
pub struct Words {
    base: *mut u64,
    len: u64,
}

const ALIGN: usize = 4096;

impl Words {
    /// Zeroes. `len` is in bytes, a multiple of a line.
    pub fn new(len: u64) -> Self {
        assert!(len > 0 && len.is_multiple_of(LINE), "memory of whole lines");
        let layout = Self::layout(len);
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(layout) }.cast::<u64>();
        if base.is_null() {
            handle_alloc_error(layout);
        }
        Self { base, len }
    }

    fn layout(len: u64) -> Layout {
        Layout::from_size_align(len as usize, ALIGN)
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
        // SAFETY: as for `get`.
        unsafe { self.word(at).write(value) }
    }

    /// The line around an offset.
    pub fn line(&self, at: u64) -> [u64; 8] {
        let at = at & !(LINE - 1);
        std::array::from_fn(|n| self.get(at + 8 * n as u64))
    }

    /// Sets the line around an offset.
    pub fn set_line(&self, at: u64, line: [u64; 8]) {
        let at = at & !(LINE - 1);
        for (n, word) in line.into_iter().enumerate() {
            self.set(at + 8 * n as u64, word);
        }
    }

    /// The bytes of a range, as they are and as they change.
    pub fn bytes(&self, at: u64, len: u64) -> &[u8] {
        assert!(
            at <= self.len && len <= self.len - at,
            "{len} bytes at offset {at:#x} lie outside {:#x} bytes",
            self.len
        );
        // SAFETY: in bounds. By the contract of protected data nobody changes published bytes that somebody may read; where
        // the code under test breaks the contract, a reader sees a change of plain bytes on the same thread.
        unsafe { std::slice::from_raw_parts(self.base.cast::<u8>().add(at as usize), len as usize) }
    }

    /// Copies bytes in.
    pub fn write(&self, at: u64, data: &[u8]) {
        let _ = self.bytes(at, data.len() as u64);
        // SAFETY: in bounds, as was just checked; the source may lie in the same memory, which `copy` allows.
        unsafe {
            std::ptr::copy(data.as_ptr(), self.base.cast::<u8>().add(at as usize), data.len());
        }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: allocated with the same layout; nothing refers to it any more, as a world outlives its coroutines.
        unsafe { dealloc(self.base.cast(), Self::layout(self.len)) }
    }
}
