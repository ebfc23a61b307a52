//! The loop over commands.

use crate::modules::{Malformed, Meter, Program};

use super::SUBRANGE_HEADER;
use super::Skiplist;
use super::command::{Command, Pairs, Reader, TOO_MANY};
use super::keys::Full;
use super::node::MAX_HEIGHT;
use super::tree::LEAF;

const FULL: u8 = 2;

fn put_option(answers: &mut Vec<u8>, longs: Option<&[u64]>) {
    answers.push(u8::from(longs.is_some()));
    for long in longs.into_iter().flatten() {
        answers.extend_from_slice(&long.to_le_bytes());
    }
}

impl Program for Skiplist {
    fn run(&mut self, commands: &[u8], answers: &mut Vec<u8>, meter: &mut Meter) -> Result<(), Malformed> {
        let mut rest = Reader(commands);
        let (mut point, mut range) = (0, 0);
        (self.accesses, self.streamed) = (0, 0);
        while !rest.0.is_empty() {
            let at = commands.len() - rest.0.len();
            let command = Command::read(&mut rest).ok_or(Malformed { at })?;
            self.chases = 0;
            let before = self.accesses;
            self.step(command, answers).ok_or(Malformed { at })?;
            self.accesses += self.arena.take_accesses();
            if answers.len() > self.answers_max {
                return Err(Malformed { at });
            }
            match command {
                Command::Scan(..) => range += self.accesses - before,
                Command::Get(_)
                | Command::Predecessor(_)
                | Command::Insert(..)
                | Command::Delete(_)
                | Command::CompareSwap(..)
                | Command::Put(..)
                | Command::Change { .. } => point += self.accesses - before,
                _ => {}
            }
            meter.chases += self.chases;
        }
        meter.accesses += self.accesses;
        meter.streamed += self.streamed;
        for word in [point, range, self.arena.room()] {
            answers.extend_from_slice(&u32::try_from(word).unwrap_or(u32::MAX).to_le_bytes());
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        self.arena.used() * 4
    }
}

impl Skiplist {
    /// Executes a command; none if it names a subrange that is not there, or that is not one.
    fn step(&mut self, command: Command<'_>, answers: &mut Vec<u8>) -> Option<()> {
        match command {
            Command::Get(key) => {
                let value = self.subrange_of(key).and_then(|at| self.get(at, key));
                put_option(answers, value.as_ref().map(std::slice::from_ref));
            }
            Command::Predecessor(key) => {
                let pair = self.subrange_before(key).and_then(|at| self.predecessor(at, key));
                put_option(answers, pair.as_ref().map(|pair| &pair[..]));
            }
            Command::Insert(key, value) => {
                let at = self.subrange_of(key);
                let insert = |at| self.insert_or_change(at, key, value, |_| None);
                match at.ok_or(Full).and_then(insert) {
                    Ok(before) => put_option(answers, before.as_ref().map(std::slice::from_ref)),
                    Err(_) => answers.push(FULL),
                }
            }
            Command::Delete(key) => {
                let at = self.subrange_of(key);
                let value = at.and_then(|at| self.delete(at, key));
                put_option(answers, value.as_ref().map(std::slice::from_ref));
                if value.is_some() {
                    let first = at.and_then(|at| self.first_key(at));
                    put_option(answers, first.as_ref().map(std::slice::from_ref));
                }
            }
            Command::CompareSwap(key, expected, value) => {
                self.change(key, None, value, |before| before == expected, answers);
            }
            Command::Scan(first, last) => self.scan(first, last, answers),
            Command::Export(start, shift, most) => {
                let at = self.starting(start).filter(|&at| self.shape(at).shift == shift);
                let keys = at.map_or(0, |at| self.keys_in(at));
                if keys > most {
                    answers.extend_from_slice(&TOO_MANY.to_le_bytes());
                } else {
                    answers.extend_from_slice(&keys.to_le_bytes());
                    if let Some(at) = at {
                        self.each_pair(at, |key, value| put_pair(answers, key, value));
                        self.drop_subrange(at);
                    }
                }
            }
            Command::Import(start, shift, bytes) => self.checked_import(start, shift, bytes, answers)?,
            Command::Split(start, shift) => {
                let place = answers.len();
                answers.extend_from_slice(&[0; 4]);
                let mut pieces = 0u32;
                if let Some(at) = self.starting(start) {
                    if shift == 0 || shift >= self.shape(at).shift {
                        return None;
                    }
                    self.split(at, shift, |piece| {
                        answers.extend_from_slice(&piece.least.to_le_bytes());
                        answers.extend_from_slice(&piece.keys.to_le_bytes());
                        pieces += 1;
                    });
                }
                answers[place..place + 4].copy_from_slice(&pieces.to_le_bytes());
            }
            Command::Drop(start) => {
                if let Some(at) = self.starting(start) {
                    self.drop_subrange(at);
                }
            }
            Command::Height(start, height) => {
                if let Some(at) = self.subrange_of(start) {
                    self.reshape(at, height.clamp(1, MAX_HEIGHT));
                }
            }
            Command::Put(key, value) => self.change(key, Some(value), value, |_| true, answers),
            Command::Change {
                key,
                unbound,
                to,
                from,
            } => {
                let is_from = |before: u64| from.chunks_exact(8).any(|one| one == before.to_le_bytes());
                self.change(key, unbound, to, is_from, answers);
            }
        }
        Some(())
    }

