//! A lock service: a directory at work, and the addresses at which it listens.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::address::Address;
use super::channel;
use super::client::LockClient;
use super::clock::micros;
use super::connect;
use super::hub::DirectoryThread;
use super::inspect::Status;
use super::link::ConnectError;
use super::listener::Listener;
use crate::sync::directory::messages::Directory;
use crate::sync::directory::messages::directory::Limits;

/// How long a process waits for a lock service's status.
const ASKING: Duration = Duration::from_secs(10);
/// Shortest and longest lease.
const LEASES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(3600)];

/// What a lock service is bounded by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceOptions {
    /// After so long the service declares a node dead of which it hears nothing: 0.1 s to 1 h, and longer than what the
    /// network needs for a lock's data. 10 s if nothing is said.
    pub lease: Duration,
    /// The most locks that it keeps; 65,536 if nothing is said. A lock stays until the service ends.
    pub max_locks: usize,
    /// The most bytes that all regions of its locks may have; 1 GiB if nothing is said.
    pub max_bytes: usize,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            max_locks: 1 << 16,
            max_bytes: 1 << 30,
        }
    }
}

/// A lock service: it answers for locks, and keeps their data while no node has it. Locks and data end with it.
///
/// It takes one thread, one for each address, and two for each connection. It keeps the data of its locks, and a few
/// MiB at most for each connection.
pub struct LockService {
    listeners: Mutex<Vec<Listener>>,
    /// Ends after the listeners.
    directory: DirectoryThread,
}

impl LockService {
    /// Starts a service that listens nowhere yet.
    ///
    /// Errors: [`ConnectError::Lease`], [`ConnectError::Io`] if the system gives no thread.
    pub fn start(options: &ServiceOptions) -> Result<Self, ConnectError> {
        let [shortest, longest] = LEASES;
        if options.lease < shortest || options.lease > longest {
            return Err(ConnectError::Lease(options.lease));
        }
        let directory = Directory::new(Limits {
            lease: micros(options.lease),
            locks: options.max_locks,
            bytes: options.max_bytes,
        });
        Ok(Self {
            listeners: Mutex::default(),
            directory: DirectoryThread::start(directory)?,
        })
    }

    /// Listens at an address, and returns it with the port that it has got. A Unix socket that an earlier service of
    /// this user has left is replaced; this user alone may connect to the new one.
    ///
    /// Who may connect may take every lock, and keep it.
    ///
    /// Errors: [`ConnectError::Unavailable`], [`ConnectError::Io`].
    pub fn listen(&self, address: &Address) -> Result<Address, ConnectError> {
        let listener = Listener::start(address, self.directory.hub())?;
        let actual = listener.address().clone();
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.push(listener);
        Ok(actual)
    }

    /// A node in this process, without a socket.
    ///
    /// Errors: [`ConnectError::TooManyNodes`], [`ConnectError::Io`].
    pub fn client(&self, label: &str) -> Result<LockClient, ConnectError> {
        let link = channel::connect(&self.directory.hub(), label)?;
        Ok(LockClient::over(link)?)
    }

    /// Its nodes and its locks.
    ///
    /// Errors: [`ConnectError::Cut`] if it has ended.
    pub fn status(&self) -> Result<Status, ConnectError> {
        self.directory.hub().status().ok_or(ConnectError::Cut)
    }
}

/// Nodes and locks of the service that listens at an address. Takes no node's number. Waits for 10 s at most.
///
/// Errors: [`ConnectError`].
pub fn status(address: &Address) -> Result<Status, ConnectError> {
    connect::status(address, ASKING)
}
