//! What the log of an insert says, and when.
//!
//! A change that binds a key to a vacant slot writes *bound* to its log in the round trip that shows the slot. So who
//! finds *bound* in one copy does not know whether the others have it; if the node of that copy were lost with the
//! slot's primary, nothing would say that the object was shown. It writes *decided* to the backups, waits, and may
//! believe what the slot shows ([`Client::tell`]). The primary's copy says *decided* later, when all backups say so for
//! certain: the change's own client, or the reader, writes it with whatever it sends next. From then on nobody who
//! reads it has to write.
//!
//! *Bound* is swapped for nothing, and never written over what another has decided.
//!
//! An entry is good for the era in which its operation began, and for the view under which it saw the object. Till an
//! operation ends that began in that era, the object's memory is not used again, whichever client takes it out of the
//! index: as for the [cache](super::cache). After that the client does not write the copy any more, but knows for
//! itself what it would have said.

use std::rc::Rc;

use super::cache::Moment;
use super::{Client, Error, Step, all_written, region};
use crate::mutant::{self, Mutant};
use crate::object::{Identity, OUTCOME_AT, OUTCOME_KIND_AT, Outcome};
use crate::slot::snapshot::Interrupted;
use crate::verbs::{Address, Completion, Request, Verb, Verbs};
use crate::view::{Control, NodeId, Region, View};

/// How many entries a client keeps, the newest ones.
const KEPT: usize = 64;

/// An object that the index shows, or has shown, and all backups of whose log say so, and whose last copy is to say
/// *decided*.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Late {
    pub at: Address,
    pub identity: Identity,
    /// The era in which the operation began that saw it in the index, or bound it there, and the view under which it
    /// did.
    pub seen: Moment,
}

/// The requests that write *decided* to some copies of a log.
fn decide(region: &Region, nodes: &[NodeId], at: Address, identity: Identity) -> Vec<Request> {
    let bytes: Rc<[u8]> = Outcome::Decided.encode(identity).into();
    let write = |node| Request {
        node,
        key: region.key,
        at: at.plus(OUTCOME_AT),
        verb: Verb::Write(Rc::clone(&bytes)),
    };
    nodes.iter().copied().map(write).collect()
}

/// The requests that write it to the backups of a log, or, if it has none, to its only copy.
pub(super) fn first_copies(view: &View, at: Address, identity: Identity) -> Step<Vec<Request>> {
    let region = region(view, at.region())?;
    let nodes = match region.backups() {
        [] => &region.nodes,
        backups => backups,
    };
    Ok(decide(region, nodes, at, identity))
}

/// The request that writes it to the primary of a log; none if that is its only copy.
fn last_copy(view: &View, at: Address, identity: Identity) -> Step<Vec<Request>> {
    let region = region(view, at.region())?;
    let nodes = match region.nodes.as_slice() {
        [primary, _, ..] => std::slice::from_ref(primary),
        _ => &[],
    };
    Ok(decide(region, nodes, at, identity))
}

/// Whether a log has one copy alone.
pub(super) fn is_alone(view: &View, at: Address) -> Step<bool> {
    Ok(region(view, at.region())?.backups().is_empty())
}

/// The requests that note in all copies of a log that its change has won a vacant slot, unless they say more.
pub(super) fn bind(view: &View, at: Address, identity: Identity) -> Step<Vec<Request>> {
    let region = region(view, at.region())?;
    let swap = |node| Request {
        node,
        key: region.key,
        at: at.plus(OUTCOME_AT + OUTCOME_KIND_AT),
        verb: Verb::CompareSwap {
            expected: 0,
            new: Outcome::Bound.kind_word(identity),
        },
    };
    Ok(region.nodes.iter().copied().map(swap).collect())
}

