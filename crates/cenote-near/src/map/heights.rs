//! What goes to the model of hotness, and what comes from it: heights of subranges in L2.

use crate::device::command::Command;
use crate::hotness::{Observed, Pipeline, Report, Settings};
use crate::modules::Modules;

use super::load::{POINT, Work};
use super::{Map, MapError, ModulesError};

impl<M: Modules> Map<M> {
    /// Has a model predict how hot subranges will be, and their heights follow; on a thread of its own, which this
    /// starts. From then on a batch awaits what the model has made of the one before it.
    ///
    /// Costs a step of the host for each subrange that a batch asks for. Without redistribution
    /// ([`Config::adaptive`](super::Config::adaptive)) there is nothing to predict, and nothing is done.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn predict_hotness(&mut self, settings: Settings) -> Result<(), MapError> {
        let pipeline = Pipeline::start(settings).map_err(|error| ModulesError::threads(&error))?;
        self.pipeline = Some(pipeline);
        Ok(())
    }

    /// What the model has done; none if there is none.
    pub fn hotness(&self) -> Option<Report> {
        Some(self.pipeline.as_ref()?.report())
    }

    /// Has what a batch asks for go to the model with the next launch.
    pub(super) fn observe(&mut self, work: &mut Work) {
        let Some(pipeline) = &mut self.pipeline else {
            return;
        };
        let directory = &self.directory;
        let observed: Vec<Observed> = work
            .touched
            .iter()
            .filter_map(|&id| {
                let entry = directory.entry(id);
                Some(Observed {
                    start: entry.start,
                    last: directory.last(id),
                    level: entry.level,
                    module: entry.module()?,
                    operations: u32::try_from(entry.load / POINT).unwrap_or(u32::MAX),
                    keys: u32::try_from(entry.keys).unwrap_or(u32::MAX),
                })
            })
            .collect();
        work.steps += observed.len() as u64;
        pipeline.observe(observed);
    }

    /// Commands for the heights that the model has found; a subrange that has moved since keeps what it has.
    pub(super) fn give_heights(&mut self) {
        let Some(pipeline) = &mut self.pipeline else {
            return;
        };
        let heights = pipeline.heights();
        self.modules.host_steps(heights.len() as u64);
        for one in heights {
            Command::Height(one.start, one.height).write(&mut self.pending[one.module as usize]);
        }
    }
}
