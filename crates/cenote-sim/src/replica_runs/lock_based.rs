//! A store that locks in remote memory, of pDPM-Direct's shape (section 6.1 of the FUSEE paper): a table of buckets at
//! memory nodes, each with a lock word and seven slots; records are changed in place, at all their nodes, by the client
//! that has the bucket's lock. A client that does not get the lock tries again at once.
//!
//! | round trip | get | put |
//! |---|---|---|
//! | 1, and more while others have it | lock | lock |
//! | 2 | the slots, and the record that is remembered | the slots |
//! | 3 | | the record, at all nodes |
//! | last | unlock | unlock |
//!
//! Reads lock, as a record is changed in place and the paper says of reads, too, that locks bound them (section 6.3).
//! They need not if a record is read at once and has a checksum: [`System::Locks`](super::System::Locks). **In its
//! favour**: no client dies with a lock, nothing is logged, memory is not reclaimed.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use cenote_replica::index::layout::Hash;
use cenote_replica::verbs::{Address, Completion, Request, Verb, Verbs};
use cenote_replica::view::{Control, Key, NodeId};

use super::place::{BLOCK, TABLES_AT};
use super::store::Store;
use crate::rdma::Port;

/// Bytes of a bucket: its lock and its slots.
pub const BUCKET: u32 = 64;
/// So many for each record that is loaded: a bucket overflows only with luck that nobody has, and few keys share a
/// lock.
pub const BUCKETS_PER_RECORD: u64 = 8;
/// Marks a slot that has a record.
const IS_RECORD: u64 = 1 << 63;

/// A client.
pub struct Client {
    port: Port,
    /// Buckets, which lie in the first so many regions in turn.
    buckets: u64,
    regions: u64,
    /// Bytes of a record.
    record: u32,
    /// Whether a read locks.
    reads_lock: bool,
    /// Locks at most.
    locks: u64,
    free: Cell<(Option<Address>, u32)>,
    /// Where it saw records.
    seen: RefCell<HashMap<Vec<u8>, Address>>,
}

/// A bucket's slots as they were read.
type Slots = Vec<u64>;

impl Client {
    /// A client of a table for so many records, of so many bytes of key and value, in so many regions; whether reads
    /// lock, and how many locks there are at most.
    pub fn new(port: Port, records: u64, regions: u16, bytes: u32, (reads_lock, locks): (bool, u64)) -> Self {
        let regions = u64::from(regions);
        Self {
            port,
            buckets: (BUCKETS_PER_RECORD * records.max(1)).div_ceil(regions) * regions,
            regions,
            record: (8 + bytes).next_multiple_of(64),
            reads_lock,
            locks,
            free: Cell::new((None, 0)),
            seen: RefCell::default(),
        }
    }

    fn bucket(&self, key: &[u8]) -> Address {
        self.bucket_at(Hash::of(key).prefix % self.buckets)
    }

    /// The bucket whose lock is that of a key.
    fn lock_of(&self, key: &[u8]) -> Address {
        self.bucket_at(Hash::of(key).prefix % self.buckets % self.locks)
    }

    fn bucket_at(&self, number: u64) -> Address {
        let place = (number / self.regions) as u32 * BUCKET;
        Address::new((number % self.regions) as u16, TABLES_AT + place)
    }

    fn at(&self, at: Address, verb: &Verb, copies: usize) -> Vec<Request> {
        let view = self.port.view();
        let region = view.region(at.region());
        let (nodes, key) = region.map_or((&[] as &[NodeId], Key(0)), |region| (&region.nodes, region.key));
        let request = |node: &NodeId| Request {
            node: *node,
            key,
            at,
            verb: verb.clone(),
        };
        nodes.iter().take(copies).map(request).collect()
    }

    async fn lock(&self, bucket: Address) -> Result<(), String> {
        let swap = Verb::CompareSwap {
            expected: 0,
            new: u64::from(self.port.client),
        };
        loop {
            let completions = self.port.post(self.at(bucket, &swap, 1)).await;
            match completions.first() {
                Some(Completion::Was(0)) => return Ok(()),
                Some(Completion::Was(_)) => {}
                _ => return Err("a lock was not swapped".to_owned()),
            }
        }
    }

    async fn unlock(&self, bucket: Address) -> Result<(), String> {
        let free = Verb::Write(Rc::from([0; 8]));
        self.write(self.at(bucket, &free, 1)).await
    }

    async fn write(&self, batch: Vec<Request>) -> Result<(), String> {
        let completions = self.port.post(batch).await;
        match completions.iter().all(|done| *done == Completion::Written) {
            true => Ok(()),
            false => Err("bytes were not written".to_owned()),
        }
    }

    async fn read(&self, batch: Vec<Request>) -> Result<Vec<Vec<u8>>, String> {
        let bytes = |completion| match completion {
            Completion::Read(bytes) => Ok(bytes),
            _ => Err("bytes were not read".to_owned()),
        };
        self.port.post(batch).await.into_iter().map(bytes).collect()
    }

