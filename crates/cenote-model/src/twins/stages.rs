//! What a client does: the batches of its stages, and what follows from what they come back with.

use cenote_replica::object::Outcome;
use cenote_replica::slot::value::Slot;

use super::client::{Act, Answer, Call, Flight, Stage};
use super::history::Returned;
use super::{CALLS, Fault, SLOTS, State, Twins, object_of, shown, slot_of};

/// How often an insert gives up before it waits for news.
const AGAIN: u64 = 1;

/// The slot in which a removal leaves nothing.
pub fn removed(object: usize) -> Slot {
    Slot::vacant(0x1000 + object as u64)
}

impl Twins {
    /// A client begins its next call.
    pub(super) fn begin(&self, state: &mut State, client: usize) {
        state.clients[client].begun += 1;
        let (Some(call), own) = (self.call(state, client), self.own(state, client)) else {
            return;
        };
        state.history.begins(client, call, own);
        match call {
            Call::Insert if state.clients[client].begun == 1 => {
                self.enter(state, client, Stage::Swaps(self.clients[client].slot, 0));
            }
            Call::Tidy => self.enter(state, client, Stage::Tidies),
            _ => self.enter(state, client, Stage::Looks),
        }
    }

    /// A call returns.
    fn end(&self, state: &mut State, client: usize, returned: Returned) {
        state.history.ends(client, returned);
        state.clients[client].stage = Stage::Idle;
        state.clients[client].batch.clear();
    }

    /// A client waits for a closing.
    fn wait(&self, state: &mut State, client: usize) {
        let stage = state.clients[client].interrupted();
        state.clients[client].stage = stage;
        state.clients[client].batch.clear();
    }

    /// A client begins a stage: it sends its batch.
    pub(super) fn enter(&self, state: &mut State, client: usize, stage: Stage) {
        let acts = self.batch(state, client, stage);
        state.clients[client].stage = stage;
        let flights = acts.into_iter().map(|(node, act)| (Flight { node, act }, None));
        state.clients[client].batch = flights.collect();
        if state.clients[client].batch.is_empty()
            && !matches!(stage, Stage::Lurks(..) | Stage::Awaits(..) | Stage::Rests(_))
        {
            self.complete(state, client);
        }
    }

