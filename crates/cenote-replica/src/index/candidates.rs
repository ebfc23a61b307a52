//! What a client has seen of a key's words.

use super::layout::{CHOICE, Hash, Label, SLOTS, SUCCESSOR_AT, Segments, successor};
use crate::slot::snapshot::Interrupted;
use crate::slot::value::{Content, Slot};
use crate::verbs::{Address, Completion, Request, Verb};
use crate::view::{NodeId, Region};

/// A segment, as a directory names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its first byte.
    pub at: Address,
    /// Its prefix.
    pub label: Label,
}

/// A slot that a key may use, and what was in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Where.
    pub at: Address,
    /// What.
    pub slot: Slot,
}

/// The words that a key may use, read from one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidates {
    /// The segment that they were looked for in.
    pub segment: Segment,
    /// What its label is.
    pub label: Option<Label>,
    /// Its first part, if it is split.
    pub part: Option<Address>,
    /// The slots: of each choice, those of the main bucket and the overflow bucket. In the order of their addresses.
    pub slots: Vec<Seen>,
}

/// Requests that [`Candidates::of`] needs the completions of.
pub const REQUESTS: usize = 3;

/// The requests that read a key's candidates from a node.
pub fn requests(
    segments: Segments,
    segment: Segment,
    hash: &Hash,
    node: NodeId,
    region: &Region,
) -> [Request; REQUESTS] {
    let read = |offset: u32, bytes: u32| Request {
        node,
        key: region.key,
        at: segment.at.plus(offset),
        verb: Verb::Read(bytes),
    };
    let [one, other] = segments.choices(hash);
    [read(0, 2 * SUCCESSOR_AT), read(one, CHOICE), read(other, CHOICE)]
}

impl Candidates {
    /// What the first completions of a batch say, whose first requests were [`requests`].
    pub fn of(
        segments: Segments,
        segment: Segment,
        hash: &Hash,
        completions: &[Completion],
    ) -> Result<Self, Interrupted> {
        let interrupted = Interrupted {
            region: segment.at.region(),
        };
        let bytes = |place: usize, len: u32| match completions.get(place) {
            Some(Completion::Read(bytes)) if bytes.len() == len as usize => Ok(bytes.as_slice()),
            _ => Err(interrupted),
        };
        let header = bytes(0, 2 * SUCCESSOR_AT)?;
        let (label, part) = header.split_at(SUCCESSOR_AT as usize);
        let mut slots = Vec::with_capacity(2 * SLOTS);
        for (place, offset) in segments.choices(hash).into_iter().enumerate() {
            let words = bytes(place + 1, CHOICE)?.chunks_exact(8).map(word);
            let places = (0..).map(|n| segment.at.plus(offset + 8 * n));
            slots.extend(places.zip(words).map(|(at, word)| Seen { at, slot: Slot(word) }));
        }
        slots.sort_by_key(|seen| seen.at);
        Ok(Self {
            segment,
            label: Label::of(word(label)),
            part: successor(word(part)),
            slots,
        })
    }

    /// Whether the memory is the segment that it was taken for.
    pub fn is_there(&self) -> bool {
        self.label == Some(self.segment.label)
    }

    /// Whether some of the words never change any more.
    pub fn is_sealed(&self) -> bool {
        self.part.is_some() || self.slots.iter().any(|seen| seen.slot.is_sealed())
    }

    /// Slots whose objects may have the key, with where they are and how long, if the slot says so.
    pub fn alike(&self, fingerprint: u8) -> impl Iterator<Item = (Seen, Address, Option<u32>)> {
        self.slots
            .iter()
            .filter_map(move |seen| match seen.slot.content() {
                Content::Object {
                    at,
                    fingerprint: of,
                    len,
                } if of == fingerprint => Some((*seen, at, len)),
                _ => None,
            })
    }

    /// The vacant slot that a new key should have: in the choice with more vacant ones, in its main bucket before the
    /// overflow bucket. All who see the same choose the same. `None` if there is none.
    pub fn vacant(&self, segments: Segments, hash: &Hash) -> Option<Seen> {
        let choices = segments.choices(hash).map(|offset| {
            let begin = self.segment.at.plus(offset);
            let inside = self
                .slots
                .iter()
                .filter(move |seen| (begin..begin.plus(CHOICE)).contains(&seen.at));
            inside
                .filter(|seen| seen.slot.is_vacant())
                .copied()
                .collect::<Vec<_>>()
        });
        let [one, other] = choices;
        let chosen = if one.len() >= other.len() { one } else { other };
        let is_overflow = |seen: &Seen| segments.is_overflow(seen.at.offset() - self.segment.at.offset());
        chosen.into_iter().min_by_key(|seen| (is_overflow(seen), seen.at))
    }
}

