//! A batch in three stages: what the host finds out of the operations alone, what it sends to the modules, and what it
//! makes of their answers.
//!
//! The first stage of a batch may come while modules still execute the one before ([`Overlapped`](super::Overlapped)).
//! It reads where subranges are, and that batch's answers may say that they are elsewhere; then they are read again.

use crate::modules::Modules;

use super::dispatch::Record;
use super::load::Work;
use super::moves::Sent;
use super::mutant::{Mutant, planted};
use super::net::Net;
use super::operation::{Answer, Operation};
use super::repeats::Repeats;
use super::{Map, MapError, readers};

/// What the first stage of a batch has found.
pub(super) struct Prepared {
    repeats: Repeats,
    /// None without redistribution.
    work: Option<Work>,
    /// Of the directory that it has read.
    version: u64,
}

/// A batch that modules execute.
pub(super) struct UnderWay {
    nets: Vec<Net>,
    record: Record,
    awaited: Option<Sent>,
}

impl<M: Modules> Map<M> {
    /// Finds what needs no module: operations that are one command, and each one's subrange. Changes nothing but loads
    /// of subranges, which the next stage takes back.
    pub(super) fn prepare(&mut self, operations: &[Operation]) -> Prepared {
        let repeats = if self.config.repeats {
            Repeats::find(operations)
        } else {
            Repeats::default()
        };
        self.modules.host_steps(repeats.steps);
        let work = self.config.adaptive.then(|| self.counted(operations, &repeats));
        Prepared {
            repeats,
            work,
            version: self.directory.version(),
        }
    }

    fn counted(&mut self, operations: &[Operation], repeats: &Repeats) -> Work {
        let work = self.count_load(operations, repeats);
        self.modules.host_steps(work.steps);
        work
    }

    fn forget_loads(&mut self, work: &Work) {
        for id in &work.touched {
            self.directory.entry_mut(*id).load = 0;
        }
    }

    /// Sends a batch to the modules, which have none. Costs a round before it if redistribution pays for one.
    pub(super) fn start(
        &mut self,
        operations: &[Operation],
        prepared: Prepared,
    ) -> Result<UnderWay, MapError> {
        let Prepared {
            repeats,
            mut work,
            version,
        } = prepared;
        if let Some(stale) = &mut work
            && version != self.directory.version()
            && !planted(Mutant::PreparedBelieved)
        {
            self.forget_loads(stale);
            *stale = self.counted(operations, &repeats);
        }
        let mut located = Vec::new();
        let mut later = None;
        if let Some(mut work) = work {
            let counted = work.steps;
            let plan = self.plan(operations, &repeats, &mut work);
            let back = self.plan_back(&work, &plan);
            #[cfg(feature = "hotness")]
            self.observe(&mut work);
            self.forget_loads(&work);
            self.modules.host_steps(work.steps - counted);
            if plan.at_once {
                let mut batches = vec![Vec::new(); self.modules.count()];
                let awaited = self.send_moves(plan, back, &mut batches);
                let answers = self.round(batches)?;
                self.finish_moves(awaited, &mut readers(&answers))?;
            } else {
                located = work.located;
                later = Some((plan, back));
            }
        }
        let (mut batches, record) = self.dispatch(operations, &located, &repeats);
        let awaited = later.map(|(plan, back)| self.send_moves(plan, back, &mut batches));
        self.modules.host_steps(record.steps);
        #[cfg(feature = "hotness")]
        self.give_heights();
        self.launch(batches)?;
        Ok(UnderWay {
            nets: repeats.nets,
            record,
            awaited,
        })
    }

    /// Waits for the modules, and reads their answers.
    pub(super) fn complete(
        &mut self,
        operations: &[Operation],
        under_way: UnderWay,
    ) -> Result<Vec<Answer>, MapError> {
        let UnderWay {
            nets,
            record,
            awaited,
        } = under_way;
        let answers = self.collect()?;
        let mut readers = readers(&answers);
        let all = self.read_answers(operations, &nets, record, &mut readers)?;
        if let Some(awaited) = awaited {
            self.finish_moves(awaited, &mut readers)?;
        }
        match readers.iter().position(|reader| !reader.0.is_empty()) {
            Some(module) => Err(self.lose(MapError::Answers {
                module: module as u32,
            })),
            None => Ok(all),
        }
    }
}
