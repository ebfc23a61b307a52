//! Opening what a name stands for, while others may drop it.

use super::directory::Named;
use super::dropping;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::instance::worker::Worker;

/// Opens what `find` finds; `None` if that is nothing. If it is dropped meanwhile, begins anew.
pub fn opened<M: Memory, T>(
    worker: &Worker<M>,
    find: impl Fn() -> Result<Option<Named>>,
    open: impl Fn(Named) -> Result<T>,
) -> Result<Option<T>> {
    loop {
        let drops = dropping::count(worker);
        let Some(named) = find()? else {
            return Ok(None);
        };
        let _pin = worker.pin()?;
        match open(named) {
            Err(Error::Dropped) => {}
            // Else another structure may be in its place by now, with another name.
            opened if dropping::count(worker) == drops => return opened.map(Some),
            _ => {}
        }
    }
}