    /// The verbs of a stage, and the nodes that they go to.
    fn batch(&self, state: &State, client: usize, stage: Stage) -> Vec<(usize, Act)> {
        let own = self.own(state, client);
        let mine = slot_of(own);
        let (primary, backup) = self.home(state);
        let before = |old| if backup.is_none() { mine.tentative().0 } else { old };
        match stage {
            Stage::Looks => {
                let is_change = self.call(state, client) != Some(Call::Get);
                let nodes = self.log(state, own);
                let object = nodes.into_iter().filter(|_| is_change);
                let mut batch: Vec<_> = object.map(|node| (node, Act::Write(own, None))).collect();
                if is_change {
                    batch.extend(self.last_copy(state, client));
                }
                batch.extend((0..SLOTS).map(|slot| (primary, Act::Read(slot))));
                batch
            }
            Stage::Hears(_, object) => vec![(self.log(state, object)[0], Act::Hear(object))],
            Stage::TellsFirst(_, object) => {
                let write = |node| (node, Act::Write(object, Some(Outcome::Decided)));
                self.first_copies(state, object).into_iter().map(write).collect()
            }
            Stage::TellsLast(_, object) => {
                let nodes = self.log(state, object);
                let last = nodes.into_iter().filter(|_| self.log(state, object).len() > 1);
                let write = |node| (node, Act::Write(object, Some(Outcome::Decided)));
                last.take(1).map(write).collect()
            }
            Stage::Swaps(slot, old) => match backup {
                Some(backup) => vec![(backup, Act::Swap(slot, old, mine.0))],
                None => vec![(primary, Act::Swap(slot, old, mine.tentative().0))],
            },
            Stage::Peeks(slot, _) => {
                let other = SLOTS - 1 - slot;
                let nodes = backup.into_iter().chain([primary]);
                nodes.map(|node| (node, Act::Read(other))).collect()
            }
            Stage::Binds(slot, old) => {
                let nodes = match backup {
                    None => Vec::new(),
                    Some(_) if self.has(Fault::BackupsFirst) => self.first_copies(state, own),
                    Some(_) => self.log(state, own),
                };
                let mut batch: Vec<_> = nodes.into_iter().map(|node| (node, Act::Bind(own))).collect();
                batch.push((primary, Act::Swap(slot, before(old), mine.0)));
                batch
            }
            Stage::Vacates(slot, _) => {
                let vacant = self.vacant(state, client);
                let swap = |node| (node, Act::Swap(slot, mine.0, vacant.0));
                backup.into_iter().map(swap).collect()
            }
            Stage::Leaves(slot, old) => {
                let vacant = self.vacant(state, client);
                vec![(primary, Act::Swap(slot, before(old), vacant.0))]
            }
            Stage::Takes(slot, object) => {
                let old = slot_of(object).0;
                match backup {
                    Some(backup) => vec![(backup, Act::Swap(slot, old, removed(own).0))],
                    None => vec![(primary, Act::Swap(slot, old, mine.tentative().0))],
                }
            }
            Stage::Notes(_, object) => {
                let won = Outcome::Won {
                    old: slot_of(object).0,
                    former: 1 + object as u64,
                };
                let mut batch: Vec<_> = self
                    .log(state, own)
                    .into_iter()
                    .map(|node| (node, Act::Write(own, Some(won))))
                    .collect();
                if self.has(Fault::ToldLate) {
                    let decided = Act::Write(object, Some(Outcome::Decided));
                    batch.extend(self.log(state, object).into_iter().map(|node| (node, decided)));
                }
                batch
            }
            Stage::Ends(slot, object) => {
                vec![(
                    primary,
                    Act::Swap(slot, before(slot_of(object).0), removed(own).0),
                )]
            }
            Stage::Tidies => self.last_copy(state, client).into_iter().collect(),
            Stage::Asks { .. } => vec![(self.log(state, own)[0], Act::Hear(own))],
            _ => Vec::new(),
        }
    }

    /// The vacant value with which a client gives up.
    fn vacant(&self, state: &State, client: usize) -> Slot {
        Slot::vacant(0x2000 + 0x100 * client as u64 + state.clients[client].nonces)
    }

    /// The backups of a log, or its only copy.
    fn first_copies(&self, state: &State, object: usize) -> Vec<usize> {
        let mut nodes = self.log(state, object);
        if nodes.len() > 1 {
            nodes.remove(0);
        }
        nodes
    }

    /// Writes the last copy of a client's log, if that is still to be done.
    fn last_copy(&self, state: &State, client: usize) -> Option<(usize, Act)> {
        let object = state.clients[client].late?;
        let nodes = self.log(state, object);
        (nodes.len() > 1).then(|| (nodes[0], Act::Write(object, Some(Outcome::Decided))))
    }

