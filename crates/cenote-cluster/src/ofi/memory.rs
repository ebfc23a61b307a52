//! The regions of a memory node, open over libfabric to who has their keys.
//!
//! A region is open while it is registered: under a registration's key, which the node tells who shows the region's key
//! of the view. It is closed, and opened under another one, when the region gets another key; closed when the node's
//! lease ends, and opened when it has one again. What comes with an old key is refused by the library, or the card.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::endpoint::{Endpoint, Registration};

/// The longest sleep: a lease may end at any time.
const LONGEST: Duration = Duration::from_millis(20);

/// A node's endpoint.
pub struct Exports {
    endpoint: Endpoint,
    provider: String,
    name: Vec<u8>,
}

impl Exports {
    /// An endpoint at an address of this machine.
    pub fn new(provider: &str, host: IpAddr) -> io::Result<Self> {
        let endpoint = Endpoint::serve(provider, &host.to_string())?;
        Ok(Self {
            name: endpoint.name()?,
            endpoint,
            provider: provider.to_owned(),
        })
    }

    /// The provider's name, and the endpoint's address.
    pub fn address(&self) -> (String, Vec<u8>) {
        (self.provider.clone(), self.name.clone())
    }

    /// Opens memory, under a key that nobody can guess. `None`, and a message, if that cannot be.
    ///
    /// # Safety
    ///
    /// That of [`Endpoint::register`].
    pub unsafe fn open(&self, memory: *mut u8, len: usize) -> Option<Registration> {
        // Hashes of nothing, under keys that come from the system's random numbers.
        let wanted = RandomState::new().build_hasher().finish();
        // SAFETY: the caller's promise.
        match unsafe { self.endpoint.register(memory, len, wanted) } {
            Ok(registration) => Some(registration),
            Err(error) => {
                eprintln!("cenote memnode: {error}");
                None
            }
        }
    }

    /// Executes what comes, as long as this future is polled. `lease` closes all if the node has no lease, and says
    /// until when it has one.
    pub async fn serve(&self, lease: impl Fn() -> Option<Instant>) -> io::Result<()> {
        let readable = self.endpoint.readable()?;
        loop {
            let until = lease();
            // A node begins nothing itself: what ends here are refusals that it has sent.
            while self.endpoint.poll()?.is_some() {}
            if !self.endpoint.may_wait() {
                tokio::task::yield_now().await;
                continue;
            }
            let longest = Instant::now() + LONGEST;
            let until = until.map_or(longest, |until| until.min(longest));
            if let Ok(ready) = tokio::time::timeout_at(until.into(), readable.readable()).await {
                ready?.clear_ready();
            }
        }
    }
}
