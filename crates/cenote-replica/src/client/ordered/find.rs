//! From the root to a page: pages above are hints, as this client remembers them; fences say whether the page is the
//! right one, and links lead on to the right.
//!
//! A page's low fence never changes, and no page is ever taken away. So a page that a hint names begins at or before
//! the key; if it has been divided since, the key is further to the right.

use std::cmp::Ordering;

use super::page::PageId;
use super::{OrderedMap, Seen};
use crate::client::{ATTEMPTS_MAX, Error};
use crate::mutant::{self, Mutant};
use crate::verbs::Verbs;
use crate::view::Control;

/// Which page is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Goal<'a> {
    /// The one that a key belongs to.
    At(&'a [u8]),
    /// The one with the greatest keys below a key, or of all.
    Below(Option<&'a [u8]>),
}

impl Goal<'_> {
    /// Whether it lies to the right of a page.
    fn is_beyond(self, seen: &Seen) -> bool {
        let high = seen.page.high.as_deref();
        match self {
            Goal::At(_) if mutant::is(Mutant::FenceOverlooked) => false,
            Goal::At(key) => seen.page.is_below(key),
            Goal::Below(key) => high.is_some_and(|high| key.is_none_or(|key| high < key)),
        }
    }

    /// Whether it lies to the left of a page.
    fn is_before(self, seen: &Seen) -> bool {
        let low = seen.page.low.as_slice();
        match self {
            Goal::At(key) => key < low,
            Goal::Below(key) => key.is_some_and(|key| key <= low),
        }
    }

    fn child(self, seen: &Seen) -> Option<PageId> {
        match self {
            Goal::At(key) => seen.page.child(Some(key), false),
            Goal::Below(key) => seen.page.child(key, true),
        }
    }
}

/// Whether what this client remembers of the page is good enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Freshness {
    /// It is: a condition will tell.
    Remembered,
    /// The page is read after the operation has begun.
    Read,
}

/// A page that was looked for.
#[derive(Debug)]
pub(super) struct Found {
    pub seen: Seen,
    /// Whether it was read just now.
    pub is_fresh: bool,
    /// The page above that led here.
    pub above: Option<Seen>,
    /// Pages that were reached from their left neighbours: those above may not name them.
    pub unnamed: Vec<Seen>,
}

impl<N: Verbs + Control> OrderedMap<N> {
    /// The page of a level that a goal is in; `None` if the map has no root yet.
    pub(super) async fn find(
        &self,
        goal: Goal<'_>,
        level: u8,
        freshness: Freshness,
    ) -> Result<Option<Found>, Error> {
        let mut unnamed = Vec::new();
        let Some((mut seen, mut is_fresh)) = self.page(PageId::ROOT).await? else {
            return Ok(None);
        };
        let mut above: Option<Seen> = None;
        for _ in 0..ATTEMPTS_MAX {
            if goal.is_before(&seen) || seen.page.level < level && is_fresh {
                return Err(self.damaged("a page of an ordered map, which is not where others say", seen.id));
            }
            let is_there = seen.page.level == level && !goal.is_beyond(&seen);
            let is_too_old = match seen.page.level.cmp(&level) {
                Ordering::Less => true,
                Ordering::Equal => freshness == Freshness::Read,
                Ordering::Greater => false,
            };
            if !is_fresh && is_too_old {
                (seen, is_fresh) = (self.there(seen.id).await?, true);
                continue;
            }
            if is_there {
                return Ok(Some(Found {
                    seen,
                    is_fresh,
                    above,
                    unnamed,
                }));
            }
            if goal.is_beyond(&seen) {
                let right = seen.page.right;
                let right =
                    right.ok_or_else(|| self.damaged("a page of an ordered map without a link", seen.id))?;
                // What led here is out of date, or says what nobody has told it yet.
                if let Some(above) = &above {
                    self.forget(above.id);
                }
                (seen, is_fresh) = self.known_or_read(right).await?;
                unnamed.push(seen.clone());
                continue;
            }
            let child = goal.child(&seen);
            let child = child
                .ok_or_else(|| self.damaged("an inner page of an ordered map without pages", seen.id))?;
            let read = self.known_or_read(child).await?;
            above = Some(std::mem::replace(&mut seen, read.0));
            is_fresh = read.1;
        }
        Err(self.damaged("pages of an ordered map, which lead nowhere", seen.id))
    }

    /// A page, as it is remembered, or else read; and whether it was read.
    async fn page(&self, id: PageId) -> Result<Option<(Seen, bool)>, Error> {
        match self.remembered(id) {
            Some(seen) => Ok(Some((seen, false))),
            None => Ok(self.read(id).await?.map(|seen| (seen, true))),
        }
    }

    async fn known_or_read(&self, id: PageId) -> Result<(Seen, bool), Error> {
        let page = self.page(id).await?;
        page.ok_or_else(|| self.damaged("an ordered map, whose page is missing", id))
    }

    /// Reads a page that others name.
    pub(super) async fn there(&self, id: PageId) -> Result<Seen, Error> {
        let seen = self.read(id).await?;
        seen.ok_or_else(|| self.damaged("an ordered map, whose page is missing", id))
    }
}
