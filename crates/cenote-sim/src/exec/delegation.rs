//! Read-modify-writes that a server executes, as in the library's `Delegated` backend. Each process has a thread that is the
//! server or stands by; its other threads send requests through mailboxes.

use cenote::memory::delegated::{Mailboxes, Server};

use super::context::Context;

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

impl Delegation {
    /// Serves, or stands by, until the process has no other thread.
    pub(super) fn serve<const C: bool>(self, context: &Context<C>) {
        let liveness = context.liveness();
        while !context.is_last() {
            if !liveness.try_lock(self.lock).unwrap_or(false) {
                context.wait();
                continue;
            }
            context.serves(true);
            let memory = context.memory().direct();
            let mut server = Server::take_over(memory, self.boxes, self.limit);
            while !context.is_last() {
                context.begins_pass();
                if server.pass() == 0 {
                    context.wait();
                }
            }
            context.serves(false);
            let _ = liveness.unlock(self.lock);
        }
    }
}
