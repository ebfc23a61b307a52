//! The map for users: one call at a time, from one thread.

use std::time::Duration;

use cenote_replica::client::{Client, Error as MapError};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::Error;
use crate::credentials::Credentials;
use crate::masters::Masters;
use crate::session::{Joined, Port, join};

/// After so many changes a client frees what it has retired.
const CHANGES_PER_UPKEEP: u32 = 256;

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
}

impl Options {
    /// Those for a master, or for several.
    pub fn new(masters: impl Into<Masters>, credentials: impl Into<Credentials>) -> Self {
        Self {
            masters: masters.into(),
            credentials: credentials.into(),
            name: format!("process {}", std::process::id()),
            deadline: Duration::from_millis(500),
        }
    }
}

/// A map on memory nodes, as one client has it.
pub struct Map {
    client: Client<Port>,
    local: LocalSet,
    runtime: Runtime,
    changes: u32,
}

impl Map {
    /// Joins a cluster.
    ///
    /// Errors: [`Error::Master`], [`Error::NoLeader`], [`Error::Refused`].
    pub fn open(options: &Options) -> Result<Self, Error> {
        let (runtime, local) = crate::event_loop().map_err(Error::Runtime)?;
        let Joined {
            port,
            session,
            layout,
        } = join(
            &options.masters,
            &options.credentials,
            &options.name,
            options.deadline,
        )?;
        let strange = || Error::Refused("it describes a map that cannot be".to_owned());
        let layout = layout.layout().ok_or_else(strange)?;
        let session = session.session().ok_or_else(strange)?;
        Ok(Self {
            client: Client::new(port, layout, session),
            local,
            runtime,
            changes: 0,
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

    fn run<T>(&self, operation: impl AsyncFnOnce(&Client<Port>) -> Result<T, MapError>) -> Result<T, Error> {
        self.client.net().begins();
        let outcome = self
            .local
            .block_on(&self.runtime, async { operation(&self.client).await });
        self.client.net().ends();
        Ok(outcome?)
    }

    fn change<T>(
        &mut self,
        operation: impl AsyncFn(&Client<Port>) -> Result<T, MapError>,
    ) -> Result<T, Error> {
        self.changes += 1;
        if self.changes >= CHANGES_PER_UPKEEP {
            self.upkeep()?;
        }
        match self.run(&operation) {
            Err(Error::Map(MapError::Full(_))) => {
                // What was removed is free when all clients have said that they do not read it.
                self.upkeep()?;
                self.run(&operation)
            }
            outcome => outcome,
        }
    }

    fn upkeep(&mut self) -> Result<(), Error> {
        self.changes = 0;
        self.run(async |client| client.upkeep().await)?;
        Ok(())
    }

    /// The value of a key.
    ///
    /// Cost: two round trips.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.run(async |client| client.get(key).await)
    }

    /// Binds a key to a value.
    ///
    /// Cost: four round trips, and one if the key was bound.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.change(async |client| client.put(key, value).await)
    }

    /// Binds a key to a value if it is bound to none. Returns whether it did.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.change(async |client| client.insert(key, value).await)
    }

    /// Binds a key to another value if it is bound. Returns whether it did.
    pub fn update(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.change(async |client| client.update(key, value).await)
    }

    /// Unbinds a key. Returns whether it was bound.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.change(async |client| client.remove(key).await)
    }

    /// A read of 8 bytes at a memory node, and nothing else: what a round trip takes.
    pub fn round_trip(&self) -> Result<(), Error> {
        self.run(async |client| client.round_trip().await)
    }

    /// Leaves the cluster in order.
    pub fn close(self) {
        // The port leaves when it is dropped.
    }
}
