//! A pool's file and its mapping: address space for the whole maximum, bytes reserved before they are promised,
//! and the kernel-held locks that tell the living from the dead.
//!
//! The mapping covers the maximum size from the start, so that growth by any process needs nothing from the
//! others; touching bytes beyond the file, or unreserved ones on a full file system, would be a bus error, so
//! the pod layer checks every offset against what is committed. Huge pages are asked for where the file system
//! gives them.
//!
//! The reserved addresses are a power of two, so that an offset is kept within them by a mask: an access costs no
//! comparison. A wrong offset that no check caught touches another word of the pool, or reserved addresses without
//! memory, which ends the process; builds with debug assertions find it first.

use super::LINE;
use super::backing::{Backing, Device};
use super::descriptor::Kept;
use super::file_size::{NoSignal, is_beyond_limit};
use super::flush::Flusher;
use super::mapped::{self, Entry};
use super::opening::Distrust;
use super::racy_read::copy_atomically;
use super::unfit::{Unfit, WrongLockFile};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// `MADV_COLLAPSE`, since Linux 6.1.
const MADV_COLLAPSE: libc::c_int = 25;
/// Address space is aligned so that huge pages can be used.
const HUGE: u64 = 2 << 20;
/// Bytes of an ordinary page.
const PAGE: u64 = 4096;
const READ_AND_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// What can go wrong between a pool and the operating system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MappingError {
    /// The operating system refused.
    #[error("{what}: {source}")]
    Os {
        /// What was being done.
        what: &'static str,
        /// Its answer.
        source: io::Error,
    },
    /// There is no room for bytes that would have to be promised.
    #[error("the file system has no room for {bytes} more bytes")]
    NoSpace {
        /// How many bytes were asked for.
        bytes: u64,
    },
    /// This process may not make a file that large.
    #[error("this process may not make the file {bytes} bytes larger (its file-size limit, `ulimit -f`)")]
    FileSizeLimit {
        /// How many bytes were asked for.
        bytes: u64,
    },
    /// This machine lacks something.
    #[error("this machine does not support {0}")]
    Unsupported(&'static str),
    /// What lies at the given path cannot hold a pool.
    #[error("a pool cannot lie here: {0}")]
    Unfit(Unfit),
    /// A file belongs to a user who is not trusted.
    #[error(transparent)]
    Distrusted(Distrust),
    /// This process has too many pools open.
    #[error(
        "this process has {limit} {what} already, as many as it can have; close pools that it no longer uses, or open others in another process"
    )]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// A file does not hold this pool's liveness locks.
    #[error("{0}")]
    LocksElsewhere(WrongLockFile),
}

pub(super) fn os(what: &'static str) -> impl FnOnce(io::Error) -> MappingError {
    move |source| MappingError::Os { what, source }
}

/// A mapped pool file. All access is bounds-checked against the mapping.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    len: u64,
    /// The reserved addresses from `base` on are a power of two: this is that power less 1.
    mask: u64,
    file: Option<Kept>,
    /// The device, if the file is one.
    device: Option<Device>,
    /// The whole reservation, to be given back.
    unmap: (*mut u8, usize),
    /// The mapping's number. No other mapping of this process has, or had, the same.
    number: u64,
    /// Its entry in the list for handlers of bus errors.
    entry: Option<Entry>,
}

/// Mappings that this process has made.
static MAPPINGS: AtomicU64 = AtomicU64::new(0);

// SAFETY: the mapping is shared memory; all access to it goes through atomics or through the contract's rules
// for protected data, neither of which depends on the thread.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

/// Reserves address space, without access to it.
fn reserve_addresses(bytes: usize) -> Result<*mut libc::c_void, MappingError> {
    // SAFETY: a fresh private reservation without access; nothing is overwritten.
    let area = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    match area == libc::MAP_FAILED {
        true => Err(os("reserving address space for the pool's maximum size")(
            io::Error::last_os_error(),
        )),
        false => Ok(area),
    }
}

impl Mapping {
    /// Maps `len` bytes of `file`, however long the file is; a device must be that long.
    pub fn of_file(file: File, len: u64) -> Result<Self, MappingError> {
        let device = Backing::of(&file)?.device();
        Self::map(Some(file), device, len, READ_AND_WRITE)
    }

