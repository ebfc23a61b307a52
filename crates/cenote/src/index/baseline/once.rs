//! One-time initialisation of a structure in an arena: the first worker builds it, all others find it by a root.
//!
//! | root | sync word |
//! |---|---|
//! | [`BUILT`] | what was made: 0, then its offset for ever |
//! | [`TAKEN`] | the memory that it is made in: 0, then its offset for ever |
//! | [`LOCK`] | the lock under which it is made, as in `pod::lock` |
//!
//! A maker that is killed leaves its lock. The next one takes it over, and starts again in the memory
//! that was allocated. Memory that was allocated and not yet noted is lost to the arena.

use super::arena::Arena;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::lock;

/// The root of what was made.
pub const BUILT: u64 = 0;
const TAKEN: u64 = 6;
const LOCK: u64 = 7;

/// The offset of the thing. If nobody has made it, `make` writes it into so many bytes; they must be in memory when it
/// returns.
///
/// Cost: one sync load, if it is there.
pub fn built_once<M: Memory>(
    arena: &Arena<M>,
    len: u64,
    make: impl FnOnce(u64) -> Result<()>,
) -> Result<u64> {
    let mem = arena.worker().mem();
    let (built, taken) = (arena.root(BUILT), arena.root(TAKEN));
    let found = built.load(mem);
    if found != 0 {
        return Ok(found);
    }
    let _held = lock::acquire(arena.worker(), arena.root(LOCK))?;
    let found = built.load(mem);
    if found != 0 {
        return Ok(found);
    }
    let at = match taken.load(mem) {
        0 => {
            let at = arena.take(len)?;
            taken.store(mem, at);
            at
        }
        at if arena.has(at, len) => at,
        at => return Err(Error::corrupt("memory that a baseline is made of", at)),
    };
    make(at)?;
    built.store(mem, at);
    Ok(at)
}
