//! Letters between threads.

use cenote::sync::directory::node::Node;

use super::{Event, Machine};
use crate::locks::mail::Letter;
use crate::msi::message::{Message, Place};
use crate::msi::op::Answer;

impl Machine {
    /// A thread sends a letter, and does not wait for its arrival.
    pub(super) fn send_letter(&mut self, thread: u32, port: u32, letter: Letter) {
        let (node, to) = (self.node_of(thread), self.node_of(port));
        let message = Message::Letter(port, node, letter);
        let leaves = self.agenda.now() + self.costs.hit;
        let event = match node == to {
            true => Event::At(Place::Node(to), message),
            false => Event::Leave(Place::Node(node), message),
        };
        self.agenda.plan(leaves, event);
        self.resume(thread, self.costs.hit, Answer::Nothing);
    }

    /// A thread waits for a letter at its port.
    pub(super) fn receive_letter(&mut self, thread: u32, port: u32) {
        self.ports[port as usize].waits = true;
        debug_assert_eq!(thread, port, "a port has one thread");
        self.hand_out(port);
    }

    pub(super) fn deliver(&mut self, port: u32, from: Node, letter: Letter) {
        self.ports[port as usize].letters.push_back((from, letter));
        self.hand_out(port);
    }

    fn hand_out(&mut self, port: u32) {
        let of_port = &mut self.ports[port as usize];
        if !of_port.waits {
            return;
        }
        let Some((from, letter)) = of_port.letters.pop_front() else {
            return;
        };
        of_port.waits = false;
        if from != self.node_of(port) {
            self.threads[port as usize].crossings += 1;
        }
        self.resume(port, self.costs.hit, Answer::Letter(letter));
    }
}
