//! The skiplist against a model, by its commands.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Skiplist;
use super::command::{Command, Reader};
use super::node::{SUBRANGE_HEADER, Shape};
use super::tree::{INNER, Kind, LEAF};
use super::walk::Tree;
use crate::modules::{Malformed, Meter, Program};

fn run(list: &mut Skiplist, command: Command<'_>) -> Vec<u8> {
    let (mut bytes, mut answers) = (Vec::new(), Vec::new());
    command.write(&mut bytes);
    list.run(&bytes, &mut answers, &mut Meter::default()).unwrap();
    answers.truncate(answers.len() - 12);
    list.check();
    answers
}

fn option(longs: Option<&[u64]>) -> Vec<u8> {
    let mut bytes = vec![u8::from(longs.is_some())];
    for long in longs.into_iter().flatten() {
        bytes.extend_from_slice(&long.to_le_bytes());
    }
    bytes
}

fn pairs_of<'a>(pairs: impl Iterator<Item = (&'a u64, &'a u64)>) -> Vec<u8> {
    pairs
        .flat_map(|(key, value)| [key.to_le_bytes(), value.to_le_bytes()].concat())
        .collect()
}

impl Skiplist {
    /// The invariants of the module's header.
    fn check(&self) {
        let mut subrange = self.link(self.head + SUBRANGE_HEADER, 0);
        let mut end = None;
        let mut blocks = vec![(self.head, Shape::WORDS_MAX)];
        while subrange != 0 {
            assert!(
                end.is_none_or(|end| end < self.start(subrange)),
                "subranges overlap"
            );
            end = Some(self.ends(subrange).last());
            let mut keys = Vec::new();
            if let Some(Tree { root, depth }) = self.tree(subrange) {
                assert!(depth == 0 || self.entries(root) > 1, "a root with one child");
                self.check_node(root, depth, &mut keys, &mut blocks);
            }
            assert!(keys.is_sorted_by(|one, next| one < next));
            assert!(keys.iter().all(|key| self.covers(subrange, *key)));
            assert_eq!(keys.len(), self.keys_in(subrange) as usize);
            blocks.push((subrange, self.shape(subrange).words()));
            subrange = self.link(subrange + SUBRANGE_HEADER, 0);
        }
        blocks.extend(self.arena.check());
        blocks.sort_unstable();
        // Each word is in one block: `arena.check` has counted them.
        assert!(blocks.is_sorted_by(|(one, words), (next, _)| one + words == *next));
    }

    /// The keys of a node, which are what its entries say, and its block and those below it.
    fn check_node(&self, node: u32, level: u8, keys: &mut Vec<u64>, blocks: &mut Vec<(u32, u32)>) {
        let (kind, entries) = (Kind::of(level), self.entries(node));
        blocks.push((node, kind.block(self.room(node))));
        assert!((1..=self.room(node)).contains(&entries) && self.room(node) <= kind.most);
        for n in 0..entries {
            if kind == LEAF {
                keys.push(self.key_at(node, LEAF, n));
                continue;
            }
            let from = keys.len();
            self.check_node(self.child_at(node, n), level - 1, keys, blocks);
            let least = self.key_at(node, INNER, n);
            assert!(n == 0 || keys[from..].iter().all(|key| *key >= least));
            assert!(
                n + 1 == entries
                    || keys[from..]
                        .iter()
                        .all(|key| *key < self.key_at(node, INNER, n + 1))
            );
        }
    }
}

/// Subranges that a module has, by start, with their shifts; and all its keys.
struct Model {
    subranges: BTreeMap<u64, u8>,
    keys: BTreeMap<u64, u64>,
}

impl Model {
    fn last(&self, start: u64) -> u64 {
        start | ((1 << self.subranges[&start]) - 1)
    }

    fn holder(&self, key: u64) -> Option<u64> {
        let (&start, _) = self.subranges.range(..=key).next_back()?;
        (key <= self.last(start)).then_some(start)
    }
}

