//! Mutants: faults planted in the library, to prove that its simulator finds such faults. For tests alone.
//!
//! A mutant leaves out, moves or weakens one step that a protocol needs, by one `mutant::is(…)` at that step. Without the
//! feature `mutants` there are none: [`is`] is `false` when the library is compiled. With it, [`choose`] plants one in all
//! that the calling thread runs from then on; other threads are as they were.
//!
//! `cargo xtask mutants` runs them all; `docs/mutants.md` says which checker sees each, and how to add one.

macro_rules! mutants {
    ($($variant:ident = $name:literal, $what:literal;)*) => {
        /// A planted fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant { $(#[doc = $what] $variant,)* }

        #[cfg(any(test, feature = "mutants"))]
        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$variant,)*];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Mutant::$variant => $name,)* }
            }

            /// What it does wrong.
            pub const fn what(self) -> &'static str {
                match self { $(Mutant::$variant => $what,)* }
            }
        }
    };
}

mutants! {
    PlansForgotten = "plans-forgotten", "who takes the execution of exchanges over does not finish what was planned";
    ExecutedUnplanned = "executed-unplanned", "an exchange is executed without having been written down first";
    WordPlannedTwice = "word-planned-twice", "two changes of one word are planned in one pass";
    QuiescedEarly = "quiesced-early", "who asks that all requests be done is answered before they are";
    DeadNotQuiesced = "dead-not-quiesced", "who finds somebody dead does not wait until that one's requests are done";
    PersistWithoutFence = "persist-without-fence", "`persist` begins a write-back and does not wait for it";
    ObjectNotWrittenBack = "object-not-written-back", "a small object is published without having been written back";
    ObjectPartlyWrittenBack = "object-partly-written-back", "of an object of several lines only the first is written back";
    LineNotWrittenBack = "line-not-written-back", "a chain line is linked without its zeroes having been written back";
    RecordNotWrittenBack = "record-not-written-back", "the slot is exchanged before the operation record is written back";
    CountNotWrittenBack = "count-not-written-back", "a worker's count of keys stays in its host's cache";
    CountNotDropped = "count-not-dropped", "a handle begins with a cached count, although another host may have had its place";
    PublishedNameKept = "published-name-kept", "an object that is published stays named as one that is not";
    AuxiliaryNotNamed = "auxiliary-not-named", "an auxiliary object is linked without the record saying where";
    AuxiliaryForgotten = "auxiliary-forgotten", "recovery forgets an auxiliary object that was not linked";
    TagZero = "tag-zero", "a retired object is tagged with epoch 0";
    EpochRuleWithoutOne = "epoch-rule-without-one", "an object is reclaimable when its tag is below the least announcement, not one more";
    EntryNotWrittenBack = "entry-not-written-back", "the tail of a retired list moves before its entry is written back";
    BatchNotNamed = "batch-not-named", "retired objects are freed without the record saying which";
    FreedUnmarked = "freed-unmarked", "retired objects are freed without having been marked";
    FreedEntryKept = "freed-entry-kept", "the entry of an object that is freed stays in the list";
    RecycledEntryKept = "recycled-entry-kept", "the entry of an object that is taken for a new one stays in the list";
    RecycledUnflushed = "recycled-unflushed", "retired objects are taken or freed without a flush round";
    RecycledUnreclaimable = "recycled-unreclaimable", "retired objects are taken or freed whatever their tag";
    DrainForgotten = "drain-forgotten", "a retired level is freed without its chain lines";
    DrainedAhead = "drained-ahead", "who frees a part of a retired level's chain lines says that it has freed one more chain";
    MachineUnasked = "machine-unasked", "who joins a host does not ask whether that is this machine";
    HomeMoved = "home-moved", "an agent makes its machine the home of a generation that has one";
    KilledElsewhere = "killed-elsewhere", "a fence that kills takes hosts of other machines for its own";
    AttachWaits = "attach-waits", "a worker that attaches waits for the allocator's lock, a monitor's too";
    LeftWithPin = "left-with-pin", "the background thread goes on looking after the place of a worker that has left";
    TakenWithoutFence = "taken-without-fence", "where the kernel has no barrier for all, who takes a list over has none of its own";
    TakenWhileHeld = "taken-while-held", "a retired list is taken over while its worker holds it";
    TakeoverNotAwaited = "takeover-not-awaited", "a worker whose list is wanted does not wait until nobody moves it";
    MoveNotCounted = "move-not-counted", "recovery looks through lists without noticing that one was moved";
    AdopterWithoutClaim = "adopter-without-claim", "an adopter takes a vacant record's list, or frees what is in it, without claiming the record";
    AdopterNotInvalidated = "adopter-not-invalidated", "an adopter reads the record as its host's cache has it";
    ChunksNotRefreshed = "chunks-not-refreshed", "an adopter or recoverer reads a list's chunks as its host's cache has them";
    RoundNotAwaited = "round-not-awaited", "memory is reused without waiting for the flush round";
    RoundOfTheAsker = "round-of-the-asker", "who waits for a flush round takes its own host as flushed, although another began the round";
    OwnLinesNotFlushed = "own-lines-not-flushed", "who asks for a flush round does not flush its own cache";
    RequestNotWrittenBack = "request-not-written-back", "a flush request stays in its host's cache";
    AcknowledgedEarly = "acknowledged-early", "a flush round is acknowledged before the lines are flushed";
    BusyWithdrawn = "busy-withdrawn", "the background thread withdraws the announcements of those who read";
    NotCaughtUp = "not-caught-up", "a worker that attaches leaves its replica of the epoch as it was";
    ReplicasNotRaised = "replicas-not-raised", "who advances the epoch does not raise its replicas";
    EpochNotHelped = "epoch-not-helped", "who finds an advance of the epoch begun does not finish it";
    BarrierLeftOut = "barrier-left-out", "who looks at announcements has no barrier executed for readers";
    AnnouncedWithoutFence = "announced-without-fence", "a reader that announces with a fence leaves the fence out";
    ReaderWithoutFence = "reader-without-fence", "a lock's reader is announced by a store that its look at the word may overtake";
    SealUnchecked = "seal-unchecked", "a line of a mailbox is taken for whole without a look at its seal";
    ValueUnpinned = "value-unpinned", "a value that a map hands out is not announced any longer";
    NotAnnounced = "not-announced", "a reader announces nothing";
    RepairUnasked = "repair-unasked", "a worker that attaches does not ask whether somebody repairs the pool";
    RepairUncounted = "repair-uncounted", "who repairs counts who else is there before it says that it repairs";
    AttachNotInvalidated = "attach-not-invalidated", "a worker takes its record over as its host's cache has it";
    StateNotClaimed = "state-not-claimed", "a worker takes a place that another was faster to take";
    JoinCacheKept = "join-cache-kept", "a process joins with what its host's cache holds of the pool";
    LockFromTheLiving = "lock-from-the-living", "who waits for a lock takes it, whether its owner lives or not";
    ReplaySkipped = "replay-skipped", "a dead owner's lock is taken over without its log";
    LogsNotApplied = "logs-not-applied", "recovery reads a record before the logs of the dead are applied";
    ClearedEarly = "cleared-early", "the log is cleared before it is applied";
    CommitWithoutChecksum = "commit-without-checksum", "the commit word of the log has the checksum of no entries";
    ChecksumIgnored = "checksum-ignored", "a log is replayed although its commit word is not that of its entries";
    LogNotWrittenBack = "log-not-written-back", "the log's entries are committed before they are written back";
    AppliedNotWrittenBack = "applied-not-written-back", "a transaction's owned words are not written back";
    SleepUnsaid = "sleep-unsaid", "a client that sleeps by an answer does not say so";
    SleeperNotWoken = "sleeper-not-woken", "the server wakes nobody who sleeps by an answer";
    SleptByHalf = "slept-by-half", "a client sleeps by an answer of which the first word is there";
    SleepersForgotten = "sleepers-forgotten", "who takes the execution of exchanges over wakes nobody whom the last server has answered";
    LeaseUnfenced = "lease-unfenced", "the lease is taken without fencing those who may have it";
    LeaseNotReread = "lease-not-reread", "the lease is taken although somebody has written its word since";
    CellsKept = "cells-kept", "the lines of a new block's cells stay in the cache of who wrote them";
    ClassesKept = "classes-kept", "what a worker remembers of blocks outlives them";
    SpareKept = "spare-kept", "a spare chunk that the list has got stays a spare one";
    ReserveLate = "reserve-late", "cells are taken before the reserve names them";
    NamedLate = "named-late", "an object leaves the reserve before it is named";
    TakenEarly = "taken-early", "an object leaves the reserve before the record that names it is written back";
    ReservedKept = "reserved-kept", "recovery of an operation that happened leaves its new object in the reserve";
    DiscardedLinesKept = "discarded-lines-kept", "an object is given back while its lines stay in the cache";
    ReserveReturnedBlindly = "reserve-returned-blindly", "recovery frees reserved cells without looking whether they were taken";
    RecoveryNotInvalidated = "recovery-not-invalidated", "recovery reads the dead one's record as its host's cache has it";
    RecoveryWithoutClaim = "recovery-without-claim", "recovery goes on although another was faster to claim the record";
    EvidenceSlotAlone = "evidence-slot-alone", "recovery decides an operation by its slot alone";
    EvidenceWithoutLists = "evidence-without-lists", "recovery does not look whether the new object is in a retired list";
    IdleListLeft = "idle-list-left", "a write that finds the pool full leaves the retired lists of idle workers alone";
    EmptyBlocksKept = "empty-blocks-kept", "a write that finds the pool full gives no empty blocks back";
    FullAtOnce = "full-at-once", "a write that finds the pool full has no garbage collected";
    FullUnwaited = "full-unwaited", "a write that finds the pool full does not wait for garbage that would be enough";
    HoleMarkedLate = "hole-marked-late", "bytes are given back before their block says that it is a hole";
    HolePunchedUnreclaimable = "hole-punched-unreclaimable", "the bytes of a hole are given back although somebody may be looking at it";
    HoleLookedInto = "hole-looked-into", "who looks for an orphaned block's free cells does so without a pin";
    HoleNotReserved = "hole-not-reserved", "a hole is filled without its bytes having been reserved again";
    HoleFilledUnlocked = "hole-filled-unlocked", "a hole is filled by one who does not have the trim lock";
    LevelReadCached = "level-read-cached", "who drops a retired level's lines reads its first one through the cache";
    TakenOverUnapplied = "taken-over-unapplied", "the trim lock is taken over from the dead before what they had committed is done";
    NameCached = "name-cached", "names are read as the host's cache has them";
    FirstFailureEnds = "first-failure-ends", "recovery ends at the first structure or worker that cannot be recovered";
    NotifiedUnderClaim = "notified-under-claim", "recovery claims the dead one's record before it tells groups of the death";
    NeverWithdrawn = "never-withdrawn", "the dead one's announcement is not withdrawn";
    LoneDeathIgnored = "lone-death-ignored", "a thread that dies alone counts as alive until its process dies";
    GroupCommitEarly = "group-commit-early", "an event is committed before it is written down";
    GroupNotReplayed = "group-not-replayed", "who takes a group's lock over forgets what was committed";
    GroupCountedEarly = "group-counted-early", "an event is counted before it is in the log";
    GroupMemberKept = "group-member-kept", "an event is appended without what it changes";
    GroupRoomForgotten = "group-room-forgotten", "a join makes no room for the ends of those who are there";
    GroupDeathTwice = "group-death-twice", "a death is told without a look whether it was told already";
    GroupPendingIgnored = "group-pending-ignored", "recovery looks for the dead among a group's members alone, not in what is being appended";
    GroupHostForgotten = "group-host-forgotten", "a member's death is told without that of its host";
    GroupDeathsLeft = "group-deaths-left", "who takes a group's lock over does not go on with the deaths of a host's members";
    EventCountNotWoken = "event-count-not-woken", "an event count is notified, and nobody who sleeps by it is woken";
    WaitNotPrepared = "wait-not-prepared", "who is about to sleep by an event count does not say so";
    GroupJoinNotNotified = "group-join-not-notified", "a member joins, and nobody who waits for events is woken";
    GroupNotifiedEarly = "group-notified-early", "who leaves a group notifies its event count before the event is there";
    GroupNotNotified = "group-not-notified", "recovery does not tell groups";
    DeadNotDrained = "dead-not-drained", "what a dead process has left in its host's cache stays there when its death is declared";
    AttachScansOnce = "attach-scans-once", "a worker that finds all places taken does not ask whether the living have them";
    InstanceByPlace = "instance-by-place", "a worker counts as alive if anybody lives in its process's place";
    MovedForgotten = "moved-forgotten", "a lookup does not mind that a slot has moved after its line was read";
    EvidenceReused = "evidence-reused", "a tombstone is claimed although its remover is in the middle of the removal";
    ClaimLeft = "claim-left", "a claim that is given up stays in its slot";
    DeadClaimKept = "dead-claim-kept", "recovery of an operation that has only claimed leaves the claim";
    ClaimUnconfirmed = "claim-unconfirmed", "a slot that is claimed binds without a further look";
    RivalsIgnored = "rivals-ignored", "who confirms a claim does not clear those of others";
    ChainUnconfirmed = "chain-unconfirmed", "who inserts into a chain does not look again for claims";
    ClaimMoved = "claim-moved", "a migrator marks a claimed slot moved as if it bound";
    ClaimBesideEmpty = "claim-beside-empty", "a claim binds although the group has an empty slot";
    AnyEmpty = "any-empty", "every other worker inserts into the last empty slot of a line, not the first";
    GroupNotHelped = "group-not-helped", "a writer goes on in the next level without moving its key's group first";
    FrozenChanged = "frozen-changed", "a writer changes a frozen slot";
    ReplicaNotTentative = "replica-not-tentative", "a replica of the root is installed without looking whether the root has moved";
    ReplicasTriedOnce = "replicas-tried-once", "a replica of the root that changes while it is being moved stays where it is";
    ReplicasNotMoved = "replicas-not-moved", "the root moves without its replicas";
    EmptyNotFrozen = "empty-not-frozen", "a group is moved while its empty slots stay empty";
    CopyUnchecked = "copy-unchecked", "a binding is copied without looking whether it is still frozen";
    MovedBeforeCopied = "moved-before-copied", "a slot is marked moved before its copy is there";
    DoneBeforeMoved = "done-before-moved", "groups are marked done before they are moved";
    RestNotMoved = "rest-not-moved", "the root moves while other helpers are still moving groups";
    RetirerNotClaimed = "retirer-not-claimed", "all who have seen a level move retire it";
    SecondaryKept = "secondary-kept", "recovery of an operation that did not happen forgets its secondary objects";
    SecondaryForgottenEarly = "secondary-forgotten-early", "the further old object is forgotten before it is retired";
    SecondaryRetiredLast = "secondary-retired-last", "the further old object is retired after the old one";
    EndNotAwaited = "end-not-awaited", "a secondary object is named before it is written back that the last operation is over";
    PageNotWrittenBack = "page-not-written-back", "a page is published without having been written back";
    PageOfRootKept = "page-of-root-kept", "a higher root's child has the root's page instead of a copy";
    RecordKept = "record-kept", "the record that a write replaces is not retired";
    LeafCached = "leaf-cached", "a leaf's word is not read afresh";
    CacheWithoutStamp = "cache-without-stamp", "what was cached under an earlier announcement is used";
    ReadInOneTurn = "read-in-one-turn", "a reader of a reader-writer lock begins no turn of its slot";
    CachedLate = "cached-late", "what is cached of a word counts as read when it is put into the cache";
    FrozenCached = "frozen-cached", "the page of a node that is merged is cached";
    FenceIgnored = "fence-ignored", "a leaf's high fence is not looked at";
    SplitWithoutFence = "split-without-fence", "a leaf that is split keeps its high fence";
    PostUnchecked = "post-unchecked", "a node is posted without looking whether it has the separator";
    NoteByOffset = "note-by-offset", "a note of an unposted node is taken to be about whatever is where that was";
    NeighboursOnce = "neighbours-once", "leaves that had no neighbour are not looked at again";
    FrozenRead = "frozen-read", "who comes to a frozen node from its parent reads it";
    FrozenNotHelped = "frozen-not-helped", "who comes to a frozen node does not finish its merge";
    MergingChanged = "merging-changed", "a parent is changed although a child of it is being merged";
    LoweredUnfrozen = "lowered-unfrozen", "the only child takes the root's place without having been frozen";
    LoweredWithNext = "lowered-with-next", "the first child takes the root's place though another node is behind it";
    LoweredNodeKept = "lowered-node-kept", "the node whose page the root has now is not retired";
    LoweringCached = "lowering-cached", "a leaf that takes the root's place is believed on the word of a cached root";
    LoweredPageKept = "lowered-page-kept", "the page of which the root has a copy now is not retired";
    JoinedUnfrozen = "joined-unfrozen", "a node is joined to the one before it without having been frozen";
    JoinWithoutNext = "join-without-next", "a joined page has the fence of the first of the two";
    JoinedPageKept = "joined-page-kept", "the page of a node that is joined to another is not retired";
    JoinedNodeKept = "joined-node-kept", "a node that was merged is not retired";
    TasksNotWrittenBack = "tasks-not-written-back", "a task list is named before it is written back";
    TasksCountNotDropped = "tasks-count-not-dropped", "a handle on a task list begins with a cached count";
    ClaimOfTheDead = "claim-of-the-dead", "nobody takes over what a dead worker has claimed";
    PhaseNotAwaited = "phase-not-awaited", "tasks of the next phase begin once those of the last are claimed";
    ResultReplaced = "result-replaced", "who commits replaces a result that is there";
    ResultNotWrittenBack = "result-not-written-back", "a result is published without having been written back";
    SecondResultKept = "second-result-kept", "who is second does not give its result back";
    GenerationBeforeFence = "generation-before-fence", "a host's generation moves when its heartbeats are missed, before it is fenced";
    FenceBelieved = "fence-believed", "a fence does not wait until the killed have gone";
    FenceAdopted = "fence-adopted", "a monitor that finds a host being fenced takes the fence for done";
    FirstPollCounts = "first-poll-counts", "a monitor's first look at a host counts as all the looks that it needs";
    LatePollsForgiven = "late-polls-forgiven", "a monitor whose looks come late suspects nobody, however long a host is silent";
    MissesKept = "misses-kept", "a heartbeat does not make up for the looks that missed one";
    LeadsUnasked = "leads-unasked", "a monitor leads although another one does";
    ElectionIgnored = "election-ignored", "a monitor leads although it may not";
    FencingCountsAsDead = "fencing-counts-as-dead", "processes of a host count as dead while it is being fenced";
    DeclaredForGood = "declared-for-good", "a place whose process was declared dead counts as dead with every later one";
    JoinedNodeEarly = "joined-node-early", "a node is retired when it is joined, before its parent forgets it";
    SuccessorNotNotified = "successor-not-notified", "who takes a lock from the dead is not told";
    FreedTakenClean = "freed-taken-clean", "a lock that recovery has freed is taken as if it had been unlocked";
    RecoveredBlindly = "recovered-blindly", "recovery frees a lock without looking who owns it";
    HeldNotRecovered = "held-not-recovered", "recovery leaves the slots of the dead as they are";
    NoteKept = "note-kept", "an unlock leaves the note";
    SlotTakenStanding = "slot-taken-standing", "a slot that stands in a queue is used for another lock";
    QueuedLate = "queued-late", "a slot says that it is queued after it has joined";
    BeforeKept = "before-kept", "a slot that joins at the second attempt says whom the first one was behind";
    TurnNotReread = "turn-not-reread", "who finds an owner dead does not look whether it had unlocked";
    DeadTakenForOwner = "dead-taken-for-owner", "who finds the one in front dead does not look who is in front of that";
    UnlinkNotCounted = "unlink-not-counted", "who leaves a queue, or goes past somebody, does not count that a reference has moved";
    UnlinkOverlooked = "unlink-overlooked", "recovery does not look whether a reference moved while it looked for it";
    PastNotUnlinked = "past-not-unlinked", "who goes past somebody goes on standing behind that slot";
    RecoveryTakenForRival = "recovery-taken-for-rival", "who takes a dead owner's word gives up if recovery has marked it meanwhile";
    GivenUpUnasked = "given-up-unasked", "the foremost of a queue gives up without a last look whether the owner lives";
    PromisedNotAnnounced = "promised-not-announced", "who has said that it will announce the end of its turn stores it only";
    SleeperWithoutBarrier = "sleeper-without-barrier", "who is about to sleep has no barrier executed for who is to wake it";
    SleptApart = "slept-apart", "who sleeps by a lock's event count in a pod sleeps as long as one whom every notifier wakes";
    DeathSleptThrough = "death-slept-through", "who sleeps for somebody sleeps on when that one dies";
    BitLookedAtFirst = "bit-looked-at-first", "a reader looks at the bit of its place before it looks at the word";
    SeenPutAtRest = "seen-put-at-rest", "recovery puts slots at rest that others stand behind";
    ReadersNotAwaited = "readers-not-awaited", "a writer does not wait for readers";
    WriterLookedAtFirst = "writer-looked-at-first", "a reader looks for a writer before it is announced";
    ReaderNotMarked = "reader-not-marked", "a reader does not set its place's bit";
    NextTurnRecovered = "next-turn-recovered", "recovery puts the slot of one who had left at rest in whatever turn it is by then";
    StalePermitTaken = "stale-permit-taken", "a handle on a removed semaphore takes a permit, and does not ask after that whether it was removed";
    PreparedUnlocked = "prepared-unlocked", "who waits for a condition variable says that it sleeps after it has unlocked";
    BitTakenFromSleeper = "bit-taken-from-sleeper", "who notifies for one and finds nobody asleep takes back that somebody is, and does not ring for who has found it said since";
    StaleWordTaken = "stale-word-taken", "a handle on a removed lock takes its word, which is free for another incarnation";
    SeizedUnasked = "seized-unasked", "who takes a lock from the dead does not ask whether it was removed";
    QueuedUnasked = "queued-unasked", "who comes to the front of a queue lock does not ask whether it was removed";
    RemovedAtRest = "removed-at-rest", "who removes a queue lock ends its turn as an unlock does";
    RemovedEndRestored = "removed-end-restored", "who removes a queue lock leaves its queue's end as it was before";
    LeftInFrontKept = "left-in-front-kept", "who gives up leaves at the end of the queue who has left before it";
    FreedBeforeVacated = "freed-before-vacated", "a lock that is removed is given up before its name is";
    NameNotReread = "name-not-reread", "who reads a lock's name does not look whether it was removed meanwhile";
    DeadReaderAwaited = "dead-reader-awaited", "a writer waits for readers that have died";
    ReserveUnjudged = "reserve-unjudged", "a reserve's word without its valid bit has cells";
    FramesBelieved = "frames-believed", "a number of committed frames that the file does not have is believed";
    LengthUnjudged = "length-unjudged", "an audit believes lengths that reach into other objects";
    LinkFollowed = "link-followed", "a pool is opened by a link";
    OwnerBelieved = "owner-believed", "a pool that every user may write is opened like any other";
    HolderUnmapped = "holder-unmapped", "a fence kills who holds the lock of a place, although it has not mapped the pool";
    SnapshotNotValidated = "snapshot-not-validated", "who reads without a place believes what it read although the epoch has moved on meanwhile";
}

