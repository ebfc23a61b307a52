//! Reading: processes that have written nothing open the pool and look things up.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cenote::{Options, Pool, Range};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::data;
use crate::failure::Failure;
use crate::role::Role;

/// So many first bytes of a name are the beginning by which others are searched.
pub const BEGINNING: usize = 4;
/// How long readers read.
const READING: Duration = Duration::from_millis(1000);

/// What a fresh process has found.
#[derive(Debug, Serialize, Deserialize)]
pub struct Lookup {
    /// How long it took to open the pool, and the maps.
    pub open_ms: f64,
    /// How long the lookup took: the name's ids, and their records.
    pub lookup_us: f64,
    /// The records.
    pub records: Vec<String>,
    /// The names that begin as the name that was looked up.
    pub range: Vec<String>,
    /// How long it took to find these.
    pub range_us: f64,
}

/// How fast a process reads.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pace {
    /// Lookups one by one, in a second.
    pub single: f64,
    /// Lookups many at a time, in a second.
    pub batched: f64,
}

/// Runs a fresh process that looks a name up.
pub fn fresh_lookup(path: &Path, name: &str) -> Result<Lookup, Failure> {
    Ok(spawn(
        ["lookup".to_owned(), path.display().to_string(), name.to_owned()],
        1,
    )?
    .remove(0))
}

/// Runs processes that look random cities up, all at the same time.
pub fn readers(path: &Path, processes: u32) -> Result<Vec<Pace>, Failure> {
    spawn(["read".to_owned(), path.display().to_string()], processes)
}

fn spawn<T: DeserializeOwned, const N: usize>(args: [String; N], processes: u32) -> Result<Vec<T>, Failure> {
    let mut children = Vec::new();
    for _ in 0..processes {
        let mut command = Role::Demo.command(args.clone());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        children.push(
            command
                .spawn()
                .map_err(Failure::io("starting a worker process"))?,
        );
    }
    let mut answers = Vec::new();
    for child in children {
        let output = child
            .wait_with_output()
            .map_err(Failure::io("waiting for a worker process"))?;
        let answer = serde_json::from_slice(&output.stdout)
            .ok()
            .filter(|_| output.status.success());
        answers.push(
            answer.ok_or_else(|| Failure::failed(format!("a reading process failed: {}", output.status)))?,
        );
    }
    Ok(answers)
}

/// The fresh process.
pub fn lookup(path: &str, name: &str) -> Result<Lookup, Failure> {
    let start = Instant::now();
    let pool: Pool = Pool::open(path, &Options::default())?;
    let (by_name, cities) = (pool.existing_ordered("by-name")?, pool.existing_map("cities")?);
    let open_ms = start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    let ids = by_name
        .get(name.as_bytes())?
        .and_then(|ids| data::ids_from_text(&ids))
        .unwrap_or_default();
    let mut records = Vec::new();
    for id in ids {
        if let Some(record) = cities.get(id.to_string().as_bytes())? {
            records.push(String::from_utf8_lossy(&record).into_owned());
        }
    }
    let lookup_us = start.elapsed().as_secs_f64() * 1e6;
    let (start, mut range) = (Instant::now(), Vec::new());
    let beginning = &name.as_bytes()[..BEGINNING.min(name.len())];
    by_name.scan(
        Range {
            from: beginning,
            to: None,
        },
        |key, _| {
            let is_in = key.starts_with(beginning);
            range.extend(is_in.then(|| String::from_utf8_lossy(key).into_owned()));
            is_in
        },
    )?;
    Ok(Lookup {
        open_ms,
        lookup_us,
        records,
        range,
        range_us: start.elapsed().as_secs_f64() * 1e6,
    })
}

/// A reading process.
pub fn read(path: &str) -> Result<Pace, Failure> {
    let pool: Pool = Pool::open(path, &Options::default())?;
    let map = pool.existing_map("cities")?;
    let keys: Vec<Vec<u8>> = map
        .iter()
        .map(|pair| pair.map(|pair| pair.0))
        .collect::<Result<_, _>>()?;
    let mut random = ChaCha8Rng::seed_from_u64(u64::from(std::process::id()));
    let sample: Vec<&[u8]> = (0..4096)
        .map(|_| &keys[random.random_range(0..keys.len())][..])
        .collect();
    let mut missed = 0;
    let mut measure = |batched: bool| -> Result<f64, Failure> {
        map.get_many(&sample, |_, _| {})?;
        let (start, mut lookups) = (Instant::now(), 0);
        while start.elapsed() < READING / 2 {
            if batched {
                map.get_many(&sample, |_, value| missed += usize::from(value.is_none()))?;
            } else {
                for key in &sample {
                    missed += usize::from(map.get(key)?.is_none());
                }
            }
            lookups += sample.len();
        }
        Ok(lookups as f64 / start.elapsed().as_secs_f64())
    };
    let pace = Pace {
        single: measure(false)?,
        batched: measure(true)?,
    };
    if missed > 0 {
        return Err(Failure::failed(format!(
            "{missed} lookups of cities that are there found nothing"
        )));
    }
    Ok(pace)
}
