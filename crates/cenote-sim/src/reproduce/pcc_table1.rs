//! pcc-indexes, table 1: what lookups and inserts of one thread cost in indexes that were converted for incoherent
//! memory, and how much of it is the conversion. Measured on this machine, on both backends.
//!
//! For each index a pool of either kind is made and filled. Its file loses its name at once, so that nothing is left
//! behind however this ends. Then, a turn each and over and over: fetches of random lines of the incoherent pool past
//! the cache (flush, fence, load), lookups on both, inserts of new keys on both. So other load on the machine hits all
//! alike. A round's figure is the mean over its turns; the median of the rounds is reported.

use std::hint::black_box;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use cenote::index::baseline::WordMap;
use cenote::index::baseline::arena::Arena;
use cenote::index::baseline::art::Art;
use cenote::index::baseline::btree::BTree;
use cenote::index::baseline::clht::Clht;
use cenote::index::baseline::hot::Hot;
use cenote::index::baseline::masstree::Masstree;
use cenote::index::hash::HashMap;
use cenote::index::ordered::OrderedMap;
use cenote::memory::{LINE, Mapped, Memory};
use cenote::pod::Worker;
use cenote::{Coherent, Guidelines, Noncoherent, Options, Pool, Result};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Charted, Figure, Origin, Quantity, ReproduceError, Row};
use crate::subjects::below;
use cenote::memory::{SyncWord, Unpublished};

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of simulated memory, which checks each access.
    unsafe { SyncWord::at(at) }
}

/// Unpublished bytes.
#[inline(always)]
fn unpublished(at: u64, len: u64) -> Unpublished {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Unpublished::at(at, len) }
}

pub const NAME: &str = "pcc/table1";

/// What the paper's machine takes to fetch a line of remote CXL memory (section 7.1), in microseconds.
const PAPER_LINE_US: f64 = 0.383;

/// A lookup's or an insert's three numbers.
const QUANTITIES: [[Quantity; 3]; 2] = [
    [
        quantity("lookup", "us"),
        quantity("lookup, conversion", "us"),
        quantity("lookup", "line fetches"),
    ],
    [
        quantity("insert", "us"),
        quantity("insert, conversion", "us"),
        quantity("insert", "line fetches"),
    ],
];

const fn quantity(name: &'static str, unit: &'static str) -> Quantity {
    Quantity { name, unit }
}

/// How much is done.
#[derive(Clone, Copy)]
struct Scale {
    records: u64,
    /// Bytes whose lines are fetched.
    bytes: u64,
    rounds: usize,
    turns: u64,
    /// Of each turn.
    lookups: u64,
    inserts: u64,
}

const FULL: Scale = Scale {
    records: 1_000_000,
    bytes: 128 << 20,
    rounds: 3,
    turns: 5,
    lookups: 20_000,
    inserts: 5_000,
};

/// Nanoseconds: of a line, and on coherent and incoherent memory of a lookup and of an insert.
#[derive(Clone, Copy, Default)]
struct Latencies {
    line: f64,
    each: [[f64; 2]; 2],
}

/// What the paper has of an index: for lookups and inserts, the latency and how much of it is the conversion.
type Paper = Option<[[f64; 2]; 2]>;

pub fn make(folder: &Path) -> std::result::Result<Figure, ReproduceError> {
    figure(folder, FULL).map_err(|error| ReproduceError::Pool {
        name: NAME,
        error: error.to_string(),
    })
}

