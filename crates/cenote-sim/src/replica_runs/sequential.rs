//! Replicas that are changed one after another (FUSEE-CR): the shipped client on a network that has one
//! compare-and-swap of a batch under way at a time. The verbs of a batch may take effect in any order, so what the
//! client does stays right; it costs a round trip for each replica.

use std::rc::Rc;

use cenote_replica::verbs::{Address, Completion, Request, Verb, Verbs};
use cenote_replica::view::{Control, Eras, SessionEnded, View};

use crate::rdma::Port;

/// A client's network.
pub struct Sequential(pub Port);

impl Verbs for Sequential {
    async fn post(&self, batch: Vec<Request>) -> Vec<Completion> {
        let is_swap = |request: &Request| matches!(request.verb, Verb::CompareSwap { .. });
        if batch.iter().filter(|request| is_swap(request)).count() < 2 {
            return self.0.post(batch).await;
        }
        let mut completions = Vec::with_capacity(batch.len());
        for request in batch {
            completions.extend(self.0.post(vec![request]).await);
        }
        completions
    }

    async fn pause(&self, attempt: u32) {
        self.0.pause(attempt).await;
    }
}

impl Control for Sequential {
    fn view(&self) -> Rc<View> {
        self.0.view()
    }

    fn eras(&self) -> Eras {
        self.0.eras()
    }

    fn sessions_ended(&self) -> u64 {
        0
    }

    async fn later(&self, than: u64, region: u16) -> Result<(), SessionEnded> {
        self.0.later(than, region).await
    }

    async fn block(&self, size: u32) -> Result<Option<Address>, SessionEnded> {
        self.0.block(size).await
    }
}
