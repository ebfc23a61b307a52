//! Operations on the leaves of a distributed tree.

use std::collections::HashMap;

use crate::device::command::Reader;
use crate::map::{Answer, MapError};
use crate::modules::Modules;

use super::store::{Node, OnLeaf, on_leaf};
use super::tree::{Tree, long, unreadable};

/// A leaf that was pulled.
struct Pulled {
    node: Option<Node>,
    changed: bool,
    operations: Vec<(usize, OnLeaf)>,
}

fn answer(operation: OnLeaf, found: Option<(u64, u64)>) -> Answer {
    match operation {
        OnLeaf::Predecessor(_) => Answer::Pair(found),
        _ => Answer::Value(found.map(|pair| pair.1)),
    }
}

impl<M: Modules> Tree<M> {
    /// Point operations. A predecessor that its leaf does not have is searched for again, from below the leaf.
    pub(super) fn points(
        &mut self,
        points: Vec<(usize, OnLeaf)>,
        answers: &mut [Answer],
    ) -> Result<(), MapError> {
        let mut left = points;
        while !left.is_empty() {
            let keys: Vec<u64> = left.iter().map(|(_, operation)| operation.key()).collect();
            let leaves = self.leaves_of(&keys)?;
            left = self.on_leaves(&left, &leaves, answers)?;
        }
        Ok(())
    }

    fn on_leaves(
        &mut self,
        points: &[(usize, OnLeaf)],
        leaves: &[u64],
        answers: &mut [Answer],
    ) -> Result<Vec<(usize, OnLeaf)>, MapError> {
        let mut visitors: HashMap<u64, usize> = HashMap::new();
        for leaf in leaves {
            *visitors.entry(*leaf).or_default() += 1;
        }
        let mut batches = self.batches();
        let mut pulled: HashMap<u64, Pulled> = HashMap::new();
        let mut order = Vec::new();
        for (&(at, operation), &leaf) in points.iter().zip(leaves) {
            let module = self.module_of(leaf);
            self.steps += 1;
            if visitors[&leaf] > self.form.capacity().max(8) {
                let entry = pulled.entry(leaf).or_insert_with(|| {
                    batches[module].push(3);
                    batches[module].extend_from_slice(&leaf.to_le_bytes());
                    order.push((None, module, leaf));
                    self.loads[module] += 1;
                    Pulled {
                        node: None,
                        changed: false,
                        operations: Vec::new(),
                    }
                });
                entry.operations.push((at, operation));
            } else {
                batches[module].push(5);
                batches[module].extend_from_slice(&leaf.to_le_bytes());
                operation.write(&mut batches[module]);
                order.push((Some((at, operation)), module, leaf));
                self.loads[module] += 1;
                self.steps += 1;
            }
        }
        let replies = self.round(batches)?;
        let mut readers: Vec<Reader<'_>> = replies.iter().map(|replies| Reader(replies)).collect();
        let (mut again, mut full) = (Vec::new(), Vec::new());
        let mut overfull = std::collections::BTreeSet::new();
        for (what, module, leaf) in order {
            let reader = &mut readers[module];
            let Some((at, operation)) = what else {
                let node = Node::read(reader).ok_or_else(|| unreadable(module))?;
                if let Some(entry) = pulled.get_mut(&leaf) {
                    entry.node = Some(node);
                }
                continue;
            };
            let flags = reader.byte().ok_or_else(|| unreadable(module))?;
            let found = match (operation, flags & 1 == 1) {
                (OnLeaf::Predecessor(_), true) => Some((long(reader, module)?, long(reader, module)?)),
                (OnLeaf::Predecessor(_), false) => {
                    let low = long(reader, module)?;
                    again.extend(low.checked_sub(1).map(|key| (at, OnLeaf::Predecessor(key))));
                    None
                }
                (_, true) => Some((operation.key(), long(reader, module)?)),
                (_, false) => None,
            };
            answers[at] = answer(operation, found);
            if flags & 2 == 2 && overfull.insert(leaf) {
                full.push((leaf, None));
            }
        }
        let mut batches = self.batches();
        let mut writes = false;
        let mut pulled: Vec<(u64, Pulled)> = pulled.into_iter().collect();
        pulled.sort_unstable_by_key(|(leaf, _)| *leaf);
        for (leaf, mut entry) in pulled {
            let Some(mut node) = entry.node.take() else {
                continue;
            };
            for (at, operation) in entry.operations {
                self.steps += 1;
                let before = node.clone();
                let found = on_leaf(&mut node, operation);
                entry.changed |= node != before;
                answers[at] = answer(operation, found);
                if let (OnLeaf::Predecessor(_), None) = (operation, found) {
                    again.extend(node.low.checked_sub(1).map(|key| (at, OnLeaf::Predecessor(key))));
                }
            }
            if node.pairs.len() > self.form.capacity() {
                full.push((leaf, Some(node)));
            } else if entry.changed {
                writes = true;
                let module = self.module_of(leaf);
                batches[module].push(4);
                batches[module].extend_from_slice(&leaf.to_le_bytes());
                node.write(&mut batches[module]);
            }
        }
        if !full.is_empty() {
            self.grow(full, batches)?;
        } else if writes {
            self.round(batches)?;
        }
        Ok(again)
    }

    /// Scans: each goes down along all nodes that may have keys of it, a level a round.
    pub(super) fn scans(
        &mut self,
        scans: &[(usize, u64, u64)],
        answers: &mut [Answer],
    ) -> Result<(), MapError> {
        let count = self.modules.count();
        // Scans at a node: the upper levels have number 0.
        let mut front: Vec<(usize, u64)> = (0..scans.len()).map(|number| (number, 0)).collect();
        let mut all: Vec<Vec<(u64, u64)>> = vec![Vec::new(); scans.len()];
        while !front.is_empty() {
            let mut batches = self.batches();
            let mut order = Vec::with_capacity(front.len());
            for (turn, (number, node)) in front.into_iter().enumerate() {
                let (_, first, last) = scans[number];
                let module = if node == 0 {
                    turn % count
                } else {
                    self.module_of(node)
                };
                let batch = &mut batches[module];
                batch.push(if node == 0 { 7 } else { 6 });
                if node != 0 {
                    batch.extend_from_slice(&node.to_le_bytes());
                }
                batch.extend_from_slice(&first.to_le_bytes());
                batch.extend_from_slice(&last.to_le_bytes());
                order.push((number, module));
                self.steps += 2;
                self.loads[module] += 1;
            }
            let replies = self.round(batches)?;
            let mut readers: Vec<Reader<'_>> = replies.iter().map(|replies| Reader(replies)).collect();
            front = Vec::new();
            for (number, module) in order {
                let reader = &mut readers[module];
                let leaf = reader.byte().ok_or_else(|| unreadable(module))? == 1;
                if leaf {
                    all[number].extend(reader.pairs().ok_or_else(|| unreadable(module))?);
                    continue;
                }
                let nodes = reader.word().ok_or_else(|| unreadable(module))?;
                for _ in 0..nodes {
                    front.push((number, long(reader, module)?));
                }
            }
        }
        for (&(at, ..), pairs) in scans.iter().zip(all) {
            answers[at] = Answer::Pairs(pairs);
        }
        Ok(())
    }
}
