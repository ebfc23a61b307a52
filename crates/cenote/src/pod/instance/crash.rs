//! Named crash points: places where the crash tests end the process with `kill -9`.
//!
//! Without the feature `crash-points` a point is nothing. With it, `CENOTE_CRASH=name:n` in the environment kills
//! the process when it passes the point of that name for the n-th time, and `CENOTE_CRASH_LOG=file` appends the
//! name of each point to a file when it is first passed, so that tests can assert that all were reached. `CENOTE_STOP=name:n` stops the
//! process there instead, until it is continued.

macro_rules! points {
    ($($variant:ident = $name:literal, $what:literal;)*) => {
        /// A place where a crash is tested.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Point { $(#[doc = $what] $variant,)* }

        impl Point {
            /// All of them.
            pub const ALL: &'static [Point] = &[$(Point::$variant,)*];

            /// The name used in the environment.
            pub const fn name(self) -> &'static str {
                match self { $(Point::$variant => $name,)* }
            }
        }
    };
}

points! {
    OpenLocked = "open.locked", "the liveness lock is held, the process entry still free";
    OpenClaimed = "open.claimed", "a place is claimed by a process of a host, which has not said who it is";
    OpenAlive = "open.alive", "the process entry says alive, no worker attached";
    AttachClaimed = "attach.claimed", "a worker record is claimed, its announcement not yet set";
    RepairNamed = "repair.named", "the pool says who repairs it, who did not see that is not counted";
    RepairAlone = "repair.alone", "nobody else has the pool open and nobody can join it, nothing is repaired";
    RepairDone = "repair.done", "all is repaired, the pool says still who repairs it";
    LockTaken = "lock.taken", "the allocator's lock is held, nothing logged";
    RedoWritten = "redo.written", "log entries are written, the commit is not";
    RedoCommitted = "redo.committed", "the log is committed, nothing applied";
    RedoHalfApplied = "redo.half-applied", "some of the log is applied";
    RedoApplied = "redo.applied", "all is applied, the log still committed";
    RedoCleared = "redo.cleared", "the log is cleared, the lock still held";
    GrowReserved = "grow.reserved", "the file has grown, the frames are not committed";
    TrimMarked = "trim.marked", "a free block is a hole, whose bytes are reserved still";
    TrimPunched = "trim.punched", "the bytes of a hole are given back, and its word does not say so";
    TrimReserved = "trim.reserved", "the bytes of a hole are reserved again, and it is a hole still";
    SlabCells = "slab.cells", "a new slab block is owned, its cells are not initialised";
    SlabReady = "slab.ready", "a new slab block is ready, nothing taken from it";
    SlabIntent = "slab.intent", "cells are about to be taken, the reserve says so";
    SlabTaken = "slab.taken", "cells are taken into the reserve";
    SlabRelease = "slab.release", "an exhausted block is released, the reserve still names it";
    AdoptIntent = "adopt.intent", "an orphaned block is about to be adopted";
    AdoptDone = "adopt.done", "an orphaned block is adopted, nothing taken";
    AllocNew = "alloc.new", "an object is named in the operation record, still in the reserve";
    AllocTaken = "alloc.taken", "an object is allocated and not written";
    PublishIntent = "publish.intent", "the operation record is complete, the slot unchanged";
    PublishClaimed = "publish.claimed", "the slot of a removed key is claimed for a new one, which it does not bind";
    PublishDone = "publish.done", "the slot is changed, the operation not finished";
    PublishCounted = "publish.counted", "the length is counted, the old object not retired";
    PublishSecondary = "publish.secondary", "the slot is changed, the further old object not retired";
    RetireMarked = "retire.marked", "an extent's table word says retired, the list does not";
    RetirePushed = "retire.pushed", "the list says retired, the record still names it";
    RetireChunk = "retire.chunk", "a chunk for the list is allocated, not linked";
    RetireLinked = "retire.linked", "a chunk is linked, the tail not moved";
    RetireSpare = "retire.spare", "the spare chunk is linked, the tail not moved, and the record says that it is spare";
    CollectDecided = "collect.decided", "it is decided that objects are freed, their entries may still be in the list";
    CollectFreed = "collect.freed", "an object of a batch is freed, others are not";
    CollectChunk = "collect.chunk", "the head has left an exhausted chunk, which is in no list";
    TakeoverWanted = "takeover.wanted", "a worker's list is said to be wanted, and the allocator's lock is held";
    TakeoverDone = "takeover.done", "a list is taken over, the allocator's lock is held";
    DrainedLine = "drain.unlinked", "a chain line is taken out of a freed level, not freed";
    EpochHalf = "epoch.half", "the epoch is advanced, its replicas are not";
    LinkIntent = "link.intent", "a chain line is allocated, not linked";
    LinkDone = "link.done", "a chain line is linked, the record not cleared";
    GrowLevel = "resize.allocated", "a new level is allocated, not linked";
    GrowLinked = "resize.linked", "a new level is linked, the record not cleared";
    MigrateFrozen = "resize.frozen", "a slot is frozen, not copied";
    MigrateCopied = "resize.copied", "a slot is copied, not marked moved";
    MigrateChunk = "resize.chunk", "a chunk of groups is moved, not marked done";
    RootClaimed = "resize.claimed", "a finished level's retirement is claimed";
    RootMoved = "resize.root", "the root has moved, its replicas have not";
    RootDone = "resize.replicas", "the replicas have moved, the old level is not retired";
    OrderedSplit = "ordered.split", "a node is split, its parent does not know the new one";
    MergeBegun = "ordered.merge", "a node's parent says that it is merged, and nothing else does";
    MergeFrozen = "ordered.frozen", "a node is frozen, its entries only its own";
    LowerBegun = "ordered.lower", "the root says that its only child takes its place, and nothing else does";
    LowerFrozen = "ordered.lower-frozen", "the only child of the root is frozen, and the root still refers to it";
    MergeJoined = "ordered.joined", "a node's entries are the node's before it, and its parent knows it still";
    NameIntent = "name.intent", "a map is built, its name not published";
    NameDone = "name.done", "a map's name is published, the record not cleared";
    NamingReadied = "naming.readied", "an object without a name is ready for its next one";
    NamingWritten = "naming.written", "a lock's name is written, and the lock is not counted as named";
    NamingVacated = "naming.vacated", "a lock's name is removed, and the remover has the lock";
    HeldTaken = "held.taken", "a lock of a user's is owned, its owner has not been told";
    HeldSeized = "held.seized", "the same, and the last owner had died";
    HeldNoted = "held.noted", "the owner has left a note";
    HeldForgotten = "held.forgotten", "the note is withdrawn, the lock not unlocked";
    HeldNotNotified = "held.untold", "a lock, or a place in its queue, is given up, and who sleeps for it has not been woken";
    CondvarUnlocked = "condvar.unlocked", "who waits for a condition variable has said so, and unlocked";
    QueueIntent = "queue.intent", "a slot says that it is queued, and is not in the queue";
    QueueJoined = "queue.joined", "a slot is in the queue, whether it has to wait not seen";
    QueueLeft = "queue.left", "a slot has left, and is in the queue";
    QueueUnlinked = "queue.unlinked", "a slot that has left is in no queue, and not at rest";
    QueueRelinked = "queue.relinked", "a slot stands behind somebody further in front, those between are not at rest";
    QueueFirst = "queue.first", "the foremost of a queue has said that it goes first";
    QueuePassed = "queue.passed", "nobody alive is in front, those who are not have not been put at rest";
    QueueHalfPassed = "queue.half-passed", "some of them have";
    QueueEnded = "queue.ended", "a queue of the dead is taken off its lock, its slots are not at rest";
    ReaderAnnounced = "shared.announced", "a reader is announced, whether somebody writes not seen";
    WriterWaits = "shared.writer", "a writer is named, and has not looked for readers";
    RecoverDrained = "recover.drained", "what a dead process has left in its host's cache is in memory, its death is not declared";
    RecoverHeld = "recover.held", "what a dead worker held of users' locks is settled";
    RecoverClaimed = "recover.claimed", "a dead process is claimed for recovery";
    RecoverStep = "recover.step", "a registered step of a dead worker's recovery is done";
    GroupLocked = "group.locked", "a group's lock is held, nothing begun";
    GroupWritten = "group.written", "an event and what it changes are written down, not committed";
    GroupCommitted = "group.committed", "an event is committed, nothing of it applied";
    GroupEvent = "group.event", "an event is in the log, which does not count it yet";
    GroupMember = "group.member", "an event's member is changed, the event not counted";
    GroupCounted = "group.counted", "an event is counted, its commit not cleared";
    GroupCleared = "group.cleared", "an event is complete, nobody has been woken";
    GroupBurying = "group.announcing_deaths", "a host's death is in the log, not yet those of its members";
    RecoverClaim = "recover.claim", "a dead operation's claim is cleared, its outcome not recorded";
    RecoverVerdict = "recover.verdict", "a dead operation's outcome is decided, not acted on";
    RecoverOperation = "recover.operation", "a dead operation is finished";
    ReserveFreed = "reserve.freed", "the cells that a worker had reserved of a block are free, the block is still its own";
    RecoverReserve = "recover.reserve", "a dead worker's reserves are returned";
    RecoverWorker = "recover.worker", "a dead worker is recovered";
    RecoverProcess = "recover.process", "all workers are recovered, the process entry still claimed";
    TasksClaimed = "tasks.claimed", "a chunk of tasks is claimed, nothing of it done";
    TasksTakenOver = "tasks.taken-over", "a dead worker's chunk is taken over, nothing of it done since";
    TasksHelped = "tasks.helped", "a chunk that another works on is claimed from its other end";
    TasksWritten = "tasks.written", "a task's result is written, its slot unchanged";
    TasksCommitted = "tasks.committed", "a task's result is published, its claim unchanged";
    BigFreed = "big.freed", "a retired extent is freed, with its batch";
    HostUp = "host.up", "a host is up and has no agent";
    HomeClaimed = "host.settled", "a generation of a host is on a machine, nobody of it has joined";
    AgentTaken = "host.agent", "a host has an agent, which has not beaten";
    Declared = "host.declared", "a dead process is declared dead and not recovered";
    HostLeaving = "host.leaving", "a host is leaving, its agent still there";
    MonitorLeads = "monitor.leads", "a monitor leads, and has looked at nobody";
    MonitorSuspected = "monitor.suspected", "a host is to be fenced, and nothing was done about it";
    MonitorFenced = "monitor.fenced", "a host is certainly down, its generation has not moved";
    MonitorMoved = "monitor.moved", "a host's generation has moved, nothing of it is recovered";
    DetachDone = "detach.done", "a worker is detached, its process entry still alive";
}

