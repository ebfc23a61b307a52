//! Hosts of a pod, as a supervisor that runs workers on them sees them die and come back.

use std::path::Path;

use cenote::pod::host::{HostPhase, HostState};
use cenote::{Coherent, Delegated, Kind, Noncoherent, Pool};

use crate::failure::Failure;
use crate::pool::as_this_host;

/// What is known of one of them.
enum Known {
    /// Nothing yet.
    Nothing,
    /// It was up in this generation.
    Up(u32),
    /// It had died, or was down.
    Down,
    /// What the pool says of it is damaged.
    Unknown,
}

/// What was seen of one of them.
pub enum Seen {
    /// Its generation is over.
    Died {
        /// Which of the `--on` it is.
        node: usize,
        /// Its id.
        host: u32,
    },
    /// It is up again.
    Up {
        /// Which of the `--on` it is.
        node: usize,
        /// Its id.
        host: u32,
    },
    /// Nobody can tell.
    Unknown {
        /// Its id.
        host: u32,
        /// Why.
        why: cenote::Error,
    },
}

/// The hosts that a supervisor runs workers on.
pub struct PodHosts {
    look: Box<dyn Fn(u32) -> cenote::Result<HostState>>,
    hosts: Vec<(u32, Known)>,
}

impl PodHosts {
    /// Opens the pool of their pod. There must be as many as nodes.
    pub fn open(path: &Path, ids: &[u32], nodes: usize) -> Result<Self, Failure> {
        if ids.len() != nodes {
            return Err(Failure::misuse(format!(
                "{} hosts of the pod for {nodes} --on: give --pod-hosts one id for each, in their order",
                ids.len()
            )));
        }
        let options = as_this_host()?;
        let look: Box<dyn Fn(u32) -> cenote::Result<HostState>> = match cenote::kind_of(path)? {
            Kind::Coherent => {
                let pool = Pool::<Coherent>::open(path, &options)?;
                Box::new(move |id| pool.host(id))
            }
            Kind::Noncoherent => {
                let pool = Pool::<Noncoherent>::open(path, &options)?;
                Box::new(move |id| pool.host(id))
            }
            Kind::Delegated => {
                let pool = Pool::<Delegated>::open(path, &options)?;
                Box::new(move |id| pool.host(id))
            }
        };
        for &id in ids {
            look(id)?;
        }
        Ok(Self {
            look,
            hosts: ids.iter().map(|&id| (id, Known::Nothing)).collect(),
        })
    }

    /// Looks at all of them.
    pub fn look(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        for (node, (host, known)) in self.hosts.iter_mut().enumerate() {
            let host = *host;
            let state = match (self.look)(host) {
                Ok(state) => state,
                Err(why) => {
                    if !matches!(std::mem::replace(known, Known::Unknown), Known::Unknown) {
                        seen.push(Seen::Unknown { host, why });
                    }
                    continue;
                }
            };
            // One that is being fenced may write still.
            let is_over = match known {
                Known::Up(generation) => *generation != state.generation || state.phase == HostPhase::Down,
                Known::Nothing => state.phase == HostPhase::Down,
                Known::Down | Known::Unknown => false,
            };
            if is_over {
                seen.push(Seen::Died { node, host });
                *known = Known::Down;
            }
            if state.phase == HostPhase::Up {
                match known {
                    Known::Up(_) => {}
                    Known::Nothing => *known = Known::Up(state.generation),
                    Known::Down | Known::Unknown => {
                        seen.push(Seen::Up { node, host });
                        *known = Known::Up(state.generation);
                    }
                }
            }
        }
        seen
    }
}