#[test]
fn commands_do_what_the_model_does() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut list = Skiplist::new(1 << 20, seed);
        let mut model = Model {
            subranges: BTreeMap::new(),
            keys: BTreeMap::new(),
        };
        for _ in 0..1_500 {
            step(&mut rng, &mut list, &mut model);
        }
        let starts: Vec<u64> = model.subranges.keys().copied().collect();
        for start in starts {
            run(&mut list, Command::Drop(start));
        }
        let head = SUBRANGE_HEADER + u32::from(super::MAX_HEIGHT);
        assert_eq!(list.memory_bytes(), u64::from(head) * 4, "blocks are lost");
    }
}

fn step(rng: &mut ChaCha8Rng, list: &mut Skiplist, model: &mut Model) {
    let key: u64 = rng.random_range(0..1 << 12);
    let value = rng.random_range(0..4);
    let held = model.holder(key);
    match rng.random_range(0..15) {
        0 => {
            let expected = option(model.keys.get(&key).map(std::slice::from_ref));
            assert_eq!(run(list, Command::Get(key)), expected);
        }
        1 => {
            let before = model.subranges.range(..=key).next_back().map(|(start, _)| *start);
            let pair = before.and_then(|start| model.keys.range(start..=key).next_back());
            let pair = pair.map(|(key, value)| [*key, *value]);
            let expected = option(pair.as_ref().map(|pair| &pair[..]));
            assert_eq!(run(list, Command::Predecessor(key)), expected);
        }
        2..=5 => {
            if held.is_some() {
                let before = model.keys.get(&key).copied();
                model.keys.entry(key).or_insert(value);
                let expected = option(before.as_ref().map(std::slice::from_ref));
                assert_eq!(run(list, Command::Insert(key, value)), expected);
            }
        }
        6 => {
            let before = model.keys.remove(&key);
            let mut expected = option(before.as_ref().map(std::slice::from_ref));
            if let (Some(_), Some(start)) = (before, held) {
                let first = model
                    .keys
                    .range(start..=model.last(start))
                    .next()
                    .map(|(key, _)| *key);
                expected.extend(option(first.as_ref().map(std::slice::from_ref)));
            }
            assert_eq!(run(list, Command::Delete(key)), expected);
        }
        7 => {
            let before = model.keys.get(&key).copied();
            if before == Some(1) {
                model.keys.insert(key, value);
            }
            let expected = option(before.as_ref().map(std::slice::from_ref));
            assert_eq!(run(list, Command::CompareSwap(key, 1, value)), expected);
        }
        13 => {
            if held.is_some() {
                let before = model.keys.insert(key, value);
                let expected = option(before.as_ref().map(std::slice::from_ref));
                assert_eq!(run(list, Command::Put(key, value)), expected);
            }
        }
        14 => {
            if held.is_some() {
                let before = model.keys.get(&key).copied();
                let unbound = rng.random_bool(0.5).then_some(value);
                let from: Vec<u64> = (0..rng.random_range(0..4)).collect();
                let after = match before {
                    Some(value) if from.contains(&value) => Some(7),
                    Some(value) => Some(value),
                    None => unbound,
                };
                if let Some(after) = after {
                    model.keys.insert(key, after);
                }
                let bytes: Vec<u8> = from.iter().flat_map(|value| value.to_le_bytes()).collect();
                let change = Command::Change {
                    key,
                    unbound,
                    to: 7,
                    from: &bytes,
                };
                let expected = option(before.as_ref().map(std::slice::from_ref));
                assert_eq!(run(list, change), expected);
            }
        }
        8 => {
            let last = rng.random_range(key..1 << 12);
            let answer = run(list, Command::Scan(key, last));
            let expected = pairs_of(model.keys.range(key..=last));
            assert_eq!(answer[4..], expected);
            assert_eq!(answer[..4], (expected.len() as u32 / 16).to_le_bytes());
        }
        9 => {
            if let Some(start) = held {
                let answer = run(list, Command::Export(start, model.subranges[&start], 4096));
                let last = model.last(start);
                assert_eq!(answer[4..], pairs_of(model.keys.range(start..=last)));
                model.keys.retain(|key, _| !(start..=last).contains(key));
                model.subranges.remove(&start);
            }
        }
        10 => {
            let shift = rng.random_range(3..9);
            let start = key >> shift << shift;
            let last = start | ((1 << shift) - 1);
            let overlaps = model
                .subranges
                .keys()
                .any(|&other| other <= last && model.last(other) >= start);
            if !overlaps {
                model.subranges.insert(start, shift);
                for key in start..=last {
                    if rng.random_bool(0.5) {
                        model.keys.insert(key, value);
                    }
                }
                let pairs = pairs_of(model.keys.range(start..=last));
                assert_eq!(run(list, Command::Import(start, shift, &pairs)), [1]);
            }
        }
        11 => {
            if let Some(start) = held
                && model.subranges[&start] > 2
            {
                let shift = rng.random_range(1..model.subranges[&start]);
                let last = model.last(start);
                let answer = run(list, Command::Split(start, shift));
                let mut pieces: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
                for (&key, _) in model.keys.range(start..=last) {
                    pieces.entry(key >> shift << shift).or_insert((key, 0)).1 += 1;
                }
                let mut reader = Reader(&answer);
                assert_eq!(reader.word(), Some(pieces.len() as u32));
                for (least, keys) in pieces.values() {
                    assert_eq!((reader.long(), reader.word()), (Some(*least), Some(*keys)));
                }
                model.subranges.remove(&start);
                model.subranges.extend(pieces.keys().map(|&start| (start, shift)));
            }
        }
        _ => {
            run(list, Command::Height(key, rng.random_range(0..30)));
        }
    }
}

