//! Which thread of a process may change retired objects of lists other than its own: the background thread, or one that
//! accounts for every byte, never both. The word is of this process alone. If the thread that has it dies alone, the
//! next one takes it.

use crate::memory::Memory;
use crate::pod::instance::process::Pod;
use crate::pod::instance::worker::Worker;
use crate::pod::lock::is_gone;

/// The permission, which ends when this is dropped.
pub struct Permission<'p, M: Memory> {
    pod: &'p Pod<M>,
    mine: u64,
}

impl<M: Memory> Pod<M> {
    /// The permission to change, in the background, retired objects of lists other than the caller's own. `None` if
    /// another thread has it, and lives.
    pub(crate) fn may_reclaim(&self, worker: &Worker<M>) -> Option<Permission<'_, M>> {
        let (mine, found) = (worker.identity(), self.reclaiming.load());
        let is_free = found == 0 || matches!(is_gone(worker, found), Ok(true));
        // PAIRS WITH: pod::reclaim::permission::drop
        let is_ours = is_free && self.reclaiming.exchange(found, mine);
        is_ours.then(|| Permission { pod: self, mine })
    }

    /// Keeps the background thread of this process from changing retired objects until the permission is dropped.
    pub fn hold_still(&self, worker: &Worker<M>) -> Permission<'_, M> {
        loop {
            if let Some(permission) = self.may_reclaim(worker) {
                return permission;
            }
            self.mem().relax();
        }
    }
}

impl<M: Memory> Drop for Permission<'_, M> {
    fn drop(&mut self) {
        // PAIRS WITH: pod::reclaim::permission::may_reclaim
        self.pod.reclaiming.exchange(self.mine, 0);
    }
}
