//! A store with a metadata server, of Clover's shape (Clover, section 2.1 of the FUSEE paper): the index and the free
//! memory are at a server with a few cores; objects are at memory nodes. A key's objects form a chain: each names its
//! successor, and the last one is the value. Clients remember where they saw a key's object, and follow the chain from
//! there, a round trip for each link, or ask the server for a shortcut.
//!
//! | operation | |
//! |---|---|
//! | get | read the object that is remembered, else ask the server; follow the chain |
//! | put | write the object to its nodes; compare-and-swap the last object's successor; tell the server |
//! | insert | write the object; the server enters it |
//!
//! The swap decides, so a chain has one order, and a client that starts at an older object comes to the newest. The
//! server enters an object only over an older one. **In its favour**: memory is not reclaimed, successors are at one
//! node, nothing is logged, no client or server dies. It does not remove keys, as Clover.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use cenote_replica::verbs::{Address, Completion, Request, Verb, Verbs};
use cenote_replica::view::{Control, NodeId};

use super::place::{BLOCK, Blocks};
use super::store::Store;
use crate::rdma::{MachineId, Port};

/// Bytes before an object's key: its successor.
const HEADER: usize = 8;
/// Marks a successor.
const IS_SUCCESSOR: u64 = 1 << 63;
/// Links that a client follows before it asks the server.
const LINKS_MAX: u32 = 1;
/// Blocks that a client gets at once, each for a few hundred objects.
const REQUEST: usize = 64;

/// An object of a key.
#[derive(Clone, Copy, Debug)]
struct Version {
    at: Address,
    /// How many objects the key had before.
    number: u64,
}

/// What the server has.
#[derive(Default)]
pub struct Directory(RefCell<HashMap<Vec<u8>, Version>>);

impl Directory {
    /// Enters an object, if it is newer.
    fn enter(&self, key: Vec<u8>, version: Version) {
        let mut index = self.0.borrow_mut();
        let entry = index.entry(key).or_insert(version);
        if entry.number < version.number {
            *entry = version;
        }
    }

    /// Enters the first object of a key. Returns the one that it has, if it has.
    fn insert(&self, key: Vec<u8>, at: Address) -> Option<Version> {
        let first = Version { at, number: 0 };
        let mut index = self.0.borrow_mut();
        let entry = *index.entry(key).or_insert(first);
        (entry.at != at).then_some(entry)
    }
}

/// A client.
pub struct Client {
    port: Port,
    server: MachineId,
    directory: Rc<Directory>,
    blocks: Rc<Blocks>,
    /// Bytes of an object.
    object: u32,
    /// Memory that it has: the next object, and how many more.
    free: RefCell<(Option<Address>, u32)>,
    /// Where it saw keys, one for each remainder of a key.
    seen: RefCell<Vec<Option<(u64, Version)>>>,
    entries: usize,
}

impl Client {
    /// A client of the server at a machine, for objects with so many bytes of key and value, that remembers so many.
    pub fn new(
        port: Port,
        (server, directory): (MachineId, Rc<Directory>),
        blocks: Rc<Blocks>,
        bytes: u32,
        entries: usize,
    ) -> Self {
        Self {
            port,
            server,
            directory,
            blocks,
            object: (HEADER as u32 + bytes).next_multiple_of(64),
            free: RefCell::default(),
            seen: RefCell::new(vec![None; entries]),
            entries,
        }
    }

    fn place(&self, key: &[u8]) -> (usize, u64) {
        let word = cenote_replica::index::layout::Hash::of(key).prefix;
        (word as usize % self.entries, word)
    }

    fn remembered(&self, key: &[u8]) -> Option<Version> {
        let (place, word) = self.place(key);
        self.seen.borrow()[place]
            .filter(|(of, _)| *of == word)
            .map(|(_, version)| version)
    }

    fn remember(&self, key: &[u8], version: Version) {
        let (place, word) = self.place(key);
        self.seen.borrow_mut()[place] = Some((word, version));
    }

    /// Asks the server where a key's newest object is, as far as it has heard.
    async fn ask(&self, key: &[u8]) -> Option<Version> {
        let (directory, key) = (Rc::clone(&self.directory), key.to_vec());
        let job = move || directory.0.borrow().get(&key).copied();
        self.port
            .call(self.server, (REQUEST, REQUEST), job)
            .await
            .flatten()
    }

    async fn allocate(&self) -> Result<Address, String> {
        let (next, left) = *self.free.borrow();
        if let Some(at) = next.filter(|_| left > 0) {
            self.free.replace((Some(at.plus(self.object)), left - 1));
            return Ok(at);
        }
        let (blocks, client, size) = (Rc::clone(&self.blocks), self.port.client, self.object);
        let job = move || blocks.take(client, size);
        let block = self
            .port
            .call(self.server, (REQUEST, REQUEST), job)
            .await
            .flatten();
        let at = block.ok_or("the memory nodes are full")?;
        self.free
            .replace((Some(at.plus(self.object)), BLOCK / self.object - 1));
        Ok(at)
    }

