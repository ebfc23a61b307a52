//! Environment variables, read once.

use std::path::PathBuf;
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
    /// `CENOTE_THREADS`: how many threads may use a new pool at a time. One that holds many locks counts once for each eight.
    pub threads: u32,
    /// `CENOTE_PRIVATE=1`: takes over private locks, too, where a program initialises them by a call.
    pub private: bool,
    /// `CENOTE_OWNER_DEAD`: `go-on`, `tell` or `abort`.
    pub owner_dead: OwnerDead,
    /// `CENOTE_LOG`: the file that lines are added to; standard error if there is none.
    pub log: Option<PathBuf>,
}

/// A new pool has so many locks.
const LOCKS: u32 = 16_384;
/// A new pool has places for so many threads. A writer looks at a bit for each: these fit one line.
const THREADS: u32 = 512;

fn read(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Settings {
    let text = |name| variable(name).and_then(|value| value.into_string().ok());
    let number = |name| text(name).and_then(|value| value.parse().ok());
    let path = |name| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    Settings {
        // A name alone lies in the folder of the command's pools.
        pool: path("CENOTE_POOL").map(|pool| match pool.components().count() {
            1 if !pool.is_absolute() => PathBuf::from("/dev/shm").join(pool),
            _ => pool,
        }),
        locks: number("CENOTE_LOCKS").unwrap_or(LOCKS),
        threads: number("CENOTE_THREADS").unwrap_or(THREADS),
        private: text("CENOTE_PRIVATE").is_some_and(|value| value == "1"),
        owner_dead: match text("CENOTE_OWNER_DEAD").as_deref() {
            Some("tell") => OwnerDead::Tell,
            Some("abort") => OwnerDead::Abort,
            _ => OwnerDead::GoOn,
        },
        log: path("CENOTE_LOG"),
    }
}

/// What the environment said when it was first asked.
pub fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| read(|name| std::env::var_os(name)))
}
