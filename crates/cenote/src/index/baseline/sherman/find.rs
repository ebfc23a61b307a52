//! Finding a node, and reading it.
//!
//! A search goes from the root as it was last seen, down by copies of inner nodes. Fences only ever move to the left,
//! and nodes are not merged; so a stale copy leads to the node that a key belongs to, or to one left of it, and the
//! siblings lead on from there. A search that has to go on to a sibling drops the copy that led it astray. If that copy
//! is not older than the search, the parent does not know the sibling, and the search tells it.

use std::sync::Arc;

use super::Sherman;
use super::host::Inner;
use super::line::Line;
use super::node::{self, Header};
use crate::error::{Error, Result};
use crate::index::baseline::back_off::BackOff;
use crate::memory::{LINE, Memory};

/// Polls of a line that is being changed, before its lock is taken to read it.
const POLLS: u32 = 256;
/// Lines of a copy that a search reads: its place in the table, and a binary search in up to 45 children.
const COPY_LINES: u64 = 6;
/// The bits of the root's word that hold its level.
const LEVEL_MASK: u64 = LINE - 1;

/// How far the search for a node has come.
#[derive(Clone, Copy)]
pub struct Way {
    /// The node.
    pub at: u64,
    pub level: u64,
    /// The parent that led to it, and whether it was read during this search.
    parent: Option<(u64, bool)>,
}

impl<M: Memory> Sherman<M> {
    /// The node of a level that a key belongs to, or one left of it. The level must not be above the root's.
    ///
    /// Cost: nothing if the copies are there; else for each node that is copied its lines and one more.
    pub(super) fn find(&self, key: u64, level: u64) -> Result<Way> {
        let mut top = self.root_of(level)?;
        let mut way = top;
        while way.level > level {
            self.mem().reads_private(COPY_LINES);
            let (copy, is_fresh) = self.copy(way.at, way.level)?;
            if let Some((high, sibling)) = copy.next
                && key >= high
            {
                if way.at == top.at {
                    let now = self.load_root()?;
                    if now.at != top.at {
                        (top, way) = (now, now);
                        continue;
                    }
                }
                way = self.go_on(way, high, sibling)?;
                continue;
            }
            let child = copy
                .child_of(key)
                .ok_or_else(|| Error::corrupt("a tree's inner node", way.at))?;
            node::check(&self.arena, child, way.level - 1)?;
            way = Way {
                at: child,
                level: way.level - 1,
                parent: Some((way.at, is_fresh)),
            };
        }
        Ok(way)
    }

    /// Goes on to the sibling of a node that a key does not belong to any more.
    pub(super) fn go_on(&self, way: Way, high: u64, sibling: u64) -> Result<Way> {
        node::check(&self.arena, sibling, way.level)?;
        match way.parent {
            Some((parent, false)) => self.host.forget(parent),
            _ => self.tell_parent(way.level, high, sibling)?,
        }
        Ok(Way {
            at: sibling,
            // The copy that led here was dropped.
            parent: way.parent.map(|(parent, _)| (parent, false)),
            ..way
        })
    }

    /// The root, in a version that has at least this level.
    fn root_of(&self, level: u64) -> Result<Way> {
        match self.host.root.load() {
            known if known != 0 && known & LEVEL_MASK >= level => Ok(way_of_root(known)),
            _ => {
                let root = self.load_root()?;
                match root.level >= level {
                    true => Ok(root),
                    false => Err(Error::corrupt("the level of a tree's root", self.root().offset())),
                }
            }
        }
    }

    /// The root as it is now.
    ///
    /// Cost: one sync load.
    pub(super) fn load_root(&self) -> Result<Way> {
        let word = self.root().load(self.mem());
        let way = way_of_root(word);
        node::check(&self.arena, way.at, way.level)?;
        self.mem().tells_own_process();
        self.host.root.store(word);
        Ok(way)
    }

    /// The copy of an inner node, and whether this call made it.
    fn copy(&self, at: u64, level: u64) -> Result<(Arc<Inner>, bool)> {
        if let Some(copy) = self.host.copy_of(at) {
            return match copy.level == level {
                true => Ok((copy, false)),
                false => Err(Error::corrupt("the level of a tree's node", at)),
            };
        }
        let (header, children) = self.snapshot(at, level)?;
        let copy = Arc::new(Inner {
            level,
            next: header.next(),
            children,
        });
        self.mem().tells_own_process();
        self.host.keep(at, copy.clone());
        Ok((copy, true))
    }

