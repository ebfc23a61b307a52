//! A B+ tree whose nodes are in modules that a hash of their numbers names, and whose upper levels are in every module.
//!
//! A batch goes down a level at a time, and each level is a round: operations at a node that few have come to are
//! *pushed* as commands to its module; a node that many have come to is *pulled*, once, and the host does their step.
//! On leaves, operations are executed in the same way; a pulled leaf that has changed is written back in the next
//! round. Then leaves that have too many pairs are divided (`grow`).
//!
//! **Jump-push form.** Nodes of up to three, so that a level is about a level of a skiplist. Searches go down in
//! phases: first a sample of the sorted keys, then twice as many, …; each begins at the lowest node that the searches
//! of its neighbours have in common. Kinder than the original: a level of a skiplist takes one to two nodes, each a
//! round.
//!
//! **PIM-tree form.** Nodes of up to sixteen, all in one phase. Left out: copies of a node's lower subtree beside it
//! (shadow subtrees), which save rounds for some more memory.
//!
//! Neither merges nodes that have few pairs.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::device::command::Reader;
use crate::map::{Answer, LoadError, MapError, Operation};
use crate::modules::{Counters, Modules, Profile, Simulated};

use super::Index;
use super::store::{Node, NodeStore, OnLeaf};

/// Which design a tree has the form of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Small nodes, and phases.
    JumpPush,
    /// Chunks, and one phase.
    PimTree,
}

impl Form {
    /// Pairs of a node.
    pub fn capacity(self) -> usize {
        match self {
            Self::JumpPush => 3,
            Self::PimTree => 16,
        }
    }
}

/// A distributed tree over modules that execute a [`NodeStore`] each.
pub struct Tree<M> {
    pub(super) modules: M,
    pub(super) form: Form,
    /// Level of the nodes that the upper levels lead to.
    pub(super) highest: u8,
    pub(super) next_id: u64,
    /// Nodes that the batch has come by: from where.
    pub(super) parents: HashMap<u64, u64>,
    pub(super) steps: u64,
    pub(super) loads: Vec<u64>,
}

/// Batches for one round.
pub(super) type Batches = Vec<Vec<u8>>;

impl Tree<Simulated<NodeStore>> {
    /// A tree over simulated modules. It must be loaded before use.
    ///
    /// # Errors
    /// There is no module.
    pub fn simulated(form: Form, modules: usize, profile: Profile) -> Result<Self, MapError> {
        let programs = (0..modules).map(|_| NodeStore::new(form.capacity())).collect();
        Ok(Self {
            modules: Simulated::new(programs, profile)?,
            form,
            highest: 0,
            next_id: 1,
            parents: HashMap::new(),
            steps: 0,
            loads: vec![0; modules],
        })
    }
}

impl<M: Modules> Tree<M> {
    pub(super) fn batches(&self) -> Batches {
        vec![Vec::new(); self.modules.count()]
    }

