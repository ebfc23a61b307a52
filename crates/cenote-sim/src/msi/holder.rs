//! A directory lock at a node: what the node has of it, the queue if it holds it, and the node's threads, which the
//! library's [`Local`] serves as a cohort.
//!
//! The node keeps lock and data until another one asks. A writer that is asked hands the lock over once its threads
//! have left it: it sends the next ones, the queue and the data to the directory, which refuses that if a request for
//! this node is on its way (Soul, section 4.2). That request arrives before the refusal would. So the node tries again
//! as soon as a request arrives, and has nothing to do when it is refused.

use std::collections::VecDeque;

use cenote::sync::directory::cohort::{Local, Step};
use cenote::sync::directory::node::Node;
use cenote::sync::directory::queue::{Permission, Queue};

use super::data::Data;
use super::message::LockMessage;

/// What a node knows of a lock.
pub struct Holder {
    node: Node,
    /// Whether lock and data stay here when they are released.
    keeps: bool,
    local: Local,
    queue: Queue,
    /// How many requests have arrived since the node has the queue.
    received: u16,
    is_transferring: bool,
    /// Threads that wait, as [`Local`] has them.
    waiting: VecDeque<u32>,
    data: Data,
}

/// What follows from something: messages to the directory, and threads that have the lock.
#[derive(Default)]
pub struct Follows {
    /// Messages.
    pub sends: Vec<LockMessage>,
    /// Whether they try again what was tried, so that the node has removed lock and data already.
    pub tries_again: bool,
    /// Threads.
    pub entered: Vec<u32>,
}

/// What the cohort calls a thread; 0 is nobody.
fn identity(thread: u32) -> u64 {
    u64::from(thread) + 1
}

impl Holder {
    /// A node that has nothing of a lock which covers so many bytes.
    pub fn new(node: Node, bytes: u64, keeps: bool) -> Self {
        Self {
            node,
            keeps,
            local: Local::default(),
            queue: Queue::default(),
            received: 0,
            is_transferring: false,
            waiting: VecDeque::new(),
            data: Data::zeroed(bytes),
        }
    }

    /// The data, if the node may use them so.
    pub fn covered(&mut self, wants: Permission) -> Option<&mut Data> {
        (self.local.has >= Some(wants)).then_some(&mut self.data)
    }

    /// A thread wants the lock.
    pub fn acquire(&mut self, thread: u32, wants: Permission) -> Follows {
        if self.local.is_open(wants) {
            self.local.enter(identity(thread), wants);
            return Follows {
                entered: vec![thread],
                ..Follows::default()
            };
        }
        self.local.wait(identity(thread), wants);
        self.waiting.push_back(thread);
        self.follow()
    }

    /// A thread gives the lock up.
    pub fn release(&mut self, thread: u32) -> Follows {
        self.local.leave(identity(thread));
        if !self.keeps && self.local.identities().len() == self.waiting.len() {
            self.local.is_yielding = true;
        }
        self.follow()
    }

    /// A message arrives.
    pub fn receive(&mut self, message: LockMessage) -> Follows {
        match message {
            LockMessage::Granted {
                permission,
                data,
                queue,
                is_asked,
            } => {
                if let Some(data) = data {
                    self.data = data;
                }
                if let Some(queue) = queue {
                    self.queue = queue;
                }
                self.local.granted(permission, 0);
                self.local.is_asked = match permission {
                    Permission::Shared => is_asked,
                    Permission::Exclusive => !self.queue.is_empty(),
                };
            }
            LockMessage::Asked => {
                // A reader that has given the lock up meanwhile has said so, or will have.
                if self.local.has == Some(Permission::Shared) {
                    self.local.is_asked = true;
                }
            }
            LockMessage::Forward(request, number) => {
                self.queue.push(request);
                self.received = number;
                self.local.is_asked = self.local.has == Some(Permission::Exclusive);
                if self.is_transferring {
                    return Follows {
                        sends: vec![self.transfer()],
                        tries_again: true,
                        ..Follows::default()
                    };
                }
            }
            LockMessage::Queue(queue) => self.queue = queue,
            LockMessage::Accepted => {
                (self.queue, self.received) = (Queue::default(), 0);
                self.is_transferring = false;
                self.lose();
            }
            // The directory and the memory receive these; or it has been tried again.
            LockMessage::Denied
            | LockMessage::Acquire(..)
            | LockMessage::GiveUp(_)
            | LockMessage::Transfer { .. }
            | LockMessage::Fetch
            | LockMessage::Fetched(_)
            | LockMessage::WriteBack(_) => {}
        }
        self.follow()
    }

    /// Hands the lock over to those that come next, as far as they are known here.
    fn transfer(&self) -> LockMessage {
        LockMessage::Transfer {
            from: self.node,
            version: self.received,
            handover: self.queue.clone().hand_over(),
            data: self.data.clone(),
        }
    }

    /// The node has nothing any more.
    fn lose(&mut self) {
        self.local.has = None;
        (self.local.is_asked, self.local.is_yielding) = (false, false);
    }

    /// What is to be done now.
    fn follow(&mut self) -> Follows {
        let mut follows = Follows::default();
        while !self.is_transferring {
            match self.local.next_step(false) {
                Step::Yield(Permission::Exclusive) => {
                    self.local.is_yielding = true;
                    self.is_transferring = true;
                    follows.sends.push(self.transfer());
                }
                Step::Yield(Permission::Shared) => {
                    self.lose();
                    follows.sends.push(LockMessage::GiveUp(self.node));
                }
                Step::Request(wants) => {
                    // A reader that asks to write gives up reading by that.
                    self.lose();
                    self.local.is_pending = true;
                    follows.sends.push(LockMessage::Acquire(self.node, wants));
                }
                Step::Poll | Step::Nothing => break,
            }
        }
        while let Some(&thread) = self.waiting.front()
            && self.local.enter_in_turn(identity(thread))
        {
            self.waiting.pop_front();
            follows.entered.push(thread);
        }
        follows
    }
}
