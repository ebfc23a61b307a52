//! A cluster is made: nodes say what they offer, give regions memory, and an empty map is written there.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use cenote_replica::verbs::{Address, Completion, Request, Verb};
use cenote_replica::view::NodeId;

use super::state::{Offer, State};
use super::{Master, Options};
use crate::Error;
use crate::network::Network;
use crate::ofi::Transport;
use crate::wire::{Answer, Item, MAPPED, OUTLIVES};

/// The state of a new cluster, of the memory nodes in the options.
pub(super) async fn made(network: &Network, options: &Options) -> Result<State, Error> {
    if options.nodes.is_empty() {
        return Err(Error::Refused(
            "the store knows no cluster: is its name right? For a new cluster, name its memory nodes"
                .to_owned(),
        ));
    }
    let mut nodes = Vec::new();
    for address in &options.nodes {
        nodes.push(offer(network, 0, *address).await?);
    }
    let mut state = State::new(options.shape, &nodes).map_err(|why| Error::Refused(why.to_string()))?;
    state.node_lease_us = options.node_lease.as_micros() as u64;
    Ok(state)
}

/// What a node offers that holds nothing; it is asked for some seconds.
pub(super) async fn offer(network: &Network, node: u32, address: SocketAddr) -> Result<Offer, Error> {
    // A number of its own: it has none yet.
    let node = NodeId(node);
    network.set_address(node, address);
    for _ in 0..40 {
        match network.ask(node, &[Item::Info, Item::Fabric]).await.as_deref() {
            Some([_, fabric])
                if matches!(fabric, Answer::Fabric(..)) != (network.transport() == Transport::Ofi) =>
            {
                return Err(Error::Refused(format!(
                    "verbs go otherwise to the memory node at {address}: give all nodes and the master the same --network"
                )));
            }
            Some([Answer::Info([incarnation, memory, 0, _, memory_is]), _]) => {
                return Ok(Offer {
                    address,
                    memory: *memory,
                    incarnation: *incarnation,
                    outlives: *memory_is == OUTLIVES,
                    mapped: *memory_is == MAPPED,
                });
            }
            Some([Answer::Info(_), _]) => {
                return Err(Error::Refused(format!(
                    "the memory node at {address} holds regions of a cluster: start a new one, without the file of its memory if it has any"
                )));
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(Error::Refused(format!(
        "no memory node answers at {address}: is it running, with the same token, and TLS as here?"
    )))
}

impl Master {
    /// Gives the nodes their regions, and writes an empty map.
    pub(super) async fn format(&self) -> Result<(), Error> {
        let (regions, bytes) = {
            let state = self.state.borrow();
            (state.regions.clone(), state.region_bytes)
        };
        for (number, region) in (0..).zip(&regions) {
            for node in &region.nodes {
                let hold = Item::Hold {
                    region: number,
                    bytes,
                    key: cenote_replica::view::Key(region.key),
                };
                self.have_held(*node, number, hold).await?;
            }
        }
        let (image, entries, root, directory) = {
            let state = self.state.borrow();
            let strange = || Error::Refused("the map cannot lie so".to_owned());
            let layout = state.layout.layout().ok_or_else(strange)?;
            let label = cenote_replica::index::layout::Label { depth: 0, prefix: 0 };
            let image =
                cenote_replica::index::candidates::image(layout.segments, label, &[]).ok_or_else(strange)?;
            let entry = 1_u64 << 63 | state.root();
            let entries: Vec<u8> = entry.to_le_bytes().repeat(1 << layout.depth);
            let root = Address::from_bits(state.root()).ok_or_else(strange)?;
            (image, entries, root, layout.directory)
        };
        for (at, bytes) in [(root, image), (directory, entries)] {
            self.write(at, &bytes).await?;
        }
        Ok(())
    }

    /// Has a node give memory to a region. One that does not answer is asked again for some seconds: it may have much
    /// to prepare.
    async fn have_held(&self, node: u32, region: u16, hold: Item) -> Result<(), Error> {
        let mut answers = None;
        for _ in 0..10 {
            // It may have done so, and the answer have come too late.
            answers = self
                .network
                .ask(NodeId(node), &[Item::Drop { region }, hold.clone()])
                .await;
            if answers.is_some() {
                break;
            }
        }
        match answers.as_deref() {
            Some([Answer::Done, Answer::Done]) => Ok(()),
            Some(_) => Err(Error::Refused(format!(
                "memory node {node} has no memory for region {region}"
            ))),
            None => Err(Error::Refused(format!("memory node {node} does not answer"))),
        }
    }

    /// Writes to all copies, as soon as their region is open.
    pub(super) async fn write(&self, at: Address, bytes: &[u8]) -> Result<(), Error> {
        let bytes: Rc<[u8]> = bytes.into();
        for _ in 0..500 {
            let batch: Vec<Request> = {
                let state = self.state.borrow();
                let region = &state.regions[usize::from(at.region())];
                match region.closed {
                    true => Vec::new(),
                    false => region
                        .nodes
                        .iter()
                        .map(|node| Request {
                            node: NodeId(*node),
                            key: cenote_replica::view::Key(region.key),
                            at,
                            verb: Verb::Write(bytes.clone()),
                        })
                        .collect(),
                }
            };
            if !batch.is_empty() {
                let completions = self.network.post(&batch).await;
                if completions
                    .iter()
                    .all(|completion| *completion == Completion::Written)
                {
                    return Ok(());
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(Error::Refused(format!(
            "region {} cannot be written: its memory nodes do not answer",
            at.region()
        )))
    }
}
