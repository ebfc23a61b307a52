//! What a pool says of the hosts of its pod, for programs that run something on them.

use super::pool::Pool;
use crate::causes::HostError;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::format::host_entry::{HostRecord, HostState};

impl<M: Memory> Pool<M> {
    /// What the pool says of a host. When its generation has changed, or it is down, nothing that ran there before can
    /// write any more.
    ///
    /// Cost: one round trip. Errors: no such host ([`HostError::NoRoom`]), a damaged entry.
    pub fn host(&self, id: u32) -> Result<HostState> {
        let geometry = self.pod().geometry();
        if id >= geometry.parameters.hosts {
            return Err(Error::Host {
                host: id,
                source: HostError::NoRoom,
            });
        }
        HostRecord::new(geometry, id).read(self.pod().mem())
    }
}
