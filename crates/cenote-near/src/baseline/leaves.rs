//! Operations on the leaves of a distributed tree.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::device::command::Reader;
use crate::map::{Answer, MapError};
use crate::modules::Modules;

use super::store::{Node, OnLeaf, on_leaf};
use super::tree::{Tree, long, unreadable};

/// A leaf that was pulled.
#[derive(Default)]
struct Pulled {
    node: Option<Node>,
    operations: Vec<(usize, OnLeaf)>,
}

/// What a module is asked for.
struct Asked {
    module: usize,
    leaf: u64,
    /// An operation, with its place in the batch; none: the leaf itself.
    operation: Option<(usize, OnLeaf)>,
}

/// A round of point operations.
struct Round {
    /// The commands for each module.
    batches: Vec<Vec<u8>>,
    /// What modules are asked for, in the order of their replies.
    asked: Vec<Asked>,
    pulled: BTreeMap<u64, Pulled>,
}

/// What a round leaves to be done.
#[derive(Default)]
struct Left {
    /// Predecessors that their leaves do not have.
    again: Vec<(usize, OnLeaf)>,
    /// Leaves with more pairs than they have room for; with what they have, if they were pulled.
    full: Vec<(u64, Option<Node>)>,
}

impl Left {
    /// A predecessor is not in a leaf with this least key: if any key is less, it is searched for again.
    fn search_below(&mut self, at: usize, low: u64) {
        self.again
            .extend(low.checked_sub(1).map(|key| (at, OnLeaf::Predecessor(key))));
    }
}

impl Round {
    /// Reads what modules have replied: answers, and leaves that were pulled.
    fn read(&mut self, replies: &[Vec<u8>], answers: &mut [Answer], left: &mut Left) -> Result<(), MapError> {
        let mut readers: Vec<Reader<'_>> = replies.iter().map(|replies| Reader(replies)).collect();
        let mut overfull = BTreeSet::new();
        for asked in &self.asked {
            let (module, leaf) = (asked.module, asked.leaf);
            let reader = &mut readers[module];
            let Some((at, operation)) = asked.operation else {
                let node = Node::read(reader).ok_or_else(|| unreadable(module))?;
                if let Some(entry) = self.pulled.get_mut(&leaf) {
                    entry.node = Some(node);
                }
                continue;
            };
            let flags = reader.byte().ok_or_else(|| unreadable(module))?;
            let found = match (operation, flags & 1 == 1) {
                (OnLeaf::Predecessor(_), true) => Some((long(reader, module)?, long(reader, module)?)),
                (OnLeaf::Predecessor(_), false) => {
                    left.search_below(at, long(reader, module)?);
                    None
                }
                (_, true) => Some((operation.key(), long(reader, module)?)),
                (_, false) => None,
            };
            answers[at] = answer(operation, found);
            if flags & 2 == 2 && overfull.insert(leaf) {
                left.full.push((leaf, None));
            }
        }
        Ok(())
    }
}

fn answer(operation: OnLeaf, found: Option<(u64, u64)>) -> Answer {
    let value = found.map(|pair| pair.1);
    match operation {
        OnLeaf::Predecessor(_) => Answer::Pair(found),
        OnLeaf::Get(_) => Answer::Value(value),
        OnLeaf::Insert(..) => Answer::Insert { existing: value },
        OnLeaf::Delete(_) => Answer::Delete { removed: value },
        OnLeaf::CompareSwap(..) => Answer::CompareSwap { before: value },
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

    /// One round of point operations on their leaves. Returns the predecessors that their leaves do not have, with the
    /// keys from which they are to be searched for again.
    fn on_leaves(
        &mut self,
        points: &[(usize, OnLeaf)],
        leaves: &[u64],
        answers: &mut [Answer],
    ) -> Result<Vec<(usize, OnLeaf)>, MapError> {
        let mut round = self.ask_leaves(points, leaves);
        let replies = self.round(std::mem::take(&mut round.batches))?;
        let mut left = Left::default();
        round.read(&replies, answers, &mut left)?;
        let writes = self.on_pulled(round.pulled, answers, &mut left);
        if !left.full.is_empty() {
            self.grow(left.full, writes)?;
        } else if writes.iter().any(|batch| !batch.is_empty()) {
            self.round(writes)?;
        }
        Ok(left.again)
    }

    /// Writes the commands of a round: a leaf that many operations ask for is pulled, others get the operations.
    fn ask_leaves(&mut self, points: &[(usize, OnLeaf)], leaves: &[u64]) -> Round {
        let mut visitors: HashMap<u64, usize> = HashMap::new();
        for leaf in leaves {
            *visitors.entry(*leaf).or_default() += 1;
        }
        let mut round = Round {
            batches: self.batches(),
            asked: Vec::new(),
            pulled: BTreeMap::new(),
        };
        for (&(at, operation), &leaf) in points.iter().zip(leaves) {
            let module = self.module_of(leaf);
            let batch = &mut round.batches[module];
            self.steps += 1;
            if visitors[&leaf] > self.form.capacity().max(8) {
                let entry = round.pulled.entry(leaf).or_insert_with(|| {
                    batch.push(3);
                    batch.extend_from_slice(&leaf.to_le_bytes());
                    round.asked.push(Asked {
                        module,
                        leaf,
                        operation: None,
                    });
                    self.loads[module] += 1;
                    Pulled::default()
                });
                entry.operations.push((at, operation));
            } else {
                batch.push(5);
                batch.extend_from_slice(&leaf.to_le_bytes());
                operation.write(batch);
                round.asked.push(Asked {
                    module,
                    leaf,
                    operation: Some((at, operation)),
                });
                self.loads[module] += 1;
                self.steps += 1;
            }
        }
        round
    }

    /// Executes operations on the leaves that were pulled. Returns the commands that write those back that have
    /// changed, and have room for what they have.
    fn on_pulled(
        &mut self,
        pulled: BTreeMap<u64, Pulled>,
        answers: &mut [Answer],
        left: &mut Left,
    ) -> Vec<Vec<u8>> {
        let mut writes = self.batches();
        for (leaf, entry) in pulled {
            let Some(mut node) = entry.node else {
                continue;
            };
            let mut changed = false;
            for (at, operation) in entry.operations {
                self.steps += 1;
                let before = node.clone();
                let found = on_leaf(&mut node, operation);
                changed |= node != before;
                answers[at] = answer(operation, found);
                if let (OnLeaf::Predecessor(_), None) = (operation, found) {
                    left.search_below(at, node.low);
                }
            }
            if node.pairs.len() > self.form.capacity() {
                left.full.push((leaf, Some(node)));
            } else if changed {
                let batch = &mut writes[self.module_of(leaf)];
                batch.push(4);
                batch.extend_from_slice(&leaf.to_le_bytes());
                node.write(batch);
            }
        }
        writes
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
            answers[at] = Answer::Pairs(Arc::new(pairs));
        }
        Ok(())
    }
}
