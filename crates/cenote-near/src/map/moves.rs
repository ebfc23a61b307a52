//! Carries out a plan: modules split, and give away what is to go elsewhere; that arrives at the beginning of the next
//! round.
//!
//! The commands are either a round of their own before the batch, or come after all commands of the batch. In both
//! cases nothing is executed between the moment when a subrange leaves its module and the one when it is in the other:
//! the host has its pairs alone, and the directory says already where they will be. If a round fails, the map is lost
//! as a whole.

use crate::device::command::{Command, Pairs, Reader, TOO_MANY};
use crate::modules::Modules;

use super::cold::Back;
use super::directory::{Entry, Place};
use super::mutant::{Mutant, planted};
use super::plan::{Plan, Step, To};
use super::{Map, MapError};

/// Pairs as a command has them.
pub(super) fn bytes_of(pairs: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pairs.len() * 16);
    for (key, value) in pairs {
        bytes.extend_from_slice(&key.to_le_bytes());
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// Words of an arena that surely suffice for a subrange of so many keys.
pub(super) fn room_for(keys: u64) -> u64 {
    64 + 8 * keys
}

/// What the host awaits of a module.
#[derive(Clone, Copy)]
enum Awaited {
    Split { start: u64, level: u8 },
    Take { start: u64, to: To },
    Merge { region: usize },
}

/// What modules have been told, by modules, and what is brought back.
pub(super) struct Sent {
    awaited: Vec<Vec<Awaited>>,
    back: Back,
}

impl<M: Modules> Map<M> {
    /// Appends the commands to batches.
    pub(super) fn send_moves(&self, plan: Plan, back: Back, batches: &mut [Vec<u8>]) -> Sent {
        let mut awaited: Vec<Vec<Awaited>> = batches.iter().map(|_| Vec::new()).collect();
        for step in plan.steps {
            match step {
                Step::Split { module, start, level } => {
                    let shift = self.directory.shift(level);
                    Command::Split(start, shift).write(&mut batches[module as usize]);
                    awaited[module as usize].push(Awaited::Split { start, level });
                }
                Step::Take {
                    module,
                    start,
                    level,
                    most,
                    to,
                } => {
                    let shift = self.directory.shift(level);
                    Command::Export(start, shift, most).write(&mut batches[module as usize]);
                    awaited[module as usize].push(Awaited::Take { start, to });
                }
            }
        }
        for &region in &back.merges {
            for (id, module) in self.parts_of_region(region) {
                if let Some(module) = module {
                    let entry = self.directory.entry(id);
                    let shift = self.directory.shift(entry.level);
                    Command::Export(entry.start, shift, TOO_MANY - 1).write(&mut batches[module as usize]);
                    awaited[module as usize].push(Awaited::Merge { region });
                }
            }
        }
        Sent { awaited, back }
    }

    /// Reads the answers, which come next.
    pub(super) fn finish_moves(&mut self, sent: Sent, readers: &mut [Reader<'_>]) -> Result<(), MapError> {
        let mut merged: Vec<(usize, Vec<(u64, u64)>)> = Vec::new();
        merged.extend(sent.back.merges.iter().map(|region| (*region, Vec::new())));
        for (module, (reader, awaited)) in (0..).zip(readers.iter_mut().zip(sent.awaited)) {
            for one in awaited {
                self.finish_move(module, one, reader, &mut merged)
                    .ok_or(MapError::Answers { module })
                    .map_err(|error| self.lose(error))?;
            }
        }
        for (region, mut pairs) in merged {
            for (id, module) in self.parts_of_region(region) {
                if module.is_none() {
                    if !planted(Mutant::MergeWithoutHost) {
                        pairs.append(&mut self.pulled_pairs(id));
                    }
                    self.pulled.remove(&id);
                    self.pulled_keys -= self.directory.entry(id).keys;
                }
                self.directory.remove(id);
            }
            pairs.sort_unstable();
            self.moves.merges += 1;
            self.moves.pairs += pairs.len() as u64;
            self.restore(region, &pairs);
        }
        for (id, module) in sent.back.returns {
            // The batch may have emptied it.
            if self.pulled.contains(&id) {
                self.give_back(id, module);
            }
        }
        Ok(())
    }

    /// A pulled subrange goes to a module, if that has room.
    fn give_back(&mut self, id: u32, module: u32) {
        let needed = room_for(self.directory.entry(id).keys);
        if self.room[module as usize] < needed {
            return;
        }
        self.room[module as usize] -= needed;
        let pairs = self.pulled_pairs(id);
        self.directory.set_place(id, Place::Module(module));
        let entry = self.directory.entry_mut(id);
        entry.cold = 0;
        let (start, level) = (entry.start, entry.level);
        self.import(module, start, level, &bytes_of(&pairs));
        self.pulled.remove(&id);
        self.pulled_keys -= pairs.len() as u64;
        self.moves.returns += 1;
    }

    /// A region's coarsest subrange, with these pairs.
    fn restore(&mut self, region: usize, pairs: &[(u64, u64)]) {
        let shift = self.directory.shift(0);
        let start = self.regions.start(region, shift);
        let module = self.home(region);
        let least = pairs.first().map(|pair| pair.0);
        let keys = pairs.len() as u64;
        let needed = room_for(keys);
        self.regions.set_whole(region);
        if self.room[module as usize] < needed {
            // What other moves of the batch have taken was not there any more.
            let place = Place::Host(pairs.iter().copied().collect());
            let id = self.directory.add(Entry::new(start, 0, place, keys, least));
            self.pulled.insert(id);
            self.pulled_keys += keys;
            return;
        }
        self.room[module as usize] -= needed;
        self.directory
            .add(Entry::new(start, 0, Place::Module(module), keys, least));
        self.import(module, start, 0, &bytes_of(pairs));
    }

    /// Takes note of an answer; none if it is not one.
    fn finish_move(
        &mut self,
        module: u32,
        awaited: Awaited,
        rest: &mut Reader<'_>,
        merged: &mut [(usize, Vec<(u64, u64)>)],
    ) -> Option<()> {
        match awaited {
            Awaited::Split { start, level } => {
                let pieces = rest.word()?;
                if pieces == 0 {
                    // An empty one has none left in the module; else there was no room, and it is as it was.
                    self.forget_if_empty(start);
                    return Some(());
                }
                let id = self.directory.starting(start)?;
                let entry = self.directory.remove(id);
                self.note_split(entry.start);
                self.moves.splits += 1;
                for _ in 0..pieces {
                    if planted(Mutant::SplitForgotten) && pieces > 1 {
                        rest.bytes(12)?;
                        continue;
                    }
                    let (least, keys) = (rest.long()?, rest.word()?);
                    let (start, _) = self.directory.ends(level, least);
                    let place = Place::Module(module);
                    self.directory
                        .add(Entry::new(start, level, place, keys.into(), Some(least)));
                }
            }
            Awaited::Take { start, to } => {
                let count = rest.word()?;
                if count == TOO_MANY {
                    return Some(());
                }
                let pairs = Pairs(rest.bytes(count as usize * 16)?);
                // It may be a part that has no keys, of which the directory does not know.
                if let Some(id) = self.directory.starting(start)
                    && self.directory.entry(id).module() == Some(module)
                    && self.directory.entry(id).keys == u64::from(count)
                {
                    self.arrive(id, to, pairs);
                }
            }
            Awaited::Merge { region } => {
                let pairs = rest.pairs()?;
                let (_, all) = merged.iter_mut().find(|(of, _)| *of == region)?;
                all.extend(pairs);
            }
        }
        Some(())
    }

    fn note_split(&mut self, start: u64) {
        let region = self.regions.of(start, self.directory.shift(0));
        self.regions.set_split(region);
    }

    /// A subrange without keys that a split has left nothing of.
    fn forget_if_empty(&mut self, start: u64) {
        if let Some(id) = self.directory.starting(start)
            && self.directory.entry(id).keys == 0
        {
            self.directory.remove(id);
            self.note_split(start);
        }
    }

    /// A subrange has been taken from its module, and gets to where it goes.
    fn arrive(&mut self, id: u32, to: To, pairs: Pairs<'_>) {
        self.moves.pairs += pairs.len() as u64;
        let needed = room_for(pairs.len() as u64);
        let to = match to {
            To::Module(module) if self.room[module as usize] < needed => {
                // There were more than the plan expected. The host is the last resort, whatever it may hold.
                let roomiest = (0..).zip(&self.room).max_by_key(|(_, room)| **room);
                match roomiest {
                    Some((other, room)) if *room >= needed => To::Module(other),
                    _ => To::Host,
                }
            }
            other => other,
        };
        let (start, level) = (self.directory.entry(id).start, self.directory.entry(id).level);
        match to {
            To::Module(module) => {
                self.room[module as usize] -= needed;
                self.import(module, start, level, pairs.0);
                self.directory.set_place(id, Place::Module(module));
                self.moves.moves += 1;
            }
            To::Host => {
                self.pulled_keys += pairs.len() as u64;
                self.pulled.insert(id);
                self.moves.pulls += 1;
                self.directory.set_place(id, Place::Host(pairs.collect()));
                self.directory.entry_mut(id).cold = 0;
            }
        }
    }
}
