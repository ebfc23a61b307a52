//! Cache control on x86-64: which instructions this CPU has, and their use. Another architecture would be one more
//! file with the same functions; there is none, as none was run.

use std::sync::atomic::AtomicU64;

use super::MappingError;

/// The instruction that drops a line from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushKind {
    /// `clflushopt`: weakly ordered, so that several overlap.
    Optimised,
    /// `clflush`: one after another; every x86-64 CPU has it.
    Plain,
}

/// Executes flushes, write-backs and fences with what the CPU offers.
#[derive(Clone, Copy, Debug)]
pub struct Flusher {
    kind: FlushKind,
    clwb: bool,
}

#[cfg(target_arch = "x86_64")]
impl Flusher {
    /// Asks the CPU what it has.
    pub fn detect() -> Result<Self, MappingError> {
        let leaf = core::arch::x86_64::__cpuid_count(7, 0);
        let kind = if leaf.ebx & (1 << 23) != 0 {
            FlushKind::Optimised
        } else {
            FlushKind::Plain
        };
        Ok(Self {
            kind,
            clwb: leaf.ebx & (1 << 24) != 0,
        })
    }

    /// The flush instruction in use.
    pub fn kind(self) -> FlushKind {
        self.kind
    }

    /// Drops the line that holds `at` from the cache; a dirty line is written back first.
    ///
    /// # Safety
    ///
    /// `at` lies in memory that is mapped and stays so meanwhile.
    #[inline]
    pub unsafe fn flush(self, at: *const u8) {
        // SAFETY: flushing changes no value; `at` lies in mapped memory, as the caller promises.
        unsafe {
            match self.kind {
                FlushKind::Optimised => {
                    core::arch::asm!("clflushopt [{}]", in(reg) at, options(nostack, preserves_flags))
                }
                FlushKind::Plain => {
                    core::arch::asm!("clflush [{}]", in(reg) at, options(nostack, preserves_flags))
                }
            }
        }
    }

    /// Writes the line that holds `at` back and may keep it in the cache.
    ///
    /// # Safety
    ///
    /// `at` lies in memory that is mapped and stays so meanwhile.
    #[inline]
    pub unsafe fn write_back(self, at: *const u8) {
        if !self.clwb {
            // SAFETY: the caller's promise.
            return unsafe { self.flush(at) };
        }
        // SAFETY: as for `flush`; the CPU has the instruction.
        unsafe { core::arch::asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags)) }
    }

    /// Stores one word past the cache; what else is on its line is not written.
    #[inline]
    pub fn store_past_cache(self, word: &AtomicU64, value: u64) {
        // SAFETY: the word is valid for writes and shared as an atomic; an aligned `movnti` of 8 bytes is one store.
        unsafe {
            core::arch::asm!("movnti [{}], {}", in(reg) word.as_ptr(), in(reg) value, options(nostack, preserves_flags))
        }
    }

    /// Completes flushes and write-backs, and orders every load and store around it.
    #[inline]
    pub fn fence(self) {
        // SAFETY: a fence has no precondition.
        unsafe { core::arch::asm!("mfence", options(nostack, preserves_flags)) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Flusher {
    /// There is no cache control for this architecture here.
    pub fn detect() -> Result<Self, MappingError> {
        Err(MappingError::Unsupported(
            "cache control on this CPU architecture (x86-64 has it)",
        ))
    }

    /// Never reached: a flusher cannot be made here.
    pub fn kind(self) -> FlushKind {
        self.kind
    }

    /// Never reached: a flusher cannot be made here.
    ///
    /// # Safety
    ///
    /// `at` lies in memory that is mapped and stays so meanwhile.
    pub unsafe fn flush(self, _at: *const u8) {}

    /// Never reached: a flusher cannot be made here.
    ///
    /// # Safety
    ///
    /// `at` lies in memory that is mapped and stays so meanwhile.
    pub unsafe fn write_back(self, _at: *const u8) {
        let _ = self.clwb;
    }

    /// Never reached: a flusher cannot be made here.
    pub fn store_past_cache(self, _word: &AtomicU64, _value: u64) {}

    /// Never reached: a flusher cannot be made here.
    pub fn fence(self) {}
}
