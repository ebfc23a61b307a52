//! Named crash points: places where the crash tests end the process with `kill -9`.
//!
//! Without the feature `crash-points` a point does nothing. With it, the environment variable `CENOTE_CRASH=name:n`
//! kills the process when it passes the point of that name for the n-th time. `CENOTE_STOP=name:n` stops the process
//! there instead, until it is continued; `CENOTE_END=name:n` ends a thread named `ends` there, and no other. A name
//! that no point has ends the process with status 2. `CENOTE_CRASH_LOG=file` appends the name of each point to a file
//! when it is first passed, so that tests can assert that all were reached.

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
    OpenClaimed = "open.claimed", "a process of a host has claimed a place, and has not written who it is";
    OpenAlive = "open.alive", "the process entry says alive, no worker attached";
    AttachClaimed = "attach.claimed", "a worker record is claimed, its announcement is not set yet";
    DropMarked = "drop.marked", "a structure is marked as dropped, and nobody is told";
    DropClaimed = "drop.claimed", "a worker has claimed a dropped structure";
    DropTaken = "drop.taken", "a dropped structure is taken apart, its header still there";
    DropUnlinked = "drop.unlinked", "the header of a dropped structure is retired, its entry not free yet";
    RepairNamed = "repair.named", "the pool names its repairer, which has not counted the others yet";
    RepairAlone = "repair.alone", "nobody else has the pool open and nobody can join it, nothing is repaired";
    RepairDone = "repair.done", "all is repaired, the pool still names its repairer";
    LockTaken = "lock.taken", "the allocator's lock is held, nothing is logged";
    RedoWritten = "redo.written", "log entries are written, the commit is not";
    RedoCommitted = "redo.committed", "the log is committed, nothing applied";
    RedoHalfApplied = "redo.half-applied", "some of the log is applied";
    RedoApplied = "redo.applied", "all is applied, the log is still committed";
    RedoCleared = "redo.cleared", "the log is cleared, the lock is still held";
    GrowReserved = "grow.reserved", "the file has grown, the frames are not committed";
    TrimMarked = "trim.marked", "a free block is marked a hole, its bytes are still reserved";
    TrimPunched = "trim.punched", "the bytes of a hole are given back, its word does not say so yet";
    TrimReserved = "trim.reserved", "the bytes of a hole are reserved again, it is still a hole";
    SlabCells = "slab.cells", "a new slab block is owned, its cells are not initialised";
    SlabReady = "slab.ready", "a new slab block is ready, nothing is taken from it";
    SlabIntent = "slab.intent", "the reserve names cells that are about to be taken";
    SlabTaken = "slab.taken", "cells are taken into the reserve";
    SlabRelease = "slab.release", "an exhausted block is released, the reserve still names it";
    AdoptIntent = "adopt.intent", "an orphaned block is about to be adopted";
    AdoptDone = "adopt.done", "an orphaned block is adopted, nothing is taken from it";
    AllocNew = "alloc.new", "the operation record names an object, which is still in the reserve";
    AllocTaken = "alloc.taken", "an object is allocated and not written";
    PublishIntent = "publish.intent", "the operation record is complete, the slot unchanged";
    PublishClaimed = "publish.claimed", "the slot of a removed key is claimed for a new one, and does not bind it yet";
    PublishDone = "publish.done", "the slot is changed, the operation not finished";
    PublishCounted = "publish.counted", "the length is counted, the old object not retired";
    PublishSecondary = "publish.secondary", "the slot is changed, the further old object not retired";
    RetireMarked = "retire.marked", "an extent's table word says retired, the list does not";
    RetirePushed = "retire.pushed", "the list says retired, the record still names the object";
    RetireChunk = "retire.chunk", "a chunk for the list is allocated, not linked";
    RetireLinked = "retire.linked", "a chunk is linked, the tail not moved";
    RetireSpare = "retire.spare", "the spare chunk is linked, the tail is not moved, and the record still calls the chunk spare";
    CollectDecided = "collect.decided", "it is decided that objects are freed, their entries may still be in the list";
    CollectFreed = "collect.freed", "one object of a batch is freed, others are not";
    CollectChunk = "collect.chunk", "the head has left an exhausted chunk, which is in no list";
    TakeoverWanted = "takeover.wanted", "a worker's list is marked as wanted, and the allocator's lock is held";
    TakeoverDone = "takeover.done", "a list is taken over, the allocator's lock is still held";
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
    MergeBegun = "ordered.merge", "a node's parent says that the node is being merged, nothing else does";
    MergeFrozen = "ordered.frozen", "a node is frozen, its entries are in no other node";
    LowerBegun = "ordered.lower", "the root says that its only child takes its place, nothing else does";
    LowerFrozen = "ordered.lower-frozen", "the only child of the root is frozen, the root still refers to it";
    MergeJoined = "ordered.joined", "a node's entries have moved to the node before it, its parent still knows it";
    NameIntent = "name.intent", "a map is built, its name not published";
    NameDone = "name.done", "a map's name is published, the record not cleared";
    NamingReadied = "rename.readied", "a lock without a name is ready for its next name";
    NamingWritten = "rename.written", "a lock's name is written, the lock does not count as named yet";
    NamingVacated = "rename.vacated", "a lock's name is removed, the remover still has the lock";
    HeldTaken = "held.taken", "a user's lock is owned, its owner does not know yet";
    HeldSeized = "held.seized", "a user's lock is taken from a dead owner, its new owner does not know yet";
    HeldNoted = "held.noted", "the owner has left a note";
    HeldForgotten = "held.forgotten", "the note is withdrawn, the lock is not unlocked";
    HeldNotNotified = "held.not-notified", "a lock, or a place in its queue, is given up, the waiters that sleep for it have not been woken";
    CondvarUnlocked = "condvar.unlocked", "a waiter for a condition variable has prepared to wait, and unlocked";
    QueueIntent = "queue.intent", "a slot says that it is queued, and is not in the queue";
    QueueJoined = "queue.joined", "a slot is in the queue, and has not checked whether it has to wait";
    QueueLeft = "queue.left", "a slot has left, and is still in the queue";
    QueueUnlinked = "queue.unlinked", "a slot that has left is in no queue, and is not at rest";
    QueueRelinked = "queue.relinked", "a slot stands behind one further in front, the slots between are not at rest";
    QueueHandoff = "queue.handoff", "the first waiter of a queue has set *handoff*";
    QueuePassed = "queue.passed", "nobody alive is in front, the dead slots there are not at rest";
    QueueHalfPassed = "queue.half-passed", "nobody alive is in front, some of the dead slots there are at rest";
    QueueEnded = "queue.ended", "a queue of dead workers is taken off its lock, its slots are not at rest";
    ReaderAnnounced = "shared.announced", "a reader is announced, and has not checked for a writer";
    WriterWaits = "shared.writer-waits", "a writer is named, and has not checked for readers";
    RecoverDrained = "recover.drained", "what a dead process wrote is drained from its host's cache, its death is not declared";
    DirectoryDecided = "dlock.decided", "a directory lock's entry is about to change, nothing is written";
    DirectoryWritten = "dlock.written", "the entry's other copy is written, and is not valid yet";
    DirectoryChanged = "dlock.changed", "the entry is changed, its lock is still held";
    DirectoryNotNotified = "dlock.not-notified", "the entry is changed, the nodes that it concerns have not been notified";
    DirectoryHeld = "dlock.held", "a directory lock is held to write, its holder does not know yet";
    RecoverHeld = "recover.held", "a dead worker's locks are recovered";
    RecoverClaimed = "recover.claimed", "a dead process is claimed for recovery";
    RecoverStep = "recover.step", "a registered step of a dead worker's recovery is done";
    GroupLocked = "group.locked", "a group's lock is held, nothing is begun";
    GroupWritten = "group.written", "an event and what it changes are written, not committed";
    GroupCommitted = "group.committed", "an event is committed, nothing of it is applied";
    GroupEvent = "group.event", "an event is in the log, the log does not count it yet";
    GroupMember = "group.member", "an event's member is changed, the event is not counted";
    GroupCounted = "group.counted", "an event is counted, its commit is not cleared";
    GroupCleared = "group.cleared", "an event is complete, nobody has been woken";
    GroupAnnouncingDeaths = "group.announcing-deaths", "a host's death is in the log, the deaths of its members are not yet";
    RecoverClaim = "recover.claim-cleared", "a dead operation's claim is cleared, its outcome not recorded";
    RecoverVerdict = "recover.verdict", "a dead operation's outcome is decided, not acted on";
    RecoverOperation = "recover.operation", "a dead operation is finished";
    ReserveFreed = "reserve.freed", "the cells of a block that a worker had reserved are free, the worker still owns the block";
    RecoverReserve = "recover.reserve", "a dead worker's reserves are returned";
    RecoverWorker = "recover.worker", "a dead worker is recovered";
    RecoverProcess = "recover.process", "all workers are recovered, the process entry still claimed";
    TasksClaimed = "tasks.claimed", "a chunk of tasks is claimed, nothing of it is done";
    TasksTakenOver = "tasks.taken-over", "a dead worker's chunk is taken over, nothing of it is done since";
    TasksHelped = "tasks.helped", "a worker has claimed the other end of a chunk that another one works on";
    TasksWritten = "tasks.written", "a task's result is written, its slot unchanged";
    TasksCommitted = "tasks.committed", "a task's result is published, its claim unchanged";
    ExtentFreed = "extent.freed", "a retired extent is freed with its batch";
    HostUp = "host.up", "a host is up and has no agent";
    HomeClaimed = "host.home-claimed", "a generation of a host has a home machine, nobody has joined it";
    AgentTaken = "host.agent", "a host has an agent, which has not sent a heartbeat";
    Declared = "host.declared", "a dead process is declared dead and not recovered";
    HostLeaving = "host.leaving", "a host is leaving, its agent still there";
    MonitorLeads = "monitor.leads", "a monitor leads, and has polled no host";
    MonitorSuspected = "monitor.suspected", "a host is suspected, its fence has not begun";
    MonitorFenced = "monitor.fenced", "a host is certainly down, its generation has not moved";
    MonitorMoved = "monitor.moved", "a host's generation has moved, nothing of it is recovered";
    ObjectSlot = "object.slot", "a slot refers to an object that is about to be made";
    ObjectCounted = "object.counted", "an object's bytes are counted, it is not made";
    ObjectRemoved = "object.removed", "an object is removed, its bytes are still counted";
    ObjectStored = "object.stored", "an object is made, not filled or sealed";
    ObjectNamed = "object.named", "an object has its name, or has lost it to another one; its writer still holds it";
    ObjectUnnamed = "object.unnamed", "an object's name is taken away, and it is not marked as deleted";
    ObjectHeld = "object.held", "a slot holds an object, which has not been checked since";
    ObjectReleasing = "object.releasing", "a slot does not hold its object any more, which may have to be removed";
    ObjectReleased = "object.released", "an object is released, and removed if it had to be; the slot is not free";
    ObjectRecovered = "object.recovered", "a dead process's object is recovered, the table of its slots is still there";
    ObjectEvicted = "object.evicted", "an object is marked as evicted and has its name, or has lost it, and is not removed";
    ObjectHand = "object.hand", "the hand of the eviction has moved, the object is not evicted";
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
    use std::sync::Mutex;

    use once_cell::race::OnceBox;

    use super::Point;

    /// Instead of a signal: the thread ends, and no other.
    const THREAD_ENDS: i32 = 0;

    struct Armed {
        target: Option<(String, u64)>,
        /// What the environment asks for.
        signal: i32,
        log: Option<std::fs::File>,
        passed: Mutex<HashMap<&'static str, u64>>,
    }

    /// A test that names a point that nothing passes would wait for ever.
    fn parse(text: &str) -> Result<Option<(String, u64)>, &'static str> {
        let (name, count) = text.rsplit_once(':').ok_or("no count")?;
        let count = count.parse().map_err(|_| "the count is no number")?;
        match Point::ALL.iter().any(|point| point.name() == name) {
            true => Ok(Some((name.to_owned(), count))),
            false => Err("no crash point has this name"),
        }
    }

    /// What the environment asks for, read once.
    fn armed() -> &'static Armed {
        static ARMED: OnceBox<Armed> = OnceBox::new();
        ARMED.get_or_init(|| {
            let of = |variable| {
                let text = std::env::var(variable).ok()?;
                parse(&text).unwrap_or_else(|why| {
                    eprintln!("{variable}={text}: {why}; expected NAME:COUNT, as publish.done:1");
                    std::process::exit(2);
                })
            };
            let asked = [
                ("CENOTE_CRASH", libc::SIGKILL),
                ("CENOTE_STOP", libc::SIGSTOP),
                ("CENOTE_END", THREAD_ENDS),
            ];
            let mut found = asked.map(|(variable, signal)| (of(variable), signal)).into_iter();
            let (target, signal) = found.find(|(target, _)| target.is_some()).unwrap_or((None, 0));
            let log = std::env::var_os("CENOTE_CRASH_LOG").and_then(|path| {
                std::fs::OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(path)
                    .ok()
            });
            Box::new(Armed {
                target,
                signal,
                log,
                passed: Mutex::new(HashMap::new()),
            })
        })
    }

    pub(in crate::pod) fn pass(point: Point) {
        let armed = armed();
        if armed.target.is_none() && armed.log.is_none() {
            return;
        }
        if armed.signal == THREAD_ENDS && std::thread::current().name() != Some("ends") {
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
            if armed.signal == THREAD_ENDS {
                drop(passed);
                // SAFETY: ends this thread alone, which does not go on.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
            }
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
