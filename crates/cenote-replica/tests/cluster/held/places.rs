//! Keys that want one slot.

use cenote_replica::index::candidates::image;
use cenote_replica::index::layout::{Hash, Label};
use cenote_replica::slot::value::Slot;
use cenote_replica::verbs::Address;

use crate::plan::{Plan, layout};

/// Two keys and slots: the other key has the slot that the key would have in an empty map; and the key then has a slot
/// behind that.
pub struct Places {
    pub key: Vec<u8>,
    pub other: Vec<u8>,
    /// The slot that both keys have in an empty map.
    pub before: u32,
    /// The one that the key has beside the other one.
    pub behind: u32,
}

pub fn places(plan: &Plan) -> Places {
    let segments = layout(plan).segments;
    let slot = |key: &[u8], n: u32| {
        let hash = Hash::of(key);
        (hash, Slot::object(Address::new(1, 64 * n), hash.fingerprint, 64))
    };
    let place = |content: &[(Hash, Slot)]| {
        let bytes = image(segments, Label { depth: 0, prefix: 0 }, content).unwrap();
        let (_, last) = content.last().unwrap();
        let is_last = |n: &u32| bytes[*n as usize..][..8] == last.0.to_le_bytes();
        (0..segments.slots())
            .map(|n| segments.slot_at(n))
            .find(is_last)
            .unwrap()
    };
    for n in 0..1_000_u32 {
        let (key, other) = (format!("key {n}").into_bytes(), format!("other {n}").into_bytes());
        let before = place(&[slot(&key, 1)]);
        let behind = place(&[slot(&other, 2), slot(&key, 1)]);
        if place(&[slot(&other, 2)]) == before && behind > before {
            return Places {
                key,
                other,
                before,
                behind,
            };
        }
    }
    unreachable!("one of eight keys or so")
}
