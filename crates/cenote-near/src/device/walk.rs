//! Ways down the tree of a subrange's keys, and along its leaves.
//!
//! A search reads one node on each level, and follows a pointer to it.

use super::Skiplist;
use super::tree::{INNER, Kind, LEAF};

/// Levels of a tree, at most: with a dozen children or more on each, which splits leave, 2^32 keys have nine.
pub(super) const LEVELS: usize = 12;

/// The tree of a subrange's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub root: u32,
    /// Levels above the leaves.
    pub depth: u8,
}

/// The nodes on the way to a leaf, from there up, and which entry of each leads on. In the leaf it is the place of a
/// key: the entries before it have keys up to that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trail {
    pub nodes: [u32; LEVELS],
    pub at: [u32; LEVELS],
    pub depth: u8,
}

impl Trail {
    fn new(depth: u8) -> Self {
        Self {
            nodes: [0; LEVELS],
            at: [0; LEVELS],
            depth,
        }
    }

    pub fn leaf(&self) -> u32 {
        self.nodes[0]
    }
}

/// Which entry of each node is taken.
#[derive(Clone, Copy)]
enum To {
    Key(u64),
    First,
    Last,
}

impl Skiplist {
    /// The way to a key's place.
    pub(super) fn descend(&mut self, tree: Tree, key: u64) -> Trail {
        self.way(tree, To::Key(key))
    }

    /// The way to the first key.
    pub(super) fn first(&mut self, tree: Tree) -> Trail {
        self.way(tree, To::First)
    }

    fn way(&mut self, tree: Tree, to: To) -> Trail {
        let mut trail = Trail::new(tree.depth);
        self.go_down(&mut trail, tree.root, tree.depth, to);
        trail
    }

    /// From a node on a level to a leaf.
    fn go_down(&mut self, trail: &mut Trail, mut node: u32, level: u8, to: To) {
        for level in (0..=level).rev() {
            self.chases += 1;
            let kind = Kind::of(level);
            let place = match to {
                To::Key(key) => self.rank(node, kind, key),
                To::First => {
                    self.accesses += 1;
                    u32::from(level > 0)
                }
                To::Last => {
                    self.accesses += 1;
                    self.entries(node)
                }
            };
            let level = usize::from(level);
            trail.nodes[level] = node;
            trail.at[level] = place;
            if kind == INNER {
                let n = place.saturating_sub(1);
                trail.at[level] = n;
                self.accesses += 1;
                node = self.child_at(node, n);
            }
        }
    }

    /// Goes on to the first key of the next leaf. False if there is none.
    pub(super) fn next_leaf(&mut self, trail: &mut Trail) -> bool {
        for level in 1..=usize::from(trail.depth) {
            let (node, next) = (trail.nodes[level], trail.at[level] + 1);
            self.accesses += 1;
            if next < self.entries(node) {
                trail.at[level] = next;
                let child = self.child_at(node, next);
                self.go_down(trail, child, level as u8 - 1, To::First);
                return true;
            }
        }
        false
    }

    /// The last pair before the place of a trail, which goes back to its leaf for that.
    pub(super) fn pair_before(&mut self, trail: &mut Trail) -> Option<[u64; 2]> {
        if trail.at[0] == 0 {
            let level = (1..=usize::from(trail.depth)).find(|&level| trail.at[level] > 0)?;
            trail.at[level] -= 1;
            self.accesses += 1;
            let child = self.child_at(trail.nodes[level], trail.at[level]);
            self.go_down(trail, child, level as u8 - 1, To::Last);
        }
        let n = trail.at[0].checked_sub(1)?;
        self.accesses += 1;
        Some([self.key_at(trail.leaf(), LEAF, n), self.value_at(trail.leaf(), n)])
    }

    /// Which entry of the leaf has this key.
    pub(super) fn entry_with(&self, trail: &Trail, key: u64) -> Option<u32> {
        let n = trail.at[0].checked_sub(1)?;
        (self.key_at(trail.leaf(), LEAF, n) == key).then_some(n)
    }
}
