//! Many keys in order, page by page.
//!
//! Each page is read whole, at one moment within the scan. Where a page ends the next one begins, by the fence of the
//! page that was read; keys never move to the left of a fence. So a key that is bound all the time comes once, one that
//! is never bound does not come, and all come in order. What is bound or unbound meanwhile comes or does not.
//!
//! The leaves that the page above names next are read at once, as many as the scan may need. Such a leaf counts if it
//! begins where the last one has ended: one that was read has been divided since, if it does not, and the scan follows
//! its link.

use std::collections::BTreeMap;

use super::find::{Found, Freshness, Goal};
use super::page::{PageId, child_of};
use super::{OrderedMap, Seen};
use crate::client::Error;
use crate::client::join::join_all;
use crate::mutant::{self, Mutant};
use crate::verbs::Verbs;
use crate::view::Control;

/// Keys with their values.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Leaves that are read at once.
const AHEAD: usize = 16;

/// Leaves that were read ahead: forward by their low fences, backward by their high ones.
type Ahead = BTreeMap<Vec<u8>, Seen>;

impl<N: Verbs + Control> OrderedMap<N> {
    /// The least keys from `from` on and below `to`, ascending, at most `limit` of them.
    ///
    /// Cost: one or two round trips for the first page, and one or two for each sixteen after it, if the pages above
    /// are known.
    pub async fn scan(&self, from: &[u8], to: Option<&[u8]>, limit: usize) -> Result<Pairs, Error> {
        let mut pairs = Pairs::new();
        let mut next = from.to_vec();
        let mut ahead = Ahead::new();
        while pairs.len() < limit && to.is_none_or(|to| next.as_slice() < to) {
            let seen = match ahead.remove(&next) {
                Some(seen) => seen,
                None => {
                    let Some(found) = self.find(Goal::At(&next), 0, Freshness::Read).await? else {
                        break;
                    };
                    let wanted = wanted(&found, limit - pairs.len());
                    let above = found.above.iter().flat_map(|above| &above.page.entries);
                    let after = above
                        .filter(|(low, _)| next.as_slice() < low.as_slice())
                        .take_while(|(low, _)| to.is_none_or(|to| low.as_slice() < to));
                    let ids = after.filter_map(|(_, page)| child_of(page)).take(wanted);
                    for seen in self.read_all(ids.collect()).await? {
                        ahead.insert(seen.page.low.clone(), seen);
                    }
                    found.seen
                }
            };
            let page = &seen.page;
            let inside = |key: &[u8]| next.as_slice() <= key && to.is_none_or(|to| key < to);
            let entries = page.entries.iter().filter(|(key, _)| inside(key));
            pairs.extend(entries.take(limit - pairs.len()).cloned());
            next = match (&page.high, ahead.keys().next()) {
                (Some(_), Some(low)) if mutant::is(Mutant::GapOverlooked) => low.clone(),
                (Some(high), _) => high.clone(),
                (None, _) => break,
            };
        }
        Ok(pairs)
    }

    /// The greatest keys below `to` and not below `from`, descending, at most `limit` of them.
    ///
    /// Cost: as [`OrderedMap::scan`].
    pub async fn scan_back(&self, from: &[u8], to: Option<&[u8]>, limit: usize) -> Result<Pairs, Error> {
        let mut pairs = Pairs::new();
        let mut end = to.map(<[u8]>::to_vec);
        let mut ahead = Ahead::new();
        while pairs.len() < limit && end.as_deref().is_none_or(|end| from < end) {
            let seen = match end.as_ref().and_then(|end| ahead.remove(end)) {
                Some(seen) => seen,
                None => {
                    let goal = Goal::Below(end.as_deref());
                    let Some(found) = self.find(goal, 0, Freshness::Read).await? else {
                        break;
                    };
                    let wanted = wanted(&found, limit - pairs.len());
                    // Each of them ends where the one to its right begins.
                    let above = found.above.iter().flat_map(|above| &above.page.entries);
                    let mut high = found.seen.page.low.as_slice();
                    let mut ids = Vec::new();
                    for (low, page) in above.rev().filter(|(low, _)| *low < found.seen.page.low) {
                        if ids.len() < wanted && from < high {
                            ids.extend(child_of(page));
                        }
                        high = low;
                    }
                    for seen in self.read_all(ids).await? {
                        let high = seen.page.high.clone();
                        ahead.extend(high.map(|high| (high, seen)));
                    }
                    found.seen
                }
            };
            let page = &seen.page;
            let inside = |key: &[u8]| from <= key && end.as_deref().is_none_or(|end| key < end);
            let entries = page.entries.iter().rev().filter(|(key, _)| inside(key));
            pairs.extend(entries.take(limit - pairs.len()).cloned());
            if page.low.is_empty() {
                break;
            }
            end = Some(page.low.clone());
        }
        Ok(pairs)
    }

    /// Reads leaves at once.
    async fn read_all(&self, ids: Vec<PageId>) -> Result<Vec<Seen>, Error> {
        let read = join_all(ids.into_iter().map(|id| self.there(id))).await;
        read.into_iter().collect()
    }
}

/// How many leaves are to be read ahead for so many keys, if they are as long as a leaf that was found.
fn wanted(found: &Found, keys: usize) -> usize {
    keys.div_ceil(found.seen.page.entries.len().max(1))
        .saturating_sub(1)
        .min(AHEAD)
}
