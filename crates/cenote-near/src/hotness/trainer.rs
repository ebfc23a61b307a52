//! What the second thread does with a batch: it learns from it, and at the end of a window it says which heights
//! subranges should have.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use candle_core::Result;

use super::features::{History, Step};
use super::heights::{assign, levels, lower};
use super::model::{CLASSES, Model};
use super::thresholds::Thresholds;
use super::{Accuracy, Height, Observed, Settings};
use crate::map::mix;

/// Batches after which a subrange that nobody asks for is forgotten.
const FORGOTTEN_AFTER: u64 = 16;

/// A subrange that was asked for lately.
struct Known {
    level: u8,
    module: u32,
    last: u64,
    history: History,
    /// The last batch that asked for it.
    asked: u64,
    /// The height that it was given, since it came to its module.
    height: Option<u8>,
    /// The class that was predicted for this window, and the one that it had in the last.
    predicted: Option<(u8, u8)>,
}

pub(super) struct Trainer {
    settings: Settings,
    model: Model,
    known: BTreeMap<u64, Known>,
    batch: u64,
    /// Hotness of samples of this window.
    sampled: Vec<u32>,
    thresholds: Option<Thresholds>,
    classes: u8,
}

impl Trainer {
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Self {
            model: Model::new(settings.seed, settings.rate)?,
            settings,
            known: BTreeMap::new(),
            batch: 0,
            sampled: Vec::new(),
            thresholds: None,
            classes: 1,
        })
    }

    /// Learns from a batch. Heights are given at the end of a window alone.
    pub fn learn(&mut self, mut observed: Vec<Observed>) -> Result<(Vec<Height>, Accuracy)> {
        self.batch += 1;
        observed.sort_unstable_by_key(|one| one.start);
        self.note(&observed);
        let window = self.window();
        let chosen = self.choose();
        self.sampled
            .extend(chosen.iter().map(|history| history.hotness(window)));
        let window_ends = self.batch.is_multiple_of(window as u64);
        let Some(thresholds) = self.thresholds else {
            self.fit();
            return Ok((Vec::new(), Accuracy::default()));
        };
        let classes = self.classes;
        let label = |history: &History| thresholds.class(history.hotness(window), classes);
        let samples: Vec<(&History, u8)> = chosen.iter().map(|history| (history, label(history))).collect();
        self.model.train(&samples, window)?;
        let accuracy = if window_ends {
            self.judge(thresholds)
        } else {
            Accuracy::default()
        };
        let heights = if window_ends {
            self.predict(&observed, thresholds)?
        } else {
            Vec::new()
        };
        if window_ends {
            self.fit();
        }
        Ok((heights, accuracy))
    }

    fn window(&self) -> usize {
        self.settings.window.max(1) as usize
    }

    /// Subranges to learn from, shuffled.
    fn choose(&self) -> Vec<History> {
        let (count, wanted) = (self.known.len() as u64, u64::from(self.settings.samples));
        let salt = mix(self.settings.seed ^ self.batch);
        let lucky = |start: u64| count <= wanted || mix(start ^ salt) % count < wanted;
        let mut chosen: Vec<(&u64, &Known)> = self.known.iter().filter(|(start, _)| lucky(**start)).collect();
        // Neighbours are alike, and each step of the optimiser should see all kinds.
        chosen.sort_unstable_by_key(|(start, _)| mix(**start ^ salt));
        chosen
            .into_iter()
            .map(|(_, known)| known.history.clone())
            .collect()
    }

    /// Takes note of what was asked for, of what was not, and of what is not there any more.
    fn note(&mut self, observed: &[Observed]) {
        let (batch, window) = (self.batch, self.window());
        for (at, one) in observed.iter().enumerate() {
            let known = match self.known.entry(one.start) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(Known {
                    level: one.level,
                    module: one.module,
                    last: one.last,
                    history: History::default(),
                    asked: 0,
                    height: None,
                    predicted: None,
                }),
            };
            if (known.level, known.module) != (one.level, one.module) {
                (known.level, known.module, known.last, known.height) =
                    (one.level, one.module, one.last, None);
            }
            let before = at.checked_sub(1).map(|at| &observed[at]);
            let step = Step {
                hotness: one.operations,
                left: before.is_some_and(|before| before.last.checked_add(1) == Some(one.start)),
                right: observed
                    .get(at + 1)
                    .is_some_and(|next| one.last.checked_add(1) == Some(next.start)),
                lifetime: u32::try_from(batch - known.asked).unwrap_or(u32::MAX),
                keys: one.keys,
            };
            known.history.push(step, window);
            known.asked = batch;
        }
        let mut parts_of = None;
        self.known.retain(|start, known| {
            // A part of one that was merged since, or one that was split: what was asked for is the truth.
            let stale = known.asked < batch && parts_of.is_some_and(|last| *start <= last);
            if known.asked == batch {
                parts_of = Some(known.last);
            }
            !stale && batch - known.asked < FORGOTTEN_AFTER
        });
        for known in self.known.values_mut().filter(|known| known.asked < batch) {
            let step = Step {
                hotness: 0,
                left: false,
                right: false,
                lifetime: u32::try_from(batch - known.asked).unwrap_or(u32::MAX),
                keys: known.history.latest().keys,
            };
            known.history.push(step, window);
        }
    }

    /// Thresholds for the next window, from the samples of this one.
    fn fit(&mut self) {
        if self.sampled.is_empty() {
            let window = self.window();
            self.sampled
                .extend(self.known.values().map(|known| known.history.hotness(window)));
        }
        if let Some(fitted) = Thresholds::fit(std::mem::take(&mut self.sampled)) {
            self.thresholds = Some(fitted);
        }
        self.classes = levels(self.in_modules().values().copied().max().unwrap_or(1));
    }

    /// The hotness in this window from which on a subrange is among the four times as many as are learnt from, beside
    /// those that have been given a height.
    fn least_worth(&self, observed: &[Observed]) -> u32 {
        let window = self.window();
        let hotness = |one: &Observed| Some(self.known.get(&one.start)?.history.hotness(window));
        let mut all: Vec<u32> = observed.iter().filter_map(hotness).collect();
        let wanted = self.settings.samples as usize * 4;
        if all.len() <= wanted {
            return 0;
        }
        let (_, least, _) = all.select_nth_unstable_by(wanted, |one, other| other.cmp(one));
        *least
    }

    /// How many subranges of each module are known.
    fn in_modules(&self) -> BTreeMap<u32, usize> {
        let mut count = BTreeMap::new();
        for known in self.known.values() {
            *count.entry(known.module).or_insert(0) += 1;
        }
        count
    }

    /// Subranges to predict for, by modules, of those that the batch asked for. Modules that have one or two need no
    /// heights.
    fn candidates(
        &self,
        observed: &[Observed],
        in_modules: &BTreeMap<u32, usize>,
    ) -> BTreeMap<u32, Vec<u64>> {
        let (window, least) = (self.window(), self.least_worth(observed));
        let mut by_module: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for one in observed {
            let worth = |known: &Known| known.height.is_some() || known.history.hotness(window) >= least;
            if in_modules.get(&one.module).is_some_and(|count| *count > 2)
                && self.known.get(&one.start).is_some_and(worth)
            {
                by_module.entry(one.module).or_default().push(one.start);
            }
        }
        by_module
    }

    /// Classes for the window to come, and the heights that follow: of each module those first that deviate most, and
    /// no more than a quarter of its subranges.
    fn predict(&mut self, observed: &[Observed], thresholds: Thresholds) -> Result<Vec<Height>> {
        let (in_modules, window) = (self.in_modules(), self.window());
        let by_module = self.candidates(observed, &in_modules);
        let starts: Vec<u64> = by_module.values().flatten().copied().collect();
        let histories: Vec<&History> = starts
            .iter()
            .filter_map(|start| Some(&self.known.get(start)?.history))
            .collect();
        if histories.len() != starts.len() {
            return Ok(Vec::new());
        }
        let rows = self.model.predict(&histories)?;
        let mut heights = Vec::new();
        let mut first = 0;
        for (module, starts) in by_module {
            let rows = &rows[first..first + starts.len()];
            first += starts.len();
            let subranges = in_modules.get(&module).copied().unwrap_or(1);
            let mut changes = Vec::new();
            for ((start, row), height) in starts.iter().zip(rows).zip(assign(rows, subranges)) {
                let Some(known) = self.known.get_mut(start) else {
                    continue;
                };
                let classes = usize::from(self.classes).min(CLASSES);
                let best = (0..classes).max_by(|one, other| row[*one].total_cmp(&row[*other]));
                let now = thresholds.class(known.history.hotness(window), self.classes);
                known.predicted = best.map(|best| (best as u8, now));
                // One that was never given a height has one of a plain skiplist, which is most often low: to send
                // another low one costs more than it saves.
                let deviates = height.abs_diff(known.height.unwrap_or(1));
                if deviates > 0 && (known.height.is_some() || height > lower(subranges)) {
                    changes.push((std::cmp::Reverse(deviates), *start, height));
                }
            }
            changes.sort_unstable();
            changes.truncate((subranges / 4).max(1));
            for (_, start, height) in changes {
                if let Some(known) = self.known.get_mut(&start) {
                    known.height = Some(height);
                    heights.push(Height {
                        start,
                        module,
                        height,
                    });
                }
            }
        }
        Ok(heights)
    }

    /// How many predictions the window has borne out.
    fn judge(&mut self, thresholds: Thresholds) -> Accuracy {
        let (window, classes) = (self.window(), self.classes);
        let mut accuracy = Accuracy::default();
        for known in self.known.values_mut() {
            if let Some((predicted, then)) = known.predicted.take() {
                let class = thresholds.class(known.history.hotness(window), classes);
                accuracy.predictions += 1;
                accuracy.right += u64::from(predicted == class);
                accuracy.unchanged += u64::from(then == class);
                accuracy.coldest += u64::from(class == 0);
            }
        }
        accuracy
    }
}
