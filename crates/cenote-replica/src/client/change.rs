//! Binding and unbinding a key.
//!
//! | round trip | a key that has a slot | a key that gets one |
//! |---|---|---|
//! | 1 | object (and [extents](super::extents)), in-flight cell, the key's slots | the same |
//! | | the object that the slot has | |
//! | 2 | the backups | the same |
//! | 3 | the log | the key's slots at a backup ([`twins`](super::twins)) |
//! | 4 | the primary | the primary, and [the log](super::late) |

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::cache::Moment;
use super::extents::Long;
use super::get::{Ahead, Found};
use super::late::{Late, all_bound, all_won, bind, win};
use super::ordered::RESERVED;
use super::{ATTEMPTS_MAX, Client, Error, LOOKS, Step, Trouble, all_written, region, writes};
use crate::index::candidates::{Seen, Segment};
use crate::index::layout::Hash;
use crate::memory::block::Cut;
use crate::mutant::{self, Mutant};
use crate::object::{Identity, Kind, OUTCOME_AT, Outcome, Record};
use crate::slot::snapshot::{Interrupted, Verdict, Word, await_end, swap_backups, swap_primary};
use crate::slot::value::Slot;
use crate::verbs::{Address, Completion, Request, Verb, Verbs};
use crate::view::{Access, Control, Key, View};

/// What a change has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changed {
    /// What it was asked for.
    Done,
    /// Nothing: the key is bound already.
    Present,
    /// Nothing: the key is not bound.
    Missing,
}

/// A change that is going on.
pub(super) struct Pending<'a> {
    pub kind: Kind,
    /// Whose object the key has to be bound to, if the change is conditional.
    pub expected: Option<Identity>,
    pub key: &'a [u8],
    pub hash: Hash,
    pub identity: Identity,
    /// Where its object is.
    pub at: Address,
    /// The object.
    pub bytes: Rc<[u8]>,
    /// The value, if the object has no room for it.
    pub long: Option<Long<'a>>,
    /// Its in-flight cell.
    pub cell: Address,
    /// When it began.
    pub begun: Moment,
    /// The round that it is in.
    pub round: RefCell<Option<Round>>,
    /// How often it has given up a slot for another client that inserts the key, since it was interrupted last.
    pub given_up: Cell<u32>,
}

/// A round of a slot that a change has begun and not ended.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// The segment.
    pub segment: Segment,
    /// The slot as it was.
    pub seen: Seen,
    /// The object that was in it.
    pub found: Option<Found>,
    /// The region's key. Under a later one the round is over: it was completed or undone.
    key: Key,
    /// What the change knows of it.
    stage: Stage,
}

/// What a change knows of its round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// All its verbs on the word are done: it goes on where it was.
    Going,
    /// One of them is unknown: only who makes the copies equal can tell.
    Unknown,
    /// The index has its object; its log does not say so yet.
    Shown,
}

/// How an attempt has gone that was not interrupted.
pub(super) enum Attempt {
    /// The index has its object, or had it.
    Shown,
    /// It is over, and the index never had its object.
    Over(Changed),
    /// It is over: the key is bound to another object than the change has asked for, or to none.
    Differs(Option<Box<Found>>),
    /// It begins again.
    Again,
}

impl Pending<'_> {
    /// What it wants in its slot.
    pub fn new_slot(&self) -> Slot {
        match self.kind {
            Kind::Remove => Slot::vacant(self.identity.0),
            _ => self.object_slot(),
        }
    }

    /// The same, if the slot has another object of the key.
    fn replacing_slot(&self) -> Slot {
        match self.kind {
            Kind::Remove => self.new_slot(),
            _ if mutant::is(Mutant::ReplacingUnsaid) => self.new_slot(),
            _ => self.new_slot().replacing(),
        }
    }

    /// Whether it asks for another object than the one of this change.
    fn refuses(&self, found: Identity) -> bool {
        let differs = self.expected.is_some_and(|expected| expected != found);
        differs && !mutant::is(Mutant::ConditionUnasked)
    }

    /// The slot of its object, and what its cell holds.
    fn object_slot(&self) -> Slot {
        let slot = Slot::object(self.at, self.hash.fingerprint, self.bytes.len() as u32);
        match self.kind {
            Kind::Replace => slot.conditional(),
            _ => slot,
        }
    }
}