/// The requests that note in all copies of a log that its change has won the slot of an object, unless they say more:
/// without backups the slot shows the change before, so another may have decided by now.
pub(super) fn win(view: &View, at: Address, identity: Identity, won: Outcome) -> Step<Vec<Request>> {
    let region = region(view, at.region())?;
    let values: Rc<[u8]> = won.encode(identity)[..OUTCOME_KIND_AT as usize].into();
    let request = |node, offset, verb| Request {
        node,
        key: region.key,
        at: at.plus(offset),
        verb,
    };
    let of = |node| {
        let swap = Verb::CompareSwap {
            expected: 0,
            new: won.kind_word(identity),
        };
        [
            request(node, OUTCOME_AT, Verb::Write(Rc::clone(&values))),
            request(node, OUTCOME_AT + OUTCOME_KIND_AT, swap),
        ]
    };
    Ok(region.nodes.iter().copied().flat_map(of).collect())
}

/// Whether all of them say so, or more.
pub(super) fn all_won(
    requests: &[Request],
    completions: &[Completion],
    identity: Identity,
    won: Outcome,
) -> Result<(), Interrupted> {
    all_say(
        requests,
        completions,
        &[won, Outcome::Decided].map(|outcome| outcome.kind_word(identity)),
    )
}

/// Whether all of them say so, or more.
pub(super) fn all_bound(
    requests: &[Request],
    completions: &[Completion],
    identity: Identity,
) -> Result<(), Interrupted> {
    let said = [Outcome::Bound, Outcome::Decided].map(|outcome| outcome.kind_word(identity));
    all_say(requests, completions, &said)
}

/// Whether all were done: those that swap for nothing may have found these words as well.
fn all_say(requests: &[Request], completions: &[Completion], said: &[u64]) -> Result<(), Interrupted> {
    let is_done = |completion: &Completion| match completion {
        Completion::Written => true,
        Completion::Was(was) => *was == 0 || said.contains(was) || mutant::is(Mutant::UndoneShown),
        _ => false,
    };
    match requests
        .iter()
        .zip(completions)
        .find(|(_, completion)| !is_done(completion))
    {
        Some((request, _)) => Err(Interrupted {
            region: request.at.region(),
        }),
        None => Ok(()),
    }
}

impl<N: Verbs + Control> Client<N> {
    /// Notes that the primary's copy of a log is to be written.
    pub(super) fn note_late(&self, late: Late) {
        let mut kept = self.late.borrow_mut();
        kept.truncate(KEPT - 1);
        kept.push_front(late);
    }

    /// Whether all backups of an object's log are known to say that the index has it, or had it.
    pub(super) fn is_late(&self, identity: Identity) -> bool {
        self.late.borrow().iter().any(|late| late.identity == identity)
    }

    /// The requests for these copies, in an operation that began in an era, and whose they are.
    pub(super) fn late_copies(&self, view: &View, era: u64) -> (Vec<Request>, Vec<Identity>) {
        let (mut batch, mut of) = (Vec::new(), Vec::new());
        let now = Moment {
            era,
            view: view.number,
        };
        let is_good =
            |late: &&Late| late.seen == now || mutant::is(Mutant::LateForEver) && late.seen.era == era;
        for late in self.late.borrow().iter().filter(is_good) {
            // One in a region that is lost is nobody's concern.
            if let Ok(request) = last_copy(view, late.at, late.identity) {
                batch.extend(request);
                of.push(late.identity);
            }
        }
        (batch, of)
    }

    /// These copies were written.
    pub(super) fn wrote_late(&self, of: &[Identity]) {
        self.late.borrow_mut().retain(|late| !of.contains(&late.identity));
    }

    /// Writes these copies with nothing else.
    ///
    /// Cost: nothing, or one round trip.
    pub(super) async fn write_late(&self) -> Result<(), Error> {
        let era = self.heap.borrow_mut().pin(self.net.eras());
        let written = self
            .under_views(async |view| {
                let (batch, of) = self.late_copies(view, era);
                if !batch.is_empty() {
                    let completions = self.net.post(batch.clone()).await;
                    all_written(&batch, &completions)?;
                }
                self.wrote_late(&of);
                Ok(())
            })
            .await;
        self.heap.borrow_mut().unpin(era);
        written
    }
}