fn figure(folder: &Path, scale: Scale) -> Result<Figure> {
    const SP: Guidelines = Guidelines::SP;
    const P3: Guidelines = Guidelines::P3;
    let clht = compare::<Clht<_>, Clht<_>>(folder, scale, SP)?;
    let hash = compare::<HashMap<_>, HashMap<_>>(folder, scale, SP)?;
    let btree = compare::<BTree<_>, BTree<_>>(folder, scale, SP)?;
    let ordered = compare::<OrderedMap<_>, OrderedMap<_>>(folder, scale, SP)?;
    let hot = compare::<Hot<_>, Hot<_>>(folder, scale, SP)?;
    let art = compare::<Art<_>, Art<_>>(folder, scale, SP)?;
    let masstree = compare::<Masstree<_>, Masstree<_>>(folder, scale, SP)?;
    let p3 = compare::<HashMap<_>, HashMap<_>>(folder, scale, P3)?;
    let ordered_p3 = compare::<OrderedMap<_>, OrderedMap<_>>(folder, scale, P3)?;
    let cases: [(&str, Paper, Latencies); 9] = [
        ("CLHT", Some([[1.9, 1.9], [2.2, 2.2]]), clht),
        ("CLevelHash (hash map, SP)", Some([[9.9, 9.8], [4.4, 4.1]]), hash),
        ("BTreeOLC", Some([[9.3, 9.1], [10.4, 10.2]]), btree),
        (
            "BwTree (ordered map, SP)",
            Some([[2.5, 2.1], [4.6, 3.9]]),
            ordered,
        ),
        ("HOT", Some([[10.3, 10.1], [23.5, 23.2]]), hot),
        ("ARTOLC", Some([[7.3, 7.2], [46.5, 45.9]]), art),
        ("Masstree", Some([[38.3, 38.0], [39.7, 39.2]]), masstree),
        ("hash map, P3", None, p3),
        ("ordered map, P3", None, ordered_p3),
    ];
    let rows = cases
        .into_iter()
        .flat_map(|(case, paper, ours)| rows(case, paper, ours));
    let mut lines: Vec<f64> = cases.iter().map(|(.., ours)| ours.line).collect();
    let line = Row::new(
        "a line: flush, fence, load",
        1,
        quantity("lookup", "us"),
        Some(PAPER_LINE_US),
        Some(median(&mut lines) / 1e3),
    );
    Ok(Figure {
        name: NAME,
        title: "Latency of converted indexes, one thread, 1 M records",
        source: "pcc-indexes, section 4, table 1",
        origin: Origin::Measured,
        conditions: "on this machine, backends coherent and noncoherent",
        charted: Charted::Cases([QUANTITIES[0][2], QUANTITIES[1][2]]),
        rows: std::iter::once(line).chain(rows).collect(),
        notes: vec![
            "Conversion is the latency on incoherent memory less that of the same code on coherent memory, where flushes and fences \
             compile to nothing.",
            "Line fetches are a latency over that of a line in the same rounds: this machine's memory is not the paper's, and \
             numbers in us compare machines as much as indexes. The paper's are its latencies over 0.383 us (figure 12).",
            "Masstree is one layer of its trie, which keys of 8 bytes fill.",
            "The paper converts CLevelHash and BwTree without its guidelines; so do the rows with SP. Those with P3 are beside it.",
            "BTreeOLC has nodes of 2 KiB with two images; ARTOLC and BTreeOLC write back the lines that they have changed, where the \
             paper writes back nodes. HOT drops no line of what never changes, where the paper drops nodes before it reads them.",
            "This machine is coherent: each flush, fence and write-back is executed, and no read is ever stale.",
        ],
    })
}

/// An index's numbers.
fn rows(case: &'static str, paper: Paper, ours: Latencies) -> impl Iterator<Item = Row> {
    (0..2).flat_map(move |n| {
        let [latency, conversion, fetches] = QUANTITIES[n];
        let papers = paper.map(|paper| paper[n]);
        let [coherent, converted] = ours.each[n];
        let less = (converted - coherent) / 1e3;
        let over = converted / ours.line;
        [
            Row::new(
                case,
                1,
                latency,
                papers.map(|[latency, _]| latency),
                Some(converted / 1e3),
            ),
            Row::new(case, 1, conversion, papers.map(|[_, part]| part), Some(less)),
            Row::new(
                case,
                1,
                fetches,
                papers.map(|[latency, _]| latency / PAPER_LINE_US),
                Some(over),
            ),
        ]
    })
}

/// An index on one kind of memory.
struct Subject<M: Memory, I> {
    pool: Pool<M>,
    map: I,
    records: u64,
    random: Xoshiro256PlusPlus,
}

/// The key of a record: no two have the same, and they are anywhere.
fn key_of(record: u64) -> u64 {
    let mut key = record.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key ^= key >> 32;
    key.wrapping_mul(0xd6e8_feb8_6659_fd93)
}

impl<M: Mapped, I: WordMap<M>> Subject<M, I> {
    fn new(folder: &Path, scale: Scale, guidelines: Guidelines) -> Result<Self> {
        let path = folder.join(format!("cenote-table1-{}-{}", M::NAME, std::process::id()));
        let options = Options {
            size: scale.records * 64 + scale.bytes,
            max: 8 << 30,
            guidelines,
            ..Options::default()
        };
        let pool = Pool::<M>::create(&path, &options)?;
        // The pool stays as long as it is open.
        std::fs::remove_file(&path).map_err(|source| cenote::Error::Io { path, source })?;
        let records = scale.records + 2 * scale.rounds as u64 * scale.turns * scale.inserts;
        let map = I::open_or_create(pool.worker()?, "table1", guidelines, records)?;
        for record in 0..scale.records {
            map.insert_u64(key_of(record), record)?;
        }
        Ok(Self {
            pool,
            map,
            records: scale.records,
            random: Xoshiro256PlusPlus::seed_from_u64(1),
        })
    }

