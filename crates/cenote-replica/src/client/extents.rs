//! Values that are longer than a block: their parts lie in [extents](crate::object::Extent), which the object that the
//! index names, the *head*, has a table of.
//!
//! A change writes all extents before it goes on to the slot: the last batch of them goes out along with the head. So a
//! client that sees the head finds the extents whole. They carry the head's identity. The client that takes the head
//! out of the index retires them with it, so they stay as long as an operation may have its address. After a crash
//! nobody has to know of extents but who takes over their block ([`adopt`](super::adopt)): they belong to an object of
//! the index if a slot of their key names their head, and the head has their identity.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use super::pending::Pending;
use super::{Client, Error, Step, all_written, bytes_read, read, writes};
use crate::memory::block::{class_of, largest};
use crate::mutant::{self, Mutant};
use crate::object::{EXTENT_HEADER, Extent, Identity, Kind, Table, bytes_of};
use crate::verbs::{Address, GRANULE, Request, Verbs};
use crate::view::{Control, View};

/// Blocks whose extents are read or written in one batch: they have to arrive within the network's deadline.
const BATCH: u32 = 4;

/// The value of a change that is too long for one object.
pub(super) struct Long<'a> {
    value: &'a [u8],
    table: Table,
    /// How many extents are written at all nodes.
    written: Cell<u32>,
}

impl Long<'_> {
    /// What the head has in the place of the value.
    pub fn table(&self) -> Vec<u8> {
        self.table.encode()
    }

    /// Where the extents are.
    pub fn extents(&self) -> &[Address] {
        &self.table.extents
    }

    /// How many extents there are.
    fn count(&self) -> u32 {
        self.table.extents.len() as u32
    }
}

impl<N: Verbs + Control> Client<N> {
    /// Bytes of a value that an extent has room for.
    fn part(&self) -> u32 {
        largest(self.layout.block).saturating_sub(EXTENT_HEADER)
    }

    /// Whether an object has room for a key with this value.
    fn is_short(&self, key: usize, value: usize) -> bool {
        bytes_of(key, value).is_some_and(|bytes| bytes <= largest(self.layout.block))
    }

    /// Why a record cannot be.
    pub(super) fn too_long(&self, key: usize, value: usize) -> Error {
        let room =
            u64::from(largest(self.layout.block)).saturating_sub(u64::from(EXTENT_HEADER) + key as u64);
        Error::TooLong {
            key,
            value,
            block: self.layout.block,
            longest: Table::longest(self.part(), room),
        }
    }

