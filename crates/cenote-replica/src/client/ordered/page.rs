//! A page: the value of one key of the replicated map. It is never changed, only replaced.
//!
//! | bytes | |
//! |---|---|
//! | 0 | format: 1 |
//! | 1 | level: 0 for a leaf |
//! | 2 | what it has: 1 a high fence, 2 a right neighbour, 4 a division, 8 a left page in it |
//! | 3 | 0 |
//! | 4 to 7 | how many entries |
//! | then | low fence; high fence, right neighbour, division (separator, right page, left page), as far as it has them; the entries |
//!
//! Keys and fences have their length, two bytes, before them; values have four. Numbers are little-endian. An entry of
//! an inner page has as its value the page of its keys, as eight bytes.

/// A page's number: [`PageId::ROOT`], or the identity of a change, which comes once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct PageId(pub u64);

impl PageId {
    /// The root, which has this number whatever its level is.
    pub const ROOT: PageId = PageId(0);
}

/// How a page is about to be divided: from the separator on, its entries go to a page of their own. The next client
/// that meets it completes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Division {
    pub separator: Vec<u8>,
    pub right: PageId,
    /// For the entries below: the root's, which keeps its number and gets a level more.
    pub left: Option<PageId>,
}

/// A page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Page {
    pub level: u8,
    /// The least key that it may have; empty for the first page of a level.
    pub low: Vec<u8>,
    /// The least key above all that it may have; none for the last page of a level.
    pub high: Option<Vec<u8>>,
    /// The page that begins where this one ends.
    pub right: Option<PageId>,
    pub division: Option<Division>,
    /// Keys with their values, ascending. In an inner page the first key is the low fence.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
}

const FORMAT: u8 = 1;
const HAS_HIGH: u8 = 1;
const HAS_RIGHT: u8 = 2;
const HAS_DIVISION: u8 = 4;
const HAS_LEFT: u8 = 8;
const HEADER: usize = 8;

/// What a page's bytes are divided into.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn key(&mut self) -> Option<Vec<u8>> {
        let len = u16::from_le_bytes(self.bytes(2)?.try_into().ok()?);
        Some(self.bytes(len.into())?.to_vec())
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let len = u32::from_le_bytes(self.bytes(4)?.try_into().ok()?);
        Some(self.bytes(len as usize)?.to_vec())
    }

    fn page(&mut self) -> Option<PageId> {
        let id = u64::from_le_bytes(self.bytes(8)?.try_into().ok()?);
        (id != 0).then_some(PageId(id))
    }
}

fn put_key(bytes: &mut Vec<u8>, key: &[u8]) {
    bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
    bytes.extend_from_slice(key);
}

fn put_value(bytes: &mut Vec<u8>, value: &[u8]) {
    bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
    bytes.extend_from_slice(value);
}

/// Bytes of an entry.
fn entry_bytes(key: usize, value: usize) -> usize {
    6 + key + value
}

impl Page {
    /// Its bytes. Keys are shorter than 64 KiB, values than 4 GiB.
    pub fn encode(&self) -> Vec<u8> {
        let has = [
            (self.high.is_some(), HAS_HIGH),
            (self.right.is_some(), HAS_RIGHT),
            (self.division.is_some(), HAS_DIVISION),
            (
                self.division
                    .as_ref()
                    .is_some_and(|division| division.left.is_some()),
                HAS_LEFT,
            ),
        ];
        let has = has
            .iter()
            .fold(0, |bits, (has, bit)| bits | if *has { *bit } else { 0 });
        let mut bytes = vec![FORMAT, self.level, has, 0];
        bytes.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        put_key(&mut bytes, &self.low);
        if let Some(high) = &self.high {
            put_key(&mut bytes, high);
        }
        if let Some(right) = self.right {
            bytes.extend_from_slice(&right.0.to_le_bytes());
        }
        if let Some(division) = &self.division {
            put_key(&mut bytes, &division.separator);
            bytes.extend_from_slice(&division.right.0.to_le_bytes());
            if let Some(left) = division.left {
                bytes.extend_from_slice(&left.0.to_le_bytes());
            }
        }
        for (key, value) in &self.entries {
            put_key(&mut bytes, key);
            put_value(&mut bytes, value);
        }
        bytes
    }