/// The word of 8 bytes.
fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// A new segment's bytes: those of the slots that its label covers, each with its key's hash. The sibling is 0. `None`
/// if they do not fit.
pub fn image(segments: Segments, label: Label, content: &[(Hash, Slot)]) -> Option<Vec<u8>> {
    let mut bytes = vec![0; segments.bytes() as usize];
    bytes[..8].copy_from_slice(&label.word().to_le_bytes());
    let at = Address::new(0, 0);
    for (hash, slot) in content.iter().filter(|(hash, _)| label.covers(hash)) {
        let offsets = segments
            .choices(hash)
            .into_iter()
            .flat_map(|begin| (0..SLOTS as u32).map(move |n| begin + 8 * n));
        let seen = |offset: u32| Seen {
            at: at.plus(offset),
            slot: Slot(word(&bytes[offset as usize..offset as usize + 8])),
        };
        let mut slots: Vec<Seen> = offsets.map(seen).collect();
        slots.sort_by_key(|seen| seen.at);
        let candidates = Candidates {
            segment: Segment { at, label },
            label: Some(label),
            part: None,
            slots,
        };
        let place = candidates.vacant(segments, hash)?.at.offset() as usize;
        bytes[place..place + 8].copy_from_slice(&slot.unsealed().0.to_le_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Candidates, Seen, Segment, image, requests};
    use crate::index::layout::{Hash, Label, Segments, successor_word};
    use crate::slot::value::Slot;
    use crate::verbs::{Address, Completion, Verb};
    use crate::view::{Access, Key, NodeId, Region};

    const LABEL: Label = Label { depth: 0, prefix: 0 };

    fn read(segments: Segments, bytes: &[u8], hash: &Hash) -> Candidates {
        let segment = Segment {
            at: Address::new(1, 4_096),
            label: LABEL,
        };
        let region = Region {
            nodes: vec![NodeId(1)],
            key: Key(1),
            access: Access::Open,
        };
        let read = |request: crate::verbs::Request| {
            let Verb::Read(len) = request.verb else {
                panic!("only reads")
            };
            let from = (request.at.offset() - 4_096) as usize;
            Completion::Read(bytes[from..from + len as usize].to_vec())
        };
        let completions: Vec<Completion> = requests(segments, segment, hash, NodeId(1), &region)
            .map(read)
            .into();
        Candidates::of(segments, segment, hash, &completions).unwrap()
    }

    #[test]
    fn an_image_has_each_key_where_it_is_looked_for() {
        let segments = Segments::new(5).unwrap();
        let mut content = Vec::new();
        for key in 0..90_u64 {
            let hash = Hash::of(&key.to_le_bytes());
            let slot = Slot::object(Address::new(2, 64 * key as u32), hash.fingerprint, 100);
            content.push((hash, slot.sealed()));
            let bytes = image(segments, LABEL, &content).unwrap();
            assert_eq!(bytes.len(), segments.bytes() as usize);
            for (hash, slot) in &content {
                let seen = read(segments, &bytes, hash);
                assert!(seen.is_there() && !seen.is_sealed());
                let alike = seen
                    .alike(hash.fingerprint)
                    .filter(|(seen, ..)| seen.slot == slot.unsealed());
                assert_eq!(alike.count(), 1);
            }
        }
        // 120 slots do not hold 121 keys, and nothing is lost without a word.
        let all: Vec<_> = (0..121_u64)
            .map(|key| (Hash::of(&key.to_le_bytes()), Slot::vacant(1)))
            .collect();
        let full: Vec<_> = all
            .iter()
            .map(|(hash, _)| (*hash, Slot::object(Address::new(2, 0), 1, 64)))
            .collect();
        assert!(image(segments, LABEL, &full).is_none());
    }

    #[test]
    fn parts_and_seals_are_seen() {
        let segments = Segments::new(2).unwrap();
        let hash = Hash::of(b"key");
        let mut bytes = image(segments, LABEL, &[]).unwrap();
        let vacant = read(segments, &bytes, &hash).vacant(segments, &hash).unwrap();
        assert_eq!(vacant.slot, Slot::UNUSED);
        bytes[8..16].copy_from_slice(&successor_word(Address::new(3, 64)).to_le_bytes());
        assert_eq!(read(segments, &bytes, &hash).part, Some(Address::new(3, 64)));
        bytes[8..16].fill(0);
        let at = (vacant.at.offset() - 4_096) as usize;
        bytes[at..at + 8].copy_from_slice(&Slot::UNUSED.sealed().0.to_le_bytes());
        let seen = read(segments, &bytes, &hash);
        assert!(
            seen.is_sealed()
                && seen.slots.contains(&Seen {
                    at: vacant.at,
                    slot: Slot::UNUSED.sealed()
                })
        );
        bytes[0] ^= 1;
        assert!(!read(segments, &bytes, &hash).is_there());
    }
}
