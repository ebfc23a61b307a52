//! Division of nodes of a distributed tree that have too many pairs: from the leaves up, all of a level together.
//!
//! A level takes a round to read its nodes, with what the level below writes. What reaches the upper levels is sent to
//! every module.

use std::collections::BTreeMap;

use crate::device::command::Reader;
use crate::map::MapError;
use crate::modules::Modules;

use super::store::Node;
use super::tree::{Batches, Tree, unreadable};

impl<M: Modules> Tree<M> {
    /// Divides leaves; those that were pulled are there. Other writes are to be sent with the first round.
    pub(super) fn grow(
        &mut self,
        full: Vec<(u64, Option<Node>)>,
        mut writes: Batches,
    ) -> Result<(), MapError> {
        let mut here = full;
        // Pairs that a node of the level gets before it is divided.
        let mut gets: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        loop {
            let mut order = Vec::new();
            for (id, node) in &here {
                if node.is_none() {
                    let module = self.module_of(*id);
                    writes[module].push(3);
                    writes[module].extend_from_slice(&id.to_le_bytes());
                    order.push((*id, module));
                    self.loads[module] += 1;
                }
            }
            let answers = self.round(std::mem::replace(&mut writes, self.batches()))?;
            let mut readers: Vec<Reader<'_>> = answers.iter().map(|answers| Reader(answers)).collect();
            let mut read = BTreeMap::new();
            for (id, module) in order {
                let node = Node::read(&mut readers[module]).ok_or_else(|| unreadable(module))?;
                read.insert(id, node);
            }
            let mut above: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
            let mut top = Vec::new();
            for (id, node) in here {
                let Some(mut node) = node.or_else(|| read.remove(&id)) else {
                    continue;
                };
                node.pairs.extend(gets.remove(&id).unwrap_or_default());
                node.pairs.sort_unstable();
                for (low, part) in self.divide(id, node, &mut writes) {
                    match self.parents.get(&id) {
                        Some(parent) => above.entry(*parent).or_default().push((low, part)),
                        None => top.push((low, part)),
                    }
                }
            }
            for (low, id) in top {
                for batch in &mut writes {
                    batch.push(8);
                    batch.extend_from_slice(&low.to_le_bytes());
                    batch.extend_from_slice(&id.to_le_bytes());
                }
            }
            if above.is_empty() {
                self.round(writes)?;
                return Ok(());
            }
            here = above.keys().map(|id| (*id, None)).collect();
            gets = above;
        }
    }

    /// Writes a node in as many parts as it needs. Those that are new, with their least keys.
    fn divide(&mut self, id: u64, node: Node, writes: &mut Batches) -> Vec<(u64, u64)> {
        let capacity = self.form.capacity();
        let size = if node.pairs.len() > capacity {
            (capacity * 3 / 4).max(2)
        } else {
            capacity
        };
        let mut new = Vec::new();
        for (number, pairs) in node.pairs.chunks(size).enumerate() {
            self.steps += pairs.len() as u64;
            let (part, low) = if number == 0 {
                (id, node.low)
            } else {
                let part = self.new_id();
                new.push((pairs[0].0, part));
                (part, pairs[0].0)
            };
            let module = self.module_of(part);
            writes[module].push(4);
            writes[module].extend_from_slice(&part.to_le_bytes());
            let part = Node {
                level: node.level,
                low,
                pairs: pairs.to_vec(),
            };
            part.write(&mut writes[module]);
        }
        new
    }
}