    /// The same, to be read only: a store to it ends the process. The file may be open for reading alone.
    pub fn to_read(file: File, len: u64) -> Result<Self, MappingError> {
        let device = Backing::of(&file)?.device();
        Self::map(Some(file), device, len, libc::PROT_READ)
    }

    /// Maps `len` bytes of a file as if it were a device.
    pub(crate) fn of_device(file: File, device: Device, len: u64) -> Result<Self, MappingError> {
        Self::map(Some(file), Some(device), len, READ_AND_WRITE)
    }

    /// Memory of this process alone, for tests.
    pub fn anonymous(len: u64) -> Result<Self, MappingError> {
        Self::map(None, None, len, READ_AND_WRITE)
    }

    fn map(
        file: Option<File>,
        device: Option<Device>,
        len: u64,
        protection: libc::c_int,
    ) -> Result<Self, MappingError> {
        let too_large = || MappingError::Unsupported("a mapping of this size");
        if !len.is_multiple_of(LINE) {
            return Err(MappingError::Unsupported(
                "a mapping that ends within a cache line",
            ));
        }
        // A device is mapped in whole pieces, at addresses that are multiples of them.
        let align = device.map_or(HUGE, |device| device.align.max(HUGE));
        let mapped = device.map_or(Some(len), |device| len.checked_next_multiple_of(device.align));
        let mapped = mapped.ok_or_else(too_large)?;
        if device.is_some_and(|device| mapped > device.len) {
            return Err(MappingError::Unfit(Unfit::Short));
        }
        let span = mapped
            .max(LINE)
            .checked_next_power_of_two()
            .ok_or_else(too_large)?;
        let reserve = span
            .checked_add(align)
            .and_then(|n| usize::try_from(n).ok())
            .ok_or_else(too_large)?;
        let area = reserve_addresses(reserve)?;
        let start = (area as u64).next_multiple_of(align);
        let (flags, fd) = match &file {
            Some(file) => (libc::MAP_SHARED | libc::MAP_FIXED, file.as_raw_fd()),
            None => (
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
            ),
        };
        // SAFETY: the target lies within the reservation made above, which belongs to this function.
        let base = unsafe {
            libc::mmap(
                start as *mut libc::c_void,
                mapped as usize,
                protection,
                flags,
                fd,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            // SAFETY: the reservation is ours and unused.
            unsafe { libc::munmap(area, reserve) };
            return Err(match device {
                Some(_) => os(
                    "mapping the device (of a PCI device it must be the file of a memory region, resourceN, and the device enabled)",
                )(error),
                None => os("mapping the pool file")(error),
            });
        }
        // SAFETY: advice about our own mapping; failure only means no huge pages.
        unsafe { libc::madvise(base, len as usize, libc::MADV_HUGEPAGE) };
        let listed = file
            .as_ref()
            .map(|file| mapped::list(base as usize, mapped as usize, file.as_raw_fd()))
            .transpose();
        let kept = file.map(|file| Kept::new(file).map_err(os("looking at the pool file")));
        let made = listed.and_then(|entry| Ok((entry, kept.transpose()?)));
        let (entry, file) = made.inspect_err(|_| {
            // SAFETY: the mapping lies within the reservation, which is ours; nobody has been told of it.
            unsafe { libc::munmap(area, reserve) };
        })?;
        Ok(Self {
            base: base.cast(),
            len,
            mask: span - 1,
            file,
            device,
            unmap: (area.cast(), reserve),
            number: MAPPINGS.fetch_add(1, Ordering::Relaxed),
            entry,
        })
    }

    /// Bytes mapped: the pool's maximum size.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The file's length now, or the device's; the mapping's where there is no file.
    pub fn file_len(&self) -> Result<u64, MappingError> {
        if let Some(device) = self.device {
            return Ok(device.len);
        }
        match &self.file {
            Some(kept) => Ok(kept
                .file()
                .and_then(File::metadata)
                .map_err(os("reading the pool file's length"))?
                .len()),
            None => Ok(self.len),
        }
    }

    /// See [`super::Memory::is_backed`].
    pub(super) fn is_backed(&self, end: u64) -> bool {
        end <= self.len
            && match self.file_len() {
                Ok(len) => end <= len,
                // Its descriptor is closed; the memory says it as well.
                Err(_) => end == 0 || self.is_there((end - 1) & !7),
            }
    }

    /// See [`super::Memory::is_there`]. Makes a system call that reads an argument at the address: the kernel says so
    /// if it cannot read it, and else refuses the call, which has no effect.
    pub(super) fn is_there(&self, at: u64) -> bool {
        if at >= self.len {
            return false;
        }
        let word = self.view().aligned(at, 8);
        let no_set = std::ptr::null_mut::<u8>();
        // SAFETY: the kernel reads eight bytes, if it can, and then refuses the invalid action.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, -1, word, no_set, 8) };
        io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
    }

    /// Reserves a range of the file on its file system, growing the file if it is shorter. Afterwards touching the
    /// range cannot fail. With `huge_from`, in huge pages from there on as far as the kernel makes them: to make one
    /// the kernel waits for all processes that map the file, for a tenth of a second while some of them are killed.
    pub fn reserve(&self, at: u64, len: u64, huge_from: Option<u64>) -> Result<(), MappingError> {
        let Some(kept) = &self.file else { return Ok(()) };
        if let Some(device) = self.device {
            // All of it is there.
            return match at.checked_add(len) {
                Some(end) if end <= device.len => Ok(()),
                _ => Err(MappingError::NoSpace { bytes: len }),
            };
        }
        let file = kept.file().map_err(os("reserving space for the pool"))?;
        if let Some(from) = huge_from {
            self.reserve_huge(file, from, at, len);
        }
        fallocate(file, at, len)
    }

    /// Gives a range of the file back to its file system; the file stays as long as it is.
    pub(super) fn punch(&self, at: u64, len: u64) -> Result<(), MappingError> {
        const UNSUPPORTED: MappingError = MappingError::Unsupported(
            "giving bytes of a pool back on its file system (tmpfs, ext4 and xfs do)",
        );
        if self.device.is_some() {
            return Err(MappingError::Unsupported(
                "giving bytes of a pool back that lies on a device",
            ));
        }
        let Some(kept) = &self.file else {
            return Err(UNSUPPORTED);
        };
        let file = kept.file().map_err(os("giving space of the pool back"))?;
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        loop {
            // SAFETY: a plain system call on a file that we own. What is mapped of the range reads as zeroes
            // afterwards.
            if unsafe { libc::fallocate(file.as_raw_fd(), how, at as i64, len as i64) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => continue,
                Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Err(UNSUPPORTED),
                _ => return Err(os("giving space of the pool back")(error)),
            }
        }
    }

    /// Begins to reserve a range: as many whole huge pages of it as there are, and those between `from` and it. tmpfs
    /// gives none by itself, but makes one of an existing page and the holes around it (`MADV_COLLAPSE`). Doing so
    /// before the holes are filled saves filling and copying them. The caller deals with whatever fails here.
    fn reserve_huge(&self, file: &File, from: u64, at: u64, len: u64) {
        let end = at.saturating_add(len).min(self.len);
        let (start, end) = (from.min(at) & !(HUGE - 1), end & !(HUGE - 1));
        if start >= end || free_bytes(file) < len + HUGE {
            return;
        }
        for page in ((at & !(HUGE - 1)).max(start)..end).step_by(HUGE as usize) {
            if fallocate(file, page + HUGE - PAGE, PAGE).is_err() {
                return;
            }
        }
        // All in one call: each call waits once for every processor.
        // SAFETY: advice about a range of our own mapping that lies within the file.
        unsafe {
            libc::madvise(
                self.base.add(start as usize).cast(),
                (end - start) as usize,
                MADV_COLLAPSE,
            )
        };
    }

    /// The first bytes as they are in memory, not as this host's cache may have them.
    pub(crate) fn fresh_head<const N: usize>(&self) -> Result<[u8; N], MappingError> {
        let view = self.view();
        if let Ok(flusher) = Flusher::detect() {
            for line in super::lines(0, N as u64) {
                // SAFETY: a line of our own mapping.
                unsafe { flusher.flush(view.aligned(line, LINE)) };
            }
            flusher.fence();
        }
        let mut head = [0; N];
        view.copy_out(0, &mut head);
        Ok(head)
    }

    /// A view for quick access; valid while the mapping lives.
    pub(super) fn view(&self) -> View {
        View {
            base: self.base,
            len: self.len,
            mask: self.mask,
            has_pages: self.device.is_none() && self.file.is_some(),
            number: self.number,
        }
    }
}

/// Reserves bytes of a file, and makes it that long.
fn fallocate(file: &File, at: u64, len: u64) -> Result<(), MappingError> {
    let _no_signal = NoSignal::begin().map_err(os("reserving space for the pool"))?;
    loop {
        // SAFETY: a plain system call on a file that we own.
        let done = unsafe { libc::fallocate(file.as_raw_fd(), 0, at as i64, len as i64) };
        if done == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => continue,
            Some(libc::EFBIG) if is_beyond_limit(at.saturating_add(len)) => {
                return Err(MappingError::FileSizeLimit { bytes: len });
            }
            Some(libc::ENOSPC) | Some(libc::EFBIG) | Some(libc::EDQUOT) => {
                return Err(MappingError::NoSpace { bytes: len });
            }
            Some(libc::EOPNOTSUPP) => {
                return Err(MappingError::Unsupported(
                    "reserving space on the pool's file system (tmpfs, ext4 and xfs do)",
                ));
            }
            _ => return Err(os("reserving space for the pool")(error)),
        }
    }
}

