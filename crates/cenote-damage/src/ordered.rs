//! A pool with an ordered map alone, where its parts are, and calls on it. Shared by the damage test of ordered maps
//! and the fuzz target.

use std::collections::BTreeMap;
use std::path::Path;

use cenote::memory::Mapped;
use cenote::{Ordered, Pool, Range};

use crate::content::{Content, ORDERED};
use crate::options;
use crate::oracle::{self, Seen};

/// What the map holds while it is sound.
pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The parts of an ordered map that damage can hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The map's header: root, magic, number of workers.
    Header,
    /// The words of nodes.
    NodeWord,
    /// A leaf's first two words.
    LeafMeta,
    /// The heads in a leaf's first line.
    LeafIndex,
    /// The heads of a leaf's entries.
    LeafHead,
    /// Values of 8 bytes, in a leaf.
    LeafValue,
    /// Offsets of records, in a leaf.
    LeafRecord,
    /// The fences of pages, and their lengths.
    Fences,
    /// The first two words of other pages.
    InnerMeta,
    /// The heads in the first two lines of other pages.
    InnerIndex,
    /// Heads of separators.
    InnerHead,
    /// Children.
    InnerChild,
    /// Where separators are.
    InnerPlace,
    /// What separators have behind their heads.
    InnerSeparator,
    /// A record's lengths.
    RecordLengths,
    /// A record's key.
    RecordKey,
    /// A record's value.
    RecordValue,
}

/// Where a part is: offset and bytes.
pub type Place = (Part, usize, usize);

/// Keys of 8 bytes and others, put in an order that is none; some removed. Three levels of nodes.
pub fn model() -> Model {
    let mut model = Model::new();
    let (word, name) = (
        |n: u64| n * 7919 % 3_000,
        |n: u64| format!("a key like others {n}"),
    );
    model.extend((0..3_000).map(|n| (word(n).to_be_bytes().to_vec(), n.to_le_bytes().to_vec())));
    model.extend((0..150u64).map(|n| (name(n).into_bytes(), vec![n as u8; 3 * n as usize])));
    (0..300).for_each(|n| drop(model.remove(&(n * 10u64).to_be_bytes()[..])));
    model
}

