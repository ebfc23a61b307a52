//! Batches that overlap: while modules execute one, the host prepares the next. The paper does not do this.

use crate::modules::{Counters, Modules};

use super::operation::{Answer, Operation};
use super::stages::UnderWay;
use super::{Map, MapError};

/// A map that is given batches one behind the other; [`Map::overlapped`].
///
/// Dropping it waits for the batch under way, whose answers are lost, though not what it has changed. If it is leaked
/// instead ([`std::mem::forget`]) while a batch is under way, the map is lost with the next one.
pub struct Overlapped<'m, M: Modules> {
    map: &'m mut Map<M>,
    /// Its operations, and nothing else if there are none.
    under_way: Option<(Vec<Operation>, Option<UnderWay>)>,
}

impl<M: Modules> Map<M> {
    /// Takes batches one behind the other, each of which the host prepares while modules execute the one before.
    ///
    /// All behave as if their operations ran one after another, as by [`Map::execute`]. A batch costs a round or two,
    /// as there; which of them cost two may differ, as plans are made with loads of a moment before. With
    /// redistribution, the host searches each operation's subrange again if the batch before it has changed which
    /// subranges there are, or where.
    pub fn overlapped(&mut self) -> Overlapped<'_, M> {
        Overlapped {
            map: self,
            under_way: None,
        }
    }
}

impl<M: Modules> Overlapped<'_, M> {
    /// Prepares a batch, waits for the one under way, sends this one to the modules, and returns the answers of that
    /// one; none if there was none.
    ///
    /// # Errors
    /// Modules failed; the map is lost. If they fail at this batch, the answers of the one under way are returned
    /// still, and the error is that of the next call.
    pub fn send(&mut self, operations: Vec<Operation>) -> Result<Option<Vec<Answer>>, MapError> {
        if let Some(lost) = &self.map.lost {
            return Err(lost.clone());
        }
        let prepared = (!operations.is_empty()).then(|| self.map.prepare(&operations));
        let answers = self.wait()?;
        let started = prepared
            .map(|prepared| self.map.start(&operations, prepared))
            .transpose();
        match started {
            Ok(under_way) => self.under_way = Some((operations, under_way)),
            Err(error) if answers.is_none() => return Err(error),
            // The map has the error.
            Err(_) => {}
        }
        Ok(answers)
    }

    /// Waits for the batch under way, and returns its answers; none if there is none.
    ///
    /// # Errors
    /// As for [`Overlapped::send`].
    pub fn finish(mut self) -> Result<Option<Vec<Answer>>, MapError> {
        if let Some(lost) = &self.map.lost {
            return Err(lost.clone());
        }
        self.wait()
    }

    /// Totals of the modules.
    pub fn counters(&self) -> Counters {
        self.map.counters()
    }

    fn wait(&mut self) -> Result<Option<Vec<Answer>>, MapError> {
        match self.under_way.take() {
            None => Ok(None),
            Some((_, None)) => Ok(Some(Vec::new())),
            Some((operations, Some(under_way))) => self.map.complete(&operations, under_way).map(Some),
        }
    }
}

impl<M: Modules> Drop for Overlapped<'_, M> {
    fn drop(&mut self) {
        // A failure is what the map answers from now on.
        let _ = self.wait();
    }
}
