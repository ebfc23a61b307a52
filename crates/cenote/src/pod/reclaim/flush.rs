//! Flush rounds (pcc-indexes, section 4.1.3): before memory is reused, every host drops its lines from its cache.
//!
//! Only on incoherent memory. A worker that wants to free entries of its list publishes them as a request in its
//! record, then takes a round number; every process's background thread flushes the lines of all requests that the
//! process has not served yet and then acknowledges the round. When all living processes have, the entries may be
//! freed. A process that joins later cannot have the lines: they were unreachable when it joined. One that dies is
//! recovered.
//!
//! This treats a process as its own host, which is what it stands for under the `noncoherent` backend.
//!
//! **Idle background threads** poll less often: they sleep by an event count, which is notified when a round was begun,
//! when the epoch has moved on, and when lists are wanted. On other hosts it is [relayed](crate::pod::death::relay).
//!
//! A background thread that dies alone would leave its process alive and silent. From then on the workers of the
//! process serve rounds when they collect, until a handle is opened, which begins a new thread.

use std::sync::{Arc, Weak};

use super::collect::parts;
use super::retire::{self, may_be_extent, says_gone};
use super::takeover::Quiet;
use crate::error::Result;
use crate::memory::{LINE, Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::alloc::classes::{place_of, renew_classes};
use crate::pod::format::chunk::{CHUNK_BYTES, Position, entry};
use crate::pod::format::record::{IDLE, Phase, ProcessRecord, State, WorkerRecord};
use crate::pod::format::superblock::{EPOCH, FLUSH_ROUND, LISTS_WANTED, ROUND_EVENTS};
use crate::pod::instance::event_count;
use crate::pod::instance::served::serial_after;
use crate::pod::instance::worker::{LocalPin, Worker};

/// Up to where every host has flushed a list, which the caller has up to `from`; begins a round up to `reclaimable` if
/// there is none. Never waits. The request is in the list's record, so that an adopter of the list goes on with it.
pub(in crate::pod) fn flushed_until<M: Memory>(
    worker: &Worker<M>,
    record: WorkerRecord,
    from: Position,
    reclaimable: Position,
) -> Result<Position> {
    let mem = worker.mem();
    stand_in(worker);
    let [_, to, _, number] = record.flush_request();
    match number.get(mem) {
        0 if from == reclaimable || from.chunk == 0 => Ok(from),
        // A round spans an entry that is not gone: that entry keeps the head before the round's end, and so the end in
        // the list.
        0 if has_nothing(worker, record, from, reclaimable)? => Ok(reclaimable),
        0 => begin(worker, record, from, reclaimable).map(|()| from),
        begun if is_complete(worker, begun) => {
            // With the next fence: before anything of it is freed, or is taken and published, and before the list
            // begins anew. If the round is found complete again before then, it still is.
            number.set_lazily(mem, 0);
            mem.write_back(number.offset(), 8);
            let to = Position::decode(to.get(mem));
            Ok(if leads_to(worker, record, from, to)? {
                match leads_to(worker, record, to, reclaimable)? {
                    true => to,
                    false => reclaimable,
                }
            } else {
                from
            })
        }
        _ => (worker.pod().hooks().inner.recover_dead)(worker).map(|()| from),
    }
}

/// Whether all entries of a list between two positions are gone.
fn has_nothing<M: Memory>(
    worker: &Worker<M>,
    record: WorkerRecord,
    from: Position,
    to: Position,
) -> Result<bool> {
    Ok(parts(worker, record, from, to)?
        .iter()
        .all(|&(_, which)| which == 0))
}

/// Whether a list goes on from one position to another. A request that is older than the head may end elsewhere.
fn leads_to<M: Memory>(
    worker: &Worker<M>,
    record: WorkerRecord,
    mut from: Position,
    to: Position,
) -> Result<bool> {
    let (_, tail) = retire::span(worker, record)?;
    let mut chunks_left = retire::chunks_max(worker)?;
    while from.chunk != 0 && from.chunk != to.chunk {
        if from.chunk == tail.chunk {
            return Ok(false);
        }
        from = retire::next_position(worker, from, &mut chunks_left)?;
    }
    Ok(from.chunk != 0 && from.index <= to.index)
}

fn begin<M: Memory>(worker: &Worker<M>, record: WorkerRecord, from: Position, to: Position) -> Result<()> {
    let mem = worker.mem();
    let request = record.flush_request();
    let (process, generation) = (worker.pod().index(), worker.pod().generation);
    // A worker that dies in here must not leave an older round's number beside this request: an adopter would take that
    // round, which is complete, for this request's.
    mem.fence();
    mem.must_be_in_memory(request[3].offset(), 8);
    let serial = serial_after(request[2].get(mem), process, generation);
    // This process's background thread must not follow the request: it may be over by then.
    worker.pod().served.note(record, serial);
    for (word, value) in request.iter().zip([from.encode(), to.encode(), serial]) {
        word.set(mem, value);
    }
    if !mutant::is(Mutant::RequestNotWrittenBack) {
        // Complete with what is flushed, before the round begins.
        mem.write_back(request[0].offset(), 24);
    }
    if !mutant::is(Mutant::OwnLinesNotFlushed) {
        flush_between(worker, record == worker.record(), from, to)?;
    }
    // PAIRS WITH: pod::reclaim::flush::FlushServer::tick
    let round = FLUSH_ROUND.fetch_add(mem, 1) + 1;
    event_count::notify_waiting(mem, ROUND_EVENTS);
    // Written back at any time: if it is lost with its host, another round is begun.
    request[3].set_lazily(mem, round << BEGINNER_BITS | u64::from(worker.pod().index()));
    Ok(())
}

/// Low bits of a request's last word: the process that began it, and so has flushed already.
const BEGINNER_BITS: u32 = 16;

/// A number that differs from an earlier one if the epoch or a flush round has moved on since.
///
/// Cost: two sync loads, and one for each process.
pub(in crate::pod) fn reached<M: Memory>(worker: &Worker<M>) -> u64 {
    let mem = worker.mem();
    let flushed = (0..worker.geometry().parameters.processes)
        .map(|index| ProcessRecord::new(worker.geometry(), index).flushed().load(mem));
    [EPOCH.load(mem), FLUSH_ROUND.load(mem)]
        .into_iter()
        .chain(flushed)
        .fold(0, u64::wrapping_add)
}

/// Whether all living processes have flushed. The caller need not have begun the round: it may have adopted the list.
fn is_complete<M: Memory>(worker: &Worker<M>, number: u64) -> bool {
    let (round, beginner) = (
        number >> BEGINNER_BITS,
        number as u32 & ((1 << BEGINNER_BITS) - 1),
    );
    let asks = mutant::is(Mutant::RoundOfTheAsker);
    let flushed_already = if asks { worker.pod().index() } else { beginner };
    (0..worker.geometry().parameters.processes)
        .filter(|&index| index != flushed_already)
        .all(|index| {
            let record = ProcessRecord::new(worker.geometry(), index);
            let state = State::decode(record.state().load(worker.mem()));
            // PAIRS WITH: pod::reclaim::flush::FlushServer::tick, pod::instance::join::introduce
            state.phase == Phase::Free
                || mutant::is(Mutant::RoundNotAwaited)
                || record.flushed().load(worker.mem()) >= round
        })
}

/// Drops the lines of all objects in a list between two positions, which is the caller's if `is_own`. The list stays as
/// it is meanwhile: its owner waits.
fn flush_between<M: Memory>(
    worker: &Worker<M>,
    is_own: bool,
    mut from: Position,
    to: Position,
) -> Result<()> {
    let mem = worker.mem();
    let mut chunks_left = retire::chunks_max(worker)?;
    renew_classes(worker);
    while from.chunk != 0 {
        worker.check("a flush request", from.chunk, CHUNK_BYTES)?;
        let is_last = from.chunk == to.chunk;
        for index in from.index..retire::count_in(worker, from.chunk, to) {
            let word = entry(from.chunk, index).0;
            let object = if is_own {
                word.get(mem)
            } else {
                word.peek_speculative(mem)
            };
            if says_gone(object) {
                continue;
            }
            if may_be_extent(worker, object) {
                // First its lines that are read through the cache.
                (worker.pod().hooks().extent_lines)(worker, object, &mut |line| mem.invalidate(line, LINE))?;
            }
            mem.invalidate(object, place_of(worker, object)?.capacity());
        }
        if is_last {
            break;
        }
        from = retire::next_position(worker, from, &mut chunks_left)?;
    }
    mem.fence();
    Ok(())
}

/// Serves the rounds that others have begun and withdraws the announcements of idle workers, if this process's
/// background thread is dead.
fn stand_in<M: Memory>(worker: &Worker<M>) {
    let flushed = ProcessRecord::new(worker.geometry(), worker.pod().index()).flushed();
    if !worker.pod().has_lost_flush_server() {
        return;
    }
    match flushed.load(worker.mem()) < FLUSH_ROUND.load(worker.mem()) {
        true => FlushServer::default().tick(worker, 1),
        // No round begins while these hold the epoch back.
        false => withdraw_idle(worker, &pins(worker)),
    }
}

/// What a process's background thread remembers.
#[derive(Debug, Default)]
pub struct FlushServer {
    round: u64,
    quiet: Quiet,
    /// The epoch, and how often lists were wanted, in the last tick.
    reached: [u64; 2],
    /// Ticks in a row that found nothing new.
    idle: u32,
}

/// Ticks that find nothing new before a background thread is idle.
const IDLE_AFTER: u32 = 32;

impl FlushServer {
    /// The caller's thread is its process's background thread from now on.
    pub fn begin<M: Memory>(worker: &Worker<M>) -> Self {
        worker.pod().flush_server_is(Some(worker));
        Self::default()
    }

    /// It is no longer.
    pub fn end<M: Memory>(worker: &Worker<M>) {
        worker.pod().flush_server_is(None);
    }

    /// If the thread has found nothing for a while, it is about to sleep until there is something to do; to be called
    /// before a tick.
    ///
    /// Cost: as [`event_count::prepare_wait`].
    pub fn prepare_wait<M: Memory>(&self, worker: &Worker<M>) -> Option<(u64, u32)> {
        (self.idle >= IDLE_AFTER).then(|| event_count::prepare_wait(worker.mem(), ROUND_EVENTS))
    }

    /// Serves the rounds of others and manages the announcements of this process's idle workers; `ticks` since the last
    /// call.
    pub fn tick<M: Memory>(&mut self, worker: &Worker<M>, ticks: u32) {
        let mem = worker.mem();
        // PAIRS WITH: pod::reclaim::flush::begin
        let round = FLUSH_ROUND.load(mem);
        let reached = [EPOCH.load(mem), LISTS_WANTED.load(mem)];
        let is_new = round != self.round || std::mem::replace(&mut self.reached, reached) != reached;
        self.idle = if is_new { 0 } else { self.idle.saturating_add(1) };
        if round != self.round {
            let flushed = ProcessRecord::new(worker.geometry(), worker.pod().index()).flushed();
            serve_all(worker, flushed, round);
            // PAIRS WITH: pod::reclaim::flush::is_complete
            flushed.store(mem, round);
            self.round = round;
        }
        let pins = pins(worker);
        withdraw_idle(worker, &pins);
        // A damaged pool is reported to the threads that use it.
        let _ = self.quiet.take_over(worker, &pins, ticks);
    }
}

/// Serves what all workers have requested. The round is acknowledged after that.
fn serve_all<M: Memory>(worker: &Worker<M>, flushed: SyncWord, round: u64) {
    mutant::also(Mutant::AcknowledgedEarly, || flushed.store(worker.mem(), round));
    for index in 0..worker.pod().workers_high() {
        serve(worker, index);
    }
}

fn serve<M: Memory>(worker: &Worker<M>, index: u32) {
    let mem = worker.mem();
    let served = &worker.pod().served;
    let record = WorkerRecord::new(worker.geometry(), index);
    let request = record.flush_request();
    // The serial first: a request that is written meanwhile belongs to a later round, and is seen again then.
    let serial = request[2].peek(mem);
    let (from, to) = (request[0].peek(mem), request[1].peek(mem));
    if !served.contains(record, serial) {
        // A request that is over may lead anywhere; what can be found of it is flushed, which does no harm.
        let _ = flush_between(worker, false, Position::decode(from), Position::decode(to));
        served.note(record, serial);
    }
}

/// The pins that the background thread manages: this process's workers.
fn pins<M: Memory>(worker: &Worker<M>) -> Vec<Arc<LocalPin>> {
    match worker.pod().local.lock() {
        Ok(all) => all.iter().filter_map(Weak::upgrade).collect(),
        Err(_) => Vec::new(),
    }
}

/// Withdraws the announcements of this process's workers that read nothing, once the epoch has moved on.
fn withdraw_idle<M: Memory>(worker: &Worker<M>, pins: &[Arc<LocalPin>]) {
    let mem = worker.mem();
    for pin in pins {
        // PAIRS WITH: pod::instance::worker::enter_incoherent
        let announced = pin.announced.load();
        if announced == IDLE || announced == pin.record.epoch().load(mem) {
            continue;
        }
        // PAIRS WITH: pod::instance::worker::Worker::unpin, pod::instance::worker::disown
        if pin.active.exchange(0, 2) || mutant::is(Mutant::BusyWithdrawn) {
            // The end of its last operation, too: see `Worker::enter_incoherent`.
            pin.record.write_back_operation(mem);
            mem.fence();
            pin.record.expect_end_in_memory(mem);
            // PAIRS WITH: pod::instance::advance::least
            pin.record.announced().store(mem, IDLE);
            // PAIRS WITH: pod::instance::worker::enter_incoherent
            pin.announced.store(IDLE);
            mem.tells_own_process();
            // PAIRS WITH: pod::instance::worker::enter_incoherent, pod::instance::worker::disown
            pin.active.store(0);
        } else {
            // NO PAIR: hint
            pin.refresh.store(1);
        }
    }
}
