//! Step 4 of a batch: in order, answers are read and put together, and the directory learns what has changed.

use std::sync::Arc;

use crate::device::command::{Command, Pairs, Reader};
use crate::modules::Modules;

use super::directory::Place;
use super::dispatch::{Record, Way};
use super::mutant::{Mutant, planted};
use super::net::Net;
use super::operation::{Answer, Operation, State};
use super::{Map, MapError};

/// An answer that begins with an option's byte.
enum Reply {
    None,
    Some,
    Full,
}

fn reply(from: &mut Reader<'_>) -> Option<Reply> {
    match from.byte()? {
        0 => Some(Reply::None),
        1 => Some(Reply::Some),
        2 => Some(Reply::Full),
        _ => None,
    }
}

impl<M: Modules> Map<M> {
    pub(super) fn read_answers(
        &mut self,
        operations: &[Operation],
        nets: &[Net],
        mut record: Record,
        readers: &mut [Reader<'_>],
    ) -> Result<Vec<Answer>, MapError> {
        let mut parts = record.parts.iter().copied();
        let mut all: Vec<Answer> = Vec::with_capacity(operations.len());
        for (operation, way) in operations.iter().zip(record.ways) {
            let mut asked = 0;
            let answer = match way {
                Way::Done(answer) => Some(answer),
                Way::Same(earlier) => all.get(earlier as usize).cloned(),
                Way::Follows(net) => Some(record.states[net as usize].execute(operation)),
                Way::Point {
                    id,
                    module,
                    made,
                    net,
                } => {
                    asked = module;
                    let of = nets.get(net as usize);
                    let state = self.read_point(operation, of, id, made, &mut readers[module as usize]);
                    state.map(|mut state| {
                        let answer = state.execute(operation);
                        if let Some(known) = record.states.get_mut(net as usize)
                            && !planted(Mutant::StateForgotten)
                        {
                            *known = state;
                        }
                        answer
                    })
                }
                Way::Pair { parts: count, own } => {
                    let mut best = own;
                    let mut whole = true;
                    for module in parts.by_ref().take(count as usize) {
                        match read_pair(&mut readers[module as usize]) {
                            Some(pair) => best = best.max(pair),
                            None => (asked, whole) = (module, false),
                        }
                    }
                    whole.then_some(Answer::Pair(best))
                }
                Way::Pairs { parts: count, own } => {
                    let (mut pairs, mut whole) = (own, true);
                    for module in parts.by_ref().take(count as usize) {
                        match readers[module as usize].pairs() {
                            Some(more) => pairs.extend::<Pairs<'_>>(more),
                            None => (asked, whole) = (module, false),
                        }
                    }
                    if !pairs.is_sorted() {
                        pairs.sort_unstable();
                    }
                    whole.then_some(Answer::Pairs(Arc::new(pairs)))
                }
            };
            match answer {
                Some(answer) => all.push(answer),
                None => return Err(self.lose(MapError::Answers { module: asked })),
            }
        }
        self.finish_batch(record.touched);
        self.means.end(record.points);
        Ok(all)
    }

    /// What the key of an operation, or of the net that it leads, had before.
    fn read_point(
        &mut self,
        operation: &Operation,
        net: Option<&Net>,
        id: u32,
        made: bool,
        from: &mut Reader<'_>,
    ) -> Option<State> {
        if made {
            // Of the import; if there was no room, what would bind a key says so itself.
            self.directory.entry_mut(id).absent = from.byte()? != 1;
        }
        let before = match reply(from)? {
            Reply::None => None,
            Reply::Some => Some(from.long()?),
            Reply::Full => {
                return Some(State {
                    value: None,
                    is_full: true,
                });
            }
        };
        let entry = self.directory.entry_mut(id);
        let (binds, unbinds) = match net {
            Some(net) => (net.binds(), net.unbinds()),
            None => (operation.binds(), operation.unbinds()),
        };
        if binds && before.is_none() {
            let key = operation.key()?;
            entry.keys += 1;
            self.keys += 1;
            entry.least = Some(entry.least.map_or(key, |least| least.min(key)));
        }
        if unbinds && before.is_some() {
            entry.keys = entry.keys.checked_sub(1)?;
            self.keys -= 1;
            entry.least = match reply(from)? {
                Reply::Some => Some(from.long()?),
                _ => None,
            };
        }
        Some(State::of(before))
    }

    /// What the directory keeps for one batch is reset, and subranges without keys are forgotten.
    fn finish_batch(&mut self, touched: Vec<u32>) {
        let mut ids = touched;
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let entry = self.directory.entry_mut(id);
            if let Place::Host(pairs) = &entry.place {
                entry.least = pairs.keys().next().copied();
            }
            entry.sure = entry.keys;
            entry.least_in_doubt = false;
            entry.grows = false;
            if entry.keys > 0 || (entry.level == 0 && entry.module().is_some() && !entry.absent) {
                continue;
            }
            let gone = self.directory.remove(id);
            if gone.level == 0 {
                let region = self.regions.of(gone.start, self.directory.shift(0));
                self.regions.set_split(region);
            }
            match gone.place {
                Place::Module(module) => {
                    Command::Drop(gone.start).write(&mut self.pending[module as usize]);
                }
                Place::Host(_) => {
                    self.pulled.remove(&id);
                }
            }
        }
    }
}

/// A predecessor's part.
fn read_pair(from: &mut Reader<'_>) -> Option<Option<(u64, u64)>> {
    match reply(from)? {
        Reply::None => Some(None),
        Reply::Some => Some(Some((from.long()?, from.long()?))),
        Reply::Full => None,
    }
}
