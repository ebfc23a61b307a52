//! Read-modify-writes that a server executes, as in the library's `Delegated` backend. Each process has a thread that
//! is the server or stands by; its other threads send requests through mailboxes.

use cenote::memory::delegated::Mailboxes;

/// How the server is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// The mailboxes of the pool.
    pub boxes: Mailboxes,
    /// The lock that the server's process holds.
    pub lock: u32,
    /// Bytes of the pool.
    pub limit: u64,
}
