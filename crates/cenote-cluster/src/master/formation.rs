//! A cluster is made: nodes say what they offer, give regions memory, and an empty map is written there.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use cenote_replica::verbs::{Address, Completion, Request, Verb};
use cenote_replica::view::NodeId;

use super::state::{Offer, State};
use super::{Master, Options};
use crate::Refusal;
use crate::network::Network;
use crate::ofi::Transport;
use crate::wire::{Answer, Item, MAPPED, OUTLIVES};

/// The state of a new cluster, of the memory nodes in the options.
pub(super) async fn made(network: &Network, options: &Options) -> Result<State, Refusal> {
    if options.nodes.is_empty() {
        return Err(Refusal::NoCluster);
    }
    let mut nodes = Vec::new();
    for address in &options.nodes {
        nodes.push(offer(network, 0, *address).await?);
    }
    let mut state = State::new(options.shape, &nodes)?;
    state.node_lease_us = options.node_lease.as_micros() as u64;
    Ok(state)
}

/// What a node offers that holds nothing; it is asked for some seconds.
pub(super) async fn offer(network: &Network, node: u32, address: SocketAddr) -> Result<Offer, Refusal> {
    // A number of its own: it has none yet.
    let node = NodeId(node);
    network.set_address(node, address);
    for _ in 0..40 {
        match network.ask(node, &[Item::Info, Item::Fabric]).await.as_deref() {
            Some([_, fabric])
                if matches!(fabric, Answer::Fabric(..)) != (network.transport() == Transport::Ofi) =>
            {
                return Err(Refusal::OtherNetwork { address });
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
                return Err(Refusal::NodeInUse { address });
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(Refusal::NodeUnreachable { address })
}

impl Master {
    /// Gives the nodes their regions, and writes an empty map.
    pub(super) async fn format(&self) -> Result<(), Refusal> {
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
            let layout = state.layout.layout().ok_or(Refusal::Layout)?;
            let label = cenote_replica::index::layout::Label { depth: 0, prefix: 0 };
            let image = cenote_replica::index::candidates::image(layout.segments, label, &[])
                .ok_or(Refusal::Layout)?;
            let entry = 1_u64 << 63 | state.root();
            let entries: Vec<u8> = entry.to_le_bytes().repeat(1 << layout.depth);
            let root = Address::from_bits(state.root()).ok_or(Refusal::Layout)?;
            (image, entries, root, layout.directory)
        };
        for (at, bytes) in [(root, image), (directory, entries)] {
            self.write(at, &bytes).await?;
        }
        Ok(())
    }

    /// Has a node give memory to a region. One that does not answer is asked again for some seconds: it may have much
    /// to prepare.
    async fn have_held(&self, node: u32, region: u16, hold: Item) -> Result<(), Refusal> {
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
            Some(_) => Err(Refusal::NodeFull { node, region }),
            None => Err(Refusal::NodeSilent { node }),
        }
    }

    /// Writes to all copies, as soon as their region is open.
    pub(super) async fn write(&self, at: Address, bytes: &[u8]) -> Result<(), Refusal> {
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
        Err(Refusal::RegionUnwritable { region: at.region() })
    }
}
