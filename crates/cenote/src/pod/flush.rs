//! Flush rounds (pcc-indexes, section 4.1.3): before memory is reused, every host drops its lines from its cache.
//!
//! Only on incoherent memory. A worker that wants to free entries of its list publishes them as a request in its
//! record, then takes a round number; every process's background thread flushes the lines of all requests it has
//! not seen yet and then acknowledges the round. When all who live have, the entries may be freed. A process that
//! joins later cannot have the lines: they were unreachable when it joined. One that dies is recovered.
//!
//! This treats a process as its own host, which is what it stands for under the `noncoherent` backend.

use super::record::{IDLE, Phase, ProcessRecord, State, WorkerRecord};
use super::retire::{self, CHUNK_BYTES, Position, entry};
use super::slab::locate;
use super::superblock::FLUSH_ROUND;
use super::worker::Worker;
use crate::error::Result;
use crate::memory::Memory;

/// A round that a worker waits for: everything in a list between two positions.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    record: WorkerRecord,
    to: Position,
    number: u64,
}

/// Up to where every host has flushed a list; begins a round if there is none. Never waits.
pub(super) fn flushed_until<M: Memory>(
    worker: &Worker<M>,
    record: WorkerRecord,
    ripe: Position,
) -> Result<Position> {
    let head = Position::decode(record.head().get(worker.mem()));
    match worker.flushing.get() {
        Some(round) if round.record == record && is_complete(worker, round) => {
            worker.flushing.set(None);
            return Ok(round.to);
        }
        Some(round) if round.record == record => super::recovery::recover_dead(worker).map(drop)?,
        _ if head == ripe || head.chunk == 0 => {}
        _ => begin(worker, record, head, ripe)?,
    }
    Ok(head)
}

fn begin<M: Memory>(worker: &Worker<M>, record: WorkerRecord, from: Position, to: Position) -> Result<()> {
    let mem = worker.mem();
    let serial = worker.flush_serial.get() + 1;
    worker.flush_serial.set(serial);
    let request = worker.record().flush_request();
    for (word, value) in request.iter().zip([from.encode(), to.encode(), serial]) {
        word.set(mem, value);
    }
    mem.persist(request[0].offset(), 24);
    flush_between(worker, from, to)?;
    let number = FLUSH_ROUND.fetch_add(mem, 1) + 1;
    worker.flushing.set(Some(Round { record, to, number }));
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

/// Drops the lines of all objects in a list between two positions. The list stays as it is meanwhile: its owner waits.
fn flush_between<M: Memory>(worker: &Worker<M>, mut from: Position, to: Position) -> Result<()> {
    let mem = worker.mem();
    let mut chunks_left = worker.committed_units()? * 64 + 1;
    while from.chunk != 0 {
        worker.check("a flush request", from.chunk, CHUNK_BYTES)?;
        let is_last = from.chunk == to.chunk;
        for index in from.index..retire::count_in(worker, from.chunk, to) {
            let object = entry(from.chunk, index).0.peek(mem);
            mem.invalidate(object, locate(worker, object)?.capacity());
        }
        if is_last {
            break;
        }
        from = retire::next_position(worker, from, &mut chunks_left)?;
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
        let [from, to, serial] = request.map(|word| word.peek(mem));
        if self.seen.len() <= index as usize {
            self.seen.resize(index as usize + 1, 0);
        }
        if serial != self.seen[index as usize] {
            flush_between(worker, Position::decode(from), Position::decode(to))?;
            self.seen[index as usize] = serial;
        }
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
