//! What only the operating system knows: which threads have died, how one sleeps until something happens, what time it is.

use std::time::Duration;

use super::robust_mutex::RobustMutex;

/// The operating system's part of a pool. The simulator stands in for it with its own.
///
/// A *death slot* is a word of the pool in which a thread's death shows, with the generation that is registered there in the word before it. Only
/// threads of the machine on which the owner runs use it, through their caches, for as long as the owner lives and until it has been recovered.
/// A *event count* is a sync word that is changed and then [woken](Kernel::wake) when there is something to look at.
pub trait Kernel {
    /// From now on until [`Kernel::unregister`] the calling thread's death shows in the death slot, under this generation. The death slot
    /// belongs to the caller. Where the system cannot do it, nothing will show.
    fn register(&self, death_slot: u64, generation: u32) -> Registration;

    /// Ends what [`Kernel::register`] has begun and answered, in the same thread. What it does to the death slot is seen by all when it returns.
    fn unregister(&self, death_slot: u64, registration: Registration);

    /// Whether the thread that registered under this generation has died. It has taken its last step in the pool then.
    /// Never true of a thread that lives. Costs two loads.
    fn has_died(&self, death_slot: u64, generation: u32) -> bool;

    /// Whether the death of the thread that lies here under this generation shows, or will. Costs a load.
    fn is_shown(&self, death_slot: u64, generation: u32) -> bool;

    /// Sleeps until a thread in one of the death slots dies or unregisters, until the low half of one of the event counts is not what it
    /// was seen to be, or until the time is over. May return at any time; of several who sleep by one death slot, only one may be
    /// woken. Death slots and event counts beyond [`SLEEPS_BY_MAX`] are not minded.
    fn wait(&self, death_slots: &[u64], event_counts: &[(u64, u32)], time: Duration);

    /// Wakes all who sleep by an event count, or by a death slot; one system call.
    fn wake(&self, by: u64);

    /// Wakes one of those who sleep by an event count; one system call. Whether somebody slept.
    fn wake_one(&self, event_count: u64) -> bool;

    /// The pool's file, as the kernel names it among a process's mappings: device and inode; `None` if it is no file's.
    fn mapped_file(&self) -> Option<String> {
        None
    }

    /// Nanoseconds since 1970.
    fn now(&self) -> u64;
}

/// What a thread that has lain down needs to get up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registration(pub(super) Option<RobustMutex>);

/// Death slots and event counts by which a thread can sleep at a time.
pub const SLEEPS_BY_MAX: usize = 128;
