//! Whole subranges: import, export, split.
//!
//! A tree is made of pairs in order, each node filled as the others of its level are, so searches take the fewest
//! pointers. A split makes trees of a subrange's parts, and then gives the old one back.

use super::Skiplist;
use super::command::Pairs;
use super::node::{MAX_HEIGHT, Shape};
use super::tree::{INNER, Kind, LEAF};
use super::walk::{LEVELS, Tree};

/// What a split has made of a part of a subrange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its least key.
    pub least: u64,
    /// Its keys.
    pub keys: u32,
}

/// A level of a tree that is made.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Entries of all its nodes, and how many nodes it has.
    entries: u32,
    nodes: u32,
    made: u32,
    /// The node that is filled, and the entries that it lacks.
    node: u32,
    lacks: u32,
}

impl Level {
    /// Entries of the next node: as many as others have, or one more.
    fn share(&self) -> u32 {
        self.entries / self.nodes + u32::from(self.made < self.entries % self.nodes)
    }
}

/// A tree of so many keys that is made of pairs in order.
struct Builder {
    levels: [Level; LEVELS],
    depth: u8,
}

impl Builder {
    /// Of one key at least.
    fn new(keys: u32) -> Self {
        let mut levels = [Level::default(); LEVELS];
        let (mut depth, mut entries) = (0, keys);
        loop {
            let nodes = entries.div_ceil(Kind::of(depth).most);
            levels[usize::from(depth)] = Level {
                entries,
                nodes,
                ..Level::default()
            };
            if nodes <= 1 {
                return Self { levels, depth };
            }
            (depth, entries) = (depth + 1, nodes);
        }
    }

    /// Words of all nodes, or some more.
    fn words(&self) -> u64 {
        let of = |level: u8| {
            let Level { entries, nodes, .. } = self.levels[usize::from(level)];
            let kind = Kind::of(level);
            u64::from(nodes) * u64::from(kind.block(kind.room(entries.div_ceil(nodes), false)))
        };
        (0..=self.depth).map(of).sum()
    }
}

impl Skiplist {
    /// Makes a subrange of pairs, which ascend and belong to it. False if there is no room, and then nothing changes.
    pub(super) fn import(&mut self, start: u64, shift: u8, pairs: Pairs<'_>) -> bool {
        let keys = pairs.len() as u32;
        let mut builder = (keys > 0).then(|| Builder::new(keys));
        let shape = Shape {
            shift,
            outer: self.height(MAX_HEIGHT),
        };
        let words = builder.as_ref().map_or(0, Builder::words) + u64::from(shape.words());
        if words > self.arena.room() {
            return false;
        }
        let Some(subrange) = self.add_subrange(start, shape) else {
            return false;
        };
        let mut tree = None;
        for (key, value) in pairs {
            if let Some(builder) = &mut builder {
                tree = self.append(builder, key, value);
            }
        }
        self.set_tree(subrange, tree);
        self.set_keys_in(subrange, keys);
        true
    }

    /// Appends a pair to a tree that is made; the tree, once it is whole. There is room, as it was counted.
    fn append(&mut self, builder: &mut Builder, key: u64, value: u64) -> Option<Tree> {
        let (mut key, mut of) = (key, value);
        for level in 0..=builder.depth {
            let kind = Kind::of(level);
            let state = &mut builder.levels[usize::from(level)];
            if state.lacks == 0 {
                state.lacks = state.share();
                state.node = self.take_node(kind, kind.room(state.lacks, false))?;
                state.made += 1;
            }
            let node = state.node;
            // Neighbours are written one after another: in sequence.
            let (accesses, entries) = (self.accesses, self.entries(node));
            self.put_entry(node, kind, entries, key, of);
            self.accesses = accesses;
            self.streamed += 16;
            state.lacks -= 1;
            if state.lacks > 0 {
                return None;
            }
            (key, of) = (self.key_at(node, kind, 0), node.into());
        }
        let depth = builder.depth;
        Some(Tree {
            root: of as u32,
            depth,
        })
    }

