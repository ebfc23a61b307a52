//! Directory locks, from a thread's operation to its end.

use cenote::sync::directory::node::Node;
use cenote::sync::directory::queue::Permission;

use super::{Event, Machine};
use crate::msi::holder::{Follows, Holder};
use crate::msi::message::{LockMessage, Message, Place};
use crate::msi::op::Answer;

impl Machine {
    fn holder(&mut self, node: Node, lock: u32) -> &mut Holder {
        let (bytes, keeps) = (self.shape.covered_bytes, self.shape.keeps);
        let locks = &mut self.of_node(node).locks;
        locks
            .entry(lock)
            .or_insert_with(|| Holder::new(node, bytes, keeps))
    }

    pub(super) fn acquire(&mut self, thread: u32, lock: u32, wants: Permission) {
        let node = self.node_of(thread);
        let follows = self.holder(node, lock).acquire(thread, wants);
        if !follows.entered.contains(&thread) {
            self.threads[thread as usize].crossings += 1;
        }
        self.follow(node, lock, follows);
    }

    pub(super) fn release(&mut self, thread: u32, lock: u32) {
        let node = self.node_of(thread);
        let follows = self.holder(node, lock).release(thread);
        self.follow(node, lock, follows);
        self.resume(thread, self.costs.hit, Answer::Nothing);
    }

    pub(super) fn access_covered(&mut self, thread: u32, lock: u32, writes: bool) {
        let (node, line_bytes) = (self.node_of(thread), self.costs.line_bytes);
        let wants = match writes {
            true => Permission::Exclusive,
            false => Permission::Shared,
        };
        let mut found = None;
        let mut is_same = true;
        if let Some(data) = self.holder(node, lock).covered(wants) {
            for at in (0..data.bytes()).step_by(line_bytes as usize) {
                let value = data.get(at);
                is_same &= *found.get_or_insert(value) == value;
                if writes {
                    data.set(at, value + 1);
                }
            }
        }
        let answer = Answer::Range(found.filter(|_| is_same));
        self.resume(thread, self.costs.hits(self.shape.covered_bytes), answer);
    }

    pub(super) fn lock_at_node(&mut self, node: Node, lock: u32, message: LockMessage) {
        let follows = self.holder(node, lock).receive(message);
        self.follow(node, lock, follows);
    }

    fn follow(&mut self, node: Node, lock: u32, follows: Follows) {
        for message in follows.sends {
            let delay = match message {
                LockMessage::Acquire(..) => {
                    self.of_node(node).counts.locks += 1;
                    self.costs.fault
                }
                _ if follows.tries_again => 0,
                // Lock and data are removed from the node first.
                _ => self.costs.invalidate,
            };
            let leaves = (self.agenda.now() + delay).max(self.of_node(node).last_leaves);
            self.of_node(node).last_leaves = leaves;
            let message = Message::Lock(lock, message);
            self.agenda.plan(leaves, Event::Leave(Place::Node(node), message));
        }
        for thread in follows.entered {
            self.resume(thread, self.costs.hit, Answer::Nothing);
        }
    }
}
