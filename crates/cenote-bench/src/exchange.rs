//! The `exchange` command: what a compare-exchange costs, whatever executes it, in fetches of a line past the caches.
//!
//! A process exchanges one word over and over, from what it found to one more; a second process may do the same at the
//! same time. The word is in a pool of each kind: coherent, where the CPU exchanges; without coherence, where the line
//! is flushed around that; and delegated, where a third process serves (this one: it has made the pools and waits).
//! With two cores, the server and two that ask it share them.
//!
//! The processes are [parts](crate::parts).

use crate::line::Unit;
use crate::parts::{Part, Work, repeat, serve, together, unknown};
use crate::subjects::{Failure, temporary};
use crate::table::{Output, Style, median, nanoseconds, ratio, table};
use cenote::index::baseline::arena::Arena;
use cenote::memory::{Mapped, SyncWord};
use cenote::pod::Worker;
use cenote::{Coherent, Delegated, Noncoherent, Pool};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// What the parts are told, and the name in the table.
pub const KINDS: [(&str, &str); 3] = [
    ("coherent", "by the CPU"),
    ("noncoherent", "by the CPU, past the cache"),
    ("delegated", "by a server in another process"),
];

/// Bytes of the file whose lines are the unit.
const LINES: usize = 128 << 20;
const MAGIC: u64 = u64::from_le_bytes(*b"exchange");

/// The options of `exchange`.
#[derive(Args)]
pub struct Options {
    /// Rounds; the medians over them are reported.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Milliseconds of each measurement.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    ms: u64,
    #[command(flatten)]
    output: Output,
}

/// The options of a part.
#[derive(Args)]
pub struct PartOptions {
    folder: PathBuf,
    ms: u64,
}

/// Nanoseconds in each round.
#[derive(Default)]
struct Figures {
    line: Vec<f64>,
    /// An exchange of each of [`KINDS`]: by one process, and of each of two.
    kinds: [[Vec<f64>; 2]; KINDS.len()],
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    let figures = measure(&std::env::current_exe()?, options)?;
    options.output.print(
        || figures.json(),
        |style| {
            format!(
                "an exchange of one word by one process, and by each of two at once; ns and line fetches of {} ns, medians of {} \
                 rounds\n\n{}",
                nanoseconds(median(&figures.line)),
                options.rounds,
                figures.text(style)
            )
        },
    );
    Ok(())
}

fn measure(program: &Path, options: &Options) -> Result<Figures, Failure> {
    let directory = temporary("exchange", Path::new("/dev/shm"))?;
    let folder = directory.path();
    // Open until the end: the delegated one's server is a thread of this process.
    let _pools = (
        create::<Coherent>(folder)?,
        create::<Noncoherent>(folder)?,
        create::<Delegated>(folder)?,
    );
    let mut parts = (0..2)
        .map(|_| {
            let ms = options.ms.to_string();
            Part::start(
                program,
                ["exchange-part".as_ref(), folder.as_os_str(), ms.as_ref()],
            )
        })
        .collect::<Result<Vec<_>, _>>()?;
    let unit = Unit::new(Path::new("/dev/shm"), LINES)?;
    let mut figures = Figures::default();
    for round in 0..u64::from(options.rounds) {
        let mut groups = Vec::new();
        unit.fetch_each(&unit.draw(20_000, round), true, &mut groups);
        figures.line.extend(median(&groups));
        for ((kind, _), [one, two]) in KINDS.into_iter().zip(&mut figures.kinds) {
            one.push(1e9 / together(&mut parts[..1], |_| kind.to_owned())?);
            two.push(2e9 / together(&mut parts, |_| kind.to_owned())?);
        }
    }
    parts.into_iter().try_for_each(Part::end)?;
    Ok(figures)
}

fn create<M: Mapped>(folder: &Path) -> Result<Pool<M>, Failure> {
    let pool = Pool::<M>::create(folder.join(M::NAME), &cenote::Options::default())?;
    word(pool.worker()?)?;
    Ok(pool)
}

/// The word of a pool.
fn word<M: Mapped>(worker: Rc<Worker<M>>) -> Result<SyncWord, Failure> {
    Ok(Arena::open_or_create(worker, "word", MAGIC, 4096)?.root(0))
}

/// One of the processes, until its standard input ends.
pub fn run_part(options: &PartOptions) -> Result<(), Failure> {
    serve(&mut Exchanges {
        coherent: Opened::new(&options.folder)?,
        noncoherent: Opened::new(&options.folder)?,
        delegated: Opened::new(&options.folder)?,
        time: Duration::from_millis(options.ms),
    })
}

struct Exchanges {
    coherent: Opened<Coherent>,
    noncoherent: Opened<Noncoherent>,
    delegated: Opened<Delegated>,
    time: Duration,
}

struct Opened<M: Mapped> {
    _pool: Pool<M>,
    worker: Rc<Worker<M>>,
    word: SyncWord,
}

impl<M: Mapped> Opened<M> {
    fn new(folder: &Path) -> Result<Self, Failure> {
        let pool = Pool::<M>::open(folder.join(M::NAME), &cenote::Options::default())?;
        let worker = pool.worker()?;
        let word = word(worker.clone())?;
        Ok(Self {
            _pool: pool,
            worker,
            word,
        })
    }

    /// Exchanges the word for some time; how often, and the nanoseconds.
    fn exchange(&self, time: Duration) -> Result<(u64, u128), Failure> {
        let mem = self.worker.mem();
        let mut found = self.word.load(mem);
        repeat(time, &[(); 16], |times| {
            for () in times {
                found = match self.word.compare_exchange(mem, found, found + 1) {
                    Ok(before) => before + 1,
                    Err(other) => other,
                };
            }
            Ok(0)
        })
    }
}

impl Work for Exchanges {
    fn prepare(&mut self, kind: &str) -> Result<(), Failure> {
        let time = std::mem::replace(&mut self.time, Duration::from_millis(5));
        let prepared = self.run(kind);
        self.time = time;
        prepared.map(drop)
    }

    fn run(&mut self, kind: &str) -> Result<(u64, u128), Failure> {
        match kind {
            "coherent" => self.coherent.exchange(self.time),
            "noncoherent" => self.noncoherent.exchange(self.time),
            "delegated" => self.delegated.exchange(self.time),
            _ => Err(unknown(kind)),
        }
    }
}

impl Figures {
    fn text(&self, style: Style) -> String {
        let rows: Vec<Vec<String>> = KINDS
            .iter()
            .zip(&self.kinds)
            .map(|((_, name), by)| {
                let mut row = vec![(*name).to_owned()];
                for rounds in by {
                    let lines: Vec<f64> = rounds
                        .iter()
                        .zip(&self.line)
                        .map(|(ns, line)| ns / line)
                        .collect();
                    row.push(nanoseconds(median(rounds)));
                    row.push(ratio(median(&lines)));
                }
                row
            })
            .collect();
        let mut text = String::new();
        let head = ["exchange", "one process", "lines", "each of two", "lines"];
        table(&mut text, style, 1, &head, &rows);
        text
    }

    fn json(&self) -> Value {
        let kinds: Vec<Value> = KINDS
            .iter()
            .zip(&self.kinds)
            .map(|((kind, _), [one, two])| json!({ "memory": kind, "one_ns": one, "two_ns": two }))
            .collect();
        json!({ "command": "exchange", "line_ns": self.line, "exchanges": kinds })
    }
}
