//! Two parts that a client has made for the split of a segment, and offered as its successor.
//!
//! If the split is interrupted, nobody knows whether they are the successor, or become it. So the client keeps them,
//! and asks when it has no verb any more that may arrive:
//!
//! | the segment's successor, at the primary | the parts |
//! |---|---|
//! | they | are in the index |
//! | others | are retired, as others may have seen their addresses at a backup |
//! | none | are offered again, if this client comes by; nobody uses them meanwhile. A closing that makes them the successor gives the region another key, so what is written to them then is refused |
//!
//! Those of a client that goes before it has asked stay lost.

use super::{Client, Error, Step, bytes_read, read};
use crate::index::candidates::Segment;
use crate::index::layout::{Label, SUCCESSOR_AT, successor_word};
use crate::mutant::{self, Mutant};
use crate::object::{Identity, Kind};
use crate::slot::snapshot::Interrupted;
use crate::verbs::{Address, Verbs};
use crate::view::{Control, View};

/// Parts for a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub segment: Segment,
    pub labels: [Label; 2],
    pub parts: [Address; 2],
    /// Whether they are written at all nodes.
    pub is_written: bool,
}

/// What has become of parts that this client has offered.
pub(super) enum Offered {
    /// It has offered none.
    Nothing,
    /// The segment has no successor yet.
    Open(Offer),
    /// It has one.
    Taken,
}

impl<N: Verbs + Control> Client<N> {
    /// New parts for a segment. No memory is taken if there is too little.
    pub(super) async fn new_offer(&self, segment: Segment) -> Step<Offer> {
        let too_deep = Error::Damaged {
            what: "a segment that cannot be split further",
            at: segment.at.bits(),
        };
        let labels = segment.label.parts().ok_or(too_deep)?;
        let bytes = self.layout.segments.bytes();
        let too_long = self.too_long(0, bytes as usize);
        let first = self.allocate(Kind::Put, bytes, too_long).await?;
        let second = match self.allocate(Kind::Put, bytes, too_long).await {
            Ok(second) => second,
            Err(error) => {
                self.give_back(&[first]);
                return Err(error.into());
            }
        };
        Ok(Offer {
            segment,
            labels,
            parts: [first, second],
            is_written: false,
        })
    }

    /// Keeps parts whose split was interrupted.
    pub(super) fn keep(&self, offer: Offer) {
        if mutant::is(Mutant::OffersForgotten) {
            return self.end_offer(&offer, true);
        }
        self.offers.borrow_mut().push(offer);
    }

    /// What has become of parts that this client has kept for a segment. It may have kept others, if several of its
    /// operations have tried to split it.
    ///
    /// Cost: nothing, or one round trip.
    pub(super) async fn offered(&self, view: &View, segment: Segment) -> Step<Offered> {
        let offer = {
            let mut offers = self.offers.borrow_mut();
            let place = offers.iter().position(|offer| offer.segment == segment);
            match place {
                Some(place) => offers.remove(place),
                None => return Ok(Offered::Nothing),
            }
        };
        match self.successor(view, segment).await {
            Err(trouble) => {
                self.keep(offer);
                Err(trouble)
            }
            Ok(0) => Ok(Offered::Open(offer)),
            Ok(word) => {
                self.end_offer(&offer, word == successor_word(offer.parts[0]));
                Ok(Offered::Taken)
            }
        }
    }

    /// The word of a segment's successor at the primary, when no verb of this client may arrive any more that it does
    /// not wait for.
    async fn successor(&self, view: &View, segment: Segment) -> Step<u64> {
        if let Some(region) = self.net.doubtful(view) {
            return Err(Interrupted { region }.into());
        }
        let request = read(view, segment.at.plus(SUCCESSOR_AT), 8)?;
        let completions = self.net.post(vec![request.clone()]).await;
        let word = bytes_read(&request, completions.first())?;
        Ok(word.try_into().map_or(0, u64::from_le_bytes))
    }

    /// It is known whether parts are a segment's successor. If they are not, their memory is free in the end.
    pub(super) fn end_offer(&self, offer: &Offer, is_successor: bool) {
        for (label, part) in offer.labels.into_iter().zip(offer.parts) {
            self.heap.borrow_mut().end(part);
            match (is_successor, offer.is_written) {
                (true, _) => {}
                (false, true) => self.retire(part, Identity(label.word())),
                (false, false) => self.give_back(&[part]),
            }
        }
    }

    /// Asks what has become of all that it has kept.
    ///
    /// Cost: one round trip each.
    pub(super) async fn end_offers(&self) -> Result<(), Error> {
        let segments: Vec<Segment> = self.offers.borrow().iter().map(|offer| offer.segment).collect();
        for segment in segments {
            let asked = self
                .under_views(async |view| {
                    if let Offered::Open(offer) = self.offered(view, segment).await? {
                        self.keep(offer);
                    }
                    Ok(())
                })
                .await;
            super::upkeep::unless_lost(asked)?;
        }
        Ok(())
    }
}
