//! Several operations of one client at once, so that their round trips overlap.

use std::future::{Future, poll_fn};
use std::task::Poll;

/// How many operations of a batch go on at once: twice as many as a client has in-flight cells, so that those wait that
/// have to.
pub const TOGETHER: usize = 16;

/// Waits for all of them; their outcomes are in their order.
pub async fn together<F: Future>(operations: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut going: Vec<_> = operations
        .into_iter()
        .map(|operation| (Box::pin(operation), None))
        .collect();
    poll_fn(|context| {
        let mut is_over = true;
        for (operation, outcome) in going.iter_mut().filter(|(_, outcome)| outcome.is_none()) {
            match operation.as_mut().poll(context) {
                Poll::Ready(is) => *outcome = Some(is),
                Poll::Pending => is_over = false,
            }
        }
        match is_over {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    going.into_iter().filter_map(|(_, outcome)| outcome).collect()
}
