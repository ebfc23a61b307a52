//! How long it takes to recover what a dead client has left (FUSEE, section 6.4, table 1), besides connections.
//!
//! A client updates records, and dies within an update. Then its session is ended: all regions are closed, what it had
//! begun is completed or undone, and they are opened. A client that joins gets its blocks, and finds out what in them
//! is free.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use cenote_replica::client::Client;

use super::master::Master;
use super::plan::Plan;
use super::run::{Ground, RunError, record};
use super::shipped::Shipped;
use super::store::Store;
use crate::rdma::{MICROSECOND, MILLISECOND, Port, Tasks, Time};

/// The client that dies, and the one that gets its blocks.
const DEAD: u32 = 1;
const ADOPTER: u32 = 2;
/// From the begin of its last update to its death: in the middle.
const INTO: Time = 4 * MICROSECOND;

/// What recovery took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recovery {
    closing: Time,
    blocks: Time,
    /// Changes that were completed or undone, or were the last of their cell.
    pub changes: usize,
}

impl Recovery {
    /// Closing the regions, deciding what was going on, opening them; in milliseconds.
    pub fn closing_ms(&self) -> f64 {
        self.closing as f64 / MILLISECOND as f64
    }

    /// Taking over the blocks; in milliseconds.
    pub fn blocks_ms(&self) -> f64 {
        self.blocks as f64 / MILLISECOND as f64
    }
}

/// Has a client die after so many updates of a plan's records, one after another, and measures the recovery.
pub fn recover(plan: &Plan, updates: u64) -> Result<Recovery, RunError> {
    let ground = Ground::new(plan)?;
    let layout = plan
        .place
        .layout()
        .ok_or_else(|| RunError::Place("layout".to_owned()))?;
    let shipped = |client: u32| {
        let port = ground.port(plan, client);
        Shipped {
            client: Client::new(port.clone(), layout, plan.place.session(client)),
            port,
        }
    };
    let (dying, adopter) = (shipped(DEAD), shipped(ADOPTER));
    let master = Master::new(ground.port(plan, 0), plan.place, ADOPTER)
        .ok_or_else(|| RunError::Place("layout".to_owned()))?;
    let blocks = Rc::clone(&ground.blocks);
    let (records, bytes) = (plan.place.records, plan.bytes);
    let outcome = Rc::new(RefCell::new(Ok(Recovery::default())));
    let mut tasks = Tasks::default();
    tasks.spawn({
        let outcome = Rc::clone(&outcome);
        async move {
            let recovered = async {
                let mut master = master;
                for number in 0..records {
                    let (key, value) = record(number, 0, bytes);
                    dying.put(&key, &value).await?;
                }
                for update in 0..updates {
                    let (key, value) = record(update % records, update, bytes);
                    dying.put(&key, &value).await?;
                }
                let (key, value) = record(0, updates, bytes);
                until(&dying.port, dying.put(&key, &value), dying.port.now() + INTO).await;

                let port = adopter.port();
                let begin = port.now();
                port.world.borrow_mut().ended.insert(DEAD);
                let report = master.close().await?;
                let closed = port.now();
                blocks.leave(DEAD);
                let (key, value) = record(records, 0, bytes);
                adopter.put(&key, &value).await?;
                Ok(Recovery {
                    closing: closed - begin,
                    blocks: port.now() - closed,
                    changes: report.changes,
                })
            };
            let recovered = recovered.await;
            drop(outcome.replace(recovered));
        }
    });
    let system = plan.system.name();
    if !tasks.run(&ground.world) {
        return Err(RunError::Stuck(system));
    }
    outcome
        .replace(Ok(Recovery::default()))
        .map_err(|error: String| RunError::Failed { system, error })
}

/// Drops something at a time, wherever it is, if it has not ended.
async fn until<T>(port: &Port, something: impl Future<Output = T>, time: Time) {
    let mut something = Box::pin(something);
    let mut end = Box::pin(port.sleep_until(time));
    poll_fn(|context| {
        let is_over = end.as_mut().poll(context).is_ready() || something.as_mut().poll(context).is_ready();
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