    /// Calls for each pair of a tree, in order.
    fn each_of(&mut self, tree: Tree, mut call: impl FnMut(u64, u64)) {
        let mut trail = self.first(tree);
        loop {
            let leaf = trail.leaf();
            for n in 0..self.entries(leaf) {
                call(self.key_at(leaf, LEAF, n), self.value_at(leaf, n));
            }
            self.streamed += u64::from(self.entries(leaf)) * 16;
            if !self.next_leaf(&mut trail) {
                return;
            }
        }
    }

    /// Calls for each pair of a subrange, in order.
    pub(super) fn each_pair(&mut self, subrange: u32, call: impl FnMut(u64, u64)) {
        if let Some(tree) = self.tree(subrange) {
            self.each_of(tree, call);
        }
    }

    /// Gives a tree back.
    fn drop_tree(&mut self, tree: Tree) {
        let mut trail = self.first(tree);
        loop {
            let leaf = trail.leaf();
            let before = trail;
            let goes_on = self.next_leaf(&mut trail);
            self.give_node(leaf, LEAF);
            for level in 1..=usize::from(tree.depth) {
                if !goes_on || trail.nodes[level] != before.nodes[level] {
                    self.give_node(before.nodes[level], INNER);
                }
            }
            if !goes_on {
                return;
            }
        }
    }

    /// Takes a subrange away with its keys.
    pub(super) fn drop_subrange(&mut self, subrange: u32) {
        if let Some(tree) = self.tree(subrange) {
            self.drop_tree(tree);
        }
        self.remove_subrange(subrange);
    }

    /// Parts a subrange into those of a smaller shift that have keys, and calls for each. False if there is no room for
    /// them, and then nothing changes.
    pub(super) fn split(&mut self, subrange: u32, shift: u8, mut call: impl FnMut(Piece)) -> bool {
        let (tree, keys) = (self.tree(subrange), self.keys_in(subrange));
        let mut needed = 0;
        if let Some(tree) = tree {
            self.each_piece(tree, shift, |_, piece| {
                needed += Builder::new(piece.keys).words() + u64::from(Shape::WORDS_MAX);
            });
        }
        if needed > self.arena.room() {
            return false;
        }
        self.remove_subrange(subrange);
        let Some(tree) = tree else {
            return true;
        };
        let mut parted = 0;
        self.each_piece(tree, shift, |list, piece| {
            let start = piece.least & u64::MAX.checked_shl(shift.into()).unwrap_or(0);
            let shape = Shape {
                shift,
                outer: list.height(MAX_HEIGHT),
            };
            // There is room: it was counted.
            let Some(made) = list.add_subrange(start, shape) else {
                return;
            };
            let mut builder = Builder::new(piece.keys);
            let mut trail = list.descend(tree, piece.least);
            let mut n = trail.at[0] - 1;
            let mut whole = None;
            for _ in 0..piece.keys {
                if n == list.entries(trail.leaf()) {
                    list.next_leaf(&mut trail);
                    n = 0;
                }
                let leaf = trail.leaf();
                whole = list.append(&mut builder, list.key_at(leaf, LEAF, n), list.value_at(leaf, n));
                n += 1;
            }
            list.set_tree(made, whole);
            list.set_keys_in(made, piece.keys);
            parted += piece.keys;
            call(piece);
        });
        debug_assert_eq!(parted, keys);
        self.drop_tree(tree);
        true
    }

    /// Calls for each part of a tree whose keys have all bits from a shift on in common.
    fn each_piece(&mut self, tree: Tree, shift: u8, mut call: impl FnMut(&mut Self, Piece)) {
        let mut trail = self.first(tree);
        let mut piece = None;
        loop {
            let leaf = trail.leaf();
            self.streamed += u64::from(self.entries(leaf)) * 16;
            for n in 0..self.entries(leaf) {
                let key = self.key_at(leaf, LEAF, n);
                piece = Some(match piece {
                    Some(Piece { least, keys })
                        if (key ^ least).checked_shr(shift.into()).unwrap_or(0) == 0 =>
                    {
                        Piece {
                            least,
                            keys: keys + 1,
                        }
                    }
                    other => {
                        if let Some(piece) = other {
                            call(self, piece);
                        }
                        Piece { least: key, keys: 1 }
                    }
                });
            }
            if !self.next_leaf(&mut trail) {
                break;
            }
        }
        if let Some(piece) = piece {
            call(self, piece);
        }
    }
}
