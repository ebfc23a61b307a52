//! The thread of each process that executes read-modify-writes, or stands by.

use cenote::memory::delegated::Server;

use super::context::Context;
use super::delegation::Delegation;

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
