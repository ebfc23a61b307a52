//! Schedules in which verbs of clients are held back, and the primary of the index dies.
//!
//! Here is what they share.

pub mod blocks;
mod places;
pub mod twins;
pub mod unheard;

use std::rc::Rc;

use cenote_replica::client::Client;
use cenote_replica::memory::block::HEADER;
use cenote_replica::object::{OUTCOME_AT, OUTCOME_BYTES};
use cenote_replica::slot::value::Slot;
use cenote_replica::verbs::{GRANULE, Request, Verb, Verbs};
use cenote_replica::view::NodeId;

use crate::master::Master;
use crate::network::{Holds, Port, Shared};
use crate::plan::{BLOCK, OBJECTS, Plan, ROOT};
use crate::run::join;

pub const PRIMARY: NodeId = NodeId(1);
pub const BACKUP: NodeId = NodeId(2);

/// What a slot of the segment holds at a node.
pub fn slot(world: &Shared, node: NodeId, offset: u32) -> Slot {
    let world = world.borrow();
    let from = (ROOT + offset) as usize;
    let bytes = world.memory(node, 0).unwrap()[from..from + 8].try_into();
    Slot(u64::from_le_bytes(bytes.unwrap()))
}

pub fn is_object(slot: Slot) -> bool {
    !slot.is_vacant()
}

/// Whether a request changes a slot.
pub fn swaps(request: &Request) -> bool {
    let is_index = request.at.region() == 0 && request.at.offset() < OBJECTS;
    matches!(request.verb, Verb::CompareSwap { .. }) && is_index
}

/// Whether a request writes a log, or a part of one.
pub fn logs(request: &Request) -> bool {
    let at = u64::from(request.at.offset()) % u64::from(GRANULE);
    match &request.verb {
        Verb::Write(bytes) => bytes.len() == OUTCOME_BYTES || bytes.len() == OUTCOME_BYTES - 8,
        Verb::CompareSwap { .. } => !swaps(request) && at == u64::from(OUTCOME_AT) + OUTCOME_BYTES as u64 - 8,
        _ => false,
    }
}

/// Whether a request marks an object as free.
pub fn marks(request: &Request) -> bool {
    let is_in_block = request.at.region() > 0 || request.at.offset() >= OBJECTS;
    let is_behind_header = request.at.offset() % BLOCK >= HEADER;
    matches!(&request.verb, Verb::Write(bytes) if bytes.len() == 8) && is_in_block && is_behind_header
}

/// Waits until something is so.
pub async fn until(port: &Port, is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        port.pause(0).await;
    }
    panic!("it is never so");
}

pub fn hold(world: &Shared, holds: impl Fn(u32, &Request) -> bool + 'static) {
    world.borrow_mut().holds = Some(Box::new(holds) as Holds);
}

pub type Clients = [Rc<Client<Port>>; 3];

pub fn three(world: &Shared, plan: &Plan) -> Clients {
    [1, 2, 3].map(|number| join(world, plan, number))
}

/// Ends what is held back, and closes what a client suspects, until nobody waits any more.
pub async fn go_on(port: &Port, master: &mut Master) {
    for _ in 0..1_000 {
        port.pause(0).await;
        master.close_suspect_regions();
        if master.is_asked() {
            master.close().await.unwrap();
        }
    }
}
