//! A store in a map of a [pool](cenote), for a master on one machine: one that is killed at any instruction has stored
//! a decision or has not, and its successor goes on from there. The pool's recoverable mutex says who leads, and a word
//! of the map counts those who did.

use std::path::{Path, PathBuf};

use cenote::locks::Guard;
use cenote::{Coherent, Map, Mutex, Pool};

use crate::StoreError;
use crate::master::state::State;

const MAP: &str = "cluster";
const KEY: &[u8] = b"state";
const TERM: &[u8] = b"term";
const LEADER: &str = "leader";

/// A store that lasts as long as its pool.
pub struct Store {
    map: Map<Coherent>,
    leader: Mutex<Coherent>,
    path: PathBuf,
}

fn failed(path: &Path) -> impl Fn(cenote::Error) -> StoreError {
    |source| StoreError::Pool {
        path: path.to_owned(),
        source,
    }
}

fn damaged(path: &Path, why: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("{}: {why}", path.display()))
}

impl Store {
    /// Opens a store, or makes one.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let pool =
            Pool::<Coherent>::open_or_create(path, &cenote::Options::default()).map_err(failed(path))?;
        Ok(Self {
            map: pool.map(MAP).map_err(failed(path))?,
            leader: pool.mutex(LEADER).map_err(failed(path))?,
            path: path.to_owned(),
        })
    }

    /// Leads from now on, until the guard is dropped or this thread dies.
    pub fn lead(&self) -> Result<Guard<'_, Coherent, cenote::locks::Mutex<Coherent>>, StoreError> {
        let leads = self.leader.try_lock().map_err(failed(&self.path))?;
        leads.ok_or_else(|| StoreError::AnotherLeads {
            path: self.path.clone(),
        })
    }

    /// Counts another leader: who leads calls it once. Returns its number.
    pub fn next_term(&self) -> Result<u64, StoreError> {
        let last = self.map.get_copied(TERM).map_err(failed(&self.path))?;
        let last = match last.as_deref() {
            None => 0,
            Some(bytes) => bytes
                .try_into()
                .map(u64::from_le_bytes)
                .map_err(|_| damaged(&self.path, "the number of the last term is damaged"))?,
        };
        self.map
            .put(TERM, &(last + 1).to_le_bytes())
            .map_err(failed(&self.path))?;
        Ok(last + 1)
    }

    /// What is kept; `None` before there is a cluster.
    pub fn load(&self) -> Result<Option<State>, StoreError> {
        let kept = self.map.get_copied(KEY).map_err(failed(&self.path))?;
        kept.map(|bytes| serde_json::from_slice(&bytes).map_err(|error| damaged(&self.path, error)))
            .transpose()
    }

    /// Keeps a state. It is kept when this returns.
    pub fn save(&self, state: &State) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec(state).map_err(|error| damaged(&self.path, error))?;
        self.map.put(KEY, &bytes).map_err(failed(&self.path))?;
        Ok(())
    }
}
