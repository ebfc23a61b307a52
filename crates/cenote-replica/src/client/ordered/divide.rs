//! Pages that are full.
//!
//! | step | a crash after it leaves | repaired by |
//! |---|---|---|
//! | the page is replaced by itself with a division, in the change that fills it | a page that is too long, and whole: reads go on | the client that changes the page next: it goes on from here |
//! | the right page is inserted, if it is not there (of the root: the left one, too) | the same, and a page that the division names | the same |
//! | the page is replaced by its lower half, with a link (the root: by the page above the two) | a page that no page above names | the next change that comes to it from the left |
//! | the page above gets an entry | nothing: all is done | |
//!
//! Nobody changes a page that has a division but by completing it, and all who complete it insert the same. So the
//! right page is never older than the division, and one that comes late finds it there.

use super::find::{Found, Freshness, Goal};
use super::page::{Division, Page, PageId};
use super::{OrderedMap, Seen};
use crate::client::{Error, Replaced};
use crate::mutant::{self, Mutant};
use crate::verbs::Verbs;
use crate::view::Control;

/// What is to be done to the tree.
#[derive(Debug)]
pub(super) enum Work {
    /// To complete a page's division.
    Complete(Seen),
    /// To name a page in the page above.
    Name {
        /// The level of the page above.
        level: u8,
        separator: Vec<u8>,
        page: PageId,
    },
}

impl Work {
    /// To name pages that were reached from their left neighbours.
    pub fn name(unnamed: Vec<Seen>) -> impl Iterator<Item = Work> {
        unnamed.into_iter().map(|seen| Work::Name {
            level: seen.page.level + 1,
            separator: seen.page.low.clone(),
            page: seen.id,
        })
    }
}

impl<N: Verbs + Control> OrderedMap<N> {
    /// A page with a division, if its entries are too many.
    pub(super) fn divided_if_full(&self, id: PageId, mut page: Page, appended: bool) -> Result<Page, Error> {
        if let Some(separator) = page.separator(self.page_bytes(), appended) {
            page.division = Some(Division {
                separator,
                right: self.new_id()?,
                left: match id {
                    PageId::ROOT => Some(self.new_id()?),
                    _ => None,
                },
            });
        }
        Ok(page)
    }

    /// Does what is to be done, and what that makes necessary.
    pub(super) async fn do_all(&self, mut work: Vec<Work>) -> Result<(), Error> {
        let mut attempt = 0;
        while let Some(next) = work.pop() {
            match next {
                Work::Complete(seen) => work.extend(self.complete(&seen).await?),
                Work::Name {
                    level,
                    separator,
                    page,
                } => {
                    let found = self.find(Goal::At(&separator), level, Freshness::Read).await?;
                    let Some(Found { seen, unnamed, .. }) = found else {
                        return Err(self.damaged("an ordered map without a root", PageId::ROOT));
                    };
                    work.extend(Work::name(unnamed));
                    if seen.page.division.is_some() {
                        let again = Work::Name {
                            level,
                            separator,
                            page,
                        };
                        work.extend([again, Work::Complete(seen)]);
                        continue;
                    }
                    if seen.page.get(&separator).is_some() {
                        continue;
                    }
                    let value = page.0.to_le_bytes();
                    let new = seen.page.with(&separator, Some(&value));
                    let is_last = new.entries.last().is_some_and(|(last, _)| *last == separator);
                    let new = self.divided_if_full(seen.id, new, is_last)?;
                    match self.put_page(&seen, new).await? {
                        Some(new) if new.page.division.is_some() => work.push(Work::Complete(new)),
                        Some(_) => {}
                        None => {
                            self.back_off(attempt).await;
                            attempt += 1;
                            work.push(Work::Name {
                                level,
                                separator,
                                page,
                            });
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Replaces a page that was read. Returns the new one; `None` if another client has replaced it first, and what
    /// that has put there is remembered.
    pub(super) async fn put_page(&self, seen: &Seen, new: Page) -> Result<Option<Seen>, Error> {
        let (key, bytes) = (self.key(seen.id), new.encode());
        if mutant::is(Mutant::PageOverwritten) {
            self.client.change(crate::object::Kind::Put, &key, &bytes).await?;
            self.forget(seen.id);
            return self.read(seen.id).await;
        }
        match self.client.replace_any(&key, seen.version, &bytes).await? {
            Replaced::Done(version) => Ok(Some(self.remember(seen.id, version, new))),
            Replaced::Changed(Some(now)) => {
                self.conflicts.set(self.conflicts.get() + 1);
                self.take_in(seen.id, now.version, &now.value)?;
                Ok(None)
            }
            Replaced::Changed(None) => Err(self.damaged("an ordered map, whose page is missing", seen.id)),
        }
    }

    /// Completes the division of a page. Returns what is to be done then.
    async fn complete(&self, seen: &Seen) -> Result<Option<Work>, Error> {
        let Some(division) = &seen.page.division else {
            return Ok(None);
        };
        let [left, right] = seen.page.halves(division);
        let separator = division.separator.clone();
        if mutant::is(Mutant::RightPageLate) && division.left.is_none() {
            self.put_page(seen, left).await?;
            self.insert_page(division.right, &right).await?;
            return Ok(None);
        }
        self.insert_page(division.right, &right).await?;
        let level = left.level + 1;
        let lower = match division.left {
            Some(id) => {
                self.insert_page(id, &left).await?;
                seen.page.above(division, id)
            }
            None => left,
        };
        let is_mine = self.put_page(seen, lower).await?.is_some();
        // Who else has completed it names the page, or has died; who comes to the page from the left does as well.
        Ok((is_mine && division.left.is_none()).then_some(Work::Name {
            level,
            separator,
            page: division.right,
        }))
    }

    /// Inserts a page, unless it is there.
    async fn insert_page(&self, id: PageId, page: &Page) -> Result<(), Error> {
        let key = self.key(id);
        self.client
            .change(crate::object::Kind::Insert, &key, &page.encode())
            .await
            .map(drop)
    }

    /// Lets others go first, longer the more often they did, up to a bound.
    pub(super) async fn back_off(&self, attempt: u32) {
        let own = self.client.session.number + attempt;
        self.client.net.pause(attempt.min(4) + own % 3).await;
    }
}
