//! What stands in for libfabric in a program that was built without it: nothing of it can be made.

use std::io;
use std::net::IpAddr;
use std::time::Instant;

use cenote_replica::verbs::{Address, Completion, Verb};
use cenote_replica::view::Key;

use super::Remote;

fn absent<T>() -> io::Result<T> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this program was built without libfabric: build it with the feature `ofi`, which needs libfabric-dev and pkg-config",
    ))
}

/// A node's endpoint.
pub enum Exports {}

impl Exports {
    /// Fails.
    pub fn new(_provider: &str, _host: IpAddr) -> io::Result<Self> {
        absent()
    }

    pub fn address(&self) -> (String, Vec<u8>) {
        match *self {}
    }

    /// # Safety
    ///
    /// It is never called.
    pub unsafe fn open(&self, _memory: *mut u8, _len: usize) -> Option<Registration> {
        match *self {}
    }

    pub async fn serve(&self, _lease: impl Fn() -> Option<Instant>) -> io::Result<()> {
        match *self {}
    }
}

/// Memory that is open.
pub enum Registration {}

impl Registration {
    pub fn remote(&self) -> Remote {
        match *self {}
    }
}

/// A way to a node.
pub enum Link {}

impl Link {
    /// Fails.
    pub async fn new(_provider: &str, _host: IpAddr, _name: &[u8]) -> io::Result<Self> {
        absent()
    }

    pub fn remote(&self, _region: u16, _key: Key) -> Option<Remote> {
        match *self {}
    }

    pub fn learn(&self, _region: u16, _key: Key, _remote: Remote) {
        match *self {}
    }

    pub fn forget(&self, _region: u16, _key: Key) {
        match *self {}
    }

    pub fn post(&self, _remote: Remote, _at: Address, _verb: &Verb) -> Option<Posted> {
        match *self {}
    }

    pub fn begin(&self) {
        match *self {}
    }

    pub async fn drive(&self) -> io::Result<()> {
        match *self {}
    }

    pub fn end(&self) {
        match *self {}
    }
}

/// A verb that has been handed over.
pub enum Posted {}

impl Posted {
    pub async fn completion(self) -> Completion {
        match self {}
    }
}
