//! Rounds of a slot: a change binds a slot that is vacant, or replaces the object in one.

use std::rc::Rc;

use super::cache::Moment;
use super::change::Changed;
use super::get::Found;
use super::late::{Late, all_bound, all_won, bind, win};
use super::pending::{Attempt, Pending, Round, Stage};
use super::{Client, POLLS, Step, Trouble, all_written, region, writes};
use crate::index::candidates::{Seen, Segment};
use crate::mutant::{self, Mutant};
use crate::object::{Kind, OUTCOME_AT, Outcome};
use crate::slot::snapshot::{Interrupted, Verdict, Word, await_end, swap_backups, swap_primary};
use crate::slot::value::Slot;
use crate::verbs::{Address, Completion, Request, Verb, Verbs};
use crate::view::{Access, Control, View};

impl<N: Verbs + Control> Client<N> {
    /// If an attempt was interrupted, keeps the round that it goes on with.
    pub(super) fn keep_round(
        &self,
        pending: &Pending<'_>,
        round: Round,
        attempt: Step<Attempt>,
    ) -> Step<Attempt> {
        if attempt.is_err() {
            pending.round.borrow_mut().get_or_insert(round);
        }
        self.keep_stage(pending, attempt)
    }

    /// If an attempt was interrupted by a verb on its own word, nobody but who makes the copies equal knows how it
    /// went.
    pub(super) fn keep_stage(&self, pending: &Pending<'_>, attempt: Step<Attempt>) -> Step<Attempt> {
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
    pub(super) async fn tell_shown(
        &self,
        view: &View,
        pending: &Pending<'_>,
        round: &Round,
    ) -> Step<Attempt> {
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
    pub(super) async fn tell_won(&self, view: &View, pending: &Pending<'_>, won: Outcome) -> Step<()> {
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
    pub(super) async fn replace(
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

    /// Changes a slot that has the key, without backups. The primary decides, so the log follows: a change whose log is
    /// empty has its object in the slot, or who replaced that object has written the log. A removal leaves no object in
    /// the slot, so it puts its own there, tentative, until it has written its log: from then on the key is removed.
    /// The log may have backups, though the slot has none.
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
    pub(super) async fn bind(
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
            await_end(&self.net, word, old, POLLS).await?;
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

    /// Lets another client go first that inserts the key, or that has begun to remove it. One that does not come to an
    /// end stands still, or is dead: a later view ends its change.
    pub(super) async fn let_pass(&self, pending: &Pending<'_>, word: Word<'_>) -> Step<Attempt> {
        let given_up = pending.given_up.get();
        if given_up == POLLS && !mutant::is(Mutant::TwinUntold) {
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
    pub(super) async fn lose(&self, word: Word<'_>, pending: &Pending<'_>, old: u64) -> Step<Attempt> {
        if mutant::is(Mutant::LoserNotAwaiting) && pending.kind == Kind::Put {
            pending.round.take();
            return Ok(Attempt::Over(Changed::Done));
        }
        let winner = Slot(await_end(&self.net, word, old, POLLS).await?);
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
}

impl Word<'_> {
    /// The request that ends a round.
    fn swap_at_primary(&self, expected: u64, new: u64) -> Step<Request> {
        let mut request = self.read()?;
        request.verb = Verb::CompareSwap { expected, new };
        Ok(request)
    }
}
