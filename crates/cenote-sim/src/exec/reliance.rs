//! What the library says that it relies on: that a write-back is complete
//! ([`cenote::memory::Memory::must_be_in_memory`]), and that no cache has lines of memory that is given away
//! ([`cenote::memory::Memory::must_not_be_cached`]). Where that does not hold, the run ends, whether or not a result
//! would be wrong.

use std::path::Path;

use cenote::pod::format::geometry::Geometry;
use cenote::pod::format::record::{Phase, ProcessRecord, State};
use cenote::pod::format::superblock::{HEADER_BYTES, Superblock};

use super::liveness::LOCKS;
use super::stop::{Stop, Unreliable};
use super::world::{Process, World};

impl World {
    /// Ends the run if something of a range is not in memory.
    pub fn must_be_in_memory(&mut self, at: u64, len: u64) {
        self.drain_all_of(at, len);
        let hosts = self.machine.shape().hosts;
        let dirty = (at & !7..at + len)
            .step_by(8)
            .flat_map(|word| (0..hosts).map(move |host| (word, host)))
            .find(|&(word, host)| self.machine.is_unwritten(host, word));
        if let Some((at, host)) = dirty {
            self.must_not_be(at, host, false);
        }
    }

    /// Ends the run if a cache has a line of a range. Hosts that do not take part do not count: a process that joins
    /// drops its host's lines.
    pub fn must_not_be_cached(&mut self, at: u64, len: u64) {
        let found = (0..self.machine.shape().hosts).find_map(|host| {
            let lines = self.machine.cache(host)?.resident_in(at, len);
            let line = *lines.first().filter(|_| self.takes_part(host))?;
            Some((line, host))
        });
        if let Some((line, host)) = found {
            self.must_not_be(line, host, true);
        }
    }

    /// Whether a process of a host has joined and not left.
    fn takes_part(&self, host: u32) -> bool {
        let mut head = [0; HEADER_BYTES];
        head.copy_from_slice(self.machine.memory().bytes(0, HEADER_BYTES as u64));
        let Ok(superblock) = Superblock::decode(Path::new("simulated"), &head) else {
            return false;
        };
        let geometry = Geometry::new(superblock.parameters);
        let has_left = |place: u32| {
            let state = ProcessRecord::new(&geometry, place).state();
            State::decode(self.machine.load(state.offset())).phase == Phase::Free
        };
        // The first locks of each kernel are those of the places.
        let mut locks = (0..LOCKS).cycle().zip(&self.locks);
        locks.any(|(place, holder)| {
            let holder = holder.filter(|_| place < geometry.parameters.processes);
            holder.is_some_and(|holder| {
                let Process {
                    host: of, attaches, ..
                } = self.processes[holder as usize];
                of == host && attaches && !has_left(place)
            })
        })
    }

    fn must_not_be(&mut self, at: u64, host: u32, is_reused: bool) {
        let thread = self.current;
        self.stop.get_or_insert(Stop::Unreliable(Unreliable {
            at,
            thread,
            host,
            is_reused,
        }));
    }
}
