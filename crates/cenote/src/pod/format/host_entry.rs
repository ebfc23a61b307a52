//! Hosts: what the pool says of each, and when a process of another host counts as dead.
//!
//! A host's entry has a state with a generation, and a word that its agent increments. **A generation of a host is over
//! when nothing of that host can write any more, and not before**: it moves after a fence, or after the last process
//! has left. So every process of an earlier generation is dead, and any live one may recover it.
//!
//! | state | from | by | when |
//! |---|---|---|---|
//! | up (g), no agent | down (g) | an agent | it starts; g begins |
//! | up (g), agent | up (g) | the agent | the agent before it is dead, or there was none |
//! | leaving (g) | up (g) | the agent | it wants to end; from now on no process joins |
//! | up (g) | leaving (g) | the agent, or the next one | other processes of the host still have the pool open; or the agent has died |
//! | fencing (g) | up, leaving (g) | a monitor | the host missed its heartbeats |
//! | down (g + 1) | fencing (g) | a monitor | the fence says that the host is certainly down |
//! | down (g + 1) | fencing (g) | an agent that starts | it is the same boot of the same machine, whose kernel says that nothing of g lives |
//! | down (g + 1) | leaving (g) | the agent | it has left its own place; its last write |
//!
//! All transitions are compare-exchanges of the whole word, so a late one fails. What a crash leaves, and who repairs
//! it, is in `docs/protocols/hosts.md`.

use super::geometry::{Geometry, NO_HOST, Parameters};
use super::record::{Phase, ProcessRecord, State};
use super::superblock::HOSTS_HIGH;
use crate::causes::Setting;
use crate::error::{Error, Result};
use crate::memory::checked::sync_word;
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};

/// A host's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HostPhase {
    /// Nothing of it has the pool open. Its generation has not begun.
    Down,
    /// It sends heartbeats, or has failed unnoticed.
    Up,
    /// It is being fenced.
    Fencing,
    /// It sends heartbeats; no process of it may join any more.
    Leaving,
    /// Not a value that this library writes.
    Damaged,
}

/// The state word of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostState {
    /// The phase.
    pub phase: HostPhase,
    /// The agent's place in the process table plus one; 0 while there is none.
    pub agent: u32,
    /// The low byte of the generation that the agent's place is meant in.
    pub tag: u8,
    /// The host's generation.
    pub generation: u32,
}

impl HostState {
    /// Reads a state word.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn decode(word: u64) -> Self {
        let phase = match word & 0xff {
            0 => HostPhase::Down,
            1 => HostPhase::Up,
            2 => HostPhase::Fencing,
            3 => HostPhase::Leaving,
            _ => HostPhase::Damaged,
        };
        Self {
            phase,
            agent: (word >> 8) as u32 & 0xffff,
            tag: (word >> 24) as u8,
            generation: (word >> 32) as u32,
        }
    }

    /// The word for a state.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn encode(self) -> u64 {
        let phase = match self.phase {
            HostPhase::Down => 0,
            HostPhase::Up => 1,
            HostPhase::Fencing => 2,
            HostPhase::Leaving => 3,
            HostPhase::Damaged => 4,
        };
        phase
            | u64::from(self.agent & 0xffff) << 8
            | u64::from(self.tag) << 24
            | u64::from(self.generation) << 32
    }

    /// The state in which this generation is over.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn over(self) -> Self {
        Self {
            phase: HostPhase::Down,
            agent: 0,
            tag: 0,
            generation: self.generation.wrapping_add(1),
        }
    }

    /// The same with another phase.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn with(self, phase: HostPhase) -> Self {
        Self { phase, ..self }
    }
}

/// The machine that a generation of a host is on. That machine's kernel knows which processes of the generation live;
/// other kernels do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// The generation.
    pub generation: u32,
    /// A number for the machine, its boot and the file that holds its locks; 0 if no machine has claimed the
    /// generation, and for a machine that cannot be told from others.
    machine: u32,
}

impl Home {
    /// The home of a generation on a machine ([`crate::memory::ProcessName::machine`]).
    pub fn new(generation: u32, machine: u64) -> Self {
        let folded = (machine >> 32) as u32 ^ machine as u32;
        Self {
            generation,
            machine: if machine == 0 { 0 } else { folded.max(1) },
        }
    }

