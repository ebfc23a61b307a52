//! Hosts of a pod, whose deaths and returns a supervisor that runs workers on them watches.

use std::path::Path;

use cenote::hosts::{HostPhase, HostStatus};
use cenote::{Coherent, Delegated, MemoryKind, Noncoherent, Pool};

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
}

/// One of them.
struct Host {
    id: u32,
    /// What was known last.
    known: Known,
    /// Whether what the pool says of it is damaged.
    is_unknown: bool,
}

impl Host {
    fn new(id: u32) -> Self {
        Self {
            id,
            known: Known::Nothing,
            is_unknown: false,
        }
    }
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
    /// Its state cannot be told.
    Unknown {
        /// Its id.
        host: u32,
        /// Why.
        why: cenote::Error,
    },
}

/// The hosts that a supervisor runs workers on.
pub struct PodHosts {
    read_state: Box<dyn Fn(u32) -> cenote::Result<HostStatus>>,
    hosts: Vec<Host>,
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
        let read_state: Box<dyn Fn(u32) -> cenote::Result<HostStatus>> = match cenote::kind_of(path)? {
            MemoryKind::Coherent => {
                let pool = Pool::<Coherent>::open(path, &options)?;
                Box::new(move |id| pool.host(id))
            }
            MemoryKind::Noncoherent => {
                let pool = Pool::<Noncoherent>::open(path, &options)?;
                Box::new(move |id| pool.host(id))
            }
            MemoryKind::Delegated => {
                let pool = Pool::<Delegated>::open(path, &options)?;
                Box::new(move |id| pool.host(id))
            }
        };
        for &id in ids {
            read_state(id)?;
        }
        Ok(Self {
            read_state,
            hosts: ids.iter().copied().map(Host::new).collect(),
        })
    }

    /// Polls all of them.
    pub fn poll(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        for (node, of) in self.hosts.iter_mut().enumerate() {
            let (host, known) = (of.id, &mut of.known);
            let state = match (self.read_state)(host) {
                Ok(state) => state,
                Err(why) => {
                    if !std::mem::replace(&mut of.is_unknown, true) {
                        seen.push(Seen::Unknown { host, why });
                    }
                    continue;
                }
            };
            of.is_unknown = false;
            // A host that is being fenced may write still.
            let is_over = match known {
                Known::Up(generation) => *generation != state.generation || state.phase == HostPhase::Down,
                Known::Nothing => state.phase == HostPhase::Down,
                Known::Down => false,
            };
            if is_over {
                seen.push(Seen::Died { node, host });
                *known = Known::Down;
            }
            if state.phase == HostPhase::Up {
                match known {
                    Known::Up(_) => {}
                    Known::Nothing => *known = Known::Up(state.generation),
                    Known::Down => {
                        seen.push(Seen::Up { node, host });
                        *known = Known::Up(state.generation);
                    }
                }
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_death_while_nobody_could_tell_is_seen_after_that() {
        let says = Rc::new(Cell::new(Some((HostPhase::Up, 4))));
        let theirs = says.clone();
        let read_state = move |_| match theirs.get() {
            Some((phase, generation)) => Ok(HostStatus {
                phase,
                generation,
                has_agent: false,
            }),
            None => Err(cenote::Error::Forked),
        };
        let mut hosts = PodHosts {
            read_state: Box::new(read_state),
            hosts: vec![Host::new(7)],
        };
        let mut sees = |now| {
            says.set(now);
            hosts.poll()
        };
        assert!(sees(says.get()).is_empty());
        for _ in 0..2 {
            assert!(matches!(sees(None)[..], [Seen::Unknown { host: 7, .. }]));
            assert!(sees(None).is_empty());
            assert!(sees(Some((HostPhase::Up, 4))).is_empty());
        }
        sees(None);
        assert!(matches!(
            sees(Some((HostPhase::Down, 4)))[..],
            [Seen::Died { node: 0, host: 7 }]
        ));
        assert!(matches!(sees(Some((HostPhase::Up, 5)))[..], [Seen::Up { .. }]));
        sees(None);
        assert!(matches!(
            sees(Some((HostPhase::Up, 6)))[..],
            [Seen::Died { .. }, Seen::Up { .. }]
        ));
    }
}
