//! The `takeover` command: for how long exchanges are held up when the process that executes them is killed.
//!
//! Each round makes a pool whose exchanges a server executes. One process opens it first, so that it is the server;
//! others join and exchange words of their own without pause, twice as many threads as there are processors by default,
//! so that the server has to share those. Then the server is killed: one of the others takes over. What is reported is
//! the longest exchange of each of them, from its request to its answer.
//!
//! The parts are this program with a hidden subcommand; each ends when its standard input does.

use crate::parts::{Part, Work, serve};
use crate::subjects::{Failure, temporary};
use crate::table::{Output, Style, median, table};
use cenote::index::baseline::arena::Arena;
use cenote::memory::SyncWord;
use cenote::{Delegated, Options as PoolOptions, Pool};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const MAGIC: u64 = u64::from_le_bytes(*b"takeover");

/// The options of `takeover`.
#[derive(Args)]
pub struct Options {
    /// Rounds; in each a server is killed.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Processes that survive; by default twice as many as there are processors.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: Option<u32>,
    /// Milliseconds of a round.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(100..))]
    ms: u64,
    #[command(flatten)]
    output: Output,
}

/// The options of a part.
#[derive(Args)]
pub struct PartOptions {
    pool: PathBuf,
    /// Which word it exchanges.
    number: u32,
    ms: u64,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    let clients = match options.clients {
        Some(clients) => clients,
        None => 2 * std::thread::available_parallelism()?.get() as u32,
    };
    let program = std::env::current_exe()?;
    let (mut longest, mut worst) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let stalls = round(&program, clients, options.ms)?;
        worst.push(stalls.iter().copied().fold(0.0, f64::max));
        longest.extend(stalls);
    }
    let rows = [("of one client", &longest), ("of all clients", &worst)];
    options.output.print(
        || {
            let of = |(what, ms): &(&str, &Vec<f64>)| -> Value { json!({ "longest": what, "ms": ms }) };
            json!({ "command": "takeover", "clients": clients, "rounds": options.rounds, "times": rows.iter().map(of).collect::<Vec<_>>() })
        },
        |style| {
            format!(
                "the longest exchange of {clients} processes around the death of the one that executes exchanges; ms, {} rounds\n\n{}",
                options.rounds,
                text(style, &rows)
            )
        },
    );
    Ok(())
}

fn text(style: Style, rows: &[(&str, &Vec<f64>)]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|(what, ms)| {
            let most = ms.iter().copied().fold(0.0, f64::max);
            let shown = |ms: f64| format!("{ms:.1}");
            vec![
                (*what).to_owned(),
                median(ms).map_or_else(String::new, shown),
                shown(most),
            ]
        })
        .collect();
    let mut text = String::new();
    table(
        &mut text,
        style,
        1,
        &["longest exchange", "median", "most"],
        &rows,
    );
    text
}

/// The longest exchange of each client, in milliseconds.
fn round(program: &Path, clients: u32, ms: u64) -> Result<Vec<f64>, Failure> {
    let directory = temporary("takeover", Path::new("/dev/shm"))?;
    let path = directory.path().join("pool");
    drop(Pool::<Delegated>::create(&path, &PoolOptions::default())?);
    let start = |number: u32| -> Result<Part, Failure> {
        let arguments = [
            "takeover-part".into(),
            path.clone().into_os_string(),
            number.to_string().into(),
            ms.to_string().into(),
        ];
        let mut part = Part::start(program, arguments)?;
        part.say("exchange")?;
        part.is_ready()?;
        Ok(part)
    };
    // The first one to open the pool: it serves.
    let mut server = start(0)?;
    let mut parts = (1..=clients).map(start).collect::<Result<Vec<_>, _>>()?;
    for part in &mut parts {
        part.say("go")?;
    }
    std::thread::sleep(Duration::from_millis(ms / 2));
    server.kill()?;
    let stalls = parts.iter_mut().map(|part| Ok(part.figures()?.1 / 1e6));
    let stalls = stalls.collect::<Result<Vec<f64>, Failure>>()?;
    parts.into_iter().try_for_each(Part::end)?;
    Ok(stalls)
}

/// One of the processes, until its standard input ends.
pub fn run_part(options: &PartOptions) -> Result<(), Failure> {
    serve(&mut Client {
        pool: Pool::open(&options.pool, &PoolOptions::default())?,
        number: options.number,
        time: Duration::from_millis(options.ms),
    })
}

struct Client {
    pool: Pool<Delegated>,
    number: u32,
    time: Duration,
}

impl Client {
    fn word(&self) -> Result<SyncWord, Failure> {
        let arena = Arena::open_or_create(self.pool.worker()?, "words", MAGIC, 1 << 16)?;
        Ok(arena.root(u64::from(self.number) % 8))
    }
}

impl Work for Client {
    fn prepare(&mut self, _task: &str) -> Result<(), Failure> {
        self.word().map(drop)
    }

    /// Exchanges for some time; how often, and the nanoseconds of the longest exchange.
    fn run(&mut self, _task: &str) -> Result<(u64, u128), Failure> {
        let word = self.word()?;
        let worker = self.pool.worker()?;
        let begun = Instant::now();
        let (mut count, mut longest, mut last) = (0, Duration::ZERO, begun);
        while last.duration_since(begun) < self.time {
            word.fetch_add(worker.mem(), 1);
            let now = Instant::now();
            longest = longest.max(now.duration_since(last));
            (count, last) = (count + 1, now);
        }
        Ok((count, longest.as_nanos()))
    }
}
