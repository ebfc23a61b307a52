//! Verbs of which a client does not know whether they will take effect yet.
//!
//! A write or swap whose completion is unknown may arrive at any time while its region has the same key. So the client
//! that sent it asks for later views until the region has another key, before it goes on: else the verb could change
//! memory that has been freed and used again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Deref;

use crate::mutant::{self, Mutant};
use crate::verbs::{Completion, Request, Verb, Verbs};
use crate::view::{Key, View};

/// A network, and the regions in which verbs of this client may still arrive.
#[derive(Debug)]
pub(super) struct Doubting<N> {
    net: N,
    /// The key under which the last such verb of a region was sent.
    doubtful: RefCell<BTreeMap<u16, Key>>,
}

impl<N> Doubting<N> {
    /// No verb was sent yet.
    pub fn new(net: N) -> Self {
        Self {
            net,
            doubtful: RefCell::default(),
        }
    }

    /// A region in which a verb may still arrive under a view.
    pub fn doubtful(&self, view: &View) -> Option<u16> {
        let mut doubtful = self.doubtful.borrow_mut();
        doubtful.retain(|number, key| {
            let region = view.region(*number);
            region.is_some_and(|region| region.key == *key && !region.nodes.is_empty())
        });
        doubtful.keys().next().copied()
    }
}

impl<N> Deref for Doubting<N> {
    type Target = N;

    fn deref(&self) -> &N {
        &self.net
    }
}

impl<N: Verbs> Verbs for Doubting<N> {
    async fn post(&self, batch: Vec<Request>) -> Vec<Completion> {
        let changes = |request: &Request| match request.verb {
            Verb::Read(_) => None,
            _ => Some((request.at.region(), request.key)),
        };
        let changed: Vec<Option<(u16, Key)>> = batch.iter().map(changes).collect();
        let completions = self.net.post(batch).await;
        for (changed, completion) in changed.into_iter().zip(&completions) {
            if let (Some((region, key)), Completion::Unknown) = (changed, completion)
                && !mutant::is(Mutant::DoubtForgotten)
            {
                let mut doubtful = self.doubtful.borrow_mut();
                let last = doubtful.entry(region).or_insert(key);
                *last = key.max(*last);
            }
        }
        completions
    }

    async fn pause(&self, attempt: u32) {
        self.net.pause(attempt).await;
    }
}
