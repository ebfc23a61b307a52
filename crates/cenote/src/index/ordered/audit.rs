//! Walking an ordered map for `fsck`: everything that it refers to, and whether that is sound. While others write, what
//! seems wrong may be their writes.

use std::collections::BTreeSet;

use super::find::Visit;
use super::key::{Target, head_of};
use super::page::Page;
use super::{FROZEN, OrderedMap, build};
use crate::error::{Error, Result};
use crate::index::common::pair;
use crate::memory::{Memory, SyncWord};
use crate::pod::Pin;
use crate::pod::alloc::slab::check_fits;

/// What a walk found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Keys.
    pub keys: u64,
    /// Levels.
    pub levels: u64,
    /// Nodes.
    pub nodes: u64,
}

/// Nodes that are looked at under one pin.
const NODES_A_PIN: u64 = 256;
/// Walks of a map of which nodes go, at most.
const ATTEMPTS: u32 = 4;

/// The pin of a walk.
struct Pinned<'w, M: Memory> {
    pin: Option<Pin<'w, M>>,
    /// Nodes that were looked at under it, and how many may be.
    nodes: u64,
    nodes_max: u64,
}

impl<'w, M: Memory> Pinned<'w, M> {
    fn is_over(&self) -> bool {
        self.nodes >= self.nodes_max
    }

    /// Ends it, and begins another.
    fn renew(&mut self, map: &'w OrderedMap<M>) -> Result<()> {
        self.pin = None;
        self.pin = Some(map.pin()?);
        self.nodes = 0;
        Ok(())
    }
}

/// The nodes that a level must have: those that the level above knows, in their order.
type Known = Vec<KnownNode>;

struct KnownNode {
    /// Its low fence.
    low: Vec<u8>,
    /// Its word.
    node: u64,
    /// Whether it is being merged into the one before it, or takes the root's place: the level may no longer have it.
    is_merging: bool,
}

