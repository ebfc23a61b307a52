//! Environment variables, read once: when the program starts, so that neither what it does to its environment nor where
//! it goes changes them.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What to do when a writer has died with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerDead {
    /// Give the lock to the next that asks, and write a line.
    GoOn,
    /// The same, and have the call return `EOWNERDEAD`.
    Tell,
    /// Write a line, and end the process that asks next.
    Abort,
}

/// What the environment says.
#[derive(Debug)]
pub struct Settings {
    /// `CENOTE_POOL`: the pool's path, or its name in `/dev/shm`. Without it nothing is replaced.
    pub pool: Option<PathBuf>,
    /// `CENOTE_LOCKS`: how many locks a new pool has.
    pub locks: u32,
    /// `CENOTE_THREADS`: how many threads may use a new pool at a time. One that holds many locks counts once for each
    /// eight.
    pub threads: u32,
    /// `CENOTE_PRIVATE=1`: takes over private locks, too, where a program initialises them by a call.
    pub private: bool,
    /// `CENOTE_OWNER_DEAD`: `go-on`, `tell` or `abort`.
    pub owner_dead: OwnerDead,
    /// `CENOTE_LOG`: the file that lines are added to; standard error if there is none.
    pub log: Option<PathBuf>,
    /// What is wrong with the environment, for the one who opens the pool.
    pub complaints: Vec<String>,
}

/// A new pool has so many locks.
const LOCKS: u32 = 16_384;
/// A new pool has places for so many threads. A writer looks at a bit for each: these fit one line.
const THREADS: u32 = 512;

/// What the numbers of a new pool may be.
const LOCKS_RANGE: RangeInclusive<u32> = 1..=1 << 20;
const THREADS_RANGE: RangeInclusive<u32> = 2..=1 << 15;

fn read(variable: impl Fn(&str) -> Option<OsString>, here: Option<&Path>) -> Settings {
    let mut complaints = Vec::new();
    let given = |name: &str| variable(name).filter(|value| !value.is_empty());
    let mut number = |name: &str, default: u32, range: RangeInclusive<u32>| {
        let Some(value) = given(name) else {
            return default;
        };
        let found = value.to_str().and_then(|value| value.trim().parse().ok());
        found.filter(|number| range.contains(number)).unwrap_or_else(|| {
            let (least, most) = (range.start(), range.end());
            complaints.push(format!(
                "{name} is {value:?}, not a number from {least} to {most}: {default} is used"
            ));
            default
        })
    };
    let locks = number("CENOTE_LOCKS", LOCKS, LOCKS_RANGE);
    let threads = number("CENOTE_THREADS", THREADS, THREADS_RANGE);
    let mut word = |name: &str, words: &[&str]| {
        let value = given(name)?;
        let found = words.iter().position(|word| value == *word);
        if found.is_none() {
            complaints.push(format!("{name} is {value:?}, not one of {}", words.join(", ")));
        }
        found
    };
    let owner_dead = match word("CENOTE_OWNER_DEAD", &["go-on", "tell", "abort"]) {
        Some(1) => OwnerDead::Tell,
        Some(2) => OwnerDead::Abort,
        _ => OwnerDead::GoOn,
    };
    let private = word("CENOTE_PRIVATE", &["0", "1"]) == Some(1);
    let whole = |path: PathBuf| here.map_or(path.clone(), |here| here.join(path));
    Settings {
        // A name alone lies in the folder of the command's pools.
        pool: given("CENOTE_POOL")
            .map(PathBuf::from)
            .map(|pool| match pool.components().count() {
                1 if !pool.is_absolute() => Path::new("/dev/shm").join(pool),
                _ => whole(pool),
            }),
        locks,
        threads,
        private,
        owner_dead,
        log: given("CENOTE_LOG").map(PathBuf::from).map(whole),
        complaints,
    }
}

/// What the environment said when the program started.
pub fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        read(
            |name| std::env::var_os(name),
            std::env::current_dir().ok().as_deref(),
        )
    })
}

extern "C" fn at_start() {
    settings();
}

/// The dynamic linker calls it before the program's `main`.
// SAFETY: a section of addresses of such functions.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;