    /// A node's header and its entries in ascending order, as between two splits.
    ///
    /// Cost: two round trips.
    fn snapshot(&self, at: u64, level: u64) -> Result<(Header, Vec<(u64, u64)>)> {
        loop {
            let (header, lines) = self.node(at, level)?;
            let mut entries: Vec<_> = lines
                .iter()
                .flat_map(Line::entries)
                .filter(|&(key, _)| header.covers(key))
                .collect();
            if self.header(at, level)? == header {
                entries.sort_unstable();
                return Ok((header, entries));
            }
        }
    }

    /// A node's header, afresh.
    fn header(&self, at: u64, level: u64) -> Result<Header> {
        checked(self.line(at, 0, level)?, at, level)
    }

    /// A node's header and its other lines, afresh and each of them whole.
    ///
    /// Cost: one round trip.
    fn node(&self, at: u64, level: u64) -> Result<(Header, Vec<Line>)> {
        let lines = Line::fetch_all_torn(self.mem(), at, node::lines(level));
        let whole = (0..).zip(lines).map(|(n, line)| match line.is_torn() {
            true => self.line(at, n, level),
            false => Ok(line),
        });
        let mut lines = whole.collect::<Result<Vec<_>>>()?;
        let header = checked(lines.remove(0), at, level)?;
        Ok((header, lines))
    }

    /// A line of a node, afresh and whole.
    fn line(&self, at: u64, n: u64, level: u64) -> Result<Line> {
        let mem = self.mem();
        let back_off = BackOff::default();
        loop {
            if let Some(line) = Line::fetch(mem, at + n * LINE) {
                return Ok(line);
            }
            if back_off.lose(mem).is_multiple_of(POLLS) {
                // Under the lock it is whole, or is repaired.
                let _held = self.lock(at)?;
                self.read_locked(at, level)?;
            }
        }
    }

    /// A key's value.
    ///
    /// Cost: one round trip for all lines of a leaf, and one more if the key is not there.
    pub(super) fn get(&self, key: u64) -> Result<Option<u64>> {
        let mut way = self.find(key, 0)?;
        let mut low = None;
        loop {
            let (header, lines) = self.node(way.at, 0)?;
            // The low fence of a sibling is known: so siblings never lead in a circle.
            if low.is_some_and(|low| low != header.low()) {
                return Err(Error::corrupt("the fence of a tree's node", way.at));
            }
            if let Some((high, sibling)) = header.next()
                && key >= high
            {
                way = self.go_on(way, high, sibling)?;
                low = Some(high);
                continue;
            }
            let found = lines
                .iter()
                .find_map(|line| line.place_of(key).and_then(|place| line.entry(place)));
            if let Some((_, value)) = found {
                return Ok(Some(value));
            }
            // The key may have been split off during the search.
            if self.header(way.at, 0)? == header {
                return Ok(None);
            }
        }
    }

    /// Calls `each` for the keys from `from` on, until it returns `false`.
    pub(super) fn scan(&self, from: u64, mut each: impl FnMut(u64, u64) -> bool) -> Result<()> {
        let mut way = self.find(from, 0)?;
        let (mut from, mut low) = (from, None);
        loop {
            let (header, entries) = self.snapshot(way.at, 0)?;
            if low.is_some_and(|low| low != header.low()) {
                return Err(Error::corrupt("the fence of a tree's node", way.at));
            }
            let wanted = entries.into_iter().filter(|&(key, _)| key >= from);
            for (key, value) in wanted {
                if !each(key, value) {
                    return Ok(());
                }
            }
            let Some((high, sibling)) = header.next() else {
                return Ok(());
            };
            way = match from >= high {
                // The search led to a leaf left of the first key's.
                true => self.go_on(way, high, sibling)?,
                false => {
                    node::check(&self.arena, sibling, 0)?;
                    Way { at: sibling, ..way }
                }
            };
            (from, low) = (from.max(high), Some(high));
        }
    }
}

/// A node's header, if the line is a valid one.
fn checked(line: Line, at: u64, level: u64) -> Result<Header> {
    let header = Header(line);
    match header.level() == level && header.next().is_none_or(|(high, _)| high > header.low()) {
        true => Ok(header),
        false => Err(Error::corrupt("the header of a tree's node", at)),
    }
}

fn way_of_root(word: u64) -> Way {
    Way {
        at: word & !LEVEL_MASK,
        level: word & LEVEL_MASK,
        parent: None,
    }
}