    pub(super) fn module_of(&self, node: u64) -> usize {
        let mixed = (node ^ (node >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20) as usize % self.modules.count()
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn round(&mut self, batches: Batches) -> Result<Vec<Vec<u8>>, MapError> {
        self.modules.host_steps(std::mem::take(&mut self.steps));
        Ok(self.modules.round(batches)?)
    }

    /// Operations at a node from which on it is pulled.
    fn many(&self) -> usize {
        match self.form {
            Form::PimTree => self.form.capacity(),
            Form::JumpPush => self.modules.count().max(2).ilog2() as usize,
        }
    }

    /// Builds the tree from the leaves up, until the upper levels have at most an entry for each module, and loads it
    /// in one round.
    fn build(&mut self, pairs: &[(u64, u64)]) -> Result<(), MapError> {
        let mut batches = self.batches();
        let fill = (self.form.capacity() * 3 / 4).max(2);
        let mut level = 0u8;
        let mut below: Vec<(u64, u64)> = pairs.to_vec();
        if below.is_empty() {
            below.push((0, 0));
        }
        loop {
            let mut above = Vec::new();
            for (number, part) in below.chunks(fill).enumerate() {
                let id = self.new_id();
                let low = if number == 0 { 0 } else { part[0].0 };
                let node = Node {
                    level,
                    low,
                    pairs: if pairs.is_empty() {
                        Vec::new()
                    } else {
                        part.to_vec()
                    },
                };
                let batch = &mut batches[self.module_of(id)];
                batch.push(4);
                batch.extend_from_slice(&id.to_le_bytes());
                node.write(batch);
                above.push((low, id));
            }
            if above.len() <= self.modules.count() {
                self.highest = level;
                for (low, id) in above {
                    for batch in &mut batches {
                        batch.push(8);
                        batch.extend_from_slice(&low.to_le_bytes());
                        batch.extend_from_slice(&id.to_le_bytes());
                    }
                }
                break;
            }
            below = above;
            level += 1;
        }
        self.round(batches).map(|_| ())
    }

    /// Leads keys from nodes, or from the upper levels, to leaves. A key's node is 0 for the upper levels; afterwards
    /// it is the leaf.
    pub(super) fn descend(&mut self, keys: &[u64], nodes: &mut [(u8, u64)]) -> Result<(), MapError> {
        let count = self.modules.count();
        if nodes.iter().any(|(_, node)| *node == 0) {
            let mut batches = self.batches();
            let mut asked = Vec::new();
            for (at, key) in keys.iter().enumerate().filter(|(at, _)| nodes[*at].1 == 0) {
                // Any module will do.
                let module = asked.len() % count;
                batches[module].push(1);
                batches[module].extend_from_slice(&key.to_le_bytes());
                asked.push((at, module));
                self.steps += 2;
                self.loads[module] += 1;
            }
            let answers = self.round(batches)?;
            let mut readers: Vec<Reader<'_>> = answers.iter().map(|answers| Reader(answers)).collect();
            for (at, module) in asked {
                nodes[at] = (self.highest, long(&mut readers[module], module)?);
            }
        }
        for level in (1..=self.highest).rev() {
            let here: Vec<usize> = (0..keys.len()).filter(|at| nodes[*at].0 == level).collect();
            if !here.is_empty() {
                self.descend_level(keys, nodes, &here)?;
            }
        }
        Ok(())
    }

    fn descend_level(
        &mut self,
        keys: &[u64],
        nodes: &mut [(u8, u64)],
        here: &[usize],
    ) -> Result<(), MapError> {
        let mut visitors: HashMap<u64, u32> = HashMap::new();
        for at in here {
            *visitors.entry(nodes[*at].1).or_default() += 1;
        }
        let mut batches = self.batches();
        let mut pulled: HashMap<u64, Option<Node>> = HashMap::new();
        let mut order = Vec::new();
        for at in here {
            let node = nodes[*at].1;
            let module = self.module_of(node);
            self.steps += 1;
            if visitors[&node] as usize > self.many() {
                if let Entry::Vacant(vacant) = pulled.entry(node) {
                    vacant.insert(None);
                    batches[module].push(3);
                    batches[module].extend_from_slice(&node.to_le_bytes());
                    order.push((None, module, node));
                    self.loads[module] += 1;
                }
            } else {
                batches[module].push(2);
                batches[module].extend_from_slice(&node.to_le_bytes());
                batches[module].extend_from_slice(&keys[*at].to_le_bytes());
                order.push((Some(*at), module, node));
                self.loads[module] += 1;
                self.steps += 1;
            }
        }
        let answers = self.round(batches)?;
        let mut readers: Vec<Reader<'_>> = answers.iter().map(|answers| Reader(answers)).collect();
        for (at, module, node) in order {
            match at {
                Some(at) => {
                    let child = long(&mut readers[module], module)?;
                    self.parents.insert(child, node);
                    nodes[at] = (nodes[at].0 - 1, child);
                }
                None => {
                    let read = Node::read(&mut readers[module]).ok_or_else(|| unreadable(module))?;
                    pulled.insert(node, Some(read));
                }
            }
        }
        for at in here {
            let (level, node) = nodes[*at];
            if let Some(Some(read)) = pulled.get(&node) {
                self.steps += 1;
                let child = read.child(keys[*at]).ok_or_else(|| unreadable(0))?;
                self.parents.insert(child, node);
                nodes[*at] = (level - 1, child);
            }
        }
        Ok(())
    }

    /// The leaves of keys, in phases if the form has them.
    pub(super) fn leaves_of(&mut self, keys: &[u64]) -> Result<Vec<u64>, MapError> {
        let mut nodes = vec![(self.highest, 0); keys.len()];
        if self.form == Form::PimTree {
            self.descend(keys, &mut nodes)?;
            return Ok(nodes.into_iter().map(|(_, leaf)| leaf).collect());
        }
        let mut sorted: Vec<usize> = (0..keys.len()).collect();
        sorted.sort_unstable_by_key(|at| keys[*at]);
        let first = self.modules.count() * self.many();
        let mut stride = (keys.len() / first.max(1)).max(1).next_power_of_two();
        let mut done = 0usize;
        loop {
            let phase: Vec<usize> = (0..sorted.len())
                .step_by(stride)
                .filter(|number| done == 0 || number % done != 0)
                .collect();
            let mut starts = Vec::with_capacity(phase.len());
            for number in &phase {
                starts.push(self.common(&sorted, &nodes, *number, done));
            }
            let phase_keys: Vec<u64> = phase.iter().map(|number| keys[sorted[*number]]).collect();
            self.descend(&phase_keys, &mut starts)?;
            for (number, start) in phase.iter().zip(starts) {
                nodes[sorted[*number]] = start;
            }
            if stride == 1 {
                return Ok(nodes.into_iter().map(|(_, leaf)| leaf).collect());
            }
            done = stride;
            stride /= 2;
        }
    }

    /// The lowest node that the searches before and after have in common.
    fn common(&mut self, sorted: &[usize], nodes: &[(u8, u64)], number: usize, done: usize) -> (u8, u64) {
        let from_the_top = (self.highest, 0);
        if done == 0 {
            return from_the_top;
        }
        let before = number / done * done;
        let after = before + done;
        if after >= sorted.len() {
            return from_the_top;
        }
        let (mut one, mut other) = (nodes[sorted[before]].1, nodes[sorted[after]].1);
        let mut level = 0;
        while one != other {
            self.steps += 1;
            match (self.parents.get(&one), self.parents.get(&other)) {
                (Some(up), Some(other_up)) => (one, other) = (*up, *other_up),
                _ => return from_the_top,
            }
            level += 1;
        }
        (level, one)
    }
}

pub(super) fn unreadable(module: usize) -> MapError {
    MapError::Answers {
        module: module as u32,
    }
}

pub(super) fn long(reader: &mut Reader<'_>, module: usize) -> Result<u64, MapError> {
    reader.long().ok_or_else(|| unreadable(module))
}

impl<M: Modules> Index for Tree<M> {
    fn load(&mut self, pairs: &[(u64, u64)]) -> Result<(), MapError> {
        if self.next_id != 1 {
            return Err(LoadError::Loaded.into());
        }
        if pairs.windows(2).any(|two| two[0].0 >= two[1].0) {
            return Err(LoadError::Unsorted.into());
        }
        self.build(pairs)
    }

    fn execute(&mut self, operations: &[Operation]) -> Result<Vec<Answer>, MapError> {
        if self.next_id == 1 {
            return Err(LoadError::NotLoaded.into());
        }
        self.parents.clear();
        self.loads.fill(0);
        let mut answers = vec![Answer::Value(None); operations.len()];
        let mut points = Vec::new();
        let mut scans = Vec::new();
        for (at, operation) in operations.iter().enumerate() {
            match *operation {
                Operation::Get(key) => points.push((at, OnLeaf::Get(key))),
                Operation::Predecessor(key) => points.push((at, OnLeaf::Predecessor(key))),
                Operation::Insert(key, value) => points.push((at, OnLeaf::Insert(key, value))),
                Operation::Delete(key) => points.push((at, OnLeaf::Delete(key))),
                Operation::CompareSwap { key, expected, value } => {
                    points.push((at, OnLeaf::CompareSwap(key, expected, value)));
                }
                Operation::Scan(from, to) => {
                    answers[at] = Answer::Pairs(Arc::default());
                    if let Some((first, last)) = Operation::ends(from, to) {
                        scans.push((at, first, last));
                    }
                }
            }
        }
        if !points.is_empty() {
            self.points(points, &mut answers)?;
        }
        if !scans.is_empty() {
            self.scans(&scans, &mut answers)?;
        }
        Ok(answers)
    }

    fn counters(&self) -> Counters {
        self.modules.counters()
    }

    fn memory_bytes(&self) -> u64 {
        self.modules.memory_bytes()
    }

    fn loads(&self) -> &[u64] {
        &self.loads
    }
}
