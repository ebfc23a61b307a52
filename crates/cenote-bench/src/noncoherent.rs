//! The `noncoherent` command: what a lookup costs on memory without coherence, in units of this machine's own
//! flush, fence and load of a line.
//!
//! Hits are drawn uniformly. The forms of the map (all guidelines, none of replication and speculation, none at all)
//! and the unit take turns, some thousand operations at a time, so that what else the machine does hits all alike.
//! Both are measured in the same two ways: *back to back*, an operation's place is known beforehand and it may begin
//! while the last load is on its way; and *dependent*, the next key or place hangs on what was read last. The first
//! is judged, as in [`mod@crate::line`]. Time is read once for every group; a round's figure is the median over its
//! groups, and a ratio is taken within a round before its median is.
//!
//! The unit's file has about the size of the pools, so that page walks cost both the same.
//!
//! After the clock has stopped, the pools are opened once more through [`cenote::memory::Counting`], and some
//! hits and inserts are counted.

use crate::hash::value_of;
use crate::line::{GROUP, Unit, size};
use crate::subjects::{Failure, absent, check, temporary};
use crate::table::{Output, Style, median, nanoseconds, ratio, table};
use cenote::memory::{Counting, Counts, Mapped};
use cenote::{Guidelines, Map, Noncoherent, Pool};
use cenote_ycsb::key_of_record;
use clap::Args;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The forms: the first two by the paper's names.
pub const FORMS: [(&str, Guidelines); 3] = [
    ("P3", Guidelines::P3),
    ("SP", Guidelines::SP),
    ("in place", Guidelines::IN_PLACE),
];

/// Operations before it is the next one's turn.
const TURN: usize = 64 * GROUP;
/// Operations that are counted.
const COUNTED: u64 = 10_000;

/// The options of `noncoherent`.
#[derive(Args)]
pub struct Options {
    /// Records in each pool.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// Rounds; the medians over them are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Hits of each form a round.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    ops: u64,
    /// Bytes of the file whose lines are the unit.
    #[arg(long, default_value = "128MiB", value_parser = size)]
    line_size: usize,
    /// The seed from which keys and lines are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

/// Medians of each round, in nanoseconds.
#[derive(Default)]
struct Series {
    back_to_back: Vec<f64>,
    dependent: Vec<f64>,
}

/// What was measured of one form.
struct Form {
    name: &'static str,
    hit: Series,
    /// Medians of the load's parts.
    insert: Vec<f64>,
    /// What the whole load took, with all moves to larger levels.
    insert_total: f64,
    counts_hit: Counts,
    counts_insert: Counts,
}

/// All figures.
pub struct Figures {
    records: u64,
    line: Series,
    /// Between the parts of the load.
    line_while_loading: Vec<f64>,
    forms: Vec<Form>,
}

/// A pool with one map, and its figures so far.
struct Store {
    path: PathBuf,
    map: Map<Noncoherent>,
    form: Form,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    let figures = measure(options)?;
    options.output.print(
        || figures.json(),
        |style| {
            format!(
                "{} records of 8-byte keys and values, hits uniform; ns, medians of {} rounds\n\n{}",
                options.records,
                options.rounds,
                figures.text(style)
            )
        },
    );
    Ok(())
}

/// Measures.
pub fn measure(options: &Options) -> Result<Figures, Failure> {
    let shared = Path::new("/dev/shm");
    let unit = Unit::new(shared, options.line_size)?;
    let places = unit.draw(options.ops, options.seed);
    let directory = temporary("noncoherent", shared)?;
    let mut stores = FORMS
        .into_iter()
        .map(|(name, guidelines)| Store::create(&directory.path().join(name), name, guidelines))
        .collect::<Result<Vec<_>, _>>()?;

    let mut line_while_loading = Vec::new();
    let records: Vec<u64> = (0..options.records).map(key_of_record).collect();
    let mut turns = places.chunks(TURN).cycle();
    for keys in records.chunks(records.len().div_ceil(20)) {
        for store in &mut stores {
            store.load(keys)?;
        }
        let mut groups = Vec::new();
        turns
            .by_ref()
            .take(1)
            .for_each(|places| unit.fetch_each(places, false, &mut groups));
        line_while_loading.extend(median(&groups));
    }

    let mut line = Series::default();
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    for _ in 0..options.rounds {
        let keys: Vec<u64> = (0..options.ops)
            .map(|_| records[rng.random_range(0..records.len())])
            .collect();
        for dependent in [false, true] {
            let mut unit_groups = Vec::new();
            let mut groups: Vec<Vec<f64>> = vec![Vec::new(); stores.len()];
            for (keys, places) in keys.chunks(TURN).zip(places.chunks(TURN)) {
                unit.fetch_each(places, dependent, &mut unit_groups);
                for (store, groups) in stores.iter().zip(&mut groups) {
                    store.hits(keys, dependent, groups)?;
                }
            }
            line.of(dependent).extend(median(&unit_groups));
            for (store, groups) in stores.iter_mut().zip(&groups) {
                store.form.hit.of(dependent).extend(median(groups));
            }
        }
    }
    let forms = stores
        .into_iter()
        .zip(FORMS)
        .map(|(store, (_, guidelines))| store.count(&records, guidelines))
        .collect::<Result<_, _>>()?;
    Ok(Figures {
        records: options.records,
        line,
        line_while_loading,
        forms,
    })
}

/// A pool that grows as it is loaded.
fn options_of(guidelines: Guidelines) -> cenote::Options {
    cenote::Options {
        max: 64 << 30,
        guidelines,
        ..cenote::Options::default()
    }
}

impl Series {
    fn of(&mut self, dependent: bool) -> &mut Vec<f64> {
        if dependent {
            &mut self.dependent
        } else {
            &mut self.back_to_back
        }
    }
}

impl Store {
    fn create(path: &Path, name: &'static str, guidelines: Guidelines) -> Result<Self, Failure> {
        let pool: Pool<Noncoherent> = Pool::create(path, &options_of(guidelines))?;
        Ok(Self {
            path: path.to_owned(),
            map: pool.map("bench")?,
            form: Form {
                name,
                hit: Series::default(),
                insert: Vec::new(),
                insert_total: 0.0,
                counts_hit: Counts::default(),
                counts_insert: Counts::default(),
            },
        })
    }