/// Passes a crash point.
#[inline(always)]
pub fn crash_point(point: Point) {
    #[cfg(feature = "crash-points")]
    armed::pass(point);
    #[cfg(not(feature = "crash-points"))]
    let _ = point;
}

#[cfg(feature = "crash-points")]
mod armed {
    use std::collections::HashMap;
    use std::io::Write;
    use std::sync::{Mutex, OnceLock};

    use super::Point;

    struct Armed {
        target: Option<(String, u64)>,
        /// What is done there.
        signal: i32,
        log: Option<std::fs::File>,
        passed: Mutex<HashMap<&'static str, u64>>,
    }

    fn armed() -> &'static Armed {
        static ARMED: OnceLock<Armed> = OnceLock::new();
        ARMED.get_or_init(|| {
            let of = |variable| {
                let text = std::env::var(variable).ok()?;
                let (name, count) = text.rsplit_once(':')?;
                Some((name.to_owned(), count.parse().ok()?))
            };
            let (target, signal) = match of("CENOTE_CRASH") {
                None => (of("CENOTE_STOP"), libc::SIGSTOP),
                some => (some, libc::SIGKILL),
            };
            let log = std::env::var_os("CENOTE_CRASH_LOG").and_then(|path| {
                std::fs::OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(path)
                    .ok()
            });
            Armed {
                target,
                signal,
                log,
                passed: Mutex::new(HashMap::new()),
            }
        })
    }

    pub(in crate::pod) fn pass(point: Point) {
        let armed = armed();
        if armed.target.is_none() && armed.log.is_none() {
            return;
        }
        let name = point.name();
        let mut passed = armed
            .passed
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let count = passed.entry(name).or_insert(0);
        *count += 1;
        if *count == 1
            && let Some(mut log) = armed.log.as_ref()
        {
            let _ = writeln!(log, "{name}");
        }
        if armed
            .target
            .as_ref()
            .is_some_and(|(target, nth)| target == name && *count == *nth)
        {
            // SAFETY: ends or stops this very process; this thread first, so that it does not go on.
            unsafe { libc::raise(armed.signal) };
            if armed.signal == libc::SIGKILL {
                loop {
                    std::thread::park();
                }
            }
        }
    }
}