    /// Nanoseconds that so many lookups take.
    fn look_up(&mut self, count: u64) -> Result<f64> {
        let keys: Vec<u64> = (0..count)
            .map(|_| key_of(below(&mut self.random, self.records)))
            .collect();
        let (begun, mut found) = (Instant::now(), 0);
        for &key in &keys {
            found += u64::from(black_box(self.map.get_u64(key)?).is_some());
        }
        let taken = begun.elapsed().as_nanos() as f64;
        debug_assert_eq!(found, count);
        Ok(taken)
    }

    /// Nanoseconds that so many inserts of new keys take.
    fn insert(&mut self, count: u64) -> Result<f64> {
        let records = self.records..self.records + count;
        let begun = Instant::now();
        for record in records.clone() {
            black_box(self.map.insert_u64(key_of(record), record)?);
        }
        self.records = records.end;
        Ok(begun.elapsed().as_nanos() as f64)
    }
}

/// Lines of a pool's memory that nothing else uses.
struct Lines<M: Memory> {
    worker: Rc<Worker<M>>,
    first: u64,
    count: u64,
    random: Xoshiro256PlusPlus,
}

impl<M: Mapped> Lines<M> {
    fn new(pool: &Pool<M>, bytes: u64) -> Result<Self> {
        let worker = pool.worker()?;
        let arena = Arena::open_or_create(worker.clone(), "lines", 1, bytes)?;
        let first = arena.first(bytes)?;
        for at in (first..first + bytes).step_by(LINE as usize) {
            unpublished(at, 8).write_word(worker.mem(), at);
        }
        Ok(Self {
            worker,
            first,
            count: bytes / LINE,
            random: Xoshiro256PlusPlus::seed_from_u64(2),
        })
    }

    /// Nanoseconds that so many fetches take.
    fn fetch(&mut self, count: u64) -> f64 {
        let places: Vec<u64> = (0..count)
            .map(|_| self.first + below(&mut self.random, self.count) * LINE)
            .collect();
        let (mem, begun) = (self.worker.mem(), Instant::now());
        for &at in &places {
            mem.invalidate(at, LINE);
            mem.fence();
            black_box(sync_word(at).load_speculative(mem));
        }
        begun.elapsed().as_nanos() as f64
    }
}

/// Measures an index on both kinds of memory.
fn compare<C: WordMap<Coherent>, N: WordMap<Noncoherent>>(
    folder: &Path,
    scale: Scale,
    guidelines: Guidelines,
) -> Result<Latencies> {
    let mut coherent = Subject::<Coherent, C>::new(folder, scale, guidelines)?;
    let mut noncoherent = Subject::<Noncoherent, N>::new(folder, scale, guidelines)?;
    let mut lines = Lines::new(&noncoherent.pool, scale.bytes)?;
    let mut rounds = Vec::new();
    for _ in 0..scale.rounds {
        let mut sum = Latencies::default();
        for _ in 0..scale.turns {
            sum.line += lines.fetch(scale.lookups);
            sum.each[0][0] += coherent.look_up(scale.lookups)?;
            sum.each[0][1] += noncoherent.look_up(scale.lookups)?;
            sum.each[1][0] += coherent.insert(scale.inserts)?;
            sum.each[1][1] += noncoherent.insert(scale.inserts)?;
        }
        let (lookups, inserts) = (scale.turns * scale.lookups, scale.turns * scale.inserts);
        sum.line /= lookups as f64;
        for (latencies, count) in sum.each.iter_mut().zip([lookups, inserts]) {
            latencies.iter_mut().for_each(|sum| *sum /= count as f64);
        }
        rounds.push(sum);
    }
    let over = |of: &dyn Fn(&Latencies) -> f64| median(&mut rounds.iter().map(of).collect::<Vec<_>>());
    Ok(Latencies {
        line: over(&|round| round.line),
        each: [0, 1].map(|n| [0, 1].map(|memory| over(&|round| round.each[n][memory]))),
    })
}

/// The middle one.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_its_numbers_and_nothing_is_left() {
        let folder = std::env::temp_dir().join(format!("cenote-table1-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let scale = Scale {
            records: 2_000,
            bytes: 1 << 20,
            rounds: 1,
            turns: 2,
            lookups: 100,
            inserts: 50,
        };
        let figure = figure(&folder, scale).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir(&folder).unwrap();
        for row in &figure.rows {
            assert!(row.ours.is_some_and(f64::is_finite), "{row:?}");
            assert_eq!(row.ratio.is_some(), row.paper.is_some(), "{row:?}");
        }
        let text = figure.table();
        assert!(text.contains("measured on this machine"), "{text}");
        assert!(!text.contains("simulated"), "{text}");
        assert!(super::super::chart::svg(&figure).unwrap().starts_with("<svg"));
    }
}