    /// If all verbs of a client's batch have come back, it goes on.
    pub(super) fn complete(&self, state: &mut State, client: usize) {
        let answers: Option<Vec<Answer>> = state.clients[client]
            .batch
            .iter()
            .map(|(_, answer)| *answer)
            .collect();
        let Some(answers) = answers else { return };
        let was: Vec<u64> = answers
            .iter()
            .filter_map(|answer| match answer {
                Answer::Was(was) => Some(*was),
                _ => None,
            })
            .collect();
        let said = match answers.first() {
            Some(Answer::Said(said)) => *said,
            _ => None,
        };
        let own = self.own(state, client);
        let mine = slot_of(own);
        let is_alone = self.home(state).1.is_none();
        let before = |old| if is_alone { mine.tentative().0 } else { old };
        let next = match state.clients[client].stage {
            Stage::Looks => return self.looked(state, client, &was),
            Stage::Hears(slot, object) => {
                if !self.tells(state, client, object, said) {
                    return self.proceed(state, client, slot, object);
                }
                Stage::TellsFirst(slot, object)
            }
            Stage::TellsFirst(slot, object) => Stage::TellsLast(slot, object),
            Stage::TellsLast(slot, object) => return self.proceed(state, client, slot, object),
            Stage::Swaps(slot, old) if was[0] == old || was[0] == mine.0 => Stage::Peeks(slot, old),
            Stage::Swaps(slot, old) => Stage::Awaits(slot, old),
            Stage::Peeks(slot, old) => match self.judges(slot, was[0], *was.last().unwrap_or(&0)) {
                None => Stage::Lurks(slot, old),
                Some(false) => Stage::Binds(slot, old),
                Some(true) if is_alone => Stage::Leaves(slot, old),
                Some(true) => Stage::Vacates(slot, old),
            },
            Stage::Binds(_, old) => {
                if was[0] != before(old) && was[0] != mine.0 {
                    return self.wait(state, client);
                }
                state.clients[client].late = Some(own);
                return self.end(state, client, Returned::Did(true));
            }
            Stage::Vacates(slot, old) => Stage::Leaves(slot, old),
            Stage::Leaves(slot, old) => {
                if was[0] != before(old) {
                    return self.wait(state, client);
                }
                state.clients[client].nonces += 1;
                match state.clients[client].nonces > AGAIN {
                    true => Stage::Rests(slot),
                    false => Stage::Looks,
                }
            }
            Stage::Takes(slot, object) => {
                let old = slot_of(object).0;
                match was[0] == old || (was[0] == removed(own).0 && !is_alone) {
                    true => Stage::Notes(slot, object),
                    false => Stage::Awaits(slot, old),
                }
            }
            Stage::Notes(slot, object) => Stage::Ends(slot, object),
            Stage::Ends(slot, object) => {
                let old = slot_of(object).0;
                if was[0] == before(old) || was[0] == removed(own).0 {
                    return self.end(state, client, Returned::Did(true));
                }
                if is_alone {
                    return self.wait(state, client);
                }
                Stage::Awaits(slot, old)
            }
            Stage::Tidies => {
                state.clients[client].late = None;
                return self.end(state, client, Returned::Did(true));
            }
            Stage::Asks { .. } if said == Some(Outcome::Decided) => {
                return self.end(state, client, Returned::Did(true));
            }
            Stage::Asks { .. } => Stage::Looks,
            _ => return,
        };
        self.enter(state, client, next);
    }

    /// A client has read the slots.
    fn looked(&self, state: &mut State, client: usize, was: &[u64]) {
        if self.call(state, client) != Some(Call::Get) {
            state.clients[client].late = None;
        }
        let found = (0..SLOTS).find_map(|slot| Some((slot, shown(was[slot])?)));
        if let Some((slot, object)) = found {
            return self.enter(state, client, Stage::Hears(slot, object));
        }
        let mine = self.clients[client].slot;
        let vacant = [mine, SLOTS - 1 - mine]
            .into_iter()
            .find(|slot| Slot(was[*slot]).is_vacant());
        match (self.call(state, client), vacant) {
            (Some(Call::Get), _) => self.end(state, client, Returned::Found(None)),
            (Some(Call::Insert), Some(slot)) => self.enter(state, client, Stage::Swaps(slot, was[slot])),
            (Some(Call::Insert), None) => self.wait(state, client),
            _ => self.end(state, client, Returned::Did(false)),
        }
    }

