//! Flush rounds (pcc-indexes, section 4.1.3): before memory is reused, every host drops its lines from its cache.
//!
//! Only on incoherent memory. A worker that wants to free entries of its list publishes them as a request in its
//! record, then takes a round number; every process's background thread flushes the lines of all requests it has
//! not seen yet and then acknowledges the round. When all who live have, the entries may be freed. A process that
//! joins later cannot have the lines: they were unreachable when it joined. One that dies is recovered.
//!
//! This treats a process as its own host, which is what it stands for under the `noncoherent` backend.

use super::record::{IDLE, Phase, ProcessRecord, State, WorkerRecord};
use super::retire::{CHUNK_BYTES, CHUNK_ENTRIES, Position, entry};
use super::slab::locate;
use super::superblock::FLUSH_ROUND;
use super::worker::Worker;
use crate::error::Result;
use crate::memory::Memory;

/// A round that a worker waits for.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    chunk: u64,
    from: u64,
    to: u64,
    number: u64,
}

/// Up to which entry every host has flushed; begins a round if there is none. Never waits.
pub(super) fn flushed_until<M: Memory>(worker: &Worker<M>, head: Position, end: u64) -> Result<u64> {
    match worker.flushing.get() {
        Some(round) if round.chunk == head.chunk && (round.from..round.to).contains(&head.index) => {
            if is_complete(worker, round) {
                return Ok(round.to.min(end));
            }
            super::recovery::recover_dead(worker)?;
        }
        _ => begin(worker, head, end)?,
    }
    Ok(head.index)
}

fn begin<M: Memory>(worker: &Worker<M>, head: Position, end: u64) -> Result<()> {
    let mem = worker.mem();
    let serial = worker.flush_serial.get() + 1;
    worker.flush_serial.set(serial);
    let request = worker.record().flush_request();
    for (word, value) in request.iter().zip([head.chunk, head.index, end, serial]) {
        word.set(mem, value);
    }
    mem.persist(request[0].offset(), 32);
    flush_entries(worker, head.chunk, head.index, end)?;
    let number = FLUSH_ROUND.fetch_add(mem, 1) + 1;
    worker.flushing.set(Some(Round {
        chunk: head.chunk,
        from: head.index,
        to: end,
        number,
    }));
    Ok(())
}

fn is_complete<M: Memory>(worker: &Worker<M>, round: Round) -> bool {
    let pod = worker.pod();
    (0..worker.geometry().parameters.processes)
        .filter(|&index| index != pod.index())
        .all(|index| {
            let record = ProcessRecord::new(worker.geometry(), index);
            let state = State::decode(record.state().load(worker.mem()));
            state.phase == Phase::Free || record.flushed().load(worker.mem()) >= round.number
        })
}

fn flush_entries<M: Memory>(worker: &Worker<M>, chunk: u64, from: u64, to: u64) -> Result<()> {
    let mem = worker.mem();
    for index in from..to.min(CHUNK_ENTRIES) {
        let object = entry(chunk, index).0.peek(mem);
        mem.invalidate(object, locate(worker, object)?.capacity());
    }
    mem.fence();
    Ok(())
}

/// What a process's background thread remembers.
#[derive(Debug, Default)]
pub struct Attendant {
    seen: Vec<u64>,
    round: u64,
}

impl Attendant {
    /// Serves the rounds of others and looks after the announcements of this process's idle workers.
    pub fn tick<M: Memory>(&mut self, worker: &Worker<M>) -> Result<()> {
        let mem = worker.mem();
        let round = FLUSH_ROUND.load(mem);
        if round != self.round {
            for index in 0..worker.pod().workers_high() {
                self.serve(worker, index)?;
            }
            ProcessRecord::new(worker.geometry(), worker.pod().index())
                .flushed()
                .store(mem, round);
            self.round = round;
        }
        withdraw_idle(worker);
        Ok(())
    }

    fn serve<M: Memory>(&mut self, worker: &Worker<M>, index: u32) -> Result<()> {
        let mem = worker.mem();
        let request = WorkerRecord::new(worker.geometry(), index).flush_request();
        let [chunk, from, to, serial] = request.map(|word| word.peek(mem));
        if self.seen.len() <= index as usize {
            self.seen.resize(index as usize + 1, 0);
        }
        if serial == self.seen[index as usize] || chunk == 0 {
            return Ok(());
        }
        worker.check("a flush request", chunk, CHUNK_BYTES)?;
        mem.invalidate(chunk, CHUNK_BYTES);
        flush_entries(worker, chunk, from, to)?;
        self.seen[index as usize] = serial;
        Ok(())
    }
}

/// Withdraws the announcements of this process's workers that read nothing, once the epoch has moved on.
fn withdraw_idle<M: Memory>(worker: &Worker<M>) {
    let mem = worker.mem();
    let Ok(all) = worker.pod().local.lock() else {
        return;
    };
    for pin in all.iter().filter_map(std::sync::Weak::upgrade) {
        let announced = pin.announced.load();
        if announced == IDLE || announced == pin.record.epoch().load(mem) {
            continue;
        }
        if pin.active.exchange(0, 2) {
            pin.record.announced().store(mem, IDLE);
            pin.announced.store(IDLE);
            pin.active.store(0);
        } else {
            pin.refresh.store(1);
        }
    }
}
