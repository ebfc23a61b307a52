//! What happens in a run, and how the map lies in it.

use cenote_replica::client::{Layout, Session};
use cenote_replica::index::candidates::{Segment, image};
use cenote_replica::index::layout::{Label, Segments};
use cenote_replica::verbs::Address;
use cenote_replica::view::{Access, Key, NodeId, Region, View};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::network::Shared;

/// What happens in a run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub nodes: u32,
    pub replicas: usize,
    pub regions: u16,
    pub clients: u32,
    pub keys: u64,
    pub operations: u32,
    pub groups: u32,
    /// Values have at most so many bytes and eight.
    pub longest: u64,
    pub client_crashes: u32,
    pub node_crashes: u32,
    pub cuts: u32,
    /// Clients do their upkeep beside operations, too.
    pub upkeep_beside: bool,
    /// Whether clients also replace values on the condition that they have read.
    pub conditional: bool,
    /// Whether they use an ordered map.
    pub ordered: bool,
    /// How often the master dies in a closing, at any of its verbs. Another one begins with later keys and eras.
    pub master_crashes: u32,
    /// Nodes get the keys of a closing one after the other; and clients hear no key of a region that is closed.
    pub keys_apart: bool,
    /// The master notices that a node has crashed some time later.
    pub notices_late: bool,
    /// Regions that have lost a copy get another one.
    pub copies_again: bool,
    /// More delays of the network are long.
    pub unsteady: bool,
    /// Nodes read and write word by word.
    pub by_words: bool,
    /// How many operations each client has at once.
    pub side_by_side: u32,
    pub fault: Option<Fault>,
}

/// What is left out, to prove that it is missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Regions that are closed keep their keys.
    KeysKept,
    /// Regions that are closed are opened with their copies as they are.
    CopiesKept,
    /// Only the regions are closed that a client suspects, or that a crash concerns, though a change's slot
    /// and its log may lie in two.
    OneRegion,
    /// Memory that was retired is used again at once.
    NoEras,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            nodes: 3,
            replicas: 2,
            regions: 3,
            clients: 4,
            keys: 3,
            operations: 12,
            groups: 2,
            longest: 200,
            client_crashes: 0,
            node_crashes: 0,
            cuts: 0,
            upkeep_beside: false,
            conditional: false,
            ordered: false,
            master_crashes: 0,
            keys_apart: false,
            notices_late: false,
            copies_again: false,
            unsteady: false,
            by_words: false,
            side_by_side: 1,
            fault: None,
        }
    }
}

impl Plan {
    /// A plan that a seed chooses.
    pub fn by_chance(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(!seed);
        let mut one_of = |values: &[u64]| values[random.random_range(0..values.len())];
        let replicas = one_of(&[1, 2, 2, 2, 3, 3, 4]) as u32;
        let longest = one_of(&[100, 100, 100, 100, 7_000]);
        // Long values need the room.
        let regions = if longest > 100 {
            5
        } else {
            one_of(&[1, 2, 3, 3, 5]) as u16
        };
        Plan {
            nodes: replicas + one_of(&[0, 1, 2]) as u32,
            replicas: replicas as usize,
            clients: one_of(&[2, 3, 4, 6, 8]) as u32,
            keys: one_of(&[1, 2, 3, 3, 6, 20, 60]),
            operations: one_of(&[6, 12, 12, 25, 40]) as u32,
            longest,
            regions,
            client_crashes: one_of(&[0, 1, 2]) as u32,
            node_crashes: one_of(&[0, 1, 2]).min(u64::from(replicas) - 1) as u32,
            cuts: one_of(&[0, 1, 2]) as u32,
            upkeep_beside: one_of(&[0, 1]) == 0,
            conditional: one_of(&[0, 1]) == 0,
            master_crashes: one_of(&[0, 1, 2, 3]) as u32,
            keys_apart: true,
            notices_late: one_of(&[0, 1]) == 0,
            copies_again: one_of(&[0, 1]) == 0,
            unsteady: one_of(&[0, 1]) == 0,
            side_by_side: one_of(&[1, 1, 2, 3]) as u32,
            ..Plan::default()
        }
    }
}

pub const BLOCK: u32 = 1 << 11;
pub const REGION: u32 = 1 << 20;
pub const CELLS: u32 = 4;

pub fn layout(plan: &Plan) -> Layout {
    Layout {
        segments: Segments::new(plan.groups).unwrap(),
        directory: Address::new(0, BLOCK),
        depth: 2,
        block: BLOCK,
    }
}

pub fn view(plan: &Plan) -> View {
    let node = |n: u32| NodeId(1 + n % plan.nodes);
    let region = |number: u16| Region {
        nodes: (0..plan.replicas as u32)
            .map(|copy| node(u32::from(number) + copy))
            .collect(),
        key: Key(1),
        access: Access::Open,
    };
    View {
        number: 1,
        regions: (0..plan.regions).map(region).collect(),
    }
}

/// Where the first segment is, before the cells of clients.
pub const ROOT: u32 = 2 * BLOCK;
/// Where blocks begin in each region.
pub const OBJECTS: u32 = 4 * BLOCK;

pub fn session(client: u32) -> Session {
    Session {
        number: client,
        cells: Address::new(0, 3 * BLOCK + client * 64),
        count: CELLS,
    }
}

/// Writes an empty map.
pub fn format(world: &Shared, plan: &Plan) {
    let mut world = world.borrow_mut();
    let label = Label { depth: 0, prefix: 0 };
    let layout = layout(plan);
    let segment = image(layout.segments, label, &[]).unwrap();
    let entry = 1_u64 << 63
        | Segment {
            at: Address::new(0, ROOT),
            label,
        }
        .at
        .bits();
    for node in world.view.regions[0].nodes.clone() {
        let memory = world.memory_mut(node, 0).unwrap();
        memory[ROOT as usize..ROOT as usize + segment.len()].copy_from_slice(&segment);
        for n in 0..1 << layout.depth {
            let at = layout.directory.offset() as usize + 8 * n;
            memory[at..at + 8].copy_from_slice(&entry.to_le_bytes());
        }
    }
}