    /// Reads a bucket's slots, and the record of a key, if it has one: with its place.
    async fn find(
        &self,
        bucket: Address,
        key: &[u8],
        is_value_wanted: bool,
    ) -> Result<(Slots, Option<(Address, Vec<u8>)>), String> {
        let known = self.seen.borrow().get(key).copied();
        let mut batch = self.at(bucket, &Verb::Read(BUCKET), 1);
        if let Some(at) = known.filter(|_| is_value_wanted) {
            batch.extend(self.at(at, &Verb::Read(self.record), 1));
        }
        let mut read = self.read(batch).await?.into_iter();
        let words = read.next().unwrap_or_default();
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let slots: Slots = words.chunks_exact(8).skip(1).map(word).collect();
        if let Some(at) = known.filter(|at| slots.contains(&(at.bits() | IS_RECORD))) {
            return Ok((slots, Some((at, read.next().unwrap_or_default()))));
        }
        let records: Vec<Address> = (slots.iter().filter(|slot| **slot != 0))
            .filter_map(|slot| Address::from_bits(slot & !IS_RECORD))
            .collect();
        let reads = records
            .iter()
            .flat_map(|at| self.at(*at, &Verb::Read(self.record), 1));
        let read = match records.is_empty() {
            true => Vec::new(),
            false => self.read(reads.collect()).await?,
        };
        let found = records
            .into_iter()
            .zip(read)
            .find(|(_, record)| record.get(8..8 + key.len()) == Some(key));
        if let Some((at, _)) = &found {
            self.seen.borrow_mut().insert(key.to_vec(), *at);
        }
        Ok((slots, found))
    }

    async fn write_record(&self, at: Address, key: &[u8], value: &[u8]) -> Result<(), String> {
        let record: Rc<[u8]> = [&(value.len() as u64).to_le_bytes(), key, value].concat().into();
        self.write(self.at(at, &Verb::Write(record), usize::MAX)).await
    }

    async fn allocate(&self) -> Result<Address, String> {
        let (next, left) = self.free.get();
        if let Some(at) = next.filter(|_| left > 0) {
            self.free.set((Some(at.plus(self.record)), left - 1));
            return Ok(at);
        }
        let block = self
            .port
            .block(self.record)
            .await
            .map_err(|error| error.to_string())?;
        let at = block.ok_or("the memory nodes are full")?;
        self.free
            .set((Some(at.plus(self.record)), BLOCK / self.record - 1));
        Ok(at)
    }

    /// Writes a new record, and a bucket's slot for it.
    async fn bind(&self, bucket: Address, slots: &Slots, key: &[u8], value: &[u8]) -> Result<(), String> {
        let at = self.allocate().await?;
        self.write_record(at, key, value).await?;
        let vacant = slots
            .iter()
            .position(|slot| *slot == 0)
            .ok_or("a bucket is full")?;
        self.set(bucket, vacant, at.bits() | IS_RECORD).await?;
        self.seen.borrow_mut().insert(key.to_vec(), at);
        Ok(())
    }

    async fn set(&self, bucket: Address, slot: usize, word: u64) -> Result<(), String> {
        let verb = Verb::Write(Rc::from(word.to_le_bytes()));
        self.write(self.at(bucket.plus(8 + 8 * slot as u32), &verb, usize::MAX))
            .await
    }
}

fn value_of(record: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let len = u64::from_le_bytes(*record.first_chunk()?) as usize;
    let from = 8 + key.len();
    record.get(from..from + len).map(<[u8]>::to_vec)
}

impl Store for Client {
    fn port(&self) -> &Port {
        &self.port
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let bucket = self.bucket(key);
        if self.reads_lock {
            self.lock(self.lock_of(key)).await?;
        }
        let (_, found) = self.find(bucket, key, true).await?;
        if self.reads_lock {
            self.unlock(self.lock_of(key)).await?;
        }
        Ok(found.and_then(|(_, record)| value_of(&record, key)))
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let bucket = self.bucket(key);
        self.lock(self.lock_of(key)).await?;
        match self.find(bucket, key, false).await? {
            (_, Some((at, _))) => self.write_record(at, key, value).await?,
            (slots, None) => self.bind(bucket, &slots, key, value).await?,
        }
        self.unlock(self.lock_of(key)).await
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, String> {
        let bucket = self.bucket(key);
        self.lock(self.lock_of(key)).await?;
        let (slots, found) = self.find(bucket, key, false).await?;
        if found.is_none() {
            self.bind(bucket, &slots, key, value).await?;
        }
        self.unlock(self.lock_of(key)).await?;
        Ok(found.is_none())
    }

    async fn remove(&self, key: &[u8]) -> Result<bool, String> {
        let bucket = self.bucket(key);
        self.lock(self.lock_of(key)).await?;
        let (slots, found) = self.find(bucket, key, false).await?;
        if let Some((at, _)) = &found {
            let of = |slot: &u64| *slot == at.bits() | IS_RECORD;
            let slot = slots.iter().position(of).ok_or("a record has no slot")?;
            self.set(bucket, slot, 0).await?;
        }
        self.unlock(self.lock_of(key)).await?;
        Ok(found.is_some())
    }

    async fn upkeep(&self) -> Result<(), String> {
        Ok(())
    }

    fn oldest(&self) -> Option<u64> {
        None
    }
}