    /// Whether a client that has found an object writes *decided* to its log before it goes on.
    fn tells(&self, state: &State, client: usize, object: usize, said: Option<Outcome>) -> bool {
        let own = self.own(state, client);
        // Its change is over: the client knows what the log says, or will say.
        if object / CALLS == client && object != own {
            return false;
        }
        let (stays, outlasts) = (
            said.is_some_and(Outcome::stays),
            said.is_some_and(Outcome::outlasts),
        );
        if self.call(state, client) == Some(Call::Remove) {
            let is_believed = said == Some(Outcome::Bound) && self.has(Fault::BoundBelieved);
            return !outlasts && !is_believed && !self.has(Fault::ToldLate);
        }
        let is_believed = self.log(state, object).len() == 1
            || self.has(Fault::BackupsFirst)
            || self.has(Fault::ReaderBelieves);
        !(outlasts || stays && is_believed || self.has(Fault::ReaderSilent))
    }

    /// A client has found an object, and a closing keeps it.
    fn proceed(&self, state: &mut State, client: usize, slot: usize, object: usize) {
        let is_own = object == self.own(state, client);
        match self.call(state, client) {
            Some(Call::Remove) => self.enter(state, client, Stage::Takes(slot, object)),
            Some(Call::Insert) => self.end(state, client, Returned::Did(is_own)),
            _ => self.end(state, client, Returned::Found(Some(object))),
        }
    }

    /// What an insert does that has read the other slot at the backup and at the primary: whether it gives up. `None`:
    /// it waits.
    fn judges(&self, slot: usize, there: u64, bound: u64) -> Option<bool> {
        match object_of(there) {
            None if self.has(Fault::BackupAlone) => Some(false),
            None if there == bound => Some(false),
            // It was removed, or given up, at the backup alone. It may be at the primary still, or again since that was
            // read.
            None => shown(bound).map(|_| true),
            // The other slot is the smaller one.
            Some(_) if slot > 0 || shown(bound).is_some() => Some(true),
            Some(_) => None,
        }
    }

    /// Whether a client that waits for another finds that something has changed.
    pub(super) fn sees_news(&self, state: &State, client: usize) -> bool {
        let (primary, backup) = self.home(state);
        let at = backup.unwrap_or(primary);
        if !state.nodes[primary].is_alive || !state.nodes[at].is_alive {
            return false;
        }
        match state.clients[client].stage {
            Stage::Rests(slot) => {
                let other = SLOTS - 1 - slot;
                let [there, bound] = [at, primary].map(|node| state.nodes[node].slots[other]);
                object_of(there).is_none() || shown(bound).is_some()
            }
            Stage::Lurks(slot, _) => {
                let other = SLOTS - 1 - slot;
                let [there, bound] = [at, primary].map(|node| state.nodes[node].slots[other]);
                self.judges(slot, there, bound).is_some()
            }
            Stage::Awaits(slot, old) => state.nodes[primary].slots[slot] != old,
            _ => false,
        }
    }

    /// A client that has waited looks again.
    pub(super) fn look_again(&self, state: &mut State, client: usize) {
        match state.clients[client].stage {
            Stage::Lurks(slot, old) => self.enter(state, client, Stage::Peeks(slot, old)),
            _ => self.enter(state, client, Stage::Looks),
        }
    }

    /// A client goes on after a closing.
    pub(super) fn resume(&self, state: &mut State, client: usize) {
        let stage = state.clients[client].interrupted();
        state.clients[client].stage = stage;
        state.clients[client].batch.clear();
        match (stage, self.call(state, client)) {
            (Stage::Waits { is_shown: true, .. }, _) if self.has(Fault::UndoneShown) => {
                self.end(state, client, Returned::Did(true));
            }
            (
                Stage::Waits {
                    has_round: true,
                    is_shown,
                },
                _,
            ) => self.enter(state, client, Stage::Asks { is_shown }),
            (Stage::Waits { .. }, Some(Call::Tidy)) => self.enter(state, client, Stage::Tidies),
            (Stage::Waits { .. }, _) => self.enter(state, client, Stage::Looks),
            _ => {}
        }
    }
}