    /// The page of some bytes; `None` if no client writes such a page.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Rest(bytes);
        let &[format, level, has, _] = rest.bytes(4)? else {
            return None;
        };
        let count = u32::from_le_bytes(rest.bytes(4)?.try_into().ok()?);
        if format != FORMAT || has > HAS_HIGH | HAS_RIGHT | HAS_DIVISION | HAS_LEFT {
            return None;
        }
        let low = rest.key()?;
        let high = match has & HAS_HIGH {
            0 => None,
            _ => Some(rest.key()?),
        };
        let right = match has & HAS_RIGHT {
            0 => None,
            _ => Some(rest.page()?),
        };
        let division = match has & HAS_DIVISION {
            0 => None,
            _ => Some(Division {
                separator: rest.key()?,
                right: rest.page()?,
                left: match has & HAS_LEFT {
                    0 => None,
                    _ => Some(rest.page()?),
                },
            }),
        };
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push((rest.key()?, rest.value()?));
        }
        let page = Self {
            level,
            low,
            high,
            right,
            division,
            entries,
        };
        (rest.0.is_empty() && page.is_sound()).then_some(page)
    }

    /// Whether its keys are in order and between its fences, and what it names is there.
    fn is_sound(&self) -> bool {
        let ascend = self.entries.is_sorted_by(|(one, _), (next, _)| one < next);
        let inside = |key: &[u8]| self.low.as_slice() <= key && !self.is_below(key);
        let ends = [self.entries.first(), self.entries.last()];
        let between = ends.into_iter().flatten().all(|(key, _)| inside(key));
        let divides = self
            .division
            .as_ref()
            .is_none_or(|division| self.low < division.separator && inside(&division.separator));
        let is_leaf = self.level == 0;
        let leads = is_leaf || self.entries.first().is_some_and(|(key, _)| *key == self.low);
        let names = is_leaf || self.entries.iter().all(|(_, value)| child_of(value).is_some());
        ascend && between && divides && leads && names && self.high.is_some() == self.right.is_some()
    }

    /// Whether a key lies at or above its high fence.
    pub fn is_below(&self, key: &[u8]) -> bool {
        self.high.as_deref().is_some_and(|high| high <= key)
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let place = self.place(key).ok()?;
        Some(&self.entries[place].1)
    }

    fn place(&self, key: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|(has, _)| has.as_slice().cmp(key))
    }

    /// Of an inner page, the page of a key, or the one with the greatest keys below it. `None` for the key is above
    /// all.
    pub fn child(&self, key: Option<&[u8]>, is_below: bool) -> Option<PageId> {
        let precedes = |has: &[u8]| key.is_none_or(|key| has < key || has == key && !is_below);
        let count = self.entries.partition_point(|(has, _)| precedes(has));
        child_of(&self.entries.get(count.checked_sub(1)?)?.1)
    }

    /// The same page with a key bound to a value, or to none.
    pub fn with(&self, key: &[u8], value: Option<&[u8]>) -> Self {
        let mut page = self.clone();
        match (self.place(key), value) {
            (Ok(place), Some(value)) => page.entries[place].1 = value.to_vec(),
            (Ok(place), None) => drop(page.entries.remove(place)),
            (Err(place), Some(value)) => page.entries.insert(place, (key.to_vec(), value.to_vec())),
            (Err(_), None) => {}
        }
        page
    }

    /// How many bytes its entries take.
    fn content(&self) -> usize {
        let bytes = self
            .entries
            .iter()
            .map(|(key, value)| entry_bytes(key.len(), value.len()));
        HEADER + bytes.sum::<usize>()
    }

    /// Where it is to be divided, if its entries take more than so many bytes: in the middle, or, as the last page of a
    /// level that grows at its end, before the last entry.
    pub fn separator(&self, limit: usize, appended: bool) -> Option<Vec<u8>> {
        if self.entries.len() < 2 || self.content() <= limit {
            return None;
        }
        if appended && self.high.is_none() {
            return self.entries.last().map(|(key, _)| key.clone());
        }
        let all = self.content() - HEADER;
        let mut below = 0;
        let longer = self.entries.windows(2).map(|pair| {
            below += entry_bytes(pair[0].0.len(), pair[0].1.len());
            (below.max(all - below), &pair[1].0)
        });
        longer.min_by_key(|(bytes, _)| *bytes).map(|(_, key)| key.clone())
    }

    /// The two pages that a division makes of it.
    pub fn halves(&self, division: &Division) -> [Self; 2] {
        let separator = division.separator.as_slice();
        let place = self
            .entries
            .partition_point(|(key, _)| key.as_slice() < separator);
        let (left, right) = self.entries.split_at(place);
        [
            Self {
                level: self.level,
                low: self.low.clone(),
                high: Some(separator.to_vec()),
                right: Some(division.right),
                division: None,
                entries: left.to_vec(),
            },
            Self {
                level: self.level,
                low: separator.to_vec(),
                high: self.high.clone(),
                right: self.right,
                division: None,
                entries: right.to_vec(),
            },
        ]
    }

    /// The root that names the two pages of a divided one.
    pub fn above(&self, division: &Division, left: PageId) -> Self {
        let entry = |key: &[u8], page: PageId| (key.to_vec(), page.0.to_le_bytes().to_vec());
        Self {
            level: self.level + 1,
            low: self.low.clone(),
            entries: vec![entry(&self.low, left), entry(&division.separator, division.right)],
            ..Self::default()
        }
    }
}

