//! Accesses to lines, from a thread's operation to its end.

use cenote::sync::directory::node::Node;
use cenote::sync::directory::queue::Permission;

use super::{Event, Machine};
use crate::msi::message::{LineMessage, Message, Place};
use crate::msi::op::{Answer, WordOp};

/// An operation that has not ended.
pub(super) struct Access {
    /// Offset in the line, of a word; that of a range is 0.
    offset: u64,
    op: WordOp,
    /// The next line that was not looked for yet, and the end of them.
    next: u64,
    end: u64,
    /// Lines that are awaited.
    awaited: u32,
    /// Bytes of each line that are used.
    bytes: u64,
    found: Found,
    is_range: bool,
    cost: u64,
}

/// What lines hold.
#[derive(Clone, Copy)]
enum Found {
    Nothing,
    Same(u64),
    Different,
}

impl Access {
    pub fn word(at: u64, op: WordOp, line_bytes: u64) -> Self {
        Self {
            offset: at % line_bytes,
            op,
            next: at / line_bytes,
            end: at / line_bytes + 1,
            awaited: 0,
            bytes: 8,
            found: Found::Nothing,
            is_range: false,
            cost: 0,
        }
    }

    pub fn range(at: u64, len: u64, writes: bool, line_bytes: u64) -> Self {
        Self {
            offset: 0,
            op: if writes { WordOp::Add(1) } else { WordOp::Load },
            end: (at + len.max(1)).div_ceil(line_bytes),
            bytes: line_bytes.min(len),
            is_range: true,
            ..Self::word(at, WordOp::Load, line_bytes)
        }
    }

    fn note(&mut self, value: u64) {
        self.found = match self.found {
            Found::Nothing => Found::Same(value),
            Found::Same(same) if same == value => Found::Same(same),
            _ => Found::Different,
        };
    }

    fn answer(&self) -> Answer {
        match (self.is_range, self.found) {
            (false, Found::Same(value)) => Answer::Word(value),
            (true, Found::Same(value)) => Answer::Range(Some(value)),
            (true, _) => Answer::Range(None),
            (false, _) => Answer::Nothing,
        }
    }
}

impl Machine {
    pub(super) fn begin_access(&mut self, thread: u32, access: Access) {
        self.go_on(thread, access);
    }

    /// Looks for as many lines as may be awaited at once; ends the operation if all have been there.
    fn go_on(&mut self, thread: u32, mut access: Access) {
        while access.next < access.end && access.awaited < self.costs.outstanding {
            let line = access.next;
            access.next += 1;
            if !self.touch(thread, line, &mut access) {
                access.awaited += 1;
                self.miss(thread, line, access.op.needs());
            }
        }
        if access.awaited == 0 {
            self.resume(thread, access.cost, access.answer());
        } else {
            self.threads[thread as usize].access = Some(access);
        }
    }

    /// Accesses a line if the node has it. Returns whether it has.
    fn touch(&mut self, thread: u32, line: u64, access: &mut Access) -> bool {
        let cache = &mut self.of_node(self.node_of(thread)).cache;
        let Some(value) = cache.access(line, access.offset, access.op) else {
            return false;
        };
        access.note(value);
        access.cost += self.costs.hits(access.bytes);
        if access.op.apply(value) != value {
            self.unpark(self.node_of(thread), line);
        }
        true
    }

    /// A thread waits for a line; its node asks for it, unless it has asked.
    fn miss(&mut self, thread: u32, line: u64, wants: Permission) {
        let node = self.node_of(thread);
        self.threads[thread as usize].crossings += 1;
        if self.of_node(node).cache.miss(line, thread) {
            self.of_node(node).counts.lines += 1;
            let leaves = self.agenda.now() + self.costs.fault;
            let message = Message::Line(line, LineMessage::Request(node, wants));
            self.agenda.plan(leaves, Event::Leave(Place::Node(node), message));
        }
    }

    pub(super) fn park(&mut self, thread: u32, at: u64, seen: u64) {
        let (line, offset) = (at / self.costs.line_bytes, at % self.costs.line_bytes);
        let node = self.node_of(thread);
        let cache = &mut self.of_node(node).cache;
        match cache.word(line, offset) == Some(seen) {
            true => cache.park(line, thread),
            false => self.resume(thread, 0, Answer::Nothing),
        }
    }

    fn unpark(&mut self, node: Node, line: u64) {
        for thread in self.of_node(node).cache.unpark(line) {
            self.resume(thread, 0, Answer::Nothing);
        }
    }

    pub(super) fn line_at_node(&mut self, node: Node, line: u64, message: LineMessage) {
        match message {
            LineMessage::Invalidate { keeps } => {
                let data = self.of_node(node).cache.give_up(line, keeps);
                if !keeps {
                    self.unpark(node, line);
                }
                let leaves = self.agenda.now() + self.costs.invalidate;
                let message = Message::Line(line, LineMessage::Acknowledge(data));
                self.agenda.plan(leaves, Event::Leave(Place::Node(node), message));
            }
            LineMessage::Grant(permission, data) => {
                let cache = &mut self.of_node(node).cache;
                cache.fill(line, permission, data);
                for thread in cache.arrived(line) {
                    self.arrived(thread, line);
                }
            }
            // The directory and the memory receive these.
            LineMessage::Request(..)
            | LineMessage::Acknowledge(..)
            | LineMessage::Fetch
            | LineMessage::Fetched(_)
            | LineMessage::WriteBack(_) => {}
        }
    }

    /// A line has arrived that a thread waits for, maybe without the permission that it needs.
    fn arrived(&mut self, thread: u32, line: u64) {
        let Some(mut access) = self.threads[thread as usize].access.take() else {
            return;
        };
        match self.touch(thread, line, &mut access) {
            true => {
                access.awaited -= 1;
                self.go_on(thread, access);
            }
            false => {
                self.miss(thread, line, access.op.needs());
                self.threads[thread as usize].access = Some(access);
            }
        }
    }
}
