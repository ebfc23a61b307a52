//! The map for users: one call at a time, from one thread.

use std::collections::HashSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cenote_replica::client::{Client, Error as MapError, Replaced, Versioned};
use cenote_replica::object::Identity as Version;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::credentials::Credentials;
use crate::masters::Masters;
use crate::ofi::Transport;
use crate::session::{Batches, Joined, Port, join};
use crate::together::{TOGETHER, together};
use crate::{Error, Unsupported};

/// After so many changes a client frees what it has retired.
const CHANGES_PER_UPKEEP: u32 = 64;
/// So many bytes of a value count as a change.
const BYTES_PER_CHANGE: usize = 1 << 18;
/// For how much longer than the lease of a client that stands still another one waits for the end of what that may
/// still read, before memory counts as full: to give it up takes a closing, and the eras some heartbeats.
const SPARE: Duration = Duration::from_secs(1);
/// The time between two attempts, as long as a heartbeat: eras are told by these.
const WAIT: Duration = Duration::from_millis(20);

/// How a client joins.
#[derive(Clone, Debug)]
pub struct Options {
    /// The masters' addresses.
    pub masters: Masters,
    /// What the client shows.
    pub credentials: Credentials,
    /// What the client says of itself, for people.
    pub name: String,
    /// How long a batch of verbs may take before its outcome counts as unknown.
    pub deadline: Duration,
    /// A folder with files of memory nodes of this machine: their memory is mapped, and this thread executes its verbs
    /// ([`crate::mapped`]). `None`, and other nodes: over TCP.
    pub mapped: Option<PathBuf>,
}

impl Options {
    /// Those for a master, or for several.
    pub fn new(masters: impl Into<Masters>, credentials: impl Into<Credentials>) -> Self {
        Self {
            masters: masters.into(),
            credentials: credentials.into(),
            name: format!("process {}", std::process::id()),
            deadline: Duration::from_millis(500),
            mapped: None,
        }
    }
}

/// A map on memory nodes, as one client has it.
pub struct Map {
    pub(crate) client: Rc<Client<Port>>,
    local: LocalSet,
    runtime: Runtime,
    changes: u32,
    /// How long it waits for memory that others may still read.
    timeout: Duration,
}

impl Map {
    /// Joins a cluster.
    ///
    /// Errors: [`Error::Master`], [`Error::NoLeader`], [`Error::Refused`], [`Error::Unsupported`].
    pub fn open(options: &Options) -> Result<Self, Error> {
        let (runtime, local) = crate::event_loop().map_err(Error::Runtime)?;
        let Joined {
            mut port,
            session,
            layout,
            lease,
        } = join(
            &options.masters,
            &options.credentials,
            &options.name,
            options.deadline,
        )?;
        if let Some(folder) = &options.mapped {
            if port.transport() == Transport::Ofi {
                return Err(Unsupported::MappedOverLibfabric.into());
            }
            port.map_from(folder.clone());
        }
        let strange = || Error::Protocol("it describes a map that cannot be".to_owned());
        let layout = layout.layout().ok_or_else(strange)?;
        let session = session.session().ok_or_else(strange)?;
        Ok(Self {
            client: Rc::new(Client::new(port, layout, session)),
            local,
            runtime,
            changes: 0,
            timeout: lease.saturating_add(SPARE),
        })
    }

    /// The number of this client's session.
    pub fn session(&self) -> u32 {
        self.client.session().number
    }

    /// Whether the session has ended: the master took this client for dead. Open the map again.
    pub fn has_ended(&self) -> bool {
        self.client.net().has_ended()
    }

    pub(crate) fn run<T>(
        &self,
        operation: impl AsyncFnOnce(&Client<Port>) -> Result<T, MapError>,
    ) -> Result<T, Error> {
        self.client.net().begins();
        let outcome = self
            .local
            .block_on(&self.runtime, async { operation(&self.client).await });
        self.client.net().ends();
        Ok(outcome?)
    }

    pub(crate) fn change<T>(
        &mut self,
        value: &[u8],
        operation: impl AsyncFn(&Client<Port>) -> Result<T, MapError>,
    ) -> Result<T, Error> {
        let weight = 1 + value.len() / BYTES_PER_CHANGE;
        self.changes = self
            .changes
            .saturating_add(u32::try_from(weight).unwrap_or(u32::MAX));
        // A removal of a long value, or one that is replaced by a short one, retires many objects.
        let has_retired = self.client.memory().has_retired(CHANGES_PER_UPKEEP as usize);
        if has_retired || self.changes >= CHANGES_PER_UPKEEP {
            self.keep_up()?;
        }
        let mut outcome = self.run(&operation);
        let begun = Instant::now();
        while begun.elapsed() < self.timeout {
            match outcome {
                Err(Error::Map(MapError::Full(_))) => {}
                outcome => return outcome,
            }
            // What was removed is free when all clients have said that they do not read it.
            let is_waiting = self.client.memory().retired() > 0;
            self.upkeep()?;
            outcome = self.run(&operation);
            if !is_waiting {
                break;
            }
            std::thread::sleep(WAIT);
        }
        outcome
    }