/// Bytes that a file's file system still has; 0 if it does not say.
fn free_bytes(file: &File) -> u64 {
    // SAFETY: `statvfs` is plain data for which all zeroes is a valid value.
    let mut figures: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a plain system call that fills in a structure of ours.
    match unsafe { libc::fstatvfs(file.as_raw_fd(), &mut figures) } {
        0 => figures.f_bavail.saturating_mul(figures.f_frsize),
        _ => 0,
    }
}

/// Where a mapping is, by value, so that accesses follow no pointers to it first.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    base: *mut u8,
    len: u64,
    /// Keeps an offset within the reserved addresses.
    mask: u64,
    /// Whether single pages of it can be mapped once more: those of a device cannot.
    pub(super) has_pages: bool,
    /// The mapping's number.
    pub(super) number: u64,
}

// SAFETY: as for `Mapping`; a thread that holds a view holds the mapping too.
unsafe impl Send for View {}
// SAFETY: as for `Send`.
unsafe impl Sync for View {}

impl View {
    #[inline]
    pub(super) fn pointer(&self, at: u64, len: u64) -> *mut u8 {
        if at > self.len || len > self.len - at {
            out_of_bounds(at, len, self.len);
        }
        // SAFETY: `at + len` lies within the mapping, as was just checked.
        unsafe { self.base.add(at as usize) }
    }

