//! Changes. Each changes one line of one node, under the node's lock. All lines that it reads are fetched under the
//! lock, as those that this host has in its cache may be stale.
//!
//! A node without a free place is split: the upper half of its entries goes to a new node, which is written back; then
//! the header is changed, from which moment they belong to the new node; then the lock is released, and the parent is
//! told under the parent's lock. A root that was split gets a parent by a compare-exchange of the root's word.

use super::Sherman;
use super::find::Way;
use super::line::{ENTRIES, Line};
use super::node::{self, Header};
use crate::error::{Error, Result};
use crate::memory::{LINE, Memory};

/// A change of a key.
#[derive(Clone, Copy)]
pub enum Change {
    /// It gets a value.
    Put(u64),
    /// It gets a value if it has none.
    Insert(u64),
    /// It is removed.
    Remove,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    WasThere,
    WasMissing,
}

/// A node as it is under its lock.
pub struct Locked {
    header: Header,
    /// The lines of entries, up to the one that has the key.
    lines: Vec<Line>,
}

/// The result of a step at a node under its lock.
enum Step {
    Done(Changed),
    /// The key belongs to a sibling, which begins at this fence.
    GoOn(u64, u64),
    /// The node was split; the new node is a sibling, which begins at this fence.
    Split(u64, u64),
}

impl<M: Memory> Sherman<M> {
    /// Changes a key.
    pub(super) fn change(&self, key: u64, change: Change) -> Result<Changed> {
        let way = self.find(key, 0)?;
        self.change_in(way, key, change)
    }

    /// Changes a key of a level. `way` is the node that it belongs to, or one left of that.
    fn change_in(&self, mut way: Way, key: u64, change: Change) -> Result<Changed> {
        let mut low = None;
        loop {
            match self.step(way, low, key, change)? {
                Step::Done(changed) => return Ok(changed),
                Step::Split(high, sibling) => self.tell_parent(way.level, high, sibling)?,
                Step::GoOn(high, sibling) => {
                    way = self.go_on(way, high, sibling)?;
                    low = Some(high);
                }
            }
        }
    }

    /// Reads a node under its lock, and changes one line if the key belongs there. `low` is the node's low fence, if
    /// known.
    fn step(&self, way: Way, low: Option<u64>, key: u64, change: Change) -> Result<Step> {
        let (mem, Way { at, level, .. }) = (self.mem(), way);
        let _held = self.lock(at)?;
        let node = self.read_locked(at, level)?;
        if key < node.header.low() || low.is_some_and(|low| low != node.header.low()) {
            return Err(Error::corrupt("the fence of a tree's node", at));
        }
        if let Some((high, sibling)) = node.header.next()
            && key >= high
        {
            return Ok(Step::GoOn(high, sibling));
        }
        let write = |n: usize, line: Line| line.replace(&node.lines[n], mem, at + (1 + n as u64) * LINE);
        let found = node
            .lines
            .iter()
            .enumerate()
            .find_map(|(n, line)| line.place_of(key).map(|place| (n, place)));
        if let Some((n, place)) = found {
            match change {
                Change::Put(value) => {
                    write(n, node.lines[n].with(place, (key, value)));
                }
                Change::Insert(_) => {}
                Change::Remove => {
                    write(n, node.lines[n].without(place));
                }
            }
            return Ok(Step::Done(Changed::WasThere));
        }
        let (Change::Put(value) | Change::Insert(value)) = change else {
            return Ok(Step::Done(Changed::WasMissing));
        };
        match node.free_place() {
            Some((n, place)) => {
                write(n, node.lines[n].with(place, (key, value)));
                Ok(Step::Done(Changed::WasMissing))
            }
            None => self.split(at, level, &node),
        }
    }

    /// Splits a node that is full, under its lock.
    ///
    /// Cost: a new node, and the write-back of a line.
    fn split(&self, at: u64, level: u64, node: &Locked) -> Result<Step> {
        let mut entries: Vec<(u64, u64)> = node.live().collect();
        entries.sort_unstable();
        let upper = entries.split_off(entries.len() / 2);
        let Some(&(high, _)) = upper.first() else {
            return Err(Error::corrupt("a tree's node", at));
        };
        let sibling = node::create(&self.arena, level, high, node.header.next(), &upper)?;
        node.header
            .split_off(high, sibling)
            .replace(&node.header.0, self.mem(), at);
        Ok(Step::Split(high, sibling))
    }

    /// A node's lines, under its lock. Repairs lines that a dead writer left torn.
    ///
    /// Cost: one round trip.
    pub(super) fn read_locked(&self, at: u64, level: u64) -> Result<Locked> {
        let mem = self.mem();
        let mut lines = Line::fetch_all_torn(mem, at, node::lines(level));
        let mut header = lines.remove(0);
        if header.is_torn() {
            let mut mended = header.mended();
            if let Some((_, sibling)) = Header(header).next() {
                node::check(&self.arena, sibling, level)?;
                // A low fence never changes: it is right even if that header is torn.
                let next = Header(Line::fetch_torn(mem, sibling));
                mended = Header(mended).split_off(next.low(), sibling);
            }
            header = mended.replace(&header, mem, at);
        }
        let header = Header(header);
        if header.level() != level || header.next().is_some_and(|(high, _)| high <= header.low()) {
            return Err(Error::corrupt("the header of a tree's node", at));
        }
        for (line, at) in lines.iter_mut().zip((at + LINE..).step_by(LINE as usize)) {
            if line.is_torn() {
                *line = line.mended().replace(line, mem, at);
            }
        }
        Ok(Locked { header, lines })
    }

    /// Tells the level above of a node that begins at this fence.
    pub(super) fn tell_parent(&self, level: u64, low: u64, node: u64) -> Result<()> {
        let root = self.load_root()?;
        if root.level > level {
            let way = self.find(low, level + 1)?;
            // Another worker may have told it already.
            self.change_in(way, low, Change::Insert(node))?;
            self.host.forget(way.at);
            return Ok(());
        }
        let children = [(0, root.at), (low, node)];
        let above = level + 1;
        if root.level != level || above > node::LEVEL_MAX {
            return Err(Error::corrupt("the level of a tree's root", self.root().offset()));
        }
        let new = node::create(&self.arena, above, 0, None, &children)? | above;
        let old = root.at | root.level;
        match self.root().compare_exchange(self.mem(), old, new) {
            Ok(_) => {
                self.host.root.store(new);
                Ok(())
            }
            // The root has a parent now, which may not know of this node.
            Err(_) => self.tell_parent(level, low, node),
        }
    }
}

impl Locked {
    /// The entries within the fences.
    fn live(&self) -> impl Iterator<Item = (u64, u64)> {
        self.lines
            .iter()
            .flat_map(Line::entries)
            .filter(|&(key, _)| self.header.covers(key))
    }

    /// A place without an entry, or with one that was split off.
    fn free_place(&self) -> Option<(usize, usize)> {
        self.lines.iter().enumerate().find_map(|(n, line)| {
            let is_free = |place: &usize| line.entry(*place).is_none_or(|(key, _)| !self.header.covers(key));
            (0..ENTRIES).find(is_free).map(|place| (n, place))
        })
    }
}