    /// Reads a word.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn decode(word: u64) -> Self {
        Self {
            generation: (word >> 32) as u32,
            machine: word as u32,
        }
    }

    /// The word for it.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn encode(self) -> u64 {
        u64::from(self.machine) | u64::from(self.generation) << 32
    }

    /// Whether it is the home of a generation: not yet before the generation's first agent.
    pub fn is_of(self, generation: u32) -> bool {
        self.machine != 0 && self.generation == generation
    }

    /// Whether it is the home of an earlier generation, or of none.
    fn is_before(self, generation: u32) -> bool {
        self.machine == 0 || (generation.wrapping_sub(self.generation) as i32) > 0
    }
}

/// A host's entry.
#[derive(Clone, Copy, Debug)]
pub struct HostRecord(u64);

impl HostRecord {
    /// The entry of a host.
    pub fn new(geometry: &Geometry, host: u32) -> Self {
        Self(geometry.host(host))
    }

    /// Phase, agent, generation.
    pub fn state(self) -> SyncWord {
        sync_word(self.0)
    }

    /// The machine that a generation of the host is on: [`Home`]. Set once in each generation, before a process of it
    /// joins.
    pub fn home(self) -> SyncWord {
        sync_word(self.0 + 8)
    }

    /// Grows with every heartbeat. Written by the host's agent alone.
    pub fn heartbeat(self) -> SyncWord {
        sync_word(self.0 + 64)
    }

    /// The identity of the leading monitor's worker that fences it, or fenced it last.
    pub fn fencer(self) -> SyncWord {
        sync_word(self.0 + 192)
    }

    /// When it began to, in seconds since 1970; for people. Written by the same monitor.
    pub fn fenced_at(self) -> SyncWord {
        sync_word(self.0 + 200)
    }

    /// The state, if it is one that this library writes. One round trip.
    pub fn read<M: Memory>(self, mem: &M) -> Result<HostState> {
        // PAIRS WITH: pod::hosts::agent::Leaving::finish
        let state = HostState::decode(self.state().load(mem));
        match state.phase {
            HostPhase::Damaged => Err(Error::corrupt("a host's state", self.0)),
            _ => Ok(state),
        }
    }

    /// Moves the state; returns whether it was still the expected one. Publishes nothing else: a caller that needs more
    /// to be seen has waited for that, or exchanged something, before. Two round trips.
    pub fn exchange<M: Memory>(self, mem: &M, from: HostState, to: HostState) -> bool {
        // NO PAIR: claim
        self.state()
            .compare_exchange_acquire(mem, from.encode(), to.encode())
            .is_ok()
    }
}

/// Makes a machine the home of a host's generation, if that has none; returns whether it is. No process of the
/// generation joins before. A generation that is over gets no home.
///
/// Cost: a sync load, and an exchange for the first one.
pub fn claim_home<M: Memory>(mem: &M, record: HostRecord, generation: u32, machine: u64) -> bool {
    let mine = Home::new(generation, machine);
    loop {
        let word = record.home().load(mem);
        let home = Home::decode(word);
        let may_claim = home.is_before(generation) || (mutant::is(Mutant::HomeMoved) && home != mine);
        if !may_claim {
            return home == mine;
        }
        // NO PAIR: claim
        if record
            .home()
            .compare_exchange_acquire(mem, word, mine.encode())
            .is_ok()
        {
            return true;
        }
    }
}

/// Whether a machine is the home of a host's generation. One round trip.
pub fn is_home<M: Memory>(mem: &M, record: HostRecord, generation: u32, machine: u64) -> bool {
    let home = Home::decode(record.home().load(mem));
    home.is_of(generation) && home == Home::new(generation, machine) || mutant::is(Mutant::MachineUnasked)
}

/// Checks a host's id against a pool's number of hosts.
pub fn check_id(parameters: &Parameters, host: u32) -> Result<()> {
    if host < parameters.hosts {
        return Ok(());
    }
    Err(Error::InvalidOption {
        option: Setting::Host,
        value: host.to_string(),
        why: "the pool is for fewer hosts; ids begin with 0, `cenote create --hosts` says how many there are",
    })
}

/// One more than the highest host id that has ever had an agent. One round trip.
pub fn hosts_high<M: Memory>(mem: &M, geometry: &Geometry) -> u32 {
    HOSTS_HIGH.load(mem).min(u64::from(geometry.parameters.hosts)) as u32
}

/// The hosts that are not down, with their states. A round trip for each host that has ever been up.
pub fn up<M: Memory>(mem: &M, geometry: &Geometry) -> Result<Vec<(u32, HostState)>> {
    let mut up = Vec::new();
    for host in 1..hosts_high(mem, geometry) {
        let state = HostRecord::new(geometry, host).read(mem)?;
        if state.phase != HostPhase::Down {
            up.push((host, state));
        }
    }
    Ok(up)
}

