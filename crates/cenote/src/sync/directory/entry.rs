//! The directory entry of a lock: who may read, who may write, who holds the queue of those that wait.
//!
//! | sharers | holder | state | queue |
//! |---|---|---|---|
//! | none | none | I: no node has the lock | there is none |
//! | some | none | S: they may read | there is none |
//! | none | a node | M: it may read and write | there |
//! | some | a node | S: they may read, until they have given the lock up; then the holder may write | there, at the next writer |
//!
//! These are the three cases of Soul, section 4.2: nobody writes or waits, the writer holds the queue, or the next
//! writer does.
//!
//! An entry changes by the functions below and by no others, one after another: it is the point where all requests for
//! a lock have one order. Who executes them, a process that has the entry's lock in a pool or a directory that is sent
//! messages, is no part of the protocol.
//!
//! **Transfers.** The holder takes requests off the queue by itself, and the directory forwards requests to the holder.
//! A request that is on its way while the queue moves would be lost. So the directory counts what it has forwarded to
//! the holder, the holder counts what has arrived, and the directory accepts a transfer only if both are the same
//! ([`Entry::transfer`]). Where entry and queue change together, as in a pool, they always are.

use super::node::{Node, Nodes};
use super::queue::{Handover, Permission};
use crate::mutant::{self, Mutant};

/// A lock's entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    sharers: Nodes,
    holder: Option<Node>,
    version: u16,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The node has what it wants.
    Granted,
    /// The request goes to the queue of this node, as the one of this number.
    Forwarded {
        /// Who holds the queue.
        holder: Node,
        /// How many requests the directory has forwarded to it since it has the queue.
        version: u16,
    },
    /// The node is the next writer, and holds the queue. These readers have to give the lock up first.
    Next {
        /// The readers.
        sharers: Nodes,
    },
}

/// What the death of a node, or its giving the lock up, leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// The next writer has the lock.
    Granted(Node),
    /// The queue is lost with its holder, which could write if this is set.
    Queue {
        /// Whether the holder was the writer, and not the next one.
        wrote: bool,
    },
}

impl Entry {
    /// An entry with these words, unless they fit no state.
    pub fn from_parts(sharers: Nodes, holder: Option<Node>, version: u16) -> Option<Self> {
        let is_queued = holder.is_some_and(|holder| sharers.contains(holder));
        (!is_queued && (holder.is_some() || version == 0)).then_some(Self {
            sharers,
            holder,
            version,
        })
    }

    /// The readers.
    pub fn sharers(&self) -> Nodes {
        self.sharers
    }

    /// Who holds the queue.
    pub fn holder(&self) -> Option<Node> {
        self.holder
    }

    /// How many requests were forwarded to the holder since it has the queue.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The writer.
    pub fn owner(&self) -> Option<Node> {
        self.holder
            .filter(|_| self.sharers.is_empty() || mutant::is(Mutant::DirectorySharersNotAwaited))
    }

    /// What a node may do.
    pub fn permission(&self, node: Node) -> Option<Permission> {
        if self.sharers.contains(node) {
            return Some(Permission::Shared);
        }
        (self.owner() == Some(node)).then_some(Permission::Exclusive)
    }

    /// Whether a node is asked to give the lock up, given the queue at the holder.
    pub fn is_asked(&self, node: Node, is_queue_empty: bool) -> bool {
        match self.holder {
            Some(holder) if holder == node => self.sharers.is_empty() && !is_queue_empty,
            Some(_) => self.sharers.contains(node),
            None => false,
        }
    }

    /// A node asks for the lock. Asking again for what it has or will have as the next writer changes nothing.
    pub fn request(&mut self, node: Node, wants: Permission) -> Answer {
        match (self.holder, wants) {
            (Some(holder), _) if holder == node => match self.sharers.is_empty() {
                true => Answer::Granted,
                false => Answer::Next {
                    sharers: self.sharers,
                },
            },
            (_, Permission::Shared) if self.sharers.contains(node) => Answer::Granted,
            (Some(_), Permission::Shared) if mutant::is(Mutant::DirectoryQueueNotHeld) => {
                self.sharers.insert(node);
                Answer::Granted
            }
            (Some(holder), _) => {
                self.version = self.version.wrapping_add(1);
                Answer::Forwarded {
                    holder,
                    version: self.version,
                }
            }
            (None, Permission::Shared) => {
                self.sharers.insert(node);
                Answer::Granted
            }
            (None, Permission::Exclusive) => {
                // A reader that wants to write has given up reading with this request.
                self.sharers.remove(node);
                (self.holder, self.version) = (Some(node), 0);
                match self.sharers.is_empty() {
                    true => Answer::Granted,
                    false => Answer::Next {
                        sharers: self.sharers,
                    },
                }
            }
        }
    }

    /// A reader gives the lock up. Returns the next writer if that was the last one it waited for.
    pub fn give_up(&mut self, reader: Node) -> Option<Node> {
        let was = self.sharers.remove(reader);
        self.holder.filter(|_| was && self.sharers.is_empty())
    }

    /// The writer hands the lock over. Refused, without a change, if it is not the writer, or has not seen all requests
    /// that were forwarded to it.
    pub fn transfer(&mut self, from: Node, version: u16, handover: &Handover) -> bool {
        let has_all = self.version == version || mutant::is(Mutant::DirectoryVersionNotChecked);
        if self.owner() != Some(from) || !has_all {
            return false;
        }
        (self.sharers, self.holder, self.version) = (handover.readers, handover.writer, 0);
        true
    }

    /// A node has died.
    pub fn lose(&mut self, node: Node) -> Left {
        if self.holder == Some(node) {
            let wrote = self.sharers.is_empty();
            (self.holder, self.version) = (None, 0);
            return Left::Queue { wrote };
        }
        self.give_up(node).map_or(Left::Nothing, Left::Granted)
    }

    /// After [`Left::Queue`]: those that waited are found again, in an order of their own, and have the lock as if it
    /// was handed over to them. Readers that have it keep it.
    pub fn rebuild(&mut self, handover: &Handover) {
        // A writer in front keeps readers behind it waiting; readers in front join those that read.
        handover.readers.iter().for_each(|node| self.sharers.insert(node));
        (self.holder, self.version) = (handover.writer, 0);
    }
}
