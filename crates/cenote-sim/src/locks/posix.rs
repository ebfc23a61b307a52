//! A reader-writer lock with one counter, which prefers readers, as POSIX threads have it: readers count themselves in
//! one word, in which a writer sets a bit.

use cenote::sync::directory::queue::Permission;

use super::room::Room;
use super::{Lock, Who, Words};

/// Set while a writer has the lock.
const WRITER: u64 = 1 << 63;

/// The lock.
#[derive(Clone, Copy, Debug)]
pub struct Posix {
    state: u64,
}

impl Posix {
    /// A lock that nobody has.
    pub fn new(room: &mut Room) -> Self {
        Self { state: room.line() }
    }
}

impl Lock for Posix {
    fn acquire<W: Words>(&self, mem: &W, _: Who, wants: Permission) {
        match wants {
            Permission::Shared => {
                // A reader that has counted itself keeps the next writer out, and waits for this one only.
                if mem.fetch_add(self.state, 1) & WRITER != 0 {
                    mem.wait_until(self.state, |state| state & WRITER == 0);
                }
            }
            Permission::Exclusive => {
                while !mem.compare_exchange(self.state, 0, WRITER) {
                    mem.wait_until(self.state, |state| state == 0);
                }
            }
        }
    }

    fn release<W: Words>(&self, mem: &W, _: Who, had: Permission) {
        mem.fetch_add(
            self.state,
            match had {
                Permission::Shared => 1_u64.wrapping_neg(),
                Permission::Exclusive => WRITER,
            },
        );
    }
}