    /// Upkeep of a client that goes on.
    fn keep_up(&mut self) -> Result<(), Error> {
        self.changes = 0;
        self.run(async |client| client.upkeep_in_part().await)?;
        Ok(())
    }

    /// Frees all that this client has replaced and removed, if no client reads it any more. Changes do it in parts;
    /// a client that is about to change nothing for long calls this, twice the heartbeats' interval after its last
    /// change: nobody else may free that memory while it lives.
    ///
    /// Cost: as of [`Client::upkeep`].
    pub fn upkeep(&mut self) -> Result<(), Error> {
        self.changes = 0;
        self.run(async |client| client.upkeep().await)?;
        Ok(())
    }

    /// The value of a key.
    ///
    /// Cost: two round trips, and one for each MiB of a value that is longer than a block.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.run(async |client| client.get(key).await)
    }

    /// Binds a key to a value.
    ///
    /// A value may have 1 GiB. Cost: four round trips, one if the key was bound, and one for each MiB of the value
    /// beyond the first.
    ///
    /// Errors: those of [`Client::put`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.change(value, async |client| client.put(key, value).await)
    }

    /// Binds a key to a value if it is bound to none. Returns whether it did.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.change(value, async |client| client.insert(key, value).await)
    }

    /// Binds a key to another value if it is bound. Returns whether it did.
    pub fn replace_existing(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.change(value, async |client| client.update(key, value).await)
    }

    /// Unbinds a key. Returns whether it was bound.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.change(&[], async |client| client.remove(key).await)
    }

    /// The values of keys, in their order.
    ///
    /// Cost: two round trips for each 16 keys.
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let mut values = Vec::with_capacity(keys.len());
        for some in keys.chunks(TOGETHER) {
            let found = self.run(async |client| {
                let each = some.iter().map(|key| client.get(key));
                together(each).await.into_iter().collect::<Result<Vec<_>, _>>()
            })?;
            values.extend(found);
        }
        Ok(values)
    }

    /// Binds keys to values; of a key that is there twice, the later value counts. It is no transaction: if it fails,
    /// some keys may be bound.
    ///
    /// Cost: that of two puts for each 16 keys, as a client has half as many changes in flight.
    pub fn put_many(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), Error> {
        let mut rest = pairs;
        while !rest.is_empty() {
            // What goes on at once has no order: a key must not be in it twice.
            let mut keys = HashSet::new();
            let most = rest.len().min(TOGETHER);
            let len = rest[..most]
                .iter()
                .position(|(key, _)| !keys.insert(*key))
                .unwrap_or(most);
            let (some, later) = rest.split_at(len);
            rest = later;
            self.changes += len as u32;
            if self.changes >= CHANGES_PER_UPKEEP {
                self.keep_up()?;
            }
            let outcomes = self.run(async |client| {
                let each = some.iter().map(|(key, value)| client.put(key, value));
                Ok(together(each).await)
            })?;
            for ((key, value), outcome) in some.iter().zip(outcomes) {
                match outcome {
                    // It tries to find room.
                    Err(MapError::Full(_)) => self.put(key, value)?,
                    outcome => outcome?,
                }
            }
        }
        Ok(())
    }

    /// The value of a key with its version, for [`Map::replace_if`].
    ///
    /// Cost: as [`Map::get`].
    pub fn get_versioned(&self, key: &[u8]) -> Result<Option<Versioned>, Error> {
        self.run(async |client| client.get_versioned(key).await)
    }

    /// Binds a key to a value if nobody has changed it since this version was read (compare-and-swap). Returns its
    /// version from now on, or what it is bound to instead.
    ///
    /// Cost: four round trips, and one if the client has not used the key just now.
    pub fn replace_if(&mut self, key: &[u8], version: Version, value: &[u8]) -> Result<Replaced, Error> {
        self.change(value, async |client| client.replace_if(key, version, value).await)
    }

    /// A read of 8 bytes at a memory node, and nothing else: what a round trip takes.
    pub fn round_trip(&self) -> Result<(), Error> {
        self.run(async |client| client.round_trip().await)
    }

    /// What the batches of this map's client have taken so far: the round trips of its operations, without what its own
    /// processor does between them.
    pub fn batches(&self) -> Batches {
        self.client.net().batches()
    }

    /// Leaves the cluster in order.
    pub fn close(self) {
        // The port leaves when it is dropped.
    }
}
