//! Thousands of modules in virtual time: their programs run for real, one after another, and a [`Profile`] says how
//! long that would have taken.
//!
//! A round takes a launch, the time to bring all bytes from the host to the modules and back, and as long as its
//! busiest module computes. A module computes for each access and each chase, and for bytes in sequence: its commands
//! and answers are read and written in its memory too. What the host computes is divided over its cores; what it
//! computes between a launch and its collection takes only as much longer as it takes longer than the launch and the
//! modules.
//! Time depends on what is executed and on nothing else, so it is the same in every run.
//!
//! **Not modelled.** Threads within a module, ranks of modules that the host reaches one after another, and transfers
//! that must have one length for all modules.

use super::{Counters, Meter, Modules, ModulesError, Profile, Program};

/// Simulated modules that execute a [`Program`].
pub struct Simulated<P> {
    programs: Vec<P>,
    profile: Profile,
    batches: Option<Vec<Vec<u8>>>,
    counters: Counters,
    /// Virtual time has parts of nanoseconds.
    clock_ns: f64,
    host_ns: f64,
    module_ns: f64,
    overlapped_ns: f64,
    /// What the host has computed since the launch.
    beside_ns: f64,
    loads_ns: Vec<f64>,
}

impl<P: Program> Simulated<P> {
    /// As many modules as there are programs.
    ///
    /// # Errors
    /// There is no program.
    pub fn new(programs: Vec<P>, profile: Profile) -> Result<Self, ModulesError> {
        if programs.is_empty() {
            return Err(ModulesError::NoModules);
        }
        Ok(Self {
            loads_ns: vec![0.0; programs.len()],
            programs,
            profile,
            batches: None,
            counters: Counters::default(),
            clock_ns: 0.0,
            host_ns: 0.0,
            module_ns: 0.0,
            overlapped_ns: 0.0,
            beside_ns: 0.0,
        })
    }

    /// How long each module computed in the last round, in nanoseconds.
    pub fn loads_ns(&self) -> &[f64] {
        &self.loads_ns
    }
}

impl<P: Program> Modules for Simulated<P> {
    fn count(&self) -> usize {
        self.programs.len()
    }

    fn launch(&mut self, batches: Vec<Vec<u8>>) -> Result<(), ModulesError> {
        if self.batches.is_some() {
            return Err(ModulesError::RoundPending);
        }
        if batches.len() != self.programs.len() {
            return Err(ModulesError::Batches {
                given: batches.len(),
                modules: self.programs.len(),
            });
        }
        self.batches = Some(batches);
        Ok(())
    }

    fn collect(&mut self) -> Result<Vec<Vec<u8>>, ModulesError> {
        let Some(batches) = self.batches.take() else {
            return Err(ModulesError::NoRound);
        };
        let (mut sent, mut received, mut busiest_ns) = (0, 0, 0.0f64);
        let mut all = Vec::with_capacity(batches.len());
        for (module, (program, batch)) in self.programs.iter_mut().zip(&batches).enumerate() {
            let (mut answers, mut meter) = (Vec::new(), Meter::default());
            if !batch.is_empty() {
                program
                    .run(batch, &mut answers, &mut meter)
                    .map_err(|cause| ModulesError::Malformed { module, cause })?;
            }
            let bytes = (batch.len() + answers.len()) as u64;
            let took_ns = self.profile.module_ns(&meter, bytes);
            self.loads_ns[module] = took_ns;
            busiest_ns = busiest_ns.max(took_ns);
            self.counters.chases += meter.chases;
            sent += batch.len() as u64;
            received += answers.len() as u64;
            all.push(answers);
        }
        self.counters.rounds += 1;
        self.counters.sent += sent;
        self.counters.received += received;
        self.module_ns += busiest_ns;
        // The host's processors bring the bytes to and fro. Beside that they compute only while modules do.
        let way_ns = self.profile.way_ns(sent + received);
        let (beside_ns, modules_ns) = (
            std::mem::take(&mut self.beside_ns),
            self.profile.launch_ns() + busiest_ns,
        );
        self.overlapped_ns += beside_ns.min(modules_ns);
        self.clock_ns += way_ns + beside_ns.max(modules_ns);
        Ok(all)
    }

    fn host_steps(&mut self, steps: u64) {
        let took_ns = self.profile.host_ns(steps);
        self.host_ns += took_ns;
        if self.batches.is_some() {
            self.beside_ns += took_ns;
        } else {
            self.clock_ns += took_ns;
        }
    }

    fn counters(&self) -> Counters {
        Counters {
            virtual_ns: self.clock_ns as u64,
            host_ns: self.host_ns as u64,
            module_ns: self.module_ns as u64,
            overlapped_ns: self.overlapped_ns as u64,
            ..self.counters
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.programs.iter().map(Program::memory_bytes).sum()
    }
}
