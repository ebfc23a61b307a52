//! Messages that wait to be sent, few and of bounded size. What does not fit is lost; the protocol has it sent again.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sync::directory::messages::message::{DirectorySays, NodeSays, ToDirectory, ToNode};
use crate::sync::directory::messages::region::{Change, DATA_MAX};

/// The most messages that wait.
const MESSAGES_MAX: usize = 512;
/// The most bytes that they have together; a message that is longer waits alone.
const BYTES_MAX: usize = 4 * DATA_MAX;
/// Bytes of a message without data, about.
const HEAD: usize = 128;

/// What can wait in an outbox.
pub trait Weigh {
    /// About how many bytes it has.
    fn weight(&self) -> usize;
}

fn weight_of(changes: &[Change]) -> usize {
    changes.iter().map(|change| change.bytes.len()).sum()
}

impl Weigh for ToDirectory {
    fn weight(&self) -> usize {
        HEAD + match &self.says {
            NodeSays::Transfer(transfer) => weight_of(&transfer.changes),
            NodeSays::Open(open) => open.name.len() + 4 * open.regions.as_ref().map_or(0, Vec::len),
            _ => 0,
        }
    }
}

impl Weigh for ToNode {
    fn weight(&self) -> usize {
        HEAD + match &self.says {
            DirectorySays::Grant(grant) => weight_of(&grant.changes),
            DirectorySays::Opened { regions, .. } => 4 * regions.len(),
            _ => 0,
        }
    }
}

/// Messages that wait. All clones are the same outbox.
pub struct Outbox<M>(Arc<(Mutex<Waiting<M>>, Condvar)>);

struct Waiting<M> {
    messages: VecDeque<M>,
    bytes: usize,
    /// Nothing more is put in.
    is_closed: bool,
}

/// What is taken out of an outbox.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken<M> {
    /// The message that has waited longest.
    Message(M),
    /// None has come for so long.
    Nothing,
    /// None will come.
    Closed,
}

impl<M> Clone for Outbox<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: Weigh> Default for Outbox<M> {
    fn default() -> Self {
        let waiting = Waiting {
            messages: VecDeque::new(),
            bytes: 0,
            is_closed: false,
        };
        Self(Arc::new((Mutex::new(waiting), Condvar::new())))
    }
}

impl<M: Weigh> Outbox<M> {
    fn waiting(&self) -> MutexGuard<'_, Waiting<M>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message in, unless there is no room. Returns whether it may be taken out, or was lost; not if the outbox
    /// is closed.
    pub fn put(&self, message: M) -> bool {
        let mut waiting = self.waiting();
        if waiting.is_closed {
            return false;
        }
        let weight = message.weight();
        let has_room = waiting.messages.len() < MESSAGES_MAX && waiting.bytes + weight <= BYTES_MAX;
        if has_room || waiting.messages.is_empty() {
            waiting.bytes += weight;
            waiting.messages.push_back(message);
            self.0.1.notify_one();
        }
        true
    }

    /// Closes it. What waits is lost, but for a last message.
    pub fn close(&self, last: Option<M>) {
        let mut waiting = self.waiting();
        if !waiting.is_closed {
            waiting.messages = last.into_iter().collect();
            (waiting.bytes, waiting.is_closed) = (0, true);
            self.0.1.notify_all();
        }
    }

    /// Takes a message out; without a limit it waits for one.
    pub fn take(&self, longest: Option<Duration>) -> Taken<M> {
        let is_empty = |waiting: &mut Waiting<M>| waiting.messages.is_empty() && !waiting.is_closed;
        let waiting = self.waiting();
        let mut waiting = match longest {
            None => self
                .0
                .1
                .wait_while(waiting, is_empty)
                .unwrap_or_else(PoisonError::into_inner),
            Some(longest) => {
                let waited = self.0.1.wait_timeout_while(waiting, longest, is_empty);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        match waiting.messages.pop_front() {
            Some(message) => {
                waiting.bytes = waiting.bytes.saturating_sub(message.weight());
                Taken::Message(message)
            }
            None if waiting.is_closed => Taken::Closed,
            None => Taken::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for usize {
        fn weight(&self) -> usize {
            *self
        }
    }

    #[test]
    fn what_does_not_fit_is_lost_and_what_is_too_long_waits_alone() {
        let outbox = Outbox::default();
        let soon = Some(Duration::ZERO);
        assert_eq!(outbox.take(soon), Taken::Nothing);
        for len in [2 * BYTES_MAX, 1, BYTES_MAX - 1] {
            assert!(outbox.put(len));
        }
        assert_eq!(outbox.take(soon), Taken::Message(2 * BYTES_MAX));
        assert_eq!(outbox.take(soon), Taken::Nothing);
        for len in [BYTES_MAX - 1, 1, 1] {
            assert!(outbox.put(len));
        }
        assert_eq!(outbox.take(soon), Taken::Message(BYTES_MAX - 1));
        assert_eq!(outbox.take(soon), Taken::Message(1));
        assert_eq!(outbox.take(soon), Taken::Nothing);
        (0..2 * MESSAGES_MAX).for_each(|_| assert!(outbox.put(0)));
        (0..MESSAGES_MAX).for_each(|_| assert_eq!(outbox.take(soon), Taken::Message(0)));
        assert_eq!(outbox.take(soon), Taken::Nothing);
    }

    #[test]
    fn a_closed_outbox_has_a_last_message_at_most() {
        let outbox = Outbox::default();
        outbox.put(1);
        outbox.close(Some(7));
        outbox.close(Some(8));
        assert!(!outbox.put(2));
        assert_eq!(outbox.take(None), Taken::Message(7));
        assert_eq!(outbox.take(None), Taken::<usize>::Closed);
    }
}
