//! What only the operating system knows: which threads have died, how a thread sleeps until something happens, what
//! time it is.

use std::time::Duration;

use super::robust_mutex::RobustMutex;

/// The operating system's part of a pool. The simulator stands in for it with its own.
///
/// A *death slot* is a word of the pool in which a thread's death shows. The word before it holds the registered
/// generation. Only threads of the owner's machine use it, through their caches, while the owner lives and until it has
/// been recovered. An *event count* is a sync word that a thread changes and then [wakes](Kernel::wake) sleepers by,
/// when there is something to look at.
pub trait Kernel {
    /// From now on until [`Kernel::unregister`], the calling thread's death shows in the death slot under this
    /// generation. Where the system cannot do it, no death will show.
    ///
    /// # Safety
    ///
    /// The death slot belongs to the caller: no other thread is registered there, or registers before this one has
    /// unregistered or died.
    unsafe fn register(&self, death_slot: DeathSlot, generation: u32) -> Registration;

    /// Ends a registration. When it returns, everybody sees the death slot as it left it.
    ///
    /// # Safety
    ///
    /// The calling thread has made this registration, in this death slot, and has not ended it.
    unsafe fn unregister(&self, death_slot: DeathSlot, registration: Registration);

    /// Whether the thread that registered under this generation has died. If so, it has taken its last step in the
    /// pool. Never true of a living thread. Costs two loads.
    fn has_died(&self, death_slot: DeathSlot, generation: u32) -> bool;

    /// Whether the death of the thread that registered here under this generation shows, or will. Costs a load.
    fn is_shown(&self, death_slot: DeathSlot, generation: u32) -> bool;

    /// Sleeps until a thread in one of the death slots dies or unregisters, until the low half of an event count
    /// differs from the value given with it, or until the time is over. May return at any time. If several threads
    /// sleep by one death slot, only one of them may be woken. Death slots and event counts beyond [`SLEEPS_BY_MAX`]
    /// are ignored.
    fn wait(&self, death_slots: &[DeathSlot], event_counts: &[(u64, u32)], time: Duration);

    /// Wakes all threads that sleep by an event count or a death slot; one system call.
    fn wake(&self, by: u64);

    /// Wakes one of the threads that sleep by an event count; one system call. Returns whether one slept.
    fn wake_one(&self, event_count: u64) -> bool;

    /// The pool's file, as the kernel names it among a process's mappings: device and inode; `None` if the memory is no
    /// file's.
    fn mapped_file(&self) -> Option<String> {
        None
    }

    /// Nanoseconds since 1970.
    fn now(&self) -> u64;
}

/// A death slot, by its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeathSlot(u64);

impl DeathSlot {
    /// The death slot at an offset.
    ///
    /// # Safety
    ///
    /// The pool's layout has a death slot there: an aligned word that nothing else uses, after another one that belongs
    /// to it.
    pub const unsafe fn at(offset: u64) -> Self {
        Self(offset)
    }

    /// Its offset.
    pub const fn offset(self) -> u64 {
        self.0
    }
}

/// What a registered thread needs to unregister.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registration(pub(super) Option<RobustMutex>);

/// Death slots and event counts by which a thread can sleep at a time.
pub const SLEEPS_BY_MAX: usize = 128;