impl<N: Verbs + Control> Client<N> {
    /// Binds a key to a value, whatever it was bound to.
    ///
    /// A value that a block has no room for lies in several objects, up to 1 GiB, and less if blocks are smaller than 96 KiB: the object of the key names them.
    ///
    /// Cost: four round trips; one more if the key was bound, and the client has not used it in the same era. Up to two more if others change it at the same time. One more for each
    /// further four blocks of a value that is longer than four.
    ///
    /// Errors: [`Error::TooLong`], [`Error::Full`], and those of the session and of damage.
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        not_reserved(key)?;
        self.change(Kind::Put, key, value).await.map(drop)
    }

    /// Binds a key to a value if it is bound to none. Returns whether it did.
    ///
    /// Cost: as [`Client::put`]; two round trips if the key is bound.
    pub async fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        not_reserved(key)?;
        Ok(self.change(Kind::Insert, key, value).await? == Changed::Done)
    }

    /// Binds a key to another value if it is bound. Returns whether it did.
    ///
    /// Cost: as [`Client::put`].
    pub async fn update(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        not_reserved(key)?;
        Ok(self.change(Kind::Update, key, value).await? == Changed::Done)
    }

    /// Unbinds a key. Returns whether it was bound.
    ///
    /// Cost: as [`Client::put`]. It needs memory for its log entry while it goes on.
    pub async fn remove(&self, key: &[u8]) -> Result<bool, Error> {
        not_reserved(key)?;
        Ok(self.change(Kind::Remove, key, &[]).await? == Changed::Done)
    }

    pub(super) async fn change(&self, kind: Kind, key: &[u8], value: &[u8]) -> Result<Changed, Error> {
        let (attempt, _) = self.change_if(kind, None, key, value).await?;
        Ok(match attempt {
            Attempt::Over(changed) => changed,
            Attempt::Differs(_) => Changed::Missing,
            Attempt::Shown | Attempt::Again => Changed::Done,
        })
    }

    /// A change that may be conditional. Returns how it ended, and which change it was.
    pub(super) async fn change_if(
        &self,
        kind: Kind,
        expected: Option<Identity>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(Attempt, Identity), Error> {
        let (bytes, long) = self.room(kind, key, value).await?;
        let at = match self
            .allocate(kind, bytes, self.too_long(key.len(), value.len()))
            .await
        {
            Ok(at) => at,
            Err(error) => {
                self.give_back(long.as_ref().map_or(&[], Long::extents));
                return Err(error);
            }
        };
        let extents = long.as_ref().map_or(Vec::new(), |long| long.extents().to_vec());
        let cell = self.cell(1).await;
        let era = self.heap.borrow_mut().pin(self.net.eras());
        let changed = self
            .change_in(
                (kind, expected),
                (key, value, long),
                at,
                (self.session.cells.plus(8 * cell), era),
            )
            .await;
        {
            let mut heap = self.heap.borrow_mut();
            heap.unpin(era);
            heap.end(at);
            extents.into_iter().for_each(|extent| heap.end(extent));
        }
        self.cells.borrow_mut().push(cell);
        changed
    }

    /// An in-flight cell, if more than so many are left; else waits until one of this client's changes is over. A change that splits a segment needs a second one:
    /// so changes leave one, or all could wait for each other.
    pub(super) async fn cell(&self, kept: usize) -> u32 {
        let mut attempt = 0;
        loop {
            let is_left = self.cells.borrow().len() > kept;
            if let Some(cell) = self.cells.borrow_mut().pop_if(|_| is_left) {
                return cell;
            }
            self.net.pause(attempt).await;
            attempt += 1;
        }
    }

    async fn change_in(
        &self,
        (kind, expected): (Kind, Option<Identity>),
        (key, value, long): (&[u8], &[u8], Option<Long<'_>>),
        at: Address,
        (cell, era): (Address, u64),
    ) -> Result<(Attempt, Identity), Error> {
        let view = self.net.view().number;
        let identity = self.identity()?;
        let table = long.as_ref().map(Long::table);
        let record = Record {
            identity,
            kind,
            key,
            value: table.as_deref().unwrap_or(value),
            is_long: long.is_some(),
        };
        let damaged = Error::Damaged {
            what: "a length that was checked",
            at: at.bits(),
        };
        let bytes = record.encode().ok_or(damaged)?.into();
        let pending = Pending {
            kind,
            expected,
            key,
            hash: Hash::of(key),
            identity,
            at,
            bytes,
            long,
            cell,
            begun: Moment { era, view },
            round: RefCell::default(),
            given_up: Cell::new(0),
        };
        let attempt = self
            .under_views(async |view| {
                for _ in 0..ATTEMPTS_MAX {
                    let attempt = self.go_on(view, &pending).await?;
                    if !matches!(attempt, Attempt::Again) {
                        return Ok(attempt);
                    }
                }
                Err(Error::Damaged {
                    what: "slots that change for ever",
                    at: pending.at.bits(),
                }
                .into())
            })
            .await;
        let attempt = match attempt {
            Ok(attempt) => attempt,
            Err(error) => {
                self.abandon(&pending);
                return Err(error);
            }
        };
        if matches!(attempt, Attempt::Shown) {
            self.cache
                .borrow_mut()
                .wrote(&pending.hash, pending.new_slot(), pending.begun);
        }
        if mutant::is(Mutant::ExtentsAfterHead) {
            self.write_extents_late(&pending).await?;
        }
        if !matches!(attempt, Attempt::Shown) || kind == Kind::Remove {
            // In no slot; but others may have seen its address at a backup.
            let extents = pending.long.as_ref().map_or(&[][..], Long::extents);
            self.retire_extents(extents, pending.identity);
            self.retire(pending.at, pending.identity);
        }
        Ok((attempt, identity))
    }

    /// Gives up the memory of a change that has failed. Of one that is in a round the index may have the object: who takes over its block finds out.
    fn abandon(&self, pending: &Pending<'_>) {
        if pending.round.borrow().is_some() || mutant::is(Mutant::FailedKept) {
            return;
        }
        // What was not written at all nodes nobody has seen; but it may still arrive.
        let is_over = self.net.doubtful(&self.net.view()).is_none();
        let extents = pending.long.as_ref().map_or(&[][..], Long::extents);
        for at in extents.iter().chain([&pending.at]).copied() {
            let is_unwritten = self.heap.borrow().is_free(at);
            if !is_unwritten {
                self.retire(at, pending.identity);
            } else if is_over {
                self.give_back(&[at]);
            }
        }
    }

    /// Goes on where an interruption has left a change, or begins.
    async fn go_on(&self, view: &View, pending: &Pending<'_>) -> Step<Attempt> {
        let Some(round) = pending.round.take() else {
            return self.attempt(view, pending).await;
        };
        let home = round.seen.at.region();
        // While the region is closed, what becomes of the round is being decided.
        let is_open = region(view, home)?.access == Access::Open;
        let is_over = region(view, home)?.key != round.key && is_open;
        // Though it was shown: if the primary has died since, another insert of the key may have been chosen.
        let is_believed = round.stage == Stage::Shown && mutant::is(Mutant::UndoneShown);
        if !is_over || is_believed {
            let attempt = match (round.stage, round.found.clone()) {
                (Stage::Going, _) if !is_open => Err(Interrupted { region: home }.into()),
                (Stage::Unknown, _) => Err(Interrupted { region: home }.into()),
                (Stage::Shown, _) => self.tell_shown(view, pending, &round).await,
                (Stage::Going, Some(found)) => self.replace(view, pending, round.segment, found).await,
                (Stage::Going, None) => self.bind(view, pending, round.segment, round.seen).await,
            };
            if round.stage == Stage::Shown && attempt.is_ok() {
                self.retire_replaced(&round);
            }
            return self.keep_round(pending, round, attempt);
        }
        // The copies of the slot were made equal, with the change or without it.
        match self.is_decided(view, pending).await {
            Ok(true) => {
                self.retire_replaced(&round);
                Ok(Attempt::Shown)
            }
            Ok(false) => Ok(Attempt::Again),
            Err(trouble) => {
                pending.round.replace(Some(round));
                Err(trouble)
            }
        }
    }

    /// Retires what a change has replaced whose round was ended after an interruption. Nobody else does; if the master has, it does no harm twice.
    fn retire_replaced(&self, round: &Round) {
        if let Some(found) = round.found.as_ref().filter(|_| !mutant::is(Mutant::ReplacedKept)) {
            self.retire_found(found);
        }
    }

    /// Keeps an object that was taken out of the index, with its extents, until nobody can have its address.
    fn retire_found(&self, found: &Found) {
        let extents = found.table.as_ref().map_or(&[][..], |table| &table.extents);
        self.retire_extents(extents, found.identity);
        self.retire(found.at, found.identity);
    }

    /// Whether the master has completed a change that was interrupted.
    async fn is_decided(&self, view: &View, pending: &Pending<'_>) -> Step<bool> {
        let request = super::read(view, pending.at, pending.bytes.len() as u32)?;
        let completions = self.net.post(vec![request.clone()]).await;
        let bytes = super::bytes_read(&request, completions.first())?;
        // If it is not whole, the change had not come further than that.
        let is_whole = Record::decode(bytes).is_some_and(|record| record.identity == pending.identity);
        let is_asked = !mutant::is(Mutant::DecisionUnasked);
        Ok(is_whole && is_asked && Outcome::decode(bytes, pending.identity) == Some(Outcome::Decided))
    }

    /// Tries once.
    async fn attempt(&self, view: &View, pending: &Pending<'_>) -> Step<Attempt> {
        let mut along = match mutant::is(Mutant::ExtentsAfterHead) {
            true => Vec::new(),
            false => self.write_extents(view, pending).await?,
        };
        along.extend(writes(view, pending.at, &pending.bytes)?);
        if !mutant::is(Mutant::CellNotWritten) {
            along.extend(writes(
                view,
                pending.cell,
                &Rc::from(pending.object_slot().0.to_le_bytes()),
            )?);
        }
        let now = Moment {
            view: view.number,
            ..pending.begun
        };
        let (late, late_of) = self.late_copies(view, pending.begun.era);
        along.extend(late);
        let written = along.len();
        let ahead = self.ahead(view, &pending.hash, now);
        along.extend(ahead.iter().map(|(_, request)| request.clone()));
        let (candidates, completions) = self.look(view, &pending.hash, &along).await?;
        all_written(&along[..written], &completions)?;
        self.heap.borrow_mut().written(pending.at);
        if !mutant::is(Mutant::ExtentsAfterHead) {
            self.wrote_all_extents(pending);
        }
        if completions.len() != along.len() {
            return Err(Interrupted {
                region: pending.at.region(),
            }
            .into());
        }
        let ahead = Ahead::of(ahead, completions);
        let found = self
            .find(view, &candidates, &pending.hash, pending.key, ahead)
            .await?
            .map(|found| found.written(&late_of));
        self.wrote_late(&late_of);
        if let Some(found) = &found {
            let slot = found.seen.slot;
            self.cache.borrow_mut().saw(&pending.hash, slot, now);
            if found.identity == pending.identity {
                self.tell(view, found, pending.begun.era).await?;
                return Ok(Attempt::Shown);
            }
        }
        match (pending.kind, &found) {
            (Kind::Insert, Some(found)) => {
                self.tell(view, found, pending.begun.era).await?;
                return Ok(Attempt::Over(Changed::Present));
            }
            (Kind::Update | Kind::Remove, None) if !candidates.is_sealed() => {
                return Ok(Attempt::Over(Changed::Missing));
            }
            (Kind::Replace, None) if !candidates.is_sealed() => return Ok(Attempt::Differs(None)),
            (Kind::Replace, Some(found)) if pending.refuses(found.identity) => {
                self.tell(view, found, pending.begun.era).await?;
                let found = self.whole(view, found.clone()).await?;
                return Ok(Attempt::Differs(Some(Box::new(found))));
            }
            _ => {}
        }
        if candidates.is_sealed() {
            self.split(view, candidates.segment).await?;
            return Ok(Attempt::Again);
        }
        match found {
            Some(found) => {
                let attempt = self.replace(view, pending, candidates.segment, found).await;
                self.keep_stage(pending, attempt)
            }
            None => match candidates.vacant(self.layout.segments, &pending.hash) {
                Some(vacant) => {
                    let attempt = self.bind(view, pending, candidates.segment, vacant).await;
                    self.keep_stage(pending, attempt)
                }
                None => {
                    self.split(view, candidates.segment).await?;
                    Ok(Attempt::Again)
                }
            },
        }
    }

    /// If an attempt was interrupted, keeps the round that it goes on with.
    fn keep_round(&self, pending: &Pending<'_>, round: Round, attempt: Step<Attempt>) -> Step<Attempt> {
        if attempt.is_err() {
            pending.round.borrow_mut().get_or_insert(round);
        }
        self.keep_stage(pending, attempt)
    }

    /// If an attempt was interrupted by a verb on its own word, nobody but who makes the copies equal knows how it went.
    fn keep_stage(&self, pending: &Pending<'_>, attempt: Step<Attempt>) -> Step<Attempt> {
        if let Err(Trouble::Interrupted(interrupted)) = &attempt
            && let Some(round) = pending.round.borrow_mut().as_mut()
            && round.stage == Stage::Going
            && interrupted.region == round.seen.at.region()
        {
            round.stage = Stage::Unknown;
        }
        attempt
    }

    /// Writes to the log of a change that the index has its object.
    async fn tell_shown(&self, view: &View, pending: &Pending<'_>, round: &Round) -> Step<Attempt> {
        let Some(found) = &round.found else {
            let batch = bind(view, pending.at, pending.identity)?;
            let completions = self.net.post(batch.clone()).await;
            all_bound(&batch, &completions, pending.identity)?;
            self.shown(view, pending);
            return Ok(Attempt::Shown);
        };
        let won = Outcome::Won {
            old: round.seen.slot.0,
            former: found.identity.0,
        };
        self.tell_won(view, pending, won).await?;
        pending.round.take();
        Ok(Attempt::Shown)
    }

    /// Writes to the log of a change that it has won the slot of an object, where the log does not say more.
    async fn tell_won(&self, view: &View, pending: &Pending<'_>, won: Outcome) -> Step<()> {
        let batch = match mutant::is(Mutant::WonOverwrites) {
            true => self.outcome(view, pending, won)?,
            false => win(view, pending.at, pending.identity, won)?,
        };
        let completions = self.net.post(batch.clone()).await;
        Ok(all_won(&batch, &completions, pending.identity, won)?)
    }

    /// The index has the object of an insert, and all copies of its log say so.
    fn shown(&self, view: &View, pending: &Pending<'_>) {
        pending.round.take();
        self.note_late(Late {
            at: pending.at,
            identity: pending.identity,
            seen: Moment {
                view: view.number,
                ..pending.begun
            },
        });
    }

    /// Notes that a change begins a round, so that it ends it also if something else interrupts it.
    fn begin_round(
        &self,
        pending: &Pending<'_>,
        (word, segment): (Word<'_>, Segment),
        seen: Seen,
        found: Option<Found>,
    ) {
        let round = Round {
            segment,
            seen,
            found,
            key: word.region.key,
            stage: Stage::Going,
        };
        pending.round.replace(Some(round));
    }

    /// Changes a slot that has the key.
    async fn replace(
        &self,
        view: &View,
        pending: &Pending<'_>,
        segment: Segment,
        found: Found,
    ) -> Step<Attempt> {
        let word = self.word(view, found.seen.at)?;
        if !mutant::is(Mutant::ToldLate) {
            // Before any copy of the slot changes.
            self.tell_before_it_goes(view, &found, pending.begun.era).await?;
        }
        let (old, new) = (found.seen.slot.0, pending.replacing_slot().0);
        self.begin_round(pending, (word, segment), found.seen, Some(found.clone()));
        if word.region.backups().is_empty() && !mutant::is(Mutant::AloneAsOthers) {
            return self.replace_alone(view, pending, word, &found).await;
        }
        if swap_backups(&self.net, word, old, new).await? == Verdict::Lost {
            return self.lose(word, pending, old).await;
        }
        let mut batch = self.outcome(
            view,
            pending,
            Outcome::Won {
                old,
                former: found.identity.0,
            },
        )?;
        if mutant::is(Mutant::ToldLate) {
            let decided = Outcome::Decided.encode(found.identity);
            batch.extend(writes(view, found.at.plus(OUTCOME_AT), &Rc::from(decided))?);
        }
        let completions = self.net.post(batch.clone()).await;
        all_written(&batch, &completions)?;
        if swap_primary(&self.net, word, old, new).await? == Verdict::Lost {
            return self.lose(word, pending, old).await;
        }
        pending.round.take();
        self.retire_found(&found);
        Ok(Attempt::Shown)
    }

    /// Changes a slot that has the key, without backups. The primary decides, so the log follows: a change whose log is empty has its object in the slot, or
    /// who replaced that object has written the log. A removal leaves no object in the slot, so it puts its own there, tentative, until it has written
    /// its log: from then on the key is removed. The log may have backups, though the slot has none.
    async fn replace_alone(
        &self,
        view: &View,
        pending: &Pending<'_>,
        word: Word<'_>,
        found: &Found,
    ) -> Step<Attempt> {
        let (old, new) = (found.seen.slot.0, pending.replacing_slot().0);
        let first = match pending.kind {
            Kind::Remove => pending.object_slot().tentative().0,
            _ => new,
        };
        if swap_primary(&self.net, word, old, first).await? == Verdict::Lost {
            return self.lose(word, pending, old).await;
        }
        if pending.kind != Kind::Remove
            && let Some(round) = pending.round.borrow_mut().as_mut()
        {
            round.stage = Stage::Shown;
        }
        let former = found.identity.0;
        let won = Outcome::Won { old, former };
        self.tell_won(view, pending, won).await?;
        if first != new && swap_primary(&self.net, word, first, new).await? == Verdict::Lost {
            return Err(Interrupted {
                region: word.at.region(),
            }
            .into());
        }
        pending.round.take();
        self.retire_found(found);
        Ok(Attempt::Shown)
    }

    /// Gives the key a slot that is vacant.
    async fn bind(
        &self,
        view: &View,
        pending: &Pending<'_>,
        segment: Segment,
        vacant: Seen,
    ) -> Step<Attempt> {
        let word = self.word(view, vacant.at)?;
        let (old, new) = (vacant.slot.0, pending.new_slot());
        self.begin_round(pending, (word, segment), vacant, None);
        // Without backups the primary shows others that the key is coming.
        let is_alone = word.region.backups().is_empty();
        let verdict = match is_alone {
            true => swap_primary(&self.net, word, old, new.tentative().0).await?,
            false => swap_backups(&self.net, word, old, new.0).await?,
        };
        if verdict == Verdict::Lost {
            await_end(&self.net, word, old, LOOKS).await?;
            pending.round.take();
            return Ok(Attempt::Again);
        }
        let before = if is_alone { new.tentative().0 } else { old };
        if self.is_twin(view, pending, segment, vacant.at).await? {
            self.give_up(word, before, new).await?;
            pending.round.take();
            return self.let_pass(pending, word).await;
        }
        // Without backups the slot itself says so, until somebody changes it, who writes the log first.
        let mut batch = match is_alone {
            true => Vec::new(),
            false if mutant::is(Mutant::BoundOverwrites) => self.outcome(view, pending, Outcome::Bound)?,
            false => bind(view, pending.at, pending.identity)?,
        };
        batch.push(word.swap_at_primary(before, new.0)?);
        let completions = self.net.post(batch.clone()).await;
        match completions.last() {
            Some(Completion::Was(was)) if *was == before || *was == new.0 => {}
            _ => {
                return Err(Interrupted {
                    region: word.at.region(),
                }
                .into());
            }
        }
        if let Some(round) = pending.round.borrow_mut().as_mut() {
            round.stage = Stage::Shown;
        }
        if !mutant::is(Mutant::BoundOverwrites) {
            all_bound(&batch[..batch.len() - 1], &completions, pending.identity)?;
        }
        self.shown(view, pending);
        Ok(Attempt::Shown)
    }

    /// Lets another client go first that inserts the key, or that has begun to remove it. One that does not come to an end stands still, or is dead: a later view ends its change.
    async fn let_pass(&self, pending: &Pending<'_>, word: Word<'_>) -> Step<Attempt> {
        let given_up = pending.given_up.get();
        if given_up == LOOKS && !mutant::is(Mutant::TwinUntold) {
            pending.given_up.set(0);
            return Err(Interrupted {
                region: word.at.region(),
            }
            .into());
        }
        pending.given_up.set(given_up + 1);
        self.net.pause(given_up).await;
        Ok(Attempt::Again)
    }

    /// Waits until a round is over that another has won, and says what becomes of the change.
    async fn lose(&self, word: Word<'_>, pending: &Pending<'_>, old: u64) -> Step<Attempt> {
        if mutant::is(Mutant::LoserNotAwaiting) && pending.kind == Kind::Put {
            pending.round.take();
            return Ok(Attempt::Over(Changed::Done));
        }
        let winner = Slot(await_end(&self.net, word, old, LOOKS).await?);
        pending.round.take();
        if winner.unsealed().0 == old && !mutant::is(Mutant::SealTakenForChange) {
            // Nothing was changed but that it was sealed.
            return Ok(Attempt::Again);
        }
        match pending.kind {
            // The winner asked for the object that was there before: nothing came in between.
            _ if winner.is_conditional() && !mutant::is(Mutant::ConditionOverlooked) => Ok(Attempt::Again),
            // It came just before the winner.
            Kind::Put | Kind::Update => Ok(Attempt::Over(Changed::Done)),
            Kind::Replace if mutant::is(Mutant::LoserReplaced) => Ok(Attempt::Shown),
            // What it found is gone; whether the key is bound now, and to what, it has to see.
            Kind::Insert | Kind::Remove | Kind::Replace => Ok(Attempt::Again),
        }
    }

    /// The requests that write an outcome to the log of a change.
    pub(super) fn outcome(&self, view: &View, pending: &Pending<'_>, outcome: Outcome) -> Step<Vec<Request>> {
        writes(
            view,
            pending.at.plus(OUTCOME_AT),
            &outcome.encode(pending.identity).into(),
        )
    }

    /// A word of the index, to be changed.
    pub(super) fn word<'a>(&self, view: &'a View, at: Address) -> Step<Word<'a>> {
        let region = region(view, at.region())?;
        match region.access {
            Access::Open => Ok(Word { at, region }),
            Access::Closed => Err(Interrupted { region: at.region() }.into()),
        }
    }

    /// Memory for an object that nobody else has. A removal gets the last one of a size, too, and a larger one: else a full map could not be emptied.
    pub(super) async fn allocate(&self, kind: Kind, bytes: u32, too_long: Error) -> Result<Address, Error> {
        let (block, size) = (self.layout.block, self.class(bytes, too_long)?);
        loop {
            let at = match kind {
                Kind::Remove => self.heap.borrow_mut().take_any(size),
                _ => self.heap.borrow_mut().take(size),
            };
            if let Some(at) = at {
                return Ok(at);
            }
            let at = self.net.block(size).await?.ok_or(Error::Full(block))?;
            if self.take_over(at).await? {
                continue;
            }
            let cut = Cut::new(at, block, size).ok_or(too_long)?;
            self.under_views(async |view| {
                let size = Rc::from(u64::from(cut.size).to_le_bytes());
                let batch = writes(view, at, &size)?;
                let completions = self.net.post(batch.clone()).await;
                Ok(all_written(&batch, &completions)?)
            })
            .await?;
            // Not before: another change of this client would use it, and whoever takes it over would find that it is not cut.
            self.heap.borrow_mut().cut(at, block, size);
        }
    }

    /// How a block is cut that was given; `None` if it is new.
    pub(super) async fn cut_of(&self, view: &View, at: Address) -> Step<Option<Cut>> {
        let request = super::read(view, at, 8)?;
        let completions = self.net.post(vec![request.clone()]).await;
        let size = super::bytes_read(&request, completions.first())?;
        let size = size.try_into().map_or(0, u64::from_le_bytes);
        let damaged = Error::Damaged {
            what: "a block's size of objects",
            at: at.bits(),
        };
        match size {
            0 => Ok(None),
            _ => {
                let cut = u32::try_from(size)
                    .ok()
                    .and_then(|size| Cut::new(at, self.layout.block, size));
                Ok(Some(cut.ok_or(damaged)?))
            }
        }
    }

    /// Keeps an object until nobody can have its address.
    pub(super) fn retire(&self, at: Address, identity: Identity) {
        self.heap.borrow_mut().retire(at, identity, self.net.eras());
    }
}

/// Whether a key is no page's of an ordered map.
pub(super) fn not_reserved(key: &[u8]) -> Result<(), Error> {
    match key.starts_with(RESERVED) {
        true => Err(Error::Reserved),
        false => Ok(()),
    }
}

impl Word<'_> {
    /// The request that ends a round.
    fn swap_at_primary(&self, expected: u64, new: u64) -> Step<Request> {
        let mut request = self.read()?;
        request.verb = Verb::CompareSwap { expected, new };
        Ok(request)
    }
}