#[test]
fn a_full_arena_refuses_and_stays_whole() {
    let mut list = Skiplist::new(4096, 1);
    run(&mut list, Command::Import(0, 40, &[]));
    let bound = (0..1000).take_while(|&key| run(&mut list, Command::Insert(key, key)) == [0]);
    let bound = bound.count() as u64;
    assert!((50..250).contains(&bound), "{bound}");
    assert_eq!(run(&mut list, Command::Insert(bound, 1)), [2]);
    let many: Vec<(u64, u64)> = (0..64).map(|n| ((1 << 40) + n, n)).collect();
    let many = pairs_of(many.iter().map(|(key, value)| (key, value)));
    assert_eq!(run(&mut list, Command::Import(1 << 40, 40, &many)), [2]);
    assert_eq!(run(&mut list, Command::Split(0, 1)), 0u32.to_le_bytes());
    assert_eq!(
        run(&mut list, Command::Get(bound - 1)),
        option(Some(&[bound - 1]))
    );
    assert_eq!(run(&mut list, Command::Delete(3))[0], 1);
}

#[test]
fn a_subrange_that_is_not_there_has_no_keys() {
    let mut list = Skiplist::new(1 << 16, 1);
    run(&mut list, Command::Import(0, 8, &[7; 16][..0]));
    run(&mut list, Command::Insert(1, 1));
    assert_eq!(run(&mut list, Command::Insert(256, 1)), [2]);
    for (start, shift) in [(1, 8), (0, 7), (512, 8)] {
        assert_eq!(run(&mut list, Command::Export(start, shift, 9)), [0; 4]);
    }
    assert_eq!(run(&mut list, Command::Export(0, 8, 0)), [255; 4]);
    assert_eq!(run(&mut list, Command::Split(512, 3)), [0; 4]);
    run(&mut list, Command::Drop(512));
    assert_eq!(run(&mut list, Command::Export(0, 8, 1)).len(), 20);
}

