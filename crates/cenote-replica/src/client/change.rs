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
use super::ordered::RESERVED;
use super::pending::{Attempt, Pending, Round, Stage};
use super::{ATTEMPTS_MAX, Client, Error, Step, all_written, region, writes};
use crate::index::layout::Hash;
use crate::mutant::{self, Mutant};
use crate::object::{Identity, Kind, Outcome, Record};
use crate::slot::snapshot::Interrupted;
use crate::verbs::{Address, Verbs};
use crate::view::{Access, Control, View};

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

impl<N: Verbs + Control> Client<N> {
    /// Binds a key to a value, whatever it was bound to.
    ///
    /// A value that a block has no room for lies in several objects, up to 1 GiB, and less if blocks are smaller than
    /// 96 KiB: the object of the key names them.
    ///
    /// Cost: four round trips; one more if the key was bound, and the client has not used it in the same era. Up to two
    /// more if others change it at the same time. One more for each further four blocks of a value that is longer than
    /// four.
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

    /// An in-flight cell, if more than so many are left; else waits until one of this client's changes is over. A
    /// change that splits a segment needs a second one: so changes leave one, or all could wait for each other.
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
                self.give_up_memory(&pending);
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

    /// Gives up the memory of a change that has failed. Of one that is in a round the index may have the object: who
    /// takes over its block finds out.
    fn give_up_memory(&self, pending: &Pending<'_>) {
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

    /// Retires what a change has replaced whose round was ended after an interruption. Nobody else does; if the master
    /// has, it does no harm twice.
    fn retire_replaced(&self, round: &Round) {
        if let Some(found) = round.found.as_ref().filter(|_| !mutant::is(Mutant::ReplacedKept)) {
            self.retire_found(found);
        }
    }

    /// Keeps an object that was taken out of the index, with its extents, until nobody can have its address.
    pub(super) fn retire_found(&self, found: &Found) {
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
        let (candidates, completions) = self.read_candidates(view, &pending.hash, &along).await?;
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
}

/// Whether a key is no page's of an ordered map.
pub(super) fn not_reserved(key: &[u8]) -> Result<(), Error> {
    match key.starts_with(RESERVED) {
        true => Err(Error::Reserved),
        false => Ok(()),
    }
}