/// Whether a process of another host may be alive, by the pool's state of that host and the host's agent's
/// declarations: two round trips. `entry` is the state of its place.
pub fn may_live<M: Memory>(mem: &M, geometry: &Geometry, index: u32, entry: State) -> Result<bool> {
    if entry.process >= geometry.parameters.hosts {
        return Err(Error::corrupt(
            "the host of a process",
            ProcessRecord::new(geometry, index).state().offset(),
        ));
    }
    let host = HostRecord::new(geometry, entry.process).read(mem)?;
    let is_over = host.phase == HostPhase::Down
        || host.generation as u8 != entry.tag
        || (mutant::is(Mutant::FencingCountsAsDead) && host.phase == HostPhase::Fencing);
    Ok(!is_over && !is_declared(mem, geometry, index, entry.generation))
}

/// A host, in one of its generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct HostInstance {
    /// The host; [`NO_HOST`] on a single machine.
    pub host: u32,
    /// The generation; 0 on a single machine.
    pub generation: u32,
}

impl HostInstance {
    /// Reads a word.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn decode(word: u64) -> Self {
        Self {
            host: word as u32,
            generation: (word >> 32) as u32,
        }
    }

    /// The word for it.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn encode(self) -> u64 {
        u64::from(self.host) | u64::from(self.generation) << 32
    }

    /// Whether the generation is over: nothing of it can write any more. Never on a single machine. One round trip.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn is_over<M: Memory>(self, mem: &M, geometry: &Geometry) -> Result<bool> {
        if self.host == NO_HOST {
            return Ok(false);
        }
        let state = self.read(mem, geometry)?;
        Ok(state.phase == HostPhase::Down || state.generation != self.generation)
    }

    /// Whether it is neither over nor being fenced, from which no state leads back. Always on a single machine. One
    /// round trip.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn is_up<M: Memory>(self, mem: &M, geometry: &Geometry) -> Result<bool> {
        if self.host == NO_HOST {
            return Ok(true);
        }
        let state = self.read(mem, geometry)?;
        Ok(matches!(state.phase, HostPhase::Up | HostPhase::Leaving) && state.generation == self.generation)
    }

    fn read<M: Memory>(self, mem: &M, geometry: &Geometry) -> Result<HostState> {
        match self.host < geometry.parameters.hosts {
            true => HostRecord::new(geometry, self.host).read(mem),
            false => Err(Error::corrupt("the id of a host", self.host.into())),
        }
    }
}

fn is_declared<M: Memory>(mem: &M, geometry: &Geometry, index: u32, generation: u32) -> bool {
    // PAIRS WITH: pod::hosts::agent::declare, pod::instance::drain::drain
    let declared = ProcessRecord::new(geometry, index).declared().load(mem);
    declared == declaration(generation) || (mutant::is(Mutant::DeclaredForGood) && declared != 0)
}

/// What [`ProcessRecord::declared`] holds when a generation is declared dead.
pub fn declaration(generation: u32) -> u64 {
    1 << 32 | u64::from(generation)
}

/// Whether a process of a host's generation holds a place, or is taking it.
pub fn is_of(entry: State, host: u32, generation: u32) -> bool {
    entry.phase != Phase::Free && entry.process == host && entry.tag == generation as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_survive_their_words() {
        for phase in [
            HostPhase::Down,
            HostPhase::Up,
            HostPhase::Fencing,
            HostPhase::Leaving,
        ] {
            let state = HostState {
                phase,
                agent: 4096,
                tag: 0xfe,
                generation: u32::MAX,
            };
            assert_eq!(HostState::decode(state.encode()), state);
        }
        let never_up = HostState::decode(0);
        assert_eq!((never_up.phase, never_up.generation), (HostPhase::Down, 0));
        assert_eq!(HostState::decode(77).phase, HostPhase::Damaged);
        assert_eq!(HostState::decode(u64::MAX).over().generation, 0);
    }

    #[test]
    fn a_home_is_of_one_generation_and_one_machine() {
        let home = Home::new(7, 0x1234_5678_9abc_def0);
        assert_eq!(Home::decode(home.encode()), home);
        assert!(
            home.is_of(7) && !home.is_of(8) && home.is_before(8) && !home.is_before(7) && !home.is_before(6)
        );
        assert_ne!(home, Home::new(7, 0x1234_5678_9abc_def1));
        // A machine that cannot be told from others is no home.
        assert!(!Home::new(7, 0).is_of(7));
        let nowhere = Home::decode(0);
        assert!(!nowhere.is_of(0) && nowhere.is_before(0));
    }
}