/// Plants a mutant in what this thread runs from now on, or none.
#[cfg(feature = "mutants")]
pub fn choose(mutant: Option<Mutant>) {
    chosen::CHOSEN.set(mutant);
}

/// Whether a mutant is planted.
#[cfg(feature = "mutants")]
#[inline]
pub(crate) fn is(mutant: Mutant) -> bool {
    let is_planted = chosen::CHOSEN.get() == Some(mutant);
    if is_planted {
        chosen::WAS_PASSED.set(true);
    }
    is_planted
}

/// Whether this thread has come by the mutant that is planted since this was asked last.
#[cfg(feature = "mutants")]
pub fn was_passed() -> bool {
    chosen::WAS_PASSED.take()
}

/// Whether a mutant is planted: none is.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub(crate) const fn is(_: Mutant) -> bool {
    false
}

#[cfg(feature = "mutants")]
mod chosen {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        pub(super) static CHOSEN: Cell<Option<Mutant>> = const { Cell::new(None) };
        pub(super) static WAS_PASSED: Cell<bool> = const { Cell::new(false) };
    }
}

#[cfg(test)]
mod tests {
    use super::Mutant;

    #[test]
    fn names_are_unique_and_kebab_case() {
        let names: std::collections::BTreeSet<&str> =
            Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
        assert_eq!(names.len(), Mutant::ALL.len());
        let is_kebab = |name: &&str| name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        assert!(names.iter().all(is_kebab), "{names:?}");
        assert!(Mutant::ALL.iter().all(|mutant| !mutant.what().is_empty()));
    }
}