    /// Inserts new keys; a part of the load.
    #[inline(never)]
    fn load(&mut self, keys: &[u64]) -> Result<(), Failure> {
        let begin = Instant::now();
        let mut groups = Vec::with_capacity(keys.len() / GROUP);
        for group in keys.chunks(GROUP) {
            let start = Instant::now();
            for &key in group {
                self.map.put_u64(key, value_of(key, 0))?;
            }
            groups.push(start.elapsed().as_nanos() as f64 / group.len() as f64);
        }
        self.form.insert_total += begin.elapsed().as_nanos() as f64;
        self.form.insert.extend(median(&groups));
        Ok(())
    }

    /// Reads keys that are there and adds what each group took, in nanoseconds a hit.
    fn hits(&self, keys: &[u64], dependent: bool, into: &mut Vec<f64>) -> Result<(), Failure> {
        if dependent {
            self.hits_in::<true>(keys, into)
        } else {
            self.hits_in::<false>(keys, into)
        }
    }

    #[inline(never)]
    fn hits_in<const DEPENDENT: bool>(&self, keys: &[u64], into: &mut Vec<f64>) -> Result<(), Failure> {
        for group in keys.chunks_exact(GROUP) {
            let start = Instant::now();
            let mut wrong = 0;
            for &key in group {
                let wanted = if DEPENDENT { key ^ wrong } else { key };
                let Some(value) = self.map.get_u64(wanted)? else {
                    return Err(absent(key));
                };
                wrong |= value ^ value_of(key, 0);
            }
            let wrong = black_box(wrong);
            into.push(start.elapsed().as_nanos() as f64 / GROUP as f64);
            check(wrong == 0, "a hit returned a wrong value")?;
        }
        Ok(())
    }