    /// Where the aligned block of `size` bytes, a power of two up to a line, around an offset is. Offsets are validated
    /// where they are read from the pool; so this only keeps them within the addresses that are reserved for the pool,
    /// of which those beyond the mapping cannot be touched. That costs no comparison.
    #[inline(always)]
    pub(super) fn aligned(&self, at: u64, size: u64) -> *mut u8 {
        debug_assert!(
            at < self.len,
            "{at:#x} lies outside the mapping of {:#x} bytes",
            self.len
        );
        // SAFETY: the block lies within the reserved addresses, a power of two that begins at `base`.
        unsafe { self.base.add((at & self.mask & !(size - 1)) as usize) }
    }

    #[inline(always)]
    pub(super) fn word(&self, at: u64) -> &AtomicU64 {
        let pointer = self.aligned(at, 8);
        // SAFETY: within the reservation, aligned (the base is, and `at` was rounded), and shared words are only ever
        // accessed as atomics.
        unsafe { &*pointer.cast::<AtomicU64>() }
    }

    #[inline(always)]
    pub(super) fn read_line(&self, at: u64) -> [u64; 8] {
        let pointer = self.aligned(at, LINE).cast::<AtomicU64>();
        let mut line = [0; 8];
        for (i, word) in line.iter_mut().enumerate() {
            // SAFETY: the eight words lie in one line of the reservation; accessed as atomics.
            *word = unsafe { (*pointer.add(i)).load(Ordering::Acquire) };
        }
        line
    }