    fn nodes(&self, at: Address) -> Vec<NodeId> {
        let view = self.port.view();
        view.region(at.region())
            .map_or(Vec::new(), |region| region.nodes.clone())
    }

    fn request(&self, node: NodeId, at: Address, verb: Verb) -> Request {
        let view = self.port.view();
        let key = view
            .region(at.region())
            .map_or(cenote_replica::view::Key(0), |region| region.key);
        Request { node, key, at, verb }
    }

    /// Writes an object without a successor.
    async fn write(&self, at: Address, key: &[u8], value: &[u8]) -> Result<(), String> {
        let object: Rc<[u8]> = [&[0; HEADER], key, value].concat().into();
        let write = |node| self.request(node, at, Verb::Write(Rc::clone(&object)));
        let batch = self.nodes(at).into_iter().map(write).collect();
        let completions = self.port.post(batch).await;
        match completions.iter().all(|done| *done == Completion::Written) {
            true => Ok(()),
            false => Err("an object was not written".to_owned()),
        }
    }

    async fn at_primary(&self, at: Address, verb: Verb) -> Result<Completion, String> {
        let node = *self.nodes(at).first().ok_or("a region has no node")?;
        let mut completions = self.port.post(vec![self.request(node, at, verb)]).await;
        completions
            .pop()
            .ok_or_else(|| "a verb has no completion".to_owned())
    }

    /// The version that follows one, or the newest that the server knows if the chain may be long.
    async fn next(
        &self,
        key: &[u8],
        version: Version,
        word: u64,
        links: &mut u32,
    ) -> Result<Version, String> {
        let at = Address::from_bits(word & !IS_SUCCESSOR).ok_or("a successor is nowhere")?;
        let next = Version {
            at,
            number: version.number + 1,
        };
        *links += 1;
        if !links.is_multiple_of(LINKS_MAX + 1) {
            return Ok(next);
        }
        let newest = self.ask(key).await;
        Ok(newest
            .filter(|newest| newest.number > next.number)
            .unwrap_or(next))
    }

    /// Appends an object to a chain of which a version is known.
    async fn append(&self, key: &[u8], at: Address, mut last: Version) -> Result<(), String> {
        let mut links = 0;
        loop {
            let new = at.bits() | IS_SUCCESSOR;
            let swap = Verb::CompareSwap { expected: 0, new };
            let Completion::Was(was) = self.at_primary(last.at, swap).await? else {
                return Err("a successor was not swapped".to_owned());
            };
            if was == 0 {
                break;
            }
            last = self.next(key, last, was, &mut links).await?;
        }
        let version = Version {
            at,
            number: last.number + 1,
        };
        let (directory, owned) = (Rc::clone(&self.directory), key.to_vec());
        let job = move || directory.enter(owned, version);
        self.port.call(self.server, (REQUEST, REQUEST), job).await;
        self.remember(key, version);
        Ok(())
    }
}

impl Store for Client {
    fn port(&self) -> &Port {
        &self.port
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let known = match self.remembered(key) {
            Some(known) => Some(known),
            None => self.ask(key).await,
        };
        let Some(mut version) = known else {
            return Ok(None);
        };
        let mut links = 0;
        loop {
            let Completion::Read(object) = self.at_primary(version.at, Verb::Read(self.object)).await? else {
                return Err("an object was not read".to_owned());
            };
            let successor = object.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            if successor == 0 {
                self.remember(key, version);
                return Ok(object.get(HEADER + key.len()..).map(<[u8]>::to_vec));
            }
            version = self.next(key, version, successor, &mut links).await?;
        }
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let at = self.allocate().await?;
        self.write(at, key, value).await?;
        let last = match self.remembered(key) {
            Some(last) => Some(last),
            None => self.ask(key).await,
        };
        let last = match last {
            Some(last) => Some(last),
            None => self.enter(key, at).await,
        };
        match last {
            Some(last) => self.append(key, at, last).await,
            None => Ok(()),
        }
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, String> {
        let at = self.allocate().await?;
        self.write(at, key, value).await?;
        Ok(self.enter(key, at).await.is_none())
    }

    async fn remove(&self, _key: &[u8]) -> Result<bool, String> {
        Err("a store with a metadata server does not remove keys".to_owned())
    }

    async fn upkeep(&self) -> Result<(), String> {
        Ok(())
    }

    fn oldest(&self) -> Option<u64> {
        None
    }
}

impl Client {
    /// Has the server enter a key's first object. Returns the one that the key has, if it has.
    async fn enter(&self, key: &[u8], at: Address) -> Option<Version> {
        let (directory, owned) = (Rc::clone(&self.directory), key.to_vec());
        let job = move || directory.insert(owned, at);
        let known = self
            .port
            .call(self.server, (REQUEST, REQUEST), job)
            .await
            .flatten();
        self.remember(key, known.unwrap_or(Version { at, number: 0 }));
        known
    }
}
