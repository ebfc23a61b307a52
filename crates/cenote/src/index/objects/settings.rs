//! What a store was created with.

use super::layout::SETTINGS;
use crate::error::{Error, Result};
use crate::index::ordered::OrderedMap;
use crate::memory::Memory;

/// What an object store is created with. All processes that open it go by that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ObjectSettings {
    /// Whether objects are evicted when there is no room for a new one: those that were not viewed lately, the oldest
    /// first (SIEVE). Objects that are viewed at the moment stay.
    pub evict: bool,
    /// The most bytes that its objects may occupy, with what surrounds them; `None`, or 0, for as many as the pool
    /// has.
    pub quota: Option<u64>,
    /// The time to live of objects that say none themselves, in milliseconds; `None`, or 0, for ever.
    pub ttl_ms: Option<u64>,
}

impl ObjectSettings {
    /// Objects are evicted when the pool is full.
    pub fn cache() -> Self {
        Self {
            evict: true,
            ..Self::default()
        }
    }

    fn encode(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        let words = [
            u64::from(self.evict),
            self.quota.unwrap_or(0),
            self.ttl_ms.unwrap_or(0),
        ];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        match words {
            [evict, quota, ttl_ms] => Ok(Self {
                evict: u64::from_le_bytes(*evict) != 0,
                quota: unless_0(u64::from_le_bytes(*quota)),
                ttl_ms: unless_0(u64::from_le_bytes(*ttl_ms)),
            }),
            _ => Err(Error::corrupt(
                "an object store's settings of bytes",
                bytes.len() as u64,
            )),
        }
    }
}

/// A figure that the store keeps as 0 where there is none.
pub(super) fn unless_0(figure: u64) -> Option<u64> {
    (figure != 0).then_some(figure)
}

/// The settings of a store. `None` if its creator has not written them yet, or died before that.
pub(super) fn found<M: Memory>(map: &OrderedMap<M>) -> Result<Option<ObjectSettings>> {
    let bytes = map.get_copied(SETTINGS)?;
    bytes.map(|bytes| ObjectSettings::decode(&bytes)).transpose()
}

/// The same; makes these if there are none.
pub(super) fn found_or_made<M: Memory>(
    map: &OrderedMap<M>,
    settings: &ObjectSettings,
) -> Result<ObjectSettings> {
    match map.insert(SETTINGS, &settings.encode())? {
        true => ObjectSettings::decode(&settings.encode()),
        false => Ok(found(map)?.unwrap_or_default()),
    }
}