    /// Bytes of the object of a change, and memory for extents, if the value needs some. No more memory is taken if
    /// there is none left for all of them.
    pub(super) async fn room<'a>(
        &self,
        kind: Kind,
        key: &[u8],
        value: &'a [u8],
    ) -> Result<(u32, Option<Long<'a>>), Error> {
        let too_long = self.too_long(key.len(), value.len());
        if self.is_short(key.len(), value.len()) {
            return Ok((bytes_of(key.len(), value.len()).ok_or(too_long)?, None));
        }
        let len = value.len() as u64;
        let count = Table::count(len, self.part()).ok_or(too_long)?;
        let table = usize::try_from(Table::bytes(count)).map_err(|_| too_long)?;
        if !self.is_short(key.len(), table) {
            return Err(too_long);
        }
        let bytes = bytes_of(key.len(), table).ok_or(too_long)?;
        let mut table = Table {
            len,
            extents: Vec::with_capacity(count as usize),
        };
        for number in 0..count {
            let part = table.part(number, self.part()) + EXTENT_HEADER;
            match self.allocate(kind, part, too_long).await {
                Ok(at) => table.extents.push(at),
                Err(error) => {
                    self.give_back(&table.extents);
                    return Err(error);
                }
            }
        }
        let long = Long {
            value,
            table,
            written: Cell::new(0),
        };
        Ok((bytes, Some(long)))
    }

    /// Gives back memory that nobody has seen.
    pub(super) fn give_back(&self, extents: &[Address]) {
        let mut heap = self.heap.borrow_mut();
        extents.iter().for_each(|at| heap.give_back(*at));
    }

    /// Writes the extents of a change that are not written yet, but for the last batch; returns the requests of that,
    /// to go out with the head.
    ///
    /// Cost: a round trip for each batch.
    pub(super) async fn write_extents(&self, view: &View, pending: &Pending<'_>) -> Step<Vec<Request>> {
        let Some(long) = &pending.long else {
            return Ok(Vec::new());
        };
        loop {
            let begin = long.written.get();
            let end = long.count().min(begin + BATCH);
            let batch = self.extents(view, pending, long, begin..end)?;
            if end == long.count() {
                return Ok(batch);
            }
            let completions = self.net.post(batch.clone()).await;
            all_written(&batch, &completions)?;
            self.wrote_extents(pending, end);
        }
    }

    /// The planted fault: writes what should have been written before the slot.
    pub(super) async fn write_extents_late(&self, pending: &Pending<'_>) -> Result<(), Error> {
        self.under_views(async |view| {
            let batch = self.write_extents(view, pending).await?;
            let completions = self.net.post(batch.clone()).await;
            Ok(all_written(&batch, &completions)?)
        })
        .await?;
        self.wrote_all_extents(pending);
        Ok(())
    }

    /// So many extents of a change are written at all nodes.
    fn wrote_extents(&self, pending: &Pending<'_>, count: u32) {
        if let Some(long) = &pending.long {
            let mut heap = self.heap.borrow_mut();
            let begin = long.written.replace(count);
            for at in &long.table.extents[begin as usize..count as usize] {
                heap.written(*at);
            }
        }
    }

    /// All extents of a change are written at all nodes.
    pub(super) fn wrote_all_extents(&self, pending: &Pending<'_>) {
        if let Some(long) = &pending.long {
            self.wrote_extents(pending, long.count());
        }
    }

    /// The requests that write some extents of a change.
    fn extents(
        &self,
        view: &View,
        pending: &Pending<'_>,
        long: &Long<'_>,
        numbers: Range<u32>,
    ) -> Step<Vec<Request>> {
        let mut batch = Vec::new();
        for number in numbers {
            let begin = number as usize * self.part() as usize;
            let len = long.table.part(number, self.part()) as usize;
            let extent = Extent {
                identity: pending.identity,
                number,
                head: pending.at,
                hash: pending.hash,
                part: &long.value[begin..begin + len],
            };
            let at = long.table.extents[number as usize];
            batch.extend(writes(view, at, &Rc::from(extent.encode()))?);
        }
        Ok(batch)
    }

    /// The table of a head's value.
    pub(super) fn table(&self, at: Address, value: &[u8]) -> Step<Table> {
        let damaged = Error::Damaged {
            what: "the table of a long value",
            at: at.bits(),
        };
        Ok(Table::decode(value, self.part()).ok_or(damaged)?)
    }

    /// Puts the value of a head together, by an operation that has seen the head in the index.
    ///
    /// Cost: a round trip for each batch of extents.
    pub(super) async fn gather(&self, view: &View, identity: Identity, table: &Table) -> Step<Vec<u8>> {
        let too_much = Error::Memory(table.len);
        let mut value = Vec::new();
        let len = usize::try_from(table.len).map_err(|_| too_much)?;
        value.try_reserve_exact(len).map_err(|_| too_much)?;
        let numbers: Vec<(u32, Address)> = (0..).zip(table.extents.iter().copied()).collect();
        for numbers in numbers.chunks(BATCH as usize) {
            let mut batch = Vec::with_capacity(numbers.len());
            for (number, at) in numbers {
                let bytes = EXTENT_HEADER + table.part(*number, self.part());
                batch.push(read(view, *at, bytes.next_multiple_of(GRANULE))?);
            }
            let completions = self.net.post(batch.clone()).await;
            for ((number, at), (request, completion)) in numbers.iter().zip(batch.iter().zip(&completions)) {
                let bytes = bytes_read(request, Some(completion))?;
                let damaged = Error::Damaged {
                    what: "a part of a long value",
                    at: at.bits(),
                };
                let is_part = |extent: &Extent<'_>| {
                    let len = table.part(*number, self.part()) as usize;
                    extent.identity == identity && extent.number == *number && extent.part.len() == len
                };
                let extent = Extent::decode(bytes).filter(is_part).ok_or(damaged)?;
                value.extend_from_slice(extent.part);
            }
        }
        Ok(value)
    }

    /// Keeps extents until nobody can have their addresses: with their head, and not after it, as they are freed in the
    /// order in which they were retired.
    pub(super) fn retire_extents(&self, extents: &[Address], identity: Identity) {
        if mutant::is(Mutant::ExtentsKept) {
            return;
        }
        let mut eras = self.net.eras();
        if mutant::is(Mutant::ExtentsFreedAtOnce) {
            eras.now = 0;
        }
        let mut heap = self.heap.borrow_mut();
        for at in extents {
            heap.retire(*at, identity, eras);
        }
    }

    /// Whether the index has the head of an extent of a block whose client has gone.
    ///
    /// Cost: a round trip, and another if a slot names the head.
    pub(super) async fn is_extent_shown(&self, view: &View, extent: &Extent<'_>) -> Step<bool> {
        if mutant::is(Mutant::ExtentsTaken) {
            return Ok(false);
        }
        let (candidates, _) = self.read_candidates(view, &extent.hash, &[]).await?;
        let is_named = (candidates.alike(extent.hash.fingerprint)).any(|(_, at, _)| at == extent.head);
        if !is_named {
            return Ok(false);
        }
        // Its memory may have been used again since.
        let request = read(view, extent.head, 8)?;
        let completions = self.net.post(vec![request.clone()]).await;
        let word = bytes_read(&request, completions.first())?;
        Ok(word == extent.identity.0.to_le_bytes())
    }

    /// The size of objects of so many bytes.
    pub(super) fn class(&self, bytes: u32, too_long: Error) -> Result<u32, Error> {
        class_of(bytes, self.layout.block).ok_or(too_long)
    }
}
