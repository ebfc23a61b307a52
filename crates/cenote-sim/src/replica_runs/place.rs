//! How stores lie on memory nodes: regions for indexes and regions for data, each with copies of its own number; an
//! empty map; blocks.

use std::cell::RefCell;
use std::collections::BTreeMap;

use cenote_replica::client::{Layout, Session};
use cenote_replica::index::candidates::image;
use cenote_replica::index::layout::{Label, Segments};
use cenote_replica::memory::block::size_of;
use cenote_replica::verbs::Address;
use cenote_replica::view::{Access, Key, NodeId, Region, View};

use super::lock_based::{BUCKET, BUCKETS_PER_RECORD};
use crate::rdma::World;

/// Bytes of a block.
pub const BLOCK: u32 = 1 << 18;
/// Bytes of a region. Those that are not used cost no memory.
pub const REGION: usize = 1 << 29;
/// Regions of each kind for each node: so the backups of one node's are on several others.
const REGIONS_PER_NODE: u32 = 4;
/// Groups of a segment.
const GROUPS: u32 = 85;
/// Keys that a segment has at first, of 2,040 slots.
const KEYS_PER_SEGMENT: u64 = 800;
/// Where in-flight cells begin in a region of the index, after the directory.
const CELLS_AT: u32 = 1 << 17;
/// In-flight cells of a client.
const CELLS: u32 = 8;
/// Where segments or tables begin in a region of the index.
pub const TABLES_AT: u32 = 1 << 20;

/// Where things are.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Memory nodes.
    pub nodes: u32,
    /// Copies of the index.
    pub index_copies: u32,
    /// Copies of objects.
    pub data_copies: u32,
    /// Records that the index has room for at first.
    pub records: u64,
}

impl Place {
    /// Regions of the index, which are the first ones; there are as many of data.
    pub fn regions(&self) -> u16 {
        (self.nodes * REGIONS_PER_NODE) as u16
    }

    /// The view that clients begin with.
    pub fn view(&self) -> View {
        let region = |number: u32, copies: u32| Region {
            nodes: (0..copies)
                .map(|copy| {
                    NodeId(
                        1 + (number + copy * (1 + number / self.nodes % (self.nodes - 1).max(1)))
                            % self.nodes,
                    )
                })
                .collect(),
            key: Key(1),
            access: Access::Open,
        };
        let regions = u32::from(self.regions());
        let index = (0..regions).map(|number| region(number, self.index_copies));
        let data = (0..regions).map(|number| region(number, self.data_copies));
        View {
            number: 1,
            regions: index.chain(data).collect(),
        }
    }

    /// How the map lies.
    pub fn layout(&self) -> Option<Layout> {
        Some(Layout {
            segments: Segments::new(GROUPS)?,
            directory: Address::new(0, 0),
            depth: self.depth(),
            block: BLOCK,
        })
    }

    /// Bits of the prefixes of the first segments.
    fn depth(&self) -> u32 {
        let segments = self.records.div_ceil(KEYS_PER_SEGMENT).next_power_of_two();
        segments.trailing_zeros().clamp(1, 13)
    }

    /// A client's session.
    pub fn session(&self, client: u32) -> Session {
        let regions = u32::from(self.regions());
        Session {
            number: client,
            cells: Address::new((client % regions) as u16, CELLS_AT + client / regions * CELLS * 8),
            count: CELLS,
        }
    }

    /// Writes an empty map. `None` if the layout is none.
    pub fn format(&self, world: &mut World) -> Option<()> {
        let layout = self.layout()?;
        let regions = u64::from(self.regions());
        for prefix in 0..1_u64 << layout.depth {
            let label = Label {
                depth: layout.depth,
                prefix,
            };
            let segment = image(layout.segments, label, &[])?;
            let place = (prefix / regions) as u32 * layout.segments.bytes().next_multiple_of(64);
            let at = Address::new((prefix % regions) as u16, TABLES_AT + place);
            self.write(world, at, &segment)?;
            let word = 1 << 63 | u64::from(layout.depth) << 46 | at.bits();
            self.write(
                world,
                layout.directory.plus(8 * prefix as u32),
                &word.to_le_bytes(),
            )?;
        }
        Some(())
    }

    /// Writes bytes to all copies, before the run.
    fn write(&self, world: &mut World, at: Address, bytes: &[u8]) -> Option<()> {
        let nodes = world.view.region(at.region())?.nodes.clone();
        let from = at.offset() as usize;
        for node in nodes {
            let memory = world.memory_mut(node, at.region())?;
            memory.get_mut(from..from + bytes.len())?.copy_from_slice(bytes);
        }
        Some(())
    }

    /// Blocks of these regions: those for segments in the index's, others in those of data.
    pub fn blocks(&self) -> Blocks {
        let regions = self.regions();
        let segments = self.records.div_ceil(KEYS_PER_SEGMENT).next_power_of_two() as u32;
        let tables = (segments / u32::from(regions) + 1) * (1 << 15);
        let buckets = (BUCKETS_PER_RECORD * self.records.max(1)).div_ceil(u64::from(regions));
        let table = buckets as u32 * BUCKET;
        let first = (TABLES_AT + tables.max(table)).next_multiple_of(BLOCK);
        Blocks {
            segment: self.layout().map(|layout| size_of(layout.segments.bytes())),
            regions,
            next: RefCell::new(
                (0..2 * regions)
                    .map(|region| if region < regions { first } else { BLOCK })
                    .collect(),
            ),
            owners: RefCell::default(),
        }
    }
}

/// Blocks, and whose they are.
pub struct Blocks {
    segment: Option<u32>,
    regions: u16,
    next: RefCell<Vec<u32>>,
    owners: RefCell<BTreeMap<Address, (u32, u32)>>,
}

impl Blocks {
    /// A block for a client's objects of a size; first one of a client that has gone.
    pub fn take(&self, client: u32, size: u32) -> Option<Address> {
        let mut owners = self.owners.borrow_mut();
        if let Some((at, owner)) = owners
            .iter_mut()
            .find(|(_, (owner, of))| *owner == 0 && *of == size)
        {
            owner.0 = client;
            return Some(*at);
        }
        let mut next = self.next.borrow_mut();
        let kind = match self.segment == Some(size) {
            true => 0..self.regions,
            false => self.regions..2 * self.regions,
        };
        let region = kind.min_by_key(|region| next[usize::from(*region)])?;
        let offset = &mut next[usize::from(region)];
        if *offset as usize + BLOCK as usize > REGION {
            return None;
        }
        let at = Address::new(region, *offset);
        *offset += BLOCK;
        owners.insert(at, (client, size));
        Some(at)
    }

    /// A client has gone: others get its blocks.
    pub fn leave(&self, client: u32) {
        for (owner, _) in self.owners.borrow_mut().values_mut() {
            if *owner == client {
                *owner = 0;
            }
        }
    }
}
