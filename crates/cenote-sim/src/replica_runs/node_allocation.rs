//! Memory that nodes allocate, object by object: a change asks a node's core first. What the node would answer is
//! charged; the memory then comes from the client's own blocks. That the node would have to free it as well is not
//! charged.

use super::store::Store;
use crate::rdma::Port;

/// A store whose changes ask a node.
pub struct NodeAllocated<S>(pub S);

impl<S: Store> NodeAllocated<S> {
    async fn ask(&self) {
        let port = self.port();
        port.call(port.next_server(), (64, 64), || ()).await;
    }
}

impl<S: Store> Store for NodeAllocated<S> {
    fn port(&self) -> &Port {
        self.0.port()
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.0.get(key).await
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.ask().await;
        self.0.put(key, value).await
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, String> {
        self.ask().await;
        self.0.insert(key, value).await
    }

    async fn remove(&self, key: &[u8]) -> Result<bool, String> {
        self.ask().await;
        self.0.remove(key).await
    }

    async fn upkeep(&self) -> Result<(), String> {
        self.0.upkeep().await
    }

    fn oldest(&self) -> Option<u64> {
        self.0.oldest()
    }
}