/// Makes the pool, and says where the map's header is.
pub fn fill<M: Mapped>(path: &Path) -> usize {
    let pool: Pool<M> = Pool::create(path, &options()).unwrap();
    let map = pool.ordered(ORDERED).unwrap();
    for n in 0..3_000u64 {
        map.put_u64(n * 7919 % 3_000, 0).unwrap();
    }
    let model = model();
    for (key, value) in &model {
        map.put(key, value).unwrap();
    }
    for key in 0..3_000u64 {
        if !model.contains_key(&key.to_be_bytes()[..]) {
            map.remove(&key.to_be_bytes()).unwrap();
        }
    }
    assert!(pool.fsck().unwrap().is_clean());
    map.header() as usize
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// All parts of the map whose header is at an offset of a sound pool.
pub fn places(bytes: &[u8], header: usize) -> Vec<Place> {
    let mut places = vec![(Part::Header, header, 8), (Part::Header, header + 64, 16)];
    let mut nodes = vec![header];
    while let Some(node) = nodes.pop() {
        if node != header {
            places.push((Part::NodeWord, node, 8));
        }
        let page = word(bytes, node) as usize;
        let meta = word(bytes, page);
        let (count, level) = ((meta & 0xff) as usize, meta >> 8 & 0xff);
        let fences = if level == 0 {
            places.push((Part::LeafMeta, page, 16));
            // One head for each line of four but the first.
            places.push((Part::LeafIndex, page + 16, 8 * (count.div_ceil(4).max(1) - 1)));
            for n in 0..count {
                let entry = page + 64 + 16 * n;
                places.push((Part::LeafHead, entry, 8));
                if meta >> (36 + n) & 1 == 0 {
                    places.push((Part::LeafValue, entry + 8, 8));
                    continue;
                }
                places.push((Part::LeafRecord, entry + 8, 8));
                let record = word(bytes, entry + 8) as usize;
                let (key, value) = (word(bytes, record) as usize, word(bytes, record + 8) as usize);
                places.push((Part::RecordLengths, record, 16));
                places.push((Part::RecordKey, record + 16, key));
                places.push((Part::RecordValue, record + 16 + key, value));
            }
            page + 64 + 16 * count
        } else {
            let stride = count.next_multiple_of(8);
            places.push((Part::InnerMeta, page, 16));
            places.push((Part::InnerIndex, page + 16, 8 * (stride / 8 - 1)));
            for n in 0..count {
                let at = |array: usize| page + 128 + 8 * (array * stride + n);
                nodes.push(word(bytes, at(1)) as usize);
                places.push((Part::InnerChild, at(1), 8));
                if n > 0 {
                    let place = word(bytes, at(2));
                    let (separator, len) = ((place & 0xffff_ffff) as usize, (place >> 32) as usize);
                    places.push((Part::InnerHead, at(0), 8));
                    places.push((Part::InnerPlace, at(2), 8));
                    if len > 8 {
                        places.push((Part::InnerSeparator, page + separator, len));
                    }
                }
            }
            page + 128 + 24 * stride
        };
        let lens = word(bytes, fences);
        let len = (lens & 0xffff_ffff) + (lens >> 32);
        places.push((Part::Fences, fences, 8 + len as usize));
    }
    places.retain(|(_, _, len)| *len > 0);
    places
}

/// Has the oracle judge the pool, then makes all calls on the map. Errors are fine. `Err` says what went unseen.
pub fn judge<M: Mapped>(path: &Path, before: &Content, allowance: usize) -> Result<Seen, String> {
    let seen = oracle::judge::<M>(path, before, allowance);
    let Ok(pool) = Pool::<M>::open(path, &options()) else {
        return seen;
    };
    if let Ok(map) = pool.existing_ordered(ORDERED) {
        use_map(&map);
    }
    let _ = (
        pool.collect(),
        pool.recover(),
        pool.fsck().is_ok(),
        pool.fsck_and_repair().is_ok(),
    );
    seen
}

/// What the sound pool holds, as the oracle reads it.
pub fn content() -> Content {
    let pairs = model().into_iter();
    pairs
        .map(|(key, value)| ((ORDERED.to_owned(), key), Ok(value)))
        .collect()
}

impl Part {
    /// In how many keys a map may differ after damage to this: wrong bytes of keys and values can be right ones of
    /// another map, as there is nothing to compare them with. A key that is another one now is missing, and one too
    /// many.
    pub fn allowance(self) -> usize {
        match self {
            Self::LeafValue | Self::RecordValue | Self::RecordLengths | Self::LeafHead | Self::RecordKey => 2,
            _ => 0,
        }
    }
}

/// All calls, on keys everywhere in the order.
pub fn use_map<M: Mapped>(map: &Ordered<M>) {
    for n in 0..600u64 {
        let key = format!("a key like others {}", n % 200);
        let (from, to) = ((n * 5).to_be_bytes(), (n * 5 + 40).to_be_bytes());
        let range = Range {
            from: &from,
            to: Some(&to),
        };
        let _ = (map.get_u64(n * 5).is_ok(), map.get(key.as_bytes()).is_ok());
        let _ = (map.count(range), map.scan_reverse(range, |_, _| true));
        let _ = (map.successor(&from), map.predecessor(&to));
        let _ = (map.put_u64(n * 7, n), map.put(key.as_bytes(), &[1; 40]));
        let _ = (map.insert(&from, b"x"), map.replace(&from, b"x", b"y"));
        let _ = (map.remove(&to), map.remove(key.as_bytes()));
    }
    let _ = map.put_all((0..500u64).map(|n| (n.to_be_bytes(), n.to_be_bytes())));
    for n in 0..3_000u64 {
        let _ = map.remove(&n.to_be_bytes());
    }
    let _ = (map.first(), map.last(), map.len());
    let _ = map.for_each(|_, _| {});
}
