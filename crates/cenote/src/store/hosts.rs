//! What a pool says of the hosts of its pod, for programs that run something on them.

use super::pool::Pool;
use crate::causes::HostError;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::format::host_entry::{HostPhase, HostRecord};

/// What a pool says of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct HostStatus {
    /// The phase of its present generation.
    pub phase: HostPhase,
    /// Its present generation. One that was before is over.
    pub generation: u32,
    /// Whether a process is its agent.
    pub has_agent: bool,
}

impl<M: Memory> Pool<M> {
    /// What the pool says of a host. When its generation has changed, or it is down, nothing that ran there before can
    /// write any more.
    ///
    /// Cost: one round trip. Errors: no such host ([`HostError::NoRoom`]), a damaged entry.
    pub fn host(&self, id: u32) -> Result<HostStatus> {
        let geometry = self.pod().geometry();
        if id >= geometry.parameters.hosts {
            return Err(Error::Host {
                host: id,
                source: HostError::NoRoom,
            });
        }
        let state = HostRecord::new(geometry, id).read(self.pod().mem())?;
        Ok(HostStatus {
            phase: state.phase,
            generation: state.generation,
            has_agent: state.agent != 0,
        })
    }
}
