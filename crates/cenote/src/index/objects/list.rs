//! Listing objects.

use std::ops::ControlFlow;

use super::ObjectStore;
use super::layout::{ID_MAX, NAMES, Named, STORAGES, Storage, VIEWED, name_key};
use super::settings::unless_0;
use super::write::{check_id, has_expired};
use crate::error::Result;
use crate::index::ordered::range::Range;
use crate::memory::Memory;
use crate::memory::checked::sync_word;

/// What is known of an object.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ObjectInfo {
    /// Its id.
    pub id: Vec<u8>,
    /// Bytes of its data.
    pub size: u64,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// When its time is over, in milliseconds since 1970; `None` for never.
    pub expires_ms: Option<u64>,
    /// Whether it was ever viewed.
    pub was_viewed: bool,
    /// Its metadata.
    pub metadata: Vec<u8>,
}

impl<M: Memory> ObjectStore<M> {
    /// Calls `each` for the objects whose ids begin with a prefix, in ascending order of their ids, until it breaks. An
    /// object that is there all the time is listed once; one that is sealed or deleted meanwhile may be. Objects whose
    /// time is over are not.
    ///
    /// Cost: that of [`OrderedMap::scan`](crate::OrderedMap::scan), and three misses an object.
    pub fn list(&self, prefix: &[u8], mut each: impl FnMut(ObjectInfo) -> ControlFlow<()>) -> Result<()> {
        let (from, to) = (name_key(prefix), end_of(prefix));
        let mut failed = None;
        let range = Range {
            from: &from,
            to: Some(&to),
        };
        self.map.scan(range, |key, value| {
            let found = Named::decode(self.worker(), value).and_then(|named| {
                let is_over = has_expired(self.mem(), named.expires);
                (!is_over).then(|| self.info(&key[1..], &named)).transpose()
            });
            match found {
                Ok(object) => object.is_none_or(|object| each(object).is_continue()),
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// What is known of the object of an id, without viewing it; `None` if its time is over.
    ///
    /// Cost: that of [`OrderedMap::get`](crate::OrderedMap::get), and three misses.
    pub fn stat(&self, id: &[u8]) -> Result<Option<ObjectInfo>> {
        check_id(id)?;
        let _pin = self.map.pin()?;
        let named = self.find(&name_key(id))?;
        named
            .filter(|named| !has_expired(self.mem(), named.expires))
            .map(|named| self.info(id, &named))
            .transpose()
    }

    /// The caller has found the name under a pin, which keeps the storage in place.
    fn info(&self, id: &[u8], named: &Named) -> Result<ObjectInfo> {
        let storage = Storage::at(self.worker(), named.state)?;
        Ok(ObjectInfo {
            id: id.to_vec(),
            size: named.size,
            created_ms: storage.created,
            expires_ms: unless_0(named.expires),
            was_viewed: sync_word(named.state).load(self.mem()) & VIEWED != 0,
            metadata: storage.metadata(self.mem()),
        })
    }
}

/// The least key behind all names of a prefix.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = name_key(&prefix[..prefix.len().min(ID_MAX)]);
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // The first byte of a name's key is less than 255.
    const { assert!(NAMES < STORAGES) }
    vec![STORAGES]
}