    /// Counts some hits and inserts, and gives the figures.
    fn count(self, records: &[u64], guidelines: Guidelines) -> Result<Form, Failure> {
        let Self { path, map, mut form } = self;
        drop(map);
        let pool: Pool<Counting<Noncoherent>> = Pool::open(&path, &options_of(guidelines))?;
        let map = pool.existing_map("bench")?;
        form.counts_hit = counted(&map, |map, n| {
            let key = records[(n as usize * 7_919) % records.len()];
            map.get_u64(key)?.map(drop).ok_or_else(|| absent(key))
        })?;
        let first = records.len() as u64;
        form.counts_insert = counted(&map, |map, n| {
            let key = key_of_record(first + n);
            Ok(map.put_u64(key, value_of(key, 0)).map(drop)?)
        })?;
        Ok(form)
    }
}

/// What this thread's memory operations are for [`COUNTED`] operations, after one to warm up.
fn counted<M: Mapped>(
    map: &Map<M>,
    mut operation: impl FnMut(&Map<M>, u64) -> Result<(), Failure>,
) -> Result<Counts, Failure> {
    operation(map, COUNTED)?;
    Counts::reset();
    (0..COUNTED).try_for_each(|n| operation(map, n))?;
    Ok(Counts::current())
}

/// The median of the ratios of two series.
fn ratios(ours: &[f64], unit: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = ours.iter().zip(unit).map(|(ours, unit)| ours / unit).collect();
    median(&ratios)
}

/// How often a counted operation happened, an operation.
fn each(count: u64) -> f64 {
    count as f64 / COUNTED as f64
}

impl Figures {
    /// The tables.
    pub fn text(&self, style: Style) -> String {
        let mut text = String::new();
        let one = || "1".to_owned();
        let mut rows = vec![vec![
            "one line: flush, fence, load".to_owned(),
            nanoseconds(median(&self.line.back_to_back)),
            one(),
            nanoseconds(median(&self.line.dependent)),
            one(),
            nanoseconds(median(&self.line_while_loading)),
            one(),
            "-".to_owned(),
        ]];
        for form in &self.forms {
            rows.push(vec![
                form.name.to_owned(),
                nanoseconds(median(&form.hit.back_to_back)),
                ratio(ratios(&form.hit.back_to_back, &self.line.back_to_back)),
                nanoseconds(median(&form.hit.dependent)),
                ratio(ratios(&form.hit.dependent, &self.line.dependent)),
                nanoseconds(median(&form.insert)),
                ratio(ratios(&form.insert, &self.line_while_loading)),
                nanoseconds(Some(form.insert_total / self.records as f64)),
            ]);
        }
        let head = [
            "form",
            "hit",
            "lines",
            "dependent hit",
            "lines",
            "insert",
            "lines",
            "mean insert",
        ];
        table(&mut text, style, 1, &head, &rows);
        text.push_str("\nCounted, an operation\n\n");
        let head = [
            "form",
            "of",
            "lines",
            "fetched",
            "sync loads",
            "protected",
            "sync stores",
            "exchanges",
            "flushed",
            "fences",
        ];
        let rows: Vec<Vec<String>> = self
            .forms
            .iter()
            .flat_map(|form| {
                [
                    (form.name, "hit", form.counts_hit),
                    (form.name, "insert", form.counts_insert),
                ]
            })
            .map(|(name, of, counts)| {
                let figures = [
                    counts.lines_from_memory(),
                    counts.line_fetches,
                    counts.sync_loads,
                    counts.protected_lines,
                    counts.sync_stores,
                    counts.exchanges,
                    counts.flushed_lines,
                    counts.fences,
                ];
                [name.to_owned(), of.to_owned()]
                    .into_iter()
                    .chain(figures.map(|count| format!("{:.2}", each(count))))
                    .collect()
            })
            .collect();
        table(&mut text, style, 2, &head, &rows);
        text
    }

    /// Everything, with each round's figures.
    pub fn json(&self) -> Value {
        let series =
            |series: &Series| json!({ "back_to_back": series.back_to_back, "dependent": series.dependent });
        let forms: Vec<Value> = self
            .forms
            .iter()
            .map(|form| {
                json!({
                    "form": form.name,
                    "hit_ns": series(&form.hit),
                    "hit_lines": ratios(&form.hit.back_to_back, &self.line.back_to_back),
                    "hit_lines_dependent": ratios(&form.hit.dependent, &self.line.dependent),
                    "insert_ns": form.insert,
                    "insert_mean_ns": form.insert_total / self.records as f64,
                    "insert_lines": ratios(&form.insert, &self.line_while_loading),
                    "counted_operations": COUNTED,
                    "counts_hit": form.counts_hit,
                    "counts_insert": form.counts_insert,
                })
            })
            .collect();
        json!({
            "command": "noncoherent",
            "records": self.records,
            "line_ns": series(&self.line),
            "line_while_loading_ns": self.line_while_loading,
            "forms": forms,
        })
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    #[test]
    fn a_hit_takes_few_lines_and_every_form_has_its_figures() {
        let options = Options {
            records: 2_000,
            rounds: 1,
            ops: 5_000,
            line_size: 4 << 20,
            seed: 1,
            output: Output::default(),
        };
        let figures = measure(&options).expect("it runs");
        let best = &figures.forms[0];
        let lines = each(best.counts_hit.lines_from_memory());
        assert!((1.0..=3.0).contains(&lines), "{lines}");
        assert!(
            figures
                .forms
                .iter()
                .all(|form| median(&form.hit.dependent).is_some_and(|ns| ns > 0.0))
        );
        let ratio = ratios(&best.hit.back_to_back, &figures.line.back_to_back);
        assert!(ratio.is_some_and(|ratio| ratio > 0.5));
        assert_eq!(figures.json()["forms"][2]["form"], "in place");
        assert!(figures.text(Style::Plain).contains("mean insert"));
    }
}
