//! An application on a host of a pod. It writes, and prints each write when that is acknowledged. `cargo xtask guests`
//! runs it in virtual machines that are stopped and switched off, and compares what it printed with what is in the
//! pool.
//!
//! ```text
//! ledger POOL write --host H --run R [--lock-file FILE]
//! ledger POOL read --host H [--lock-file FILE]
//! ```
//!
//! A *run* is one start of the program on a host. `write` runs two threads until it is killed, each of which counts
//! from 0:
//!
//! | thread | what it does | what it then prints |
//! |---|---|---|
//! | `own` | puts a record of its own | `own R N .` |
//! | `entry` | under a lock that all share: makes the next entry of the ledger, then sets the number of the next one | `entry R N .` |
//!
//! A thread that finds the entry made already has taken over the lock from a dead host, and sets the number; or two had
//! the lock (`conflict`). `read` prints for each host and run how many records and entries there are and the highest
//! number, `KIND H R COUNT HIGHEST .`; then `wrong COUNT .`, the number of records that are torn or out of order, and
//! `end .`. A line without its dot was cut off.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use cenote::{Acquired, Backend, Coherent, Delegated, MemoryKind, Noncoherent, Options, Pool};

/// The pause between two writes of a thread.
const PAUSE: Duration = Duration::from_millis(5);
/// How often a record repeats its number: a torn record has two numbers.
const COPIES: usize = 16;
const USAGE: &str = "usage: ledger POOL write|read --host H [--run R] [--lock-file FILE]";

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

struct Arguments {
    pool: PathBuf,
    writes: bool,
    run: u64,
    options: Options,
}

fn main() -> Outcome {
    let arguments = parse().ok_or(USAGE)?;
    match cenote::kind_of(&arguments.pool)? {
        MemoryKind::Coherent => start::<Coherent>(&arguments),
        MemoryKind::Noncoherent => start::<Noncoherent>(&arguments),
        MemoryKind::Delegated => start::<Delegated>(&arguments),
    }
}

fn parse() -> Option<Arguments> {
    let mut words = std::env::args().skip(1);
    let mut arguments = Arguments {
        pool: words.next()?.into(),
        writes: match &*words.next()? {
            "write" => true,
            "read" => false,
            _ => return None,
        },
        run: 0,
        options: Options::default(),
    };
    while let Some(word) = words.next() {
        let value = words.next()?;
        match &*word {
            "--host" => arguments.options.host = value.parse().ok()?,
            "--run" => arguments.run = value.parse().ok()?,
            "--lock-file" => arguments.options.lock_file = Some(value.into()),
            _ => return None,
        }
    }
    Some(arguments)
}

fn start<M: Backend>(arguments: &Arguments) -> Outcome {
    let pool = Pool::<M>::open(&arguments.pool, &arguments.options)?;
    if !arguments.writes {
        return read(&pool);
    }
    let (host, run) = (arguments.options.host, arguments.run);
    std::thread::scope(|scope| {
        let own = scope.spawn(|| write_own(&pool, host, run));
        let entries = scope.spawn(|| write_entries(&pool, host, run));
        own.join().map_err(|_| "a thread panicked")??;
        entries.join().map_err(|_| "a thread panicked")?
    })
}

fn write_own<M: Backend>(pool: &Pool<M>, host: u32, run: u64) -> Outcome {
    let own = pool.map("own")?;
    for n in 0u64.. {
        own.put(
            format!("{host} {run} {n}").as_bytes(),
            &n.to_le_bytes().repeat(COPIES),
        )?;
        println!("own {run} {n} .");
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn write_entries<M: Backend>(pool: &Pool<M>, host: u32, run: u64) -> Outcome {
    let entries = pool.map("entries")?;
    let next = pool.map("next")?;
    let lock = pool.mutex("ledger")?;
    let mut n = 0;
    loop {
        let guard = lock.lock()?;
        let index = next.get_u64(0)?.unwrap_or(0);
        let is_mine = entries.insert(&index.to_le_bytes(), format!("{host} {run} {n}").as_bytes())?;
        if !is_mine && guard.acquired() == Acquired::Clean {
            println!("conflict {index} .");
        }
        next.put_u64(0, index + 1)?;
        drop(guard);
        if is_mine {
            println!("entry {run} {n} .");
            n += 1;
        }
        std::thread::sleep(PAUSE);
    }
}

/// For each host and run: how many there are, and the highest number.
type Found = BTreeMap<(u64, u64), (u64, u64)>;

/// Counts one. Returns whether its name is valid.
fn count(found: &mut Found, name: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(name).ok()?;
    let mut numbers = text.split(' ').map(str::parse::<u64>);
    let (host, run, n) = (
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
    );
    let (count, highest) = found.entry((host, run)).or_default();
    *count += 1;
    *highest = n.max(*highest);
    Some(n)
}

fn read<M: Backend>(pool: &Pool<M>) -> Outcome {
    let (mut seen, mut own, mut entries) = (Found::new(), Found::new(), Found::new());
    let mut wrong = 0u64;
    let records = pool.map("own")?;
    records.for_each(|name, _| wrong += u64::from(count(&mut seen, name).is_none()))?;
    // Others write meanwhile: the scan sees some of the new records. But all below the highest number must be there.
    for ((host, run), (_, highest)) in seen {
        for n in 0..=highest {
            let name = format!("{host} {run} {n}");
            match records.get(name.as_bytes())? {
                Some(value) if value[..] == n.to_le_bytes().repeat(COPIES) => {
                    count(&mut own, name.as_bytes());
                }
                Some(_) => wrong += 1,
                None => {}
            }
        }
    }
    let ledger = pool.map("entries")?;
    let next = pool.map("next")?.get_u64(0)?.unwrap_or(0);
    for index in 0..next {
        match ledger.get(&index.to_le_bytes())? {
            Some(name) if count(&mut entries, &name).is_some() => {}
            _ => wrong += 1,
        }
    }
    for (kind, found) in [("own", own), ("entry", entries)] {
        for ((host, run), (count, highest)) in found {
            println!("{kind} {host} {run} {count} {highest} .");
        }
    }
    println!("wrong {wrong} .");
    println!("end .");
    Ok(())
}