#[test]
fn what_is_no_command_is_refused() {
    let mut list = Skiplist::new(1 << 16, 1);
    run(&mut list, Command::Import(0, 8, &[]));
    let mut refuse = |command: Command<'_>| {
        let (mut bytes, mut answers) = (Vec::new(), Vec::new());
        Command::Get(1).write(&mut bytes);
        command.write(&mut bytes);
        let outcome = list.run(&bytes, &mut answers, &mut Meter::default());
        assert_eq!(outcome, Err(Malformed { at: 9 }), "{command:?}");
    };
    refuse(Command::Split(0, 8));
    refuse(Command::Split(0, 0));
    refuse(Command::Import(256, 0, &[]));
    refuse(Command::Import(0, 9, &[]));
    refuse(Command::Import(8, 2, &[]));
    refuse(Command::Import(256, 70, &[]));
    refuse(Command::Import(257, 8, &[]));
    refuse(Command::Import(256, 8, &[0; 16]));
    for bytes in [
        &[0][..],
        &[12],
        &[1, 2],
        &[8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255],
    ] {
        let outcome = list.run(bytes, &mut Vec::new(), &mut Meter::default());
        assert_eq!(outcome, Err(Malformed { at: 0 }));
    }
}

/// Trees of several levels, which grow, lose most of their keys, at one end or everywhere, and grow again.
#[test]
fn a_large_subrange_does_what_the_model_does() {
    for seed in 0..4 {
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut list = Skiplist::new(1 << 24, seed);
        run(&mut list, Command::Import(0, 40, &[]));
        let mut model = BTreeMap::new();
        for phase in 0..12 {
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            let (from, width) = (rng.random_range(0..20_000), rng.random_range(1..20_000));
            let deletes = [0.05, 0.5, 0.95][phase % 3];
            for _ in 0..10_000 {
                let key: u64 = from + rng.random_range(0..width);
                if rng.random_bool(deletes) {
                    Command::Delete(key).write(&mut bytes);
                    let before: Option<u64> = model.remove(&key);
                    expected.extend(option(before.as_ref().map(std::slice::from_ref)));
                    if before.is_some() {
                        let first = model.first_key_value().map(|(key, _)| *key);
                        expected.extend(option(first.as_ref().map(std::slice::from_ref)));
                    }
                } else {
                    Command::Put(key, phase as u64).write(&mut bytes);
                    let before = model.insert(key, phase as u64);
                    expected.extend(option(before.as_ref().map(std::slice::from_ref)));
                }
                let pair = model.range(..=key).next_back().map(|(key, value)| [*key, *value]);
                Command::Predecessor(key).write(&mut bytes);
                expected.extend(option(pair.as_ref().map(|pair| &pair[..])));
            }
            let mut answers = Vec::new();
            list.run(&bytes, &mut answers, &mut Meter::default()).unwrap();
            answers.truncate(answers.len() - 12);
            assert!(answers == expected, "phase {phase}");
            let answer = run(&mut list, Command::Scan(0, u64::MAX));
            assert!(answer[4..] == pairs_of(model.iter()), "phase {phase}");
        }
        run(&mut list, Command::Drop(0));
        let head = SUBRANGE_HEADER + u32::from(super::MAX_HEIGHT);
        assert_eq!(list.memory_bytes(), u64::from(head) * 4, "blocks are lost");
    }
}

/// Leaves are full if keys ascend, half full at least if they do not, and memory is given back as keys go.
#[test]
fn keys_take_little_memory() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for ascend in [true, false] {
        let mut list = Skiplist::new(1 << 24, 1);
        run(&mut list, Command::Import(0, 64, &[]));
        let keys: Vec<u64> = match ascend {
            true => (0..5_000).collect(),
            false => (0..5_000).map(|_| rng.random()).collect(),
        };
        let (mut bytes, mut answers) = (Vec::new(), Vec::new());
        for key in &keys {
            Command::Insert(*key, 1).write(&mut bytes);
        }
        list.run(&bytes, &mut answers, &mut Meter::default()).unwrap();
        list.check();
        let each = list.memory_bytes() as f64 / keys.len() as f64;
        let most = if ascend { 18.0 } else { 26.0 };
        assert!((16.0..most).contains(&each), "{each}");
        bytes.clear();
        for key in &keys[100..] {
            Command::Delete(*key).write(&mut bytes);
        }
        list.run(&bytes, &mut answers, &mut Meter::default()).unwrap();
        list.check();
        let left = list.memory_bytes() as f64 / 100.0;
        assert!(left < 120.0, "{left}");
    }
}

