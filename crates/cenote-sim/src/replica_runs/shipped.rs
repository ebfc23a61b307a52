//! The client of `cenote-replica`.

use cenote_replica::client::Client;
use cenote_replica::verbs::Verbs;
use cenote_replica::view::Control;

use super::store::Store;
use crate::rdma::Port;

/// A client, on the network or on something in front of it.
pub struct Shipped<N> {
    /// The client.
    pub client: Client<N>,
    /// Its place on the network.
    pub port: Port,
}

impl<N: Verbs + Control> Store for Shipped<N> {
    fn port(&self) -> &Port {
        &self.port
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.client.get(key).await.map_err(|error| error.to_string())
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.client
            .put(key, value)
            .await
            .map_err(|error| error.to_string())
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, String> {
        self.client
            .insert(key, value)
            .await
            .map_err(|error| error.to_string())
    }

    async fn remove(&self, key: &[u8]) -> Result<bool, String> {
        self.client.remove(key).await.map_err(|error| error.to_string())
    }

    async fn upkeep(&self) -> Result<(), String> {
        let taken = self.client.upkeep_in_part().await;
        taken.map(drop).map_err(|error| error.to_string())
    }

    fn oldest(&self) -> Option<u64> {
        Some(self.client.oldest())
    }
}
