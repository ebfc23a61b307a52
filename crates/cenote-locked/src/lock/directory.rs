//! Directory locks of a pool: the words of their regions, one region after another. See
//! `docs/protocols/directory-locks.md`.

use cenote::{Acquired, Backend, RegionsLock};

use super::{Former, Lock};
use crate::error::Result;
use crate::words::{Words, WordsMut};

fn former(acquired: Acquired) -> Former {
    match acquired {
        Acquired::Clean => Former::Unlocked,
        Acquired::Recovered { .. } => Former::Died,
    }
}

/// The words of the first two regions.
impl<M: Backend> Lock for RegionsLock<M> {
    #[inline]
    fn read<R>(&self, inside: impl FnOnce(&Words<'_>, Former) -> Result<R>) -> Result<R> {
        let guard = RegionsLock::read(self)?;
        let region = |n| match n < self.regions() {
            true => guard.region(n),
            false => &[],
        };
        inside(&Words::new(region(0), region(1)), former(guard.acquired()))
    }

    #[inline]
    fn write<R>(&self, inside: impl FnOnce(&mut WordsMut<'_>, Former) -> Result<R>) -> Result<R> {
        let mut guard = RegionsLock::write(self)?;
        let former = former(guard.acquired());
        let mut regions = guard.regions_mut();
        let first = regions.next().unwrap_or_default();
        let rest = regions.next().unwrap_or_default();
        inside(&mut WordsMut::new(first, rest), former)
    }
}