    /// The subrange that has this start.
    fn starting(&mut self, start: u64) -> Option<u32> {
        self.subrange_of(start).filter(|&at| self.start(at) == start)
    }

    /// Binds a key: to `unbound`, if there is one and the key is not bound; to `to`, if it is bound to a value that is
    /// changed.
    fn change(
        &mut self,
        key: u64,
        unbound: Option<u64>,
        to: u64,
        is_from: impl Fn(u64) -> bool,
        answers: &mut Vec<u8>,
    ) {
        let at = self.subrange_of(key);
        let change = |before: u64| is_from(before).then_some(to);
        let before = match unbound {
            Some(value) => at
                .ok_or(Full)
                .and_then(|at| self.insert_or_change(at, key, value, change)),
            None => Ok(at.and_then(|at| self.change_bound(at, key, change))),
        };
        match before {
            Ok(before) => put_option(answers, before.as_ref().map(std::slice::from_ref)),
            Err(Full) => answers.push(FULL),
        }
    }

    /// Goes along the leaves, through all subranges, and answers what it meets.
    fn scan(&mut self, first: u64, last: u64, answers: &mut Vec<u8>) {
        let place = answers.len();
        answers.extend_from_slice(&[0; 4]);
        let mut pairs = 0u32;
        let before = self.subrange_before(first);
        let mut subrange = before.unwrap_or_else(|| self.link(self.head + SUBRANGE_HEADER, 0));
        if before.is_none() && subrange != 0 && self.chase(subrange).start() > last {
            subrange = 0;
        }
        while subrange != 0 {
            if self.scan_keys(subrange, first, last, answers, &mut pairs) {
                break;
            }
            subrange = self.link(subrange + SUBRANGE_HEADER, 0);
            self.accesses += 1;
            if subrange != 0 && self.chase(subrange).start() > last {
                break;
            }
        }
        answers[place..place + 4].copy_from_slice(&pairs.to_le_bytes());
    }

    /// Answers the keys of a subrange from one to another. Whether it has met a later one.
    fn scan_keys(
        &mut self,
        subrange: u32,
        first: u64,
        last: u64,
        answers: &mut Vec<u8>,
        pairs: &mut u32,
    ) -> bool {
        let Some(tree) = self.tree(subrange) else {
            return false;
        };
        let mut trail = self.descend(tree, first);
        let mut n = match self.entry_with(&trail, first) {
            Some(n) => n,
            None => trail.at[0],
        };
        loop {
            let leaf = trail.leaf();
            let from = answers.len();
            let is_beyond = loop {
                if n == self.entries(leaf) {
                    break false;
                }
                let key = self.key_at(leaf, LEAF, n);
                if key > last {
                    break true;
                }
                put_pair(answers, key, self.value_at(leaf, n));
                n += 1;
            };
            let bytes = answers.len() - from;
            self.streamed += bytes as u64;
            *pairs += (bytes / 16) as u32;
            if is_beyond || !self.next_leaf(&mut trail) {
                return is_beyond;
            }
            n = 0;
        }
    }

    /// An import whose pairs ascend within a subrange that overlaps no other one.
    fn checked_import(&mut self, start: u64, shift: u8, bytes: &[u8], answers: &mut Vec<u8>) -> Option<()> {
        if !(1..=64).contains(&shift) {
            return None;
        }
        let width_less_one = 1u64.checked_shl(shift.into()).map_or(u64::MAX, |width| width - 1);
        if start & width_less_one != 0 {
            return None;
        }
        let last = start | width_less_one;
        let before = self.subrange_before(last);
        if before.is_some_and(|at| self.ends(at).last() >= start) {
            return None;
        }
        let mut least = Some(start);
        for (key, _) in Pairs(bytes) {
            if least.is_none_or(|least| key < least) || key > last {
                return None;
            }
            least = key.checked_add(1);
        }
        let done = self.import(start, shift, Pairs(bytes));
        answers.push(if done { 1 } else { FULL });
        Some(())
    }
}

fn put_pair(answers: &mut Vec<u8>, key: u64, value: u64) {
    answers.extend_from_slice(&key.to_le_bytes());
    answers.extend_from_slice(&value.to_le_bytes());
}
