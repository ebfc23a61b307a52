//! Letters between threads: the contract of the lock service.

/// What is sent to a port.
pub type Letter = [u64; 3];

/// Threads with ports, each of which one thread reads.
pub trait Mail {
    /// Sends a letter, and does not wait for its arrival. Letters from one thread to another keep their order.
    fn send(&self, port: u32, letter: Letter);

    /// The next letter at the caller's port.
    fn receive(&self, port: u32) -> Letter;
}
