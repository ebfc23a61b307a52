//! Which locks of the array are in use: a map of the pool from numbers to users.
//!
//! **Users.** 0: a process-shared lock, which may outlive any process; its number is free again when the lock is
//! destroyed. Else the process whose private lock it is: such a number is free again when that process has ended, too,
//! and is taken from it when no other is left.
//!
//! **A crash** between the number and the mark in the lock leaves a number in use that nobody has.
#![allow(clippy::disallowed_types)] // a counter of the process, no word of a pool

use std::sync::atomic::{AtomicU32, Ordering};

use cenote::{Coherent, Guidelines, HashMap};
use cenote_holds::{Access, Refusal, Thread, Wait};

use crate::state::State;

/// The map's name in the pool.
const MAP: &str = "preload-numbers";
/// The user of a process-shared lock.
const SHARED: u64 = 0;

fn map(thread: &mut Thread, state: &State) -> Result<HashMap<Coherent>, Refusal> {
    let worker = thread.worker(&state.pool)?;
    Ok(HashMap::open_or_create(worker, MAP, Guidelines::default())?)
}

/// How many numbers from this process's first on to look for the next free one at. Numbers are used again early, as
/// threads keep what they have opened.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The number that this process begins at: processes begin at different ones, so that they seldom meet.
fn first(state: &State) -> u32 {
    std::process::id().wrapping_mul(0x9e37_79b9) % state.count
}

/// Takes a number that nobody uses. Its lock is free.
pub fn take(thread: &mut Thread, state: &State, is_private: bool) -> Result<u32, Refusal> {
    let user = match is_private {
        true => this_process(),
        false => SHARED,
    };
    let numbers = map(thread, state)?;
    let first = first(state);
    for round in 0..2 {
        for _ in 0..state.count {
            let number = (first + NEXT.fetch_add(1, Ordering::Relaxed) % state.count) % state.count;
            if !numbers.insert(&key(number), &user.to_le_bytes())? {
                continue;
            }
            match is_free(thread, state, number) {
                Ok(true) => return Ok(number),
                // Someone has it who took it when it was destroyed already: it is free for others later.
                kept => {
                    numbers.remove(&key(number))?;
                    kept?;
                }
            };
        }
        if round == 0 && !sweep(&numbers, state)? {
            break;
        }
    }
    Err(Refusal::Exhausted(
        "all locks of the pool's array are in use; use another pool, made with a larger CENOTE_LOCKS",
    ))
}

/// Gives a number back.
pub fn give_back(thread: &mut Thread, state: &State, number: u32) -> Result<(), Refusal> {
    map(thread, state)?.remove(&key(number))?;
    let after = (number + state.count - first(state)) % state.count;
    NEXT.fetch_min(after, Ordering::Relaxed);
    Ok(())
}

/// Whether nobody alive has a lock. Then nobody is told of an owner that died with it before it was given back.
pub fn is_free(thread: &mut Thread, state: &State, number: u32) -> Result<bool, Refusal> {
    let id = number.into();
    match thread.acquire(id, || state.lock(id), Access::Write, Wait::No) {
        Err(Refusal::Busy) => Ok(false),
        Err(error) => Err(error),
        Ok(_) => {
            // Refused if nobody had died.
            let _ = thread.mend(id);
            thread.release(id).map(|()| true)
        }
    }
}

fn key(number: u32) -> [u8; 8] {
    u64::from(number).to_le_bytes()
}

/// Frees the numbers of private locks whose processes have ended. Returns whether there were some.
fn sweep(numbers: &HashMap<Coherent>, state: &State) -> Result<bool, Refusal> {
    let mut is_any = false;
    for number in 0..state.count {
        let user = match numbers.get(&key(number))? {
            Some(value) => u64::from_le_bytes(value[..].try_into().unwrap_or_default()),
            None => continue,
        };
        if has_ended(user) {
            is_any |= numbers.remove(&key(number))?;
        }
    }
    Ok(is_any)
}

/// Bits of a process id on Linux, and of what is kept of the others.
const PID_BITS: u32 = 22;
const REST_BITS: u32 = 21;

/// A process in one word: its id, when it was started, and in which namespace that id is.
fn process(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything; the field after it is the third, the start is the 22nd.
    let started: u64 = stat
        .rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(19)?
        .parse()
        .ok()?;
    let mask = (1 << REST_BITS) - 1;
    Some(u64::from(pid) | (started & mask) << PID_BITS | namespace()? << (PID_BITS + REST_BITS))
}

fn namespace() -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata("/proc/self/ns/pid").ok()?.ino();
    Some(found & ((1 << REST_BITS) - 1))
}

fn this_process() -> u64 {
    // Without /proc it counts as shared, and its numbers are not taken from it.
    process(std::process::id()).unwrap_or(SHARED)
}

/// Whether the user of a private lock has certainly ended.
fn has_ended(user: u64) -> bool {
    let pid = (user & ((1 << PID_BITS) - 1)) as u32;
    let is_here = namespace() == Some(user >> (PID_BITS + REST_BITS));
    user != SHARED && is_here && process(pid) != Some(user) && is_proc_whole()
}

/// Whether `/proc` shows processes at all.
fn is_proc_whole() -> bool {
    process(std::process::id()).is_some()
}
