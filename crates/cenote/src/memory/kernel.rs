//! What only the operating system knows: which threads have died, how one sleeps until something happens, what time it is.

use std::time::Duration;

use super::bed_mutex::Lies;

/// The operating system's part of a pool. The simulator stands in for it with its own.
///
/// A *bed* is a word of the pool in which a thread's death shows, with the generation that lies there in the word before it. Only
/// threads of the machine on which the owner runs use it, through their caches, for as long as the owner lives and until it has been recovered.
/// A *bell* is a sync word that is changed and then [roused](Kernel::rouse) when there is something to look at.
pub trait Kernel {
    /// From now on until [`Kernel::get_up`] the calling thread's death shows in the bed, under this generation. The bed
    /// belongs to the caller. Where the system cannot do it, nothing will show.
    fn lie_down(&self, bed: u64, generation: u32) -> Lying;

    /// Ends what [`Kernel::lie_down`] has begun and answered, in the same thread. What it does to the bed is seen by all when it returns.
    fn get_up(&self, bed: u64, lying: Lying);

    /// Whether the thread that lay down under this generation has died. It has taken its last step in the pool then.
    /// Never true of a thread that lives. Costs two loads.
    fn has_died(&self, bed: u64, generation: u32) -> bool;

    /// Whether the death of the thread that lies here under this generation shows, or will. Costs a load.
    fn is_shown(&self, bed: u64, generation: u32) -> bool;

    /// Sleeps until a thread in one of the beds dies or gets up, until the low half of one of the bells is not what it
    /// was seen to be, or until the time is over. May return at any time; of several who sleep by one bed, only one may be
    /// woken. Beds and bells beyond [`SLEEPS_BY_MAX`] are not minded.
    fn doze(&self, beds: &[u64], bells: &[(u64, u32)], time: Duration);

    /// Wakes all who sleep by a bell, or by a bed; one system call.
    fn rouse(&self, by: u64);

    /// Wakes one of those who sleep by a bell; one system call. Whether somebody slept.
    fn rouse_one(&self, bell: u64) -> bool;

    /// The pool's file, as the kernel names it among a process's mappings: device and inode; `None` if it is no file's.
    fn mapped_file(&self) -> Option<String> {
        None
    }

    /// Nanoseconds since 1970.
    fn now(&self) -> u64;
}

/// What a thread that has lain down needs to get up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lying(pub(super) Option<Lies>);

/// Beds and bells by which a thread can sleep at a time.
pub const SLEEPS_BY_MAX: usize = 128;
