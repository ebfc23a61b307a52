//! Binding and unbinding a key: its leaf is replaced, on the condition that it is the one that was read.

use super::divide::Work;
use super::find::{Found, Freshness, Goal};
use super::page::{Page, PageId};
use super::{OrderedMap, Seen};
use crate::client::{Changed, Error};
use crate::mutant::{self, Mutant};
use crate::object::Kind;
use crate::verbs::Verbs;
use crate::view::Control;

impl<N: Verbs + Control> OrderedMap<N> {
    /// Binds a key to a value. Returns whether it was bound before.
    ///
    /// Cost: four round trips if the client knows the leaf and has used it in the same era; one more if not in the same
    /// era; one or two more if another client has changed the leaf since, also by another key, and five if it does so
    /// at the same time. A page that has become full costs about 13 more.
    ///
    /// Errors: [`Error::EntryTooLong`] above [`OrderedMap::key_max`] or [`OrderedMap::entry_max`]; [`Error::Full`].
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        let (key_max, entry_max) = (self.key_max(), self.entry_max());
        if key.len() > key_max || key.len() + value.len() > entry_max {
            return Err(Error::EntryTooLong {
                key: key.len(),
                value: value.len(),
                key_max,
                entry_max,
            });
        }
        self.bind(key, Some(value)).await
    }

    /// Unbinds a key. Returns whether it was bound.
    ///
    /// Cost: as [`OrderedMap::put`]; one or two round trips if the key is not bound. It needs memory for a page.
    pub async fn remove(&self, key: &[u8]) -> Result<bool, Error> {
        self.bind(key, None).await
    }

    async fn bind(&self, key: &[u8], value: Option<&[u8]>) -> Result<bool, Error> {
        let mut freshness = Freshness::Remembered;
        let mut attempt = 0;
        let mut work: Vec<Work> = Vec::new();
        loop {
            let found = self.find(Goal::At(key), 0, freshness).await?;
            let Some(Found {
                seen,
                is_fresh,
                unnamed,
                ..
            }) = found
            else {
                match value {
                    Some(value) if self.plant(key, value).await? => return Ok(false),
                    Some(_) => continue,
                    None => return Ok(false),
                }
            };
            work.extend(Work::name(unnamed));
            if seen.page.division.is_some() && !mutant::is(Mutant::DivisionLeft) {
                self.do_all(vec![Work::Complete(seen)]).await?;
                continue;
            }
            let was_bound = seen.page.get(key).is_some();
            if !was_bound && value.is_none() {
                if is_fresh {
                    return self.after(work, false).await;
                }
                freshness = Freshness::Read;
                continue;
            }
            let new = self.changed(&seen, key, value)?;
            match self.put_page(&seen, new).await? {
                Some(new) => {
                    if new.page.division.is_some() {
                        work.push(Work::Complete(new));
                    }
                    return self.after(work, was_bound).await;
                }
                None => {
                    self.back_off(attempt).await;
                    attempt += 1;
                }
            }
        }
    }

    /// A leaf with a key bound to a value, or to none.
    fn changed(&self, seen: &Seen, key: &[u8], value: Option<&[u8]>) -> Result<Page, Error> {
        let new = seen.page.with(key, value);
        if new.division.is_some() {
            return Ok(new);
        }
        let is_last = new.entries.last().is_some_and(|(last, _)| last == key);
        self.divided_if_full(seen.id, new, is_last)
    }

    /// Does what is left when a change is done. It is done also if there is no memory for that: others do it later.
    async fn after(&self, work: Vec<Work>, was_bound: bool) -> Result<bool, Error> {
        match self.do_all(work).await {
            Ok(()) | Err(Error::Full(_)) => Ok(was_bound),
            Err(error) => Err(error),
        }
    }

    /// Makes the root, with the first key. Returns whether nobody else has.
    async fn plant(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        let root = Page::default().with(key, Some(value));
        let bytes = root.encode();
        let key = self.key(PageId::ROOT);
        Ok(self.client.change(Kind::Insert, &key, &bytes).await? == Changed::Done)
    }
}