    /// See [`super::Memory::tagged`].
    #[inline(always)]
    pub(super) fn tagged(&self, at: u64, tag: u16) -> u32 {
        #[cfg(target_arch = "x86_64")]
        {
            let line = self.aligned(at, LINE);
            let mut mask: u32;
            // SAFETY: reads a line of the reservation, aligned to 16 bytes, and changes nothing but registers. It is
            // assembly because others may write the line meanwhile: the loads must be the processor's, which never
            // tears an aligned word, and not the compiler's. SSE2 is part of the architecture.
            unsafe {
                core::arch::asm!(
                    "movd {tag}, {mask:e}",
                    "pshufd {tag}, {tag}, 0",
                    // The high halves of four words each.
                    "movaps {low}, [{line}]",
                    "shufps {low}, [{line} + 16], 0xdd",
                    "movaps {high}, [{line} + 32]",
                    "shufps {high}, [{line} + 48], 0xdd",
                    "psrld {low}, 16",
                    "psrld {high}, 16",
                    "pcmpeqd {low}, {tag}",
                    "pcmpeqd {high}, {tag}",
                    "packssdw {low}, {high}",
                    "packsswb {low}, {low}",
                    "pmovmskb {mask:e}, {low}",
                    line = in(reg) line,
                    mask = inout(reg) u32::from(tag) => mask,
                    tag = out(xmm_reg) _,
                    low = out(xmm_reg) _,
                    high = out(xmm_reg) _,
                    options(nostack, readonly, preserves_flags),
                );
            }
            mask & 0xff
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self.read_line(at).iter().enumerate().fold(0, |mask, (n, word)| {
                mask | u32::from(word >> 48 == u64::from(tag)) << n
            })
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, at: u64) {
        // SAFETY: within the reservation, as in `aligned`; a hint may be given before the offset was validated.
        let pointer = unsafe { self.base.add((at & self.mask & !(LINE - 1)) as usize) };
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch is a hint and reads nothing.
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(pointer.cast())
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = pointer;
    }

    /// # Safety
    ///
    /// As for [`super::Memory::bytes`].
    #[inline]
    pub(super) unsafe fn bytes(&self, at: u64, len: u64) -> &[u8] {
        let pointer = self.pointer(at, len);
        // SAFETY: in bounds; by the caller's promise protected data that nobody writes.
        unsafe { std::slice::from_raw_parts(pointer, len as usize) }
    }

    /// Copies bytes that others may change meanwhile.
    pub(super) fn copy_out(&self, at: u64, to: &mut [u8]) {
        let from = self.pointer(at, to.len() as u64);
        // SAFETY: in bounds, as was just checked.
        unsafe { copy_atomically(from, to) }
    }

    /// # Safety
    ///
    /// As for [`super::Memory::write`].
    #[inline]
    pub(super) unsafe fn write(&self, at: u64, data: &[u8]) {
        let pointer = self.pointer(at, data.len() as u64);
        // SAFETY: in bounds; by the caller's promise the range is unpublished and belongs to the caller. `data` may
        // overlap it.
        unsafe { std::ptr::copy(data.as_ptr(), pointer, data.len()) }
    }

    /// # Safety
    ///
    /// As for [`super::Memory::zero`].
    pub(super) unsafe fn zero(&self, at: u64, len: u64) {
        let pointer = self.pointer(at, len);
        // SAFETY: in bounds; by the caller's promise the range is unpublished and belongs to the caller.
        unsafe { std::ptr::write_bytes(pointer, 0, len as usize) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Before the addresses belong to another mapping.
        self.entry = None;
        // SAFETY: the whole reservation is ours; no reference into it outlives `self`.
        unsafe { libc::munmap(self.unmap.0.cast(), self.unmap.1) };
    }
}

#[cold]
#[inline(never)]
fn out_of_bounds(at: u64, len: u64, mapped: u64) -> ! {
    // Offsets are validated where they are read from the pool. Getting here is a defect of this library, and going
    // on would touch memory that is not the pool's.
    panic!("offset {at:#x} with length {len:#x} lies outside the mapping of {mapped:#x} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_does_not_have_is_not_there() {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.set_len(2 * PAGE).unwrap();
        let mapping = Mapping::of_file(file, 4 * PAGE).unwrap();
        for (at, is_there) in [
            (0, true),
            (2 * PAGE - 8, true),
            (2 * PAGE, false),
            (4 * PAGE - 8, false),
            (4 * PAGE, false),
        ] {
            assert_eq!(mapping.is_there(at), is_there, "{at}");
            assert_eq!(mapping.is_backed(at + 8), is_there, "{at}");
        }
        // A thread without descriptors sees the same.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: the thread has a table of descriptors of its own from then on, which is empty.
                unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, libc::CLOSE_RANGE_UNSHARE) };
                assert!(mapping.is_there(2 * PAGE - 8) && !mapping.is_there(2 * PAGE));
                assert!(mapping.is_backed(2 * PAGE) && !mapping.is_backed(2 * PAGE + 8));
            });
        });
    }
}
