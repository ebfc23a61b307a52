//! What all stores that are compared can do. An error ends the run.

use crate::rdma::Port;

/// One client of a store.
pub trait Store {
    /// Its place on the network.
    fn port(&self) -> &Port;

    /// The value of a key.
    fn get(&self, key: &[u8]) -> impl Future<Output = Result<Option<Vec<u8>>, String>>;

    /// Binds a key to a value, whatever it was bound to.
    fn put(&self, key: &[u8], value: &[u8]) -> impl Future<Output = Result<(), String>>;

    /// Binds a key to a value if it is bound to none. Returns whether it did.
    fn insert(&self, key: &[u8], value: &[u8]) -> impl Future<Output = Result<bool, String>>;

    /// Unbinds a key. Returns whether it was bound.
    fn remove(&self, key: &[u8]) -> impl Future<Output = Result<bool, String>>;

    /// What it does after some changes.
    fn upkeep(&self) -> impl Future<Output = Result<(), String>>;

    /// The era of its oldest operation; none if it knows no eras.
    fn oldest(&self) -> Option<u64>;
}