impl<M: Memory> OrderedMap<M> {
    /// Calls `reach` for every allocation that the map refers to (its header, nodes, pages, records), and `suspect` for
    /// what seems wrong.
    ///
    /// The worker is pinned for some nodes at a time, so that others are not kept from reusing what they retire for as
    /// long as all of it takes. If the node that comes next is none any more then, what was found of the map is
    /// forgotten, and the walk begins anew; the last of a few times with one pin for all.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn audit(&self, reach: impl FnMut(u64), suspect: impl FnMut(Error)) -> Result<Audit> {
        for attempt in 0..ATTEMPTS {
            let (mut reached, mut suspects) = (Vec::new(), Vec::new());
            // The pin of who only reads is none.
            let nodes_a_pin = match attempt + 1 == ATTEMPTS || self.worker.pod().is_reader() {
                true => u64::MAX,
                false => NODES_A_PIN,
            };
            let walked = self.walk(
                nodes_a_pin,
                |offset| reached.push(offset),
                |error| suspects.push(error),
            )?;
            if let Some(audit) = walked {
                reached.into_iter().for_each(reach);
                suspects.into_iter().for_each(suspect);
                return Ok(audit);
            }
        }
        // With one pin for all no node goes.
        Err(Error::corrupt("a map whose nodes come and go, seen", self.header))
    }

    /// [`OrderedMap::audit`], once; `None` if a node was not the map's any more.
    fn walk(
        &self,
        nodes_a_pin: u64,
        mut reach: impl FnMut(u64),
        mut suspect: impl FnMut(Error),
    ) -> Result<Option<Audit>> {
        let worker = &*self.worker;
        let mut pinned = Pinned {
            pin: Some(self.pin()?),
            nodes: 0,
            nodes_max: nodes_a_pin,
        };
        let mut audit = Audit::default();
        reach(self.header);
        let root = self.root();
        let at = root.load(worker.mem());
        if at == 0 {
            return Ok(Some(audit));
        }
        let mut level = Page::open(worker, at)?.level();
        let mut known = vec![KnownNode {
            low: Vec::new(),
            node: root.offset(),
            is_merging: false,
        }];
        loop {
            audit.levels += 1;
            let below = self.audit_level(level, &known, &mut audit, &mut pinned, &mut reach, &mut suspect)?;
            let Some(below) = below else {
                return Ok(None);
            };
            known = below;
            match level {
                0 => return Ok(Some(audit)),
                _ => level -= 1,
            }
        }
    }

    /// Walks a level from its first node to its last. It must meet the nodes that the level above knows in their order.
    /// `None` if it comes to a node that is no longer the map's.
    fn audit_level<'w>(
        &'w self,
        level: u8,
        known: &Known,
        audit: &mut Audit,
        pinned: &mut Pinned<'w, M>,
        reach: &mut impl FnMut(u64),
        suspect: &mut impl FnMut(Error),
    ) -> Result<Option<Known>> {
        let Some(KnownNode {
            node: first,
            is_merging: is_lowering,
            ..
        }) = known.first()
        else {
            return Err(Error::corrupt("a level without nodes", self.header));
        };
        let (mut node, mut low) = (*first, Vec::new());
        let (mut expected, mut seen, mut below) = (known.iter().peekable(), BTreeSet::new(), Vec::new());
        let mut before = None;
        loop {
            if !seen.insert(node) {
                return Err(Error::corrupt("a level without end", node));
            }
            let word = self.node(node)?;
            let visit = match &before {
                Some(_) if pinned.is_over() => {
                    // What was read of the one before may be something else by now: the next one is looked for from the
                    // root.
                    pinned.renew(self)?;
                    match self.descend(Target::at(&low), level) {
                        Ok(Some(found)) if found.word == word && found.page.fences()?.0 == low => found,
                        _ => return Ok(None),
                    }
                }
                Some(before) => self.behind(before)?,
                // The first node of a level stays as long as the level does.
                None => self.first_of_level(word, level, *is_lowering)?,
            };
            pinned.nodes += 1;
            let page = visit.page;
            audit.nodes += 1;
            reach(page.at);
            check_fits(
                &self.worker,
                "the size of a page",
                page.at,
                page.bytes().len() as u64,
            )
            .unwrap_or_else(&mut *suspect);
            if word != self.root() {
                reach(node);
            }
            while let Some(joined) =
                expected.next_if(|known| known.is_merging && known.node != node && known.low <= low)
            {
                reach(joined.node);
            }
            let is_expected = expected.next_if(|known| known.low == low && known.node == node);
            let is_merging = is_expected.is_some_and(|known| known.is_merging);
            if is_expected.is_none() && known.iter().any(|known| known.node == node) {
                suspect(Error::corrupt("a node in a place of another", node));
            }
            if visit.anchor.is_some() && !is_merging {
                suspect(Error::corrupt("a node that is frozen for nothing", node));
            }
            if page.fences()?.0 != low {
                suspect(Error::corrupt("a node's low fence", page.at));
            }
            if !build::is_as_built(&page)? {
                suspect(Error::corrupt("a page that is not as pages are built", page.at));
            }
            match level {
                0 => self.audit_leaf(&page, &low, audit, reach, suspect)?,
                _ => self.audit_inner(&page, &low, &mut below, suspect)?,
            }
            let Some(high) = page.high()? else { break };
            low = high.to_vec();
            node = page.next();
            before = Some(visit);
        }
        while let Some(joined) = expected.next_if(|known| known.is_merging) {
            reach(joined.node);
        }
        if expected.next().is_some() {
            suspect(Error::corrupt("a level that does not have all its nodes", *first));
        }
        Ok(Some(below))
    }

    /// The first node of a level; it may be frozen if it takes the root's place.
    fn first_of_level(&self, word: SyncWord, level: u8, is_lowering: bool) -> Result<Visit<'_>> {
        let mem = self.worker.mem();
        let at = word.load(mem);
        let is_frozen = is_lowering && at & FROZEN != 0;
        let page = Page::open(&self.worker, if is_frozen { at & !FROZEN } else { at })?;
        let anchor = is_frozen.then(|| (self.root(), self.root().load(mem)));
        match page.level() == level {
            true => Ok(Visit { word, page, anchor }),
            false => Err(Error::corrupt("the level of a page", page.at)),
        }
    }

    fn audit_leaf(
        &self,
        page: &Page<'_>,
        low: &[u8],
        audit: &mut Audit,
        reach: &mut impl FnMut(u64),
        suspect: &mut impl FnMut(Error),
    ) -> Result<()> {
        let high = page.high()?;
        let mut last: Option<Vec<u8>> = None;
        for n in 0..page.count() {
            audit.keys += 1;
            if page.is_record(n) {
                let record = page.entry(n).1;
                reach(record);
                pair::check_lengths(&self.worker, record).unwrap_or_else(&mut *suspect);
            }
            let key = match page.key_alone(&self.worker, n) {
                Ok(key) => key,
                Err(error) => {
                    suspect(error);
                    continue;
                }
            };
            let is_in_order = last.as_ref().is_none_or(|last| *last < key);
            if page.entry(n).0 != head_of(&key) {
                suspect(Error::corrupt("the head of a record's key", page.at));
            }
            if !is_in_order || &key[..] < low || high.is_some_and(|high| &key[..] >= high) {
                suspect(Error::corrupt("a key in a place of another", page.at));
            }
            last = Some(key);
        }
        Ok(())
    }

    fn audit_inner(
        &self,
        page: &Page<'_>,
        low: &[u8],
        below: &mut Known,
        suspect: &mut impl FnMut(Error),
    ) -> Result<()> {
        let high = page.high()?;
        let mut last = low.to_vec();
        for n in 0..page.count() {
            let separator = match n {
                0 => low.to_vec(),
                _ => page.separator(n)?.1.bytes().to_vec(),
            };
            if n > 0 && separator <= last || high.is_some_and(|high| &separator[..] >= high) {
                suspect(Error::corrupt("a separator in a place of another", page.at));
            }
            last.clone_from(&separator);
            below.push(KnownNode {
                low: separator,
                node: page.child(n),
                is_merging: page.meta.merging() == Some(n) || page.meta.is_lowering(),
            });
        }
        Ok(())
    }
}
