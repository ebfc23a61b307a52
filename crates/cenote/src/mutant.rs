//! Mutants: faults planted in the library, to prove that its simulator finds such faults. For tests only.
//!
//! A mutant leaves out, moves or weakens one step that a protocol needs, by one `mutant::is(…)` or `mutant::also(…)` at
//! that step. Without the feature `mutants` there are none: [`is`] is `false` at compile time. With it, [`choose`]
//! plants a mutant in everything that the calling thread runs from then on; other threads are not affected.
//!
//! `cargo xtask mutants` runs them all. `docs/mutants.md` says which checker finds each, and how to add one.

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
    PlansForgotten = "plans-forgotten", "a new server does not finish the exchanges that the last one planned";
    ExecutedUnplanned = "executed-unplanned", "the server executes an exchange without having written its plan first";
    WordPlannedTwice = "word-planned-twice", "two changes of one word are planned in one pass";
    QuiescedEarly = "quiesced-early", "a caller that asks for all requests to be done is answered before they are";
    PersistWithoutFence = "persist-without-fence", "`persist` begins a write-back and does not wait for it";
    ObjectNotWrittenBack = "object-not-written-back", "a small object is published without having been written back";
    ObjectPartlyWrittenBack = "object-partly-written-back", "only the first line of a larger object is written back";
    LineNotWrittenBack = "line-not-written-back", "a chain line is linked without its zeroes having been written back";
    RecordNotWrittenBack = "record-not-written-back", "the slot is exchanged before the operation record is written back";
    CountNotWrittenBack = "count-not-written-back", "a worker's count of keys stays in its host's cache";
    CountNotDropped = "count-not-dropped", "a handle begins with a cached count, although another host may have had its place";
    PublishedNameKept = "published-name-kept", "the operation record still names an object as unpublished after it is published";
    AuxiliaryNotNamed = "auxiliary-not-named", "an auxiliary object is linked without the record naming it";
    AuxiliaryForgotten = "auxiliary-forgotten", "recovery forgets an auxiliary object that was not linked";
    TagZero = "tag-zero", "a retired object is tagged with epoch 0";
    EpochRuleWithoutOne = "epoch-rule-without-one", "an object counts as reclaimable when its tag is below the least announcement, not one more";
    EntryNotWrittenBack = "entry-not-written-back", "the tail of a retired list moves before its entry is written back";
    BatchNotNamed = "batch-not-named", "retired objects are freed without the record naming them";
    FreedUnmarked = "freed-unmarked", "retired objects are freed without having been marked";
    FreedEntryKept = "freed-entry-kept", "the entry of an object that is freed stays in the list";
    RecycledEntryKept = "recycled-entry-kept", "the entry of an object that is recycled stays in the list";
    RecycledUnflushed = "recycled-unflushed", "retired objects are recycled or freed without a flush round";
    RecycledUnreclaimable = "recycled-unreclaimable", "retired objects are recycled or freed whatever their tag";
    DrainForgotten = "drain-forgotten", "a retired level is freed without its chain lines";
    DrainedAhead = "drained-ahead", "a worker that frees some of a retired level's chain lines records one chain too many as freed";
    StoredBeforeSlot = "stored-before-slot", "an object is made before a slot refers to it";
    ReplacedKept = "replaced-kept", "an object whose name another one has got is not marked as deleted";
    LoserKept = "loser-kept", "an object that has found its name taken is not marked as deleted";
    DataNotWrittenBack = "data-not-written-back", "an object is sealed without its bytes having been written back";
    AbortedDataKept = "aborted-data-kept", "the bytes of an object that is given up stay in its writer's cache";
    ViewNotMarked = "view-not-marked", "a view does not mark its object as viewed";
    ViewNotChecked = "view-not-checked", "a view does not check whether its object has been deleted";
    HeldLate = "held-late", "a slot holds an object only after that was checked";
    DeletedUnmarked = "deleted-unmarked", "an object loses its name without being marked as deleted";
    ReleasedAtOnce = "released-at-once", "a slot is free before its object was removed";
    ReleasedUnchecked = "released-unchecked", "the last view of a deleted object does not remove it";
    HeldRemoved = "held-removed", "a deleted object is removed although others view it";
    BytesNotRecounted = "bytes-not-recounted", "the bytes of a store's objects are not counted anew after a death";
    TableFirst = "table-first", "a dead process's slots are removed before what they refer to";
    NameNotLookedUp = "name-not-looked-up", "a dead process's objects are removed although they have names";
    UnnamedKept = "unnamed-kept", "a dead process's objects without names are kept";
    MachineUnasked = "machine-unasked", "a process that joins a host does not check whether the host's home is this machine";
    HomeMoved = "home-moved", "an agent makes its machine the home of a generation that has one";
    KilledElsewhere = "killed-elsewhere", "a fence that kills treats hosts of other machines as its own";
    AttachWaits = "attach-waits", "every worker that attaches waits for the allocator's lock, also a monitor's";
    LeftWithPin = "left-with-pin", "the background thread goes on serving the place of a worker that has left";
    TakenWithoutFence = "taken-without-fence", "where the kernel has no barrier for all threads, a worker that takes over a list executes no fence";
    TakenWhileHeld = "taken-while-held", "a retired list is taken over while its worker holds it";
    TakeoverNotAwaited = "takeover-not-awaited", "a worker whose list is wanted does not wait until nobody moves it";
    MoveNotCounted = "move-not-counted", "recovery scans lists without noticing that one was moved";
    AdopterWithoutClaim = "adopter-without-claim", "an adopter takes a vacant record's list, or frees what is in it, without claiming the record";
    AdopterNotInvalidated = "adopter-not-invalidated", "an adopter reads the record from its host's cache";
    ChunksNotRefreshed = "chunks-not-refreshed", "an adopter or recoverer reads a list's chunks from its host's cache";
    RoundNotAwaited = "round-not-awaited", "memory is reused without waiting for the flush round";
    RoundOfTheAsker = "round-of-the-asker", "a worker that waits for a flush round counts its own host as flushed, although another worker began the round";
    OwnLinesNotFlushed = "own-lines-not-flushed", "a worker that asks for a flush round does not flush its own cache";
    RequestNotWrittenBack = "request-not-written-back", "a flush request stays in its host's cache";
    AcknowledgedEarly = "acknowledged-early", "a flush round is acknowledged before the lines are flushed";
    BusyWithdrawn = "busy-withdrawn", "the background thread withdraws the announcements of workers that read";
    NotCaughtUp = "not-caught-up", "a worker that attaches leaves its replica of the epoch as it was";
    ReplicasNotRaised = "replicas-not-raised", "a worker that advances the epoch does not raise its replicas";
    EpochNotHelped = "epoch-not-helped", "a worker that finds an advance of the epoch begun does not finish it";
    BarrierLeftOut = "barrier-left-out", "a worker that reads announcements has no barrier executed for readers";
    AnnouncedWithoutFence = "announced-without-fence", "a reader that announces itself with a fence leaves out the fence";
    ReaderWithoutFence = "reader-without-fence", "a lock's reader announces itself by a store that its load of the word may overtake";
    SealUnchecked = "seal-unchecked", "a line of a mailbox counts as whole without a check of its seal";
    ValueUnpinned = "value-unpinned", "the announcement that protects a value is withdrawn while the value is in use";
    NotAnnounced = "not-announced", "a reader announces nothing";
    AttachNotInvalidated = "attach-not-invalidated", "a worker reads the record that it takes over from its host's cache";
    StateNotClaimed = "state-not-claimed", "a worker takes a place although another one claimed it first";
    JoinCacheKept = "join-cache-kept", "a process that joins keeps what its host's cache holds of the pool";
    LockFromTheLiving = "lock-from-the-living", "a worker that waits for a lock takes it although its owner lives";
    RepairUnasked = "repair-unasked", "a worker that attaches does not ask whether somebody repairs the pool";
    DropsUncounted = "drops-uncounted", "who drops a structure does not tell the handles of others";
    DropsUnseen = "drops-unseen", "a handle does not look whether something was dropped";
    CreatedUnpinned = "created-unpinned", "who makes a structure is not pinned until it has finished";
    DropUnmasked = "drop-unmasked", "recovery takes a structure that was dropped for one that was never published";
    DropSeenBefore = "drop-seen-before", "who claims a dropped structure does not look again whether it is still there";
    DropUnwaited = "drop-unwaited", "a dropped structure is taken apart while others use it";
    GroupDropUnseen = "group-drop-unseen", "a handle of a group does not look whether it was dropped";
    DropCreationUnasked = "drop-creation-unasked", "a handle takes a structure that was made in the place of its own for its own";
    DropDeadTrusted = "drop-dead-trusted", "a dropped structure is taken over before what its last claimant had begun is over";
    DropViewsUnasked = "drop-views-unasked", "a dropped object store is taken apart while objects of it are viewed";
    DropGoneAtOnce = "drop-gone-at-once", "an entry is free before its header is known to be retired";
    RepairUncounted = "repair-uncounted", "who repairs counts who else is there before it says that it repairs";
    ReplaySkipped = "replay-skipped", "a dead owner's lock is taken over without its log";
    LogsNotApplied = "logs-not-applied", "recovery reads a record before the logs of the dead are applied";
    ClearedEarly = "cleared-early", "the log is cleared before it is applied";
    CommitWithoutChecksum = "commit-without-checksum", "the log's commit word has the checksum of no entries";
    ChecksumIgnored = "checksum-ignored", "a log is replayed although its commit word is not that of its entries";
    LogNotWrittenBack = "log-not-written-back", "the log's entries are committed before they are written back";
    AppliedNotWrittenBack = "applied-not-written-back", "a transaction's owned words are not written back";
    SleepUnsaid = "sleep-unsaid", "a client that sleeps until its answer comes does not say so";
    SleeperNotWoken = "sleeper-not-woken", "the server does not wake a client that sleeps until its answer comes";
    SleptByHalf = "slept-by-half", "a client sleeps although the first word of its answer is there";
    SleepersForgotten = "sleepers-forgotten", "a new server does not wake the clients that the last one answered";
    LeaseUnfenced = "lease-unfenced", "the lease is taken without fencing the hosts that may have it";
    LeaseNotReread = "lease-not-reread", "the lease is taken although its word was written since";
    HostlessLeft = "hostless-left", "a process of no host that was killed as it began to serve keeps all hosts from serving";
    CellsKept = "cells-kept", "the lines of a new block's cells stay in the cache of the worker that wrote them";
    ClassesKept = "classes-kept", "a worker's cache of block classes outlives the blocks";
    SpareKept = "spare-kept", "a spare chunk that was linked into the list still counts as spare";
    ReserveLate = "reserve-late", "cells are taken before the reserve names them";
    NamedLate = "named-late", "an object leaves the reserve before it is named";
    TakenEarly = "taken-early", "an object leaves the reserve before the record that names it is written back";
    ReservedKept = "reserved-kept", "recovery of an operation that happened leaves its new object in the reserve";
    DiscardedLinesKept = "discarded-lines-kept", "an object is given back while its lines stay in the cache";
    ReserveReturnedBlindly = "reserve-returned-blindly", "recovery frees reserved cells without looking whether they were taken";
    RecoveryNotInvalidated = "recovery-not-invalidated", "recovery reads the dead worker's record from its host's cache";
    RecoveryWithoutClaim = "recovery-without-claim", "recovery goes on although another worker claimed the record first";
    EvidenceSlotAlone = "evidence-slot-alone", "recovery decides an operation by its slot alone";
    EvidenceWithoutLists = "evidence-without-lists", "recovery does not check whether the new object is in a retired list";
    IdleListLeft = "idle-list-left", "a write that finds the pool full leaves the retired lists of idle workers alone";
    EmptyBlocksKept = "empty-blocks-kept", "a write that finds the pool full gives no empty blocks back";
    FullAtOnce = "full-at-once", "a write that finds the pool full does not collect garbage";
    FullUnwaited = "full-unwaited", "a write that finds the pool full does not wait for garbage, although that would be enough";
    HoleMarkedLate = "hole-marked-late", "bytes are given back before their block says that it is a hole";
    HolePunchedUnreclaimable = "hole-punched-unreclaimable", "the bytes of a hole are given back although a reader may be reading them";
    HoleReadUnpinned = "hole-read-unpinned", "a worker that scans an orphaned block for free cells does so without a pin";
    HoleNotReserved = "hole-not-reserved", "a hole is filled without its bytes having been reserved again";
    HoleFilledUnlocked = "hole-filled-unlocked", "a worker without the trim lock fills a hole";
    TakenOverUnapplied = "taken-over-unapplied", "the trim lock is taken over from a dead owner before what it had committed is applied";
    NameCached = "name-cached", "names are read from the host's cache";
    FirstFailureEnds = "first-failure-ends", "recovery ends at the first structure or worker that cannot be recovered";
    NotifiedUnderClaim = "notified-under-claim", "recovery claims the dead worker's record before it reports the death to groups";
    NeverWithdrawn = "never-withdrawn", "the dead worker's announcement is not withdrawn";
    LoneDeathIgnored = "lone-death-ignored", "a thread that dies alone counts as alive until its process dies";
    GroupCommitEarly = "group-commit-early", "an event is committed before it is written down";
    GroupNotReplayed = "group-not-replayed", "a worker that takes over a group's lock discards what was committed";
    GroupCountedEarly = "group-counted-early", "an event is counted before it is in the log";
    GroupMemberKept = "group-member-kept", "an event is appended without the change of the member that it reports";
    GroupRoomForgotten = "group-room-forgotten", "a join reserves no room for the ends of the members";
    GroupDeathTwice = "group-death-twice", "a death is reported without a check whether it was reported before";
    GroupPendingIgnored = "group-pending-ignored", "recovery searches a group's members for dead workers, but not the event that is being appended";
    GroupHostForgotten = "group-host-forgotten", "a member's death is reported without that of its host";
    GroupDeathsLeft = "group-deaths-left", "a worker that takes over a group's lock does not go on reporting the deaths of a host's members";
    EventCountNotWoken = "event-count-not-woken", "an event count is notified, and its sleepers are not woken";
    DeadTakenForWaking = "dead-taken-for-waking", "recovery wakes no sleepers by an event count that the dead worker has notified, whether it has woken them or not";
    WaitNotPrepared = "wait-not-prepared", "a worker sleeps on an event count without having prepared to wait";
    GroupJoinNotNotified = "group-join-not-notified", "a member joins, and the waiters for events are not woken";
    GroupNotifiedEarly = "group-notified-early", "a member that leaves a group notifies its event count before the event is there";
    GroupNotNotified = "group-not-notified", "recovery does not report deaths to groups";
    DeadNotDrained = "dead-not-drained", "a process's death is declared while what it wrote is still in its host's cache";
    AttachScansOnce = "attach-scans-once", "a worker that finds all places taken does not check whether their owners live";
    InstanceByPlace = "instance-by-place", "a worker counts as alive if any process lives in its process's place";
    MovedForgotten = "moved-forgotten", "a lookup ignores that a slot has moved after its line was read";
    EvidenceReused = "evidence-reused", "a tombstone is claimed although its remover is in the middle of the removal";
    ClaimLeft = "claim-left", "a claim that is given up stays in its slot";
    DeadClaimKept = "dead-claim-kept", "recovery of an operation that has only claimed leaves the claim";
    ClaimUnconfirmed = "claim-unconfirmed", "a claimed slot binds without a second read";
    RivalsIgnored = "rivals-ignored", "a worker that confirms a claim does not clear rival claims";
    ChainUnconfirmed = "chain-unconfirmed", "a worker that inserts into a chain does not check for claims again";
    ClaimMoved = "claim-moved", "a migrator marks a claimed slot moved as if it bound";
    ClaimBesideEmpty = "claim-beside-empty", "a claim binds although the group has an empty slot";
    AnyEmpty = "any-empty", "every other worker inserts into the last empty slot of a line, not the first";
    GroupNotHelped = "group-not-helped", "a writer goes on in the next level without first moving its key's group";
    FrozenChanged = "frozen-changed", "a writer changes a frozen slot";
    ReplicaNotTentative = "replica-not-tentative", "a replica of the root is installed without a check whether the root has moved";
    ReplicasTriedOnce = "replicas-tried-once", "a replica of the root that changes while it is being moved stays where it is";
    ReplicasNotMoved = "replicas-not-moved", "the root moves without its replicas";
    EmptyNotFrozen = "empty-not-frozen", "a group is moved while its empty slots stay empty";
    CopyUnchecked = "copy-unchecked", "a binding is copied without a check whether it is still frozen";
    MovedBeforeCopied = "moved-before-copied", "a slot is marked moved before its copy is there";
    DoneBeforeMoved = "done-before-moved", "groups are marked done before they are moved";
    RestNotMoved = "rest-not-moved", "the root moves while other helpers are still moving groups";
    RetirerNotClaimed = "retirer-not-claimed", "every worker that has seen a level move retires it";
    SecondaryKept = "secondary-kept", "recovery of an operation that did not happen forgets its secondary objects";
    SecondaryForgottenEarly = "secondary-forgotten-early", "the record forgets the further old object before it is retired";
    SecondaryRetiredLast = "secondary-retired-last", "the further old object is retired after the old one";
    EndNotAwaited = "end-not-awaited", "the record names a secondary object before the end of the last operation is written back";
    PageNotWrittenBack = "page-not-written-back", "a page is published without having been written back";
    PageOfRootKept = "page-of-root-kept", "the child that a higher root gets shares the root's page instead of a copy";
    RecordKept = "record-kept", "the record that a write replaces is not retired";
    LeafCached = "leaf-cached", "a leaf's word is read from the cache";
    CacheWithoutStamp = "cache-without-stamp", "what was cached under an earlier announcement is used";
    ReadInOneTurn = "read-in-one-turn", "a reader of a reader-writer lock begins no turn of its slot";
    CachedLate = "cached-late", "a cached word counts as read when it enters the cache, not when it was read";
    FrozenCached = "frozen-cached", "the page of a node that is being merged is cached";
    FenceIgnored = "fence-ignored", "a leaf's high fence is not checked";
    SplitWithoutFence = "split-without-fence", "a leaf that is split keeps its high fence";
    PostUnchecked = "post-unchecked", "a node is posted without a check whether its parent has the separator";
    NoteByOffset = "note-by-offset", "a note of an unposted node counts for whatever lies at that node's offset now";
    NeighboursOnce = "neighbours-once", "leaves that had no neighbour are not tried again";
    FrozenRead = "frozen-read", "a worker that comes to a frozen node from its parent reads it";
    FrozenNotHelped = "frozen-not-helped", "a worker that comes to a frozen node does not finish its merge";
    MergingChanged = "merging-changed", "a parent is changed although a child of it is being merged";
    LoweredUnfrozen = "lowered-unfrozen", "the only child takes the root's place without having been frozen";
    LoweredWithNext = "lowered-with-next", "the first child takes the root's place although another node follows it";
    LoweredNodeKept = "lowered-node-kept", "the node whose page the root takes over is not retired";
    LoweringCached = "lowering-cached", "a leaf takes the root's place on the word of a cached root";
    LoweredPageKept = "lowered-page-kept", "the page of which the root now has a copy is not retired";
    JoinedUnfrozen = "joined-unfrozen", "a node is joined to the one before it without having been frozen";
    JoinWithoutNext = "join-without-next", "a joined page has the fence of the first of the two";
    JoinedPageKept = "joined-page-kept", "the page of a node that is joined to another is not retired";
    JoinedNodeKept = "joined-node-kept", "a node that was merged is not retired";
    TasksNotWrittenBack = "tasks-not-written-back", "a task list is named before it is written back";
    TasksCountNotDropped = "tasks-count-not-dropped", "a handle on a task list begins with a cached count";
    ClaimOfTheDead = "claim-of-the-dead", "nobody takes over the claims of a dead worker";
    PhaseNotAwaited = "phase-not-awaited", "tasks of the next phase begin once those of the last are claimed";
    ResultReplaced = "result-replaced", "a commit replaces a result that is there";
    ResultNotWrittenBack = "result-not-written-back", "a result is published without having been written back";
    SecondResultKept = "second-result-kept", "a worker that commits second does not free its result";
    GenerationBeforeFence = "generation-before-fence", "a host's generation moves when its heartbeats are missed, before it is fenced";
    FenceBelieved = "fence-believed", "a fence does not wait until the killed processes are gone";
    FenceAdopted = "fence-adopted", "a monitor that finds a host being fenced counts the fence as done";
    FirstPollCounts = "first-poll-counts", "a monitor's first poll of a host counts as all the polls that it needs";
    LatePollsForgiven = "late-polls-forgiven", "a monitor whose polls come late suspects no host, however long it is silent";
    MissesKept = "misses-kept", "a heartbeat does not clear the count of missed ones";
    LeadsUnasked = "leads-unasked", "a monitor leads although another one does";
    ElectionIgnored = "election-ignored", "a monitor leads although the election does not let it";
    FencingCountsAsDead = "fencing-counts-as-dead", "processes of a host count as dead while it is being fenced";
    DeclaredForGood = "declared-for-good", "a place whose process was declared dead counts as dead with every later process";
    JoinedNodeEarly = "joined-node-early", "a node is retired when it is joined, before its parent forgets it";
    SuccessorNotNotified = "successor-not-notified", "the successor of a dead owner is not notified";
    DeathTakenClean = "death-taken-clean", "a lock whose owner died is taken as if it had been unlocked";
    RecoveredBlindly = "recovered-blindly", "recovery frees a lock without a check who owns it";
    HeldNotRecovered = "held-not-recovered", "recovery leaves a dead worker's slots as they are";
    NoteKept = "note-kept", "an unlock leaves the note";
    SlotTakenStanding = "slot-taken-standing", "a slot that stands in a queue is used for another lock";
    QueuedLate = "queued-late", "a slot says that it is queued after it has joined";
    BeforeKept = "before-kept", "a slot that joins at the second attempt still names the slot that was in front at the first";
    TurnNotReread = "turn-not-reread", "a waiter that finds an owner dead does not check whether it had unlocked";
    DeadTakenForOwner = "dead-taken-for-owner", "a waiter that finds the worker in front dead does not look further in front";
    UnlinkNotCounted = "unlink-not-counted", "a waiter that leaves a queue, or goes past a slot, does not count that a reference has moved";
    UnlinkOverlooked = "unlink-overlooked", "recovery does not check whether a reference moved during its search";
    PastNotUnlinked = "past-not-unlinked", "a waiter that goes past a slot still stands behind it";
    RecoveryTakenForRival = "recovery-taken-for-rival", "a worker that takes a dead owner's word gives up if recovery has marked it meanwhile";
    GivenUpUnasked = "given-up-unasked", "the first waiter gives up without a last check whether the owner lives";
    DirectorySharersNotAwaited = "directory-sharers-not-awaited", "a writer gets a directory lock while nodes have it to read";
    DirectoryQueueNotHeld = "directory-queue-not-held", "a node is granted a directory lock to read although a writer waits or has it";
    DirectoryNumberNotCleared = "directory-number-not-cleared", "a process takes a dead one's number among the nodes of a directory lock, with what that had";
    DirectoryOpenWhileClosing = "directory-open-while-closing", "a thread gets a directory lock from its node while the node closes it";
    DirectoryEnteredYielding = "directory-entered-yielding", "a thread gets a directory lock from its node while the node hands it over";
    DirectoryAskedNotMarked = "directory-asked-not-marked", "the agent of a process is not told which directory lock another process asks for";
    DirectoryAskedUnseen = "directory-asked-unseen", "a thread that unlocks a directory lock never looks whether another process asks for it";
    DirectoryDriverHeldUp = "directory-driver-held-up", "a thread that waits for a directory lock does not let the one run that acts for their process";
    DirectoryLoneDeathIgnored = "directory-lone-death-ignored", "the threads of a process wait for one of them that has died alone";
    DirectoryEntryNotReread = "directory-entry-not-reread", "a thread that reads a directory lock's entry without its lock does not check that it is still valid";
    DirectoryEntryInPlace = "directory-entry-in-place", "a change of a directory lock's entry overwrites the copy that is valid";
    DirectoryPassesUnbounded = "directory-passes-unbounded", "a node's threads get a directory lock for as long as they want, even if another node asks";
    DirectoryNotWrittenBack = "directory-not-written-back", "a node hands a directory lock over before it has written its data back";
    DirectoryNotDropped = "directory-not-dropped", "a node that gets a directory lock keeps what its cache has of the data";
    DirectoryDeadAwaited = "directory-dead-awaited", "a waiter for a directory lock does not look for dead nodes";
    DirectorySuccessorNotNotified = "directory-successor-not-notified", "the successor of a node that died writing is not notified";
    PromisedNotAnnounced = "promised-not-announced", "a worker that has promised to announce the end of its turn only stores it";
    SleeperWithoutBarrier = "sleeper-without-barrier", "a worker about to sleep has no barrier executed for the one that is to wake it";
    SleptApart = "slept-apart", "a worker that sleeps on a lock's event count in a pod sleeps as long as if every notifier woke it";
    DeathSleptThrough = "death-slept-through", "a worker that sleeps for another one sleeps on when that one dies";
    BitReadFirst = "bit-read-first", "a reader reads the bit of its place before the word";
    SeenPutAtRest = "seen-put-at-rest", "recovery puts slots at rest that others stand behind";
    ReadersNotAwaited = "readers-not-awaited", "a writer does not wait for readers";
    WriterCheckedFirst = "writer-checked-first", "a reader checks for a writer before it announces itself";
    ReaderNotMarked = "reader-not-marked", "a reader does not set its place's bit";
    NextTurnRecovered = "next-turn-recovered", "recovery puts a slot at rest in whatever turn it is in by then";
    StalePermitTaken = "stale-permit-taken", "a handle on a removed semaphore takes a permit, and does not check after that whether it was removed";
    PreparedUnlocked = "prepared-unlocked", "a waiter for a condition variable prepares to wait after it has unlocked";
    BitTakenFromSleeper = "bit-taken-from-sleeper", "a notifier of one that finds no sleeper clears the sleepers' bit, and misses those that have set it since";
    StaleWordTaken = "stale-word-taken", "a handle on a removed lock takes its word, which is free for another incarnation";
    SeizedUnasked = "seized-unasked", "a worker that takes a lock from a dead owner does not check whether the lock was removed";
    QueuedUnasked = "queued-unasked", "a worker that comes to the front of a queue lock does not check whether the lock was removed";
    RemovedAtRest = "removed-at-rest", "the remover of a queue lock ends its turn as an unlock does";
    RemovedEndRestored = "removed-end-restored", "the remover of a queue lock restores the end of its queue";
    LeftInFrontKept = "left-in-front-kept", "a waiter that gives up leaves slots at the end of the queue that have left before it";
    LeftAtEndKept = "left-at-end-kept", "recovery makes a waiter the end of a queue, which has left meanwhile and relies on those behind it";
    FreedBeforeVacated = "freed-before-vacated", "a lock that is removed is released before its name is removed";
    NameNotReread = "name-not-reread", "a worker that reads a lock's name does not check whether it was removed meanwhile";
    DeadReaderAwaited = "dead-reader-awaited", "a writer waits for readers that have died";
    ReserveUnjudged = "reserve-unjudged", "a reserve's word without its valid bit has cells";
    FramesBelieved = "frames-believed", "a number of committed frames that the file does not have is believed";
    LengthUnjudged = "length-unjudged", "an audit believes lengths that reach into other objects";
    LinkFollowed = "link-followed", "a pool is opened through a symbolic link";
    OwnerBelieved = "owner-believed", "a pool that every user may write is opened like any other";
    DirectoryVersionNotChecked = "directory-version-not-checked", "a directory accepts a transfer of a lock's queue although requests for it are on their way";
    DirectoryEpochNotChecked = "directory-epoch-not-checked", "a directory accepts a transfer that was sent when its sender had the lock before";
    DirectoryQueueLost = "directory-queue-lost", "the queue of a directory lock by messages is lost with its holder";
    DirectoryGrantOfOldTicket = "directory-grant-of-old-ticket", "a node takes the grant of an earlier request for that of the present one";
    DirectoryEndedSessionHeard = "directory-ended-session-heard", "a directory accepts messages of a node that it has taken for dead";
    DirectoryNextReadersForgotten = "directory-next-readers-forgotten", "readers in front of the next writer are not granted what a writer hands over";
    DirectoryDataNotKept = "directory-data-not-kept", "a directory does not keep the data that comes with a transfer";
    DirectoryGiveUpOfOldTicket = "directory-give-up-of-old-ticket", "a directory takes what a reader said of an earlier request for what it says of the present one";
    DirectoryForwardCountedTwice = "directory-forward-counted-twice", "the holder of a queue counts each forward that arrives, whatever its number";
    DirectoryForwardNotRepeated = "directory-forward-not-repeated", "a directory does not forward a request again that has not arrived";
    RemoteLeaseFromAnswer = "remote-lease-from-answer", "a node of a lock service counts its lease from when a heartbeat was answered, not from when it was sent";
    RemoteLeaseIgnored = "remote-lease-ignored", "threads of a node get locks that it has although its lease has run out";
    RemotePauseCounted = "remote-pause-counted", "a lock service that was stopped itself counts that time as silence of its nodes";
    RemoteRegionNotStamped = "remote-region-not-stamped", "a lock service does not keep when a region of a lock was changed";
    RemoteChangesForgotten = "remote-changes-forgotten", "a node forgets which regions its threads have changed when they unlock";
    RemoteEnteredClosing = "remote-entered-closing", "a thread gets a lock from its node while the node gives all locks up and leaves";
    RemoteCommitEarly = "remote-commit-early", "a commit does not wait until the lock service has the data";
    RemoteNoteOutOfOrder = "remote-note-out-of-order", "a lock service takes a writer's notes in the order in which they arrive";
    RemoteLeaverCountsAsDead = "remote-leaver-counts-as-dead", "a node that leaves a lock service in order counts as one that died writing";
    LivenessByDescriptor = "liveness-by-descriptor", "a process keeps its liveness lock by a descriptor alone, which other code of the process may close";
    DescriptorBelieved = "descriptor-believed", "the number of a descriptor is used for the pool's file, although other code has given it to another file";
    HolderUnmapped = "holder-unmapped", "a fence kills a process that holds the lock of a place, although it has not mapped the pool";
    SnapshotNotValidated = "snapshot-not-validated", "a reader without a place believes what it read although the epoch has moved on meanwhile";
}

/// Plants a mutant, or none, in what this thread runs from now on.
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

/// Does one thing more if a mutant is planted: a step that the protocol takes later, or never.
#[inline(always)]
pub(crate) fn also<R>(mutant: Mutant, step: impl FnOnce() -> R) {
    if is(mutant) {
        step();
    }
}

/// Whether this thread has passed the planted mutant since the last call.
#[cfg(feature = "mutants")]
pub fn was_passed() -> bool {
    chosen::WAS_PASSED.take()
}

/// Whether a mutant is planted: never.
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
