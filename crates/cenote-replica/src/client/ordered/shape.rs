//! How large an ordered map is, and whether its pages fit together.

use std::collections::BTreeSet;

use super::page::{PageId, child_of};
use super::{OrderedMap, Seen};
use crate::client::Error;
use crate::verbs::Verbs;
use crate::view::Control;

/// What an ordered map is made of, if nobody changes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shape {
    /// Levels of pages; none if there was never a key.
    pub levels: u32,
    /// Pages, with those that a division names.
    pub pages: u64,
    /// Leaves without a key. They stay for keys that come.
    pub empty: u64,
    /// Keys.
    pub keys: u64,
    /// Pages that are being divided.
    pub divided: u64,
    /// Pages that are reached from their left neighbours alone.
    pub unnamed: u64,
}

impl<N: Verbs + Control> OrderedMap<N> {
    /// Walks over all pages. What it says is right if nobody changes the map meanwhile.
    ///
    /// Cost: that of one [`Client::get`](crate::client::Client::get) for each page.
    ///
    /// Errors: [`Error::Damaged`] if pages do not fit together.
    pub async fn shape(&self) -> Result<Shape, Error> {
        let mut shape = Shape::default();
        let Some(root) = self.read(PageId::ROOT).await? else {
            return Ok(shape);
        };
        shape.levels = u32::from(root.page.level) + 1;
        let mut first = Some(root);
        let mut named = BTreeSet::from([PageId::ROOT]);
        while let Some(seen) = first {
            let below = match seen.page.level {
                0 => None,
                _ => seen.page.entries.first().and_then(|(_, page)| child_of(page)),
            };
            named = self.walk(seen, &named, &mut shape).await?;
            first = match below {
                Some(id) => Some(self.there(id).await?),
                None => None,
            };
        }
        Ok(shape)
    }

    /// Walks over the pages of a level. Returns those that they name.
    async fn walk(
        &self,
        first: Seen,
        named: &BTreeSet<PageId>,
        shape: &mut Shape,
    ) -> Result<BTreeSet<PageId>, Error> {
        let mut names = BTreeSet::new();
        let (level, mut low) = (first.page.level, Vec::new());
        let mut next = Some(first);
        while let Some(seen) = next {
            let page = &seen.page;
            if page.level != level || page.low != low {
                return Err(self.damaged(
                    "a page of an ordered map, which does not fit to its neighbour",
                    seen.id,
                ));
            }
            shape.pages += 1;
            shape.unnamed += u64::from(!named.contains(&seen.id));
            if let Some(division) = &page.division {
                shape.divided += 1;
                for id in [Some(division.right), division.left].into_iter().flatten() {
                    shape.pages += u64::from(self.read(id).await?.is_some());
                }
            }
            match level {
                0 => {
                    shape.keys += page.entries.len() as u64;
                    shape.empty += u64::from(page.entries.is_empty());
                }
                _ => names.extend(page.entries.iter().filter_map(|(_, value)| child_of(value))),
            }
            next = match (&page.high, page.right) {
                (Some(high), Some(right)) => {
                    low.clone_from(high);
                    Some(self.there(right).await?)
                }
                _ => None,
            };
        }
        Ok(names)
    }
}
