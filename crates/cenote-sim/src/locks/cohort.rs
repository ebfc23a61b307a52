//! C-RW-WP (Calciu and others, PPoPP 2013): readers count themselves in a word of their node; writers have a cohort
//! lock, here of ticket locks, and then wait until no node has readers. Readers wait while a writer is there.
//!
//! A node's writers pass the lock among each other up to [`PASSES`] times while another node waits.

use cenote::sync::directory::cohort::PASSES;
use cenote::sync::directory::queue::Permission;

use super::room::{Lines, Room};
use super::{Lock, Who, Words};

/// Offsets in the line of a ticket lock: the next ticket, and the one that is served.
const TICKET: u64 = 0;
const SERVED: u64 = 8;
/// In a node's line besides: whether the node has the lock of all nodes, and how often it has passed it on.
const HAS: u64 = 16;
const PASSED: u64 = 24;

/// The lock.
#[derive(Clone, Copy, Debug)]
pub struct Cohort {
    /// The ticket lock of all nodes.
    global: u64,
    /// Whether a writer is there.
    writing: u64,
    /// The nodes' ticket locks.
    local: Lines,
    /// The nodes' readers.
    readers: Lines,
}

impl Cohort {
    /// A lock of so many nodes.
    pub fn new(room: &mut Room, nodes: u32) -> Self {
        Self {
            global: room.line(),
            writing: room.line(),
            local: room.lines(nodes),
            readers: room.lines(nodes),
        }
    }

    /// The same, laid out for lines of 64 bytes whatever the lines are.
    pub fn close(room: &mut Room, nodes: u32) -> Self {
        let mut within = room.close(64 * (2 + 2 * u64::from(nodes)));
        Self::new(&mut within, nodes)
    }
}

fn take_ticket<W: Words>(mem: &W, at: u64) {
    let ticket = mem.fetch_add(at + TICKET, 1);
    mem.wait_until(at + SERVED, |served| served == ticket);
}

/// Whether another one waits for a ticket lock that the caller has.
fn is_wanted<W: Words>(mem: &W, at: u64) -> bool {
    mem.load(at + TICKET) != mem.load(at + SERVED) + 1
}

fn serve_next<W: Words>(mem: &W, at: u64) {
    mem.store(at + SERVED, mem.load(at + SERVED) + 1);
}

impl Lock for Cohort {
    fn acquire<W: Words>(&self, mem: &W, who: Who, wants: Permission) {
        if wants == Permission::Shared {
            let own = self.readers.at(who.node);
            loop {
                // The addition orders the load after it, as the writer's swap does.
                mem.fetch_add(own, 1);
                if mem.load(self.writing) == 0 {
                    return;
                }
                mem.fetch_add(own, 1_u64.wrapping_neg());
                mem.wait_until(self.writing, |writing| writing == 0);
            }
        }
        let local = self.local.at(who.node);
        take_ticket(mem, local);
        if mem.load(local + HAS) == 0 {
            take_ticket(mem, self.global);
            mem.store(local + HAS, 1);
            mem.swap(self.writing, 1);
        }
        for readers in self.readers.all() {
            mem.wait_until(readers, |readers| readers == 0);
        }
    }

    fn release<W: Words>(&self, mem: &W, who: Who, had: Permission) {
        if had == Permission::Shared {
            mem.fetch_add(self.readers.at(who.node), 1_u64.wrapping_neg());
            return;
        }
        let local = self.local.at(who.node);
        let passed = mem.load(local + PASSED);
        if is_wanted(mem, local) && passed < u64::from(PASSES) {
            mem.store(local + PASSED, passed + 1);
        } else {
            mem.store(local + PASSED, 0);
            mem.store(local + HAS, 0);
            mem.store(self.writing, 0);
            serve_next(mem, self.global);
        }
        serve_next(mem, local);
    }
}
