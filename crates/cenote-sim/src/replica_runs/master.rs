//! The master's part after a death: it closes regions, has the shipped code make their copies equal, and opens them.
//! Its state is in memory.

use std::cell::Cell;
use std::collections::BTreeSet;

use cenote_replica::client::Layout;
use cenote_replica::master::equalise::{Equalise, Report};
use cenote_replica::view::{Access, Control, Key, NodeId, View};

use super::place::Place;
use crate::rdma::world::machine;
use crate::rdma::{MILLISECOND, Port, Time};

/// From a death to the master's verdict: two heartbeats that do not come.
pub const NOTICE: Time = 40 * MILLISECOND;

/// The master.
pub struct Master {
    port: Port,
    place: Place,
    layout: Layout,
    clients: u32,
    key: u64,
}

impl Master {
    /// One of clients 1 to so many. `None` if the layout is none.
    pub fn new(port: Port, place: Place, clients: u32) -> Option<Self> {
        Some(Self {
            port,
            place,
            layout: place.layout()?,
            clients,
            key: 1,
        })
    }

    /// Kills a node at a time, and closes and opens all regions when its death is known.
    pub async fn after_death(&mut self, node: NodeId, at: Time) -> Result<(), String> {
        self.port.sleep_until(at).await;
        self.port.world.borrow_mut().machines[machine(node)].is_up = false;
        self.port.sleep_until(at + NOTICE).await;
        self.close().await.map(drop)
    }

    /// Closes all regions, makes their copies equal, and opens them, without the nodes that are down.
    pub async fn close(&mut self) -> Result<Report, String> {
        self.tell_nodes().await;
        self.key += 1;
        let mut view: View = (*self.port.view()).clone();
        view.number += 1;
        {
            let mut world = self.port.world.borrow_mut();
            for (number, region) in view.regions.iter_mut().enumerate() {
                region.nodes.retain(|node| world.machines[machine(*node)].is_up);
                (region.key, region.access) = (Key(self.key), Access::Closed);
                for node in &region.nodes {
                    let regions = &mut world.machines[machine(*node)].regions;
                    if let Some(Some(held)) = regions.get_mut(number) {
                        held.0 = Key(self.key);
                    }
                }
            }
            // What a backup holds that has become the first, no other copy may have yet: nobody is to read it.
            let mut told = view.clone();
            told.regions.iter_mut().for_each(|region| region.key = Key(0));
            world.set_view(told);
        }
        let (key, nonces) = (self.key, Cell::new(0_u64));
        let nonce = || {
            nonces.set(nonces.get() + 1);
            ((1 << 24) - 1) << 34 | key << 16 | nonces.get()
        };
        let sessions: Vec<_> = (1..=self.clients)
            .map(|client| self.place.session(client))
            .collect();
        let equalise = Equalise {
            layout: self.layout,
            view: &view,
            sessions: &sessions,
            verbs: &self.port,
            nonce: &nonce,
        };
        let report = equalise.run().await.map_err(|error| error.to_string())?;
        view.number += 1;
        view.regions
            .iter_mut()
            .for_each(|region| region.access = Access::Open);
        self.port.world.borrow_mut().set_view(view);
        Ok(report)
    }

    /// What it costs to tell the nodes the new keys, one node after another. The keys change when all have been told.
    async fn tell_nodes(&self) {
        let view = self.port.view();
        let nodes: BTreeSet<usize> = view
            .regions
            .iter()
            .flat_map(|region| &region.nodes)
            .map(|node| machine(*node))
            .collect();
        for node in nodes {
            let is_up = self.port.world.borrow().machines[node].is_up;
            if is_up {
                self.port.call(node, (64, 64), || ()).await;
            }
        }
    }
}