/// The page that an entry of an inner page names.
pub(super) fn child_of(value: &[u8]) -> Option<PageId> {
    let id = u64::from_le_bytes(value.try_into().ok()?);
    (id != 0).then_some(PageId(id))
}

#[cfg(test)]
mod tests {
    use super::{Division, Page, PageId};

    fn leaf() -> Page {
        Page {
            low: b"b".to_vec(),
            high: Some(b"q".to_vec()),
            right: Some(PageId(9)),
            entries: [b"b", b"d", b"f", b"h"]
                .map(|key| (key.to_vec(), vec![7; 10]))
                .into(),
            ..Page::default()
        }
    }

    #[test]
    fn pages_come_back_and_damaged_ones_are_none() {
        let divided = Page {
            division: Some(Division {
                separator: b"f".to_vec(),
                right: PageId(4),
                left: Some(PageId(5)),
            }),
            ..leaf()
        };
        for page in [Page::default(), leaf(), divided] {
            let bytes = page.encode();
            assert_eq!(Page::decode(&bytes), Some(page));
            for short in 0..bytes.len() {
                assert_eq!(Page::decode(&bytes[..short]), None);
            }
            assert_eq!(Page::decode(&[&bytes[..], &[0]].concat()), None);
        }
        for damage in [
            |page: &mut Page| page.entries.reverse(),
            |page: &mut Page| page.low = b"c".to_vec(),
            |page: &mut Page| page.high = Some(b"h".to_vec()),
            |page: &mut Page| page.right = None,
            |page: &mut Page| page.level = 1,
        ] {
            let mut page = leaf();
            damage(&mut page);
            assert_eq!(Page::decode(&page.encode()), None);
        }
    }

    #[test]
    fn keys_are_found_between_fences() {
        let page = leaf().with(b"e", Some(b"new")).with(b"b", None);
        assert_eq!(page.get(b"e"), Some(&b"new"[..]));
        assert_eq!((page.get(b"b"), page.get(b"c")), (None, None));
        assert!(page.is_below(b"q") && page.is_below(b"x") && !page.is_below(b"p"));
    }

    #[test]
    fn halves_are_what_was_divided() {
        let page = leaf();
        assert_eq!(page.separator(1_000, false), None);
        let separator = page.separator(40, false).unwrap();
        let last = Page {
            high: None,
            right: None,
            ..leaf()
        };
        assert_eq!(last.separator(40, true).as_deref(), Some(&b"h"[..]));
        let division = Division {
            separator: separator.clone(),
            right: PageId(4),
            left: Some(PageId(5)),
        };
        let [left, right] = page.halves(&division);
        assert_eq!(
            [left.entries.clone(), right.entries.clone()].concat(),
            page.entries
        );
        assert!(!left.entries.is_empty() && !right.entries.is_empty());
        assert_eq!(
            (left.high, left.right),
            (Some(separator.clone()), Some(PageId(4)))
        );
        assert_eq!(
            (right.low, right.high, right.right),
            (separator, page.high.clone(), page.right)
        );
        let root = page.above(&division, PageId(5));
        assert_eq!(root.child(Some(b"e"), false), Some(PageId(5)));
        assert_eq!(root.child(Some(b"f"), true), Some(PageId(5)));
        assert_eq!(root.child(Some(b"f"), false), Some(PageId(4)));
        assert_eq!(root.child(None, true), Some(PageId(4)));
        assert!(Page::decode(&root.encode()).is_some());
    }
}