/// Binds keys until no more are taken, and unbinds them. How many they were.
fn fill_and_empty(list: &mut Skiplist, key: impl Fn(u64) -> u64) -> usize {
    let (mut bytes, mut answers) = (Vec::new(), Vec::new());
    let keys: Vec<u64> = (0..3 * 4096).map(key).collect();
    for key in &keys {
        Command::Insert(*key, 1).write(&mut bytes);
    }
    list.run(&bytes, &mut answers, &mut Meter::default()).unwrap();
    list.check();
    answers.truncate(answers.len() - 12);
    let taken = answers.iter().filter(|answer| **answer == 0).count();
    assert!(taken < keys.len(), "the arena was never full");
    bytes.clear();
    for key in &keys {
        Command::Delete(*key).write(&mut bytes);
    }
    list.run(&bytes, &mut answers, &mut Meter::default()).unwrap();
    list.check();
    taken
}

/// Memory that was full of nodes of some sizes serves for those of other sizes once the keys are gone.
#[test]
fn what_was_full_can_be_filled_otherwise() {
    type Way = fn(u64) -> u64;
    let ways: [Way; 3] = [
        |n| 1_000_000 + n,
        |n| 1_000_000_000 - n,
        |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    ];
    for first in ways {
        for second in ways {
            let [mut used, mut fresh] = [1, 2].map(|_| {
                let mut list = Skiplist::new(65_536, 1);
                run(&mut list, Command::Import(0, 64, &[]));
                list
            });
            fill_and_empty(&mut used, first);
            assert_eq!(
                fill_and_empty(&mut used, second),
                fill_and_empty(&mut fresh, second)
            );
        }
    }
}

/// A module that subranges of all sizes come to and leave has room for them for ever.
#[test]
fn subranges_come_and_go_without_end() {
    let seed = 4;
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut list = Skiplist::new(65_536, seed);
    let mut here: BTreeMap<u64, usize> = BTreeMap::new();
    for _ in 0..20_000 {
        let start = rng.random_range(0..32) << 16;
        if here.remove(&start).is_some() {
            run(&mut list, Command::Drop(start));
            continue;
        }
        let keys = rng.random_range(0..400);
        // Half of the arena, by what a host reckons with.
        if (here.values().sum::<usize>() + keys) * 8 > 8_192 {
            continue;
        }
        let pairs: Vec<(u64, u64)> = (0..keys as u64).map(|key| (start + key, key)).collect();
        let pairs = pairs_of(pairs.iter().map(|(key, value)| (key, value)));
        assert_eq!(run(&mut list, Command::Import(start, 16, &pairs)), [1]);
        here.insert(start, keys);
    }
}

#[test]
fn searches_take_few_pointers() {
    let mut list = Skiplist::new(1 << 24, 1);
    let keys: Vec<(u64, u64)> = (0..4096).map(|key| (key * 3, key)).collect();
    let pairs = pairs_of(keys.iter().map(|(key, value)| (key, value)));
    run(&mut list, Command::Import(0, 20, &pairs));
    let (mut bytes, mut meter) = (Vec::new(), Meter::default());
    for (key, _) in &keys {
        Command::Get(*key).write(&mut bytes);
    }
    list.run(&bytes, &mut Vec::new(), &mut meter).unwrap();
    let each = meter.chases as f64 / keys.len() as f64;
    // One for the subrange, and one for each level of a tree of 256 leaves.
    assert!((3.9..4.1).contains(&each), "{each}");
}
