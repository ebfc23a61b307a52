//! Each mutant's plan: the one that shows it soonest.

use cenote::mutant::Mutant;
use cenote_sim::campaign::{LimitsKind, Plan, PolicyKind};
use cenote_sim::subjects::Subject;

/// How a mutant is tried.
pub struct Trial {
    pub plan: Plan,
    /// Whether a second or two show it.
    pub quick: bool,
}

/// The test that catches a mutant by a schedule of its own, where no draw finds one.
pub fn directed(mutant: Mutant) -> Option<&'static str> {
    match mutant {
        Mutant::CreatedUnpinned | Mutant::DropDeadTrusted => Some("tests/drops.rs"),
        Mutant::CachedLate | Mutant::FrozenCached => Some("tests/cached_words.rs"),
        Mutant::EmptyBlocksKept => Some("tests/empty_blocks.rs"),
        Mutant::HeldLate => Some("tests/late_views.rs"),
        Mutant::LeftAtEndKept => Some("tests/left_at_end.rs"),
        Mutant::LeftInFrontKept => Some("tests/left_in_front.rs"),
        Mutant::MoveNotCounted => Some("tests/moved_lists.rs"),
        Mutant::NextTurnRecovered => Some("tests/next_turn.rs"),
        Mutant::ReadInOneTurn => Some("tests/reader_turns.rs"),
        Mutant::GivenUpUnasked | Mutant::RecoveryTakenForRival => Some("tests/refusals.rs"),
        Mutant::ReplicasTriedOnce => Some("tests/confirmed_replicas.rs"),
        Mutant::SnapshotNotValidated => Some("tests/snapshots.rs"),
        // They need what the simulator lacks: files, other processes, damage.
        Mutant::ReserveUnjudged
        | Mutant::FramesBelieved
        | Mutant::LengthUnjudged
        | Mutant::LinkFollowed
        | Mutant::OwnerBelieved => Some("crates/cenote/tests/unjudged.rs"),
        Mutant::DirectoryAskedNotMarked
        | Mutant::DirectoryAskedUnseen
        | Mutant::DirectoryLoneDeathIgnored => Some("crates/cenote/tests/directory_locks.rs"),
        Mutant::DirectoryPassesUnbounded => Some("crates/cenote/src/sync/directory/cohort_tests.rs"),
        Mutant::DescriptorBelieved | Mutant::LivenessByDescriptor => {
            Some("crates/cenote/src/memory/liveness.rs")
        }
        Mutant::QuiescedEarly => Some("crates/cenote/src/memory/delegated/server_tests.rs"),
        Mutant::HolderUnmapped => Some("crates/cenote/src/memory/kill.rs"),
        _ => None,
    }
}

/// The trial of a mutant.
pub fn trial(mutant: Mutant) -> Trial {
    use Mutant::*;
    use PolicyKind::{Pct, Random};
    use Subject::*;
    match mutant {
        AnyEmpty
        | AuxiliaryForgotten
        | CountNotWrittenBack
        | NamedLate
        | ObjectNotWrittenBack
        | ObjectPartlyWrittenBack => quick(noncoherent(Hash, 2, 2, 10, 1, Random)),
        AttachWaits => quick(long(coherent(Hosts, 3, 2, 14, 2, Random))),
        LeftWithPin => quick(noncoherent(Instances, 3, 2, 14, 2, Random)),
        TakenWithoutFence => quick(no_membarrier(small(coherent(Allocator, 3, 2, 20, 1, Random)))),
        TakenWhileHeld | TakeoverNotAwaited => quick(small(coherent(Allocator, 3, 2, 20, 1, Random))),
        MoveNotCounted => slow(small(coherent(Hash, 3, 2, 40, 2, Random))),
        EndNotAwaited => slow(noncoherent(Tree, 3, 2, 40, 3, Random)),
        TakenEarly => quick(noncoherent(Tree, 3, 2, 20, 2, Random)),
        ReservedKept => quick(noncoherent(Tree, 3, 2, 40, 3, Random)),
        EvidenceSlotAlone | EvidenceWithoutLists => quick(noncoherent(Hash, 2, 2, 80, 1, Random)),

        ClaimOfTheDead | PhaseNotAwaited | ResultReplaced | SecondResultKept => {
            quick(coherent(Tasks, 3, 2, 8, 2, Random))
        }
        DataNotWrittenBack => quick(noncoherent(Objects, 3, 2, 14, 2, Random)),
        AbortedDataKept => slow(noncoherent(Objects, 3, 2, 14, 2, Random)),
        ViewNotMarked => quick(coherent(Objects, 3, 2, 14, 2, Random)),
        ViewNotChecked | HeldLate => slow(coherent(Objects, 3, 2, 14, 2, Random)),
        StoredBeforeSlot | ReplacedKept | LoserKept | DeletedUnmarked | ReleasedAtOnce
        | ReleasedUnchecked | HeldRemoved | TableFirst | NameNotLookedUp | UnnamedKept
        | BytesNotRecounted => quick(coherent(Objects, 3, 2, 14, 2, Random)),
        ResultNotWrittenBack | TasksCountNotDropped | TasksNotWrittenBack => {
            quick(noncoherent(Tasks, 3, 2, 8, 2, Random))
        }

        MachineUnasked | HomeMoved | KilledElsewhere => quick(noncoherent(Machines, 3, 1, 8, 1, Random)),
        DrainedAhead => quick(small(coherent(Growth, 2, 2, 40, 1, Random))),
        DrainForgotten | MovedBeforeCopied => quick(coherent(Growth, 2, 2, 40, 1, Random)),
        LineNotWrittenBack => quick(noncoherent(Growth, 2, 2, 10, 1, Random)),
        CopyUnchecked => quick(noncoherent(Growth, 2, 2, 40, 1, Random)),
        FrozenChanged => quick(noncoherent(Growth, 3, 2, 10, 2, Random)),
        EmptyNotFrozen => quick(coherent(Moving, 3, 2, 6, 0, Random)),

        ChainUnconfirmed => quick(noncoherent(Reuse, 3, 2, 20, 1, Random)),
        ClaimLeft | ClaimUnconfirmed | RivalsIgnored => quick(coherent(Reuse, 3, 2, 10, 2, Random)),
        ClaimBesideEmpty => slow(coherent(Reuse, 3, 2, 10, 2, Random)),
        DeadClaimKept => quick(coherent(Reuse, 3, 2, 10, 3, Random)),
        EvidenceReused => slow(noncoherent(Reuse, 3, 2, 20, 3, Random)),
        ClaimMoved => slow(coherent(Shrinking, 3, 2, 10, 3, Random)),
        ReplicasTriedOnce => slow(coherent(Shrinking, 2, 2, 10, 0, Pct(3))),

        DoneBeforeMoved | GroupNotHelped | ReplicasNotMoved | RestNotMoved => {
            quick(coherent(Moving, 2, 3, 6, 1, Random))
        }
        MovedForgotten => quick(coherent(Moving, 3, 1, 6, 0, Pct(6))),
        ReplicaNotTentative => slow(coherent(Moving, 2, 2, 10, 0, Pct(8))),
        RetirerNotClaimed => quick(noncoherent(Moving, 2, 2, 12, 1, Random)),

        ClearedEarly
        | CommitWithoutChecksum
        | PublishedNameKept
        | RecoveryWithoutClaim
        | ReplaySkipped
        | ReserveReturnedBlindly
        | StateNotClaimed => quick(coherent(Allocator, 2, 2, 10, 1, Random)),
        LogsNotApplied => quick(noncoherent(Allocator, 3, 2, 20, 2, Random)),
        CellsKept => slow(small(noncoherent(Allocator, 3, 2, 40, 0, Random))),
        AdopterWithoutClaim => quick(small(coherent(Places, 3, 2, 14, 2, Random))),
        ReserveLate => quick(coherent(Allocator, 3, 2, 40, 2, Random)),
        AppliedNotWrittenBack | EntryNotWrittenBack | PersistWithoutFence | RecordNotWrittenBack => {
            quick(noncoherent(Allocator, 2, 2, 10, 1, Random))
        }
        AcknowledgedEarly => quick(small(noncoherent(Thin, 3, 2, 30, 1, Random))),
        ChecksumIgnored => quick(noncoherent(Allocator, 3, 2, 40, 3, Random)),
        LogNotWrittenBack => quick(noncoherent(Allocator, 3, 2, 40, 2, Random)),
        HoleFilledUnlocked | HoleMarkedLate | HoleNotReserved | HolePunchedUnreclaimable => {
            quick(coherent(Trim, 3, 2, 40, 2, Random))
        }
        SpareKept => slow(small(coherent(Crowded, 3, 2, 60, 2, Random))),
        IdleListLeft => quick(coherent(Crowded, 3, 2, 30, 0, Random)),
        EmptyBlocksKept => slow(coherent(Crowded, 3, 2, 30, 0, Random)),
        FullAtOnce => quick(coherent(Crowded, 3, 2, 30, 0, Random)),
        FullUnwaited => quick(noncoherent(Crowded, 3, 2, 30, 0, Random)),
        HoleReadUnpinned => slow(coherent(Trim, 3, 2, 40, 2, Random)),
        TakenOverUnapplied => slow(small(coherent(Trim, 5, 1, 20, 5, Random))),
        NameCached => quick(noncoherent(Names, 3, 2, 10, 0, Random)),
        ClassesKept => quick(noncoherent(Allocator, 2, 2, 80, 0, Random)),

        NotCaughtUp => quick(coherent(Allocator, 2, 2, 20, 0, Pct(8))),

        BarrierLeftOut => quick(coherent(Epochs, 4, 1, 40, 2, Random)),
        ValueUnpinned => quick(coherent(Hash, 2, 2, 40, 1, Random)),
        AnnouncedWithoutFence => quick(no_membarrier(coherent(Epochs, 4, 1, 40, 2, Random))),
        ReaderWithoutFence => quick(coherent(Rwlock, 3, 2, 12, 2, Random)),
        SealUnchecked => quick(delegated(Hash, 3, 2, 10, 0)),
        EpochNotHelped | NeverWithdrawn | NotAnnounced | ReplicasNotRaised | TagZero => {
            quick(coherent(Epochs, 4, 1, 40, 2, Random))
        }
        EpochRuleWithoutOne => quick(coherent(Epochs, 4, 1, 40, 0, Random)),
        BusyWithdrawn => quick(noncoherent(Epochs, 2, 1, 60, 0, Random)),

        LockFromTheLiving => quick(coherent(Instances, 3, 2, 10, 1, Random)),
        OwnLinesNotFlushed => quick(noncoherent(Instances, 2, 2, 30, 0, Random)),
        BatchNotNamed | FreedUnmarked | FreedEntryKept | RecycledEntryKept => {
            quick(coherent(Allocator, 3, 2, 40, 2, Random))
        }
        RecycledUnreclaimable => quick(coherent(Epochs, 4, 1, 40, 2, Random)),
        RecycledUnflushed => quick(noncoherent(Instances, 3, 2, 40, 2, Random)),
        AttachNotInvalidated
        | ChunksNotRefreshed
        | CountNotDropped
        | DiscardedLinesKept
        | AdopterNotInvalidated
        | JoinCacheKept
        | RecoveryNotInvalidated
        | RequestNotWrittenBack
        | RoundNotAwaited => quick(noncoherent(Instances, 3, 2, 40, 2, Random)),
        AuxiliaryNotNamed => quick(noncoherent(Instances, 3, 3, 10, 2, Random)),
        PageNotWrittenBack | RecordKept => quick(noncoherent(Tree, 2, 2, 10, 1, Random)),
        LeafCached | FenceIgnored | SplitWithoutFence | PageOfRootKept => {
            quick(noncoherent(Ordered, 3, 2, 12, 1, Random))
        }
        SnapshotNotValidated
        | ReserveUnjudged
        | FramesBelieved
        | LengthUnjudged
        | LinkFollowed
        | DescriptorBelieved
        | DirectoryAskedNotMarked
        | DirectoryAskedUnseen
        | DirectoryLoneDeathIgnored
        | DirectoryPassesUnbounded
        | OwnerBelieved
        | LivenessByDescriptor
        | HolderUnmapped
        | QuiescedEarly => quick(coherent(Hash, 2, 1, 12, 0, Random)),
        GivenUpUnasked | LeftInFrontKept | RecoveryTakenForRival | ReadInOneTurn => {
            quick(coherent(Rwlock, 3, 2, 20, 2, Random))
        }
        CacheWithoutStamp | CachedLate | FrozenCached => quick(noncoherent(Thin, 3, 2, 40, 0, Random)),
        SecondaryKept | SecondaryForgottenEarly | SecondaryRetiredLast => {
            quick(coherent(Tree, 2, 2, 20, 2, Random))
        }
        NeighboursOnce => slow(coherent(Ordered, 4, 1, 80, 0, Pct(8))),
        PostUnchecked => quick(coherent(Notes, 3, 2, 40, 0, Random)),
        NoteByOffset => slow(small(coherent(Notes, 3, 2, 80, 1, Random))),
        FrozenNotHelped => slow(coherent(Thin, 3, 1, 30, 2, Random)),
        MergingChanged => quick(coherent(Thin, 3, 3, 40, 0, Random)),
        FrozenRead | JoinedUnfrozen | JoinWithoutNext | JoinedPageKept | JoinedNodeKept | JoinedNodeEarly => {
            quick(coherent(Thin, 3, 2, 20, 1, Random))
        }
        LoweredUnfrozen | LoweredNodeKept | LoweredPageKept => quick(coherent(Merge, 3, 2, 20, 1, Random)),
        LoweredWithNext => quick(small(coherent(Ends, 3, 2, 60, 3, Random))),
        LoweringCached => quick(noncoherent(Merge, 3, 2, 20, 1, Random)),
        RoundOfTheAsker => slow(noncoherent(Instances, 3, 2, 8, 3, Random)),

        DeathTakenClean | NoteKept | RecoveredBlindly | SuccessorNotNotified => {
            quick(coherent(Spin, 3, 2, 12, 2, Random))
        }
        BeforeKept | DeadTakenForOwner | HeldNotRecovered | PastNotUnlinked | QueuedLate | SeenPutAtRest
        | SlotTakenStanding | UnlinkNotCounted => quick(coherent(Queue, 3, 2, 12, 2, Random)),
        NextTurnRecovered => slow(coherent(Queue, 3, 3, 20, 3, Random)),
        UnlinkOverlooked => quick(coherent(Queue, 2, 4, 20, 4, Random)),
        StaleWordTaken | SeizedUnasked | QueuedUnasked | RemovedAtRest | RemovedEndRestored
        | FreedBeforeVacated => quick(coherent(Removal, 3, 2, 14, 2, Random)),
        LeftAtEndKept => slow(Plan {
            limits: LimitsKind::Drawn,
            draws_guidelines: true,
            ..coherent(Semaphore, 3, 2, 14, 2, Random)
        }),
        NameNotReread => quick(coherent(Removal, 3, 2, 30, 0, Random)),
        StalePermitTaken => quick(coherent(Semaphore, 3, 2, 14, 2, Random)),
        PreparedUnlocked => quick(coherent(Condvar, 3, 2, 14, 0, Random)),
        DeadTakenForWaking => slow(delegated(Condvar, 6, 3, 25, 4)),
        BitTakenFromSleeper => quick(coherent(Condvar, 3, 2, 14, 0, Random)),
        TurnNotReread => quick(coherent(Queue, 3, 1, 10, 2, Random)),
        PromisedNotAnnounced => quick(coherent(Queue, 3, 2, 14, 2, Random)),
        SleeperWithoutBarrier => quick(coherent(Mutex, 3, 2, 14, 2, Random)),
        DeathSleptThrough => quick(small(coherent(Mutex, 2, 1, 12, 1, Random))),
        DeadReaderAwaited | BitReadFirst | ReaderNotMarked | ReadersNotAwaited | WriterCheckedFirst => {
            quick(coherent(Rwlock, 3, 2, 12, 2, Random))
        }

        DirectoryDeadAwaited
        | DirectoryEntryInPlace
        | DirectoryEnteredYielding
        | DirectoryNotDropped
        | DirectoryNotWrittenBack
        | DirectoryNumberNotCleared
        | DirectoryQueueNotHeld
        | DirectorySharersNotAwaited
        | DirectorySuccessorNotNotified => quick(noncoherent(DirectoryLocks, 3, 2, 10, 2, Random)),

        DirectoryVersionNotChecked
        | DirectoryEpochNotChecked
        | DirectoryQueueLost
        | DirectoryGrantOfOldTicket
        | DirectoryEndedSessionHeard
        | DirectoryNextReadersForgotten
        | DirectoryDataNotKept
        | DirectoryGiveUpOfOldTicket
        | DirectoryForwardCountedTwice
        | DirectoryForwardNotRepeated
        | RemoteLeaseFromAnswer
        | RemoteLeaseIgnored
        | RemotePauseCounted
        | RemoteRegionNotStamped
        | RemoteChangesForgotten
        | RemoteEnteredClosing
        | RemoteCommitEarly
        | RemoteNoteOutOfOrder
        | RemoteLeaverCountsAsDead => quick(coherent(LockService, 4, 2, 12, 2, Random)),

        DirectoryDriverHeldUp => quick(Plan {
            policy: Pct(3),
            steps_max: 250_000,
            ..delegated(DirectoryLocks, 3, 2, 10, 2)
        }),
        DirectoryOpenWhileClosing => quick(noncoherent(DirectoryLocks, 2, 3, 2, 0, Random)),
        DirectoryEntryNotReread => slow(noncoherent(DirectoryLocks, 4, 1, 20, 0, Random)),

        WordPlannedTwice => quick(delegated(Hash, 3, 2, 10, 0)),
        PlansForgotten => quick(delegated(Hash, 3, 2, 10, 2)),
        ExecutedUnplanned => slow(delegated(Hash, 3, 1, 6, 3)),
        SleepUnsaid | SleeperNotWoken => quick(delegated(Hash, 3, 2, 10, 0)),
        SleptByHalf => slow(delegated(Hash, 3, 2, 10, 0)),
        SleepersForgotten => slow(delegated(Hash, 3, 2, 10, 2)),

        GroupCountedEarly | GroupDeathTwice | GroupMemberKept | GroupNotNotified | LoneDeathIgnored => {
            quick(coherent(Group, 3, 2, 20, 2, Random))
        }
        EventCountNotWoken | WaitNotPrepared | GroupJoinNotNotified | GroupNotifiedEarly => {
            quick(coherent(Group, 3, 2, 20, 2, Random))
        }
        NotifiedUnderClaim | FirstFailureEnds => quick(coherent(Group, 3, 2, 20, 2, Random)),
        GroupPendingIgnored => slow(coherent(Group, 3, 2, 20, 3, Random)),
        GroupCommitEarly => quick(noncoherent(Group, 3, 2, 20, 2, Random)),
        GroupRoomForgotten => slow(coherent(Group, 4, 3, 40, 3, Random)),
        GroupNotReplayed => quick(noncoherent(Group, 3, 2, 20, 3, Random)),

        FenceBelieved
        | FenceAdopted
        | FencingCountsAsDead
        | FirstPollCounts
        | GenerationBeforeFence
        | LeadsUnasked
        | ElectionIgnored
        | LatePollsForgiven
        | MissesKept => quick(long(coherent(Hosts, 3, 2, 10, 2, Random))),
        DeclaredForGood => quick(coherent(Hosts, 3, 2, 20, 3, Random)),

        // One run in some hundred shows it.
        SleptApart => slow(coherent(DeathNotices, 2, 3, 30, 0, Random)),
        GroupHostForgotten | GroupDeathsLeft => quick(coherent(DeathNotices, 3, 2, 10, 2, Random)),

        LeaseUnfenced => quick(noncoherent(Lease, 3, 1, 40, 2, Random)),
        // One run in a thousand shows it.
        LeaseNotReread => quick(noncoherent(Lease, 4, 1, 80, 3, Random)),
        // One run in some hundred shows it.
        HostlessLeft => quick(coherent(Lease, 3, 2, 14, 2, Random)),

        DeadNotDrained => slow(noncoherent(SecondProcesses, 2, 2, 20, 2, Random)),
        DropsUncounted | DropsUnseen | DropUnwaited => quick(coherent(Drops, 3, 2, 20, 0, Random)),
        DropViewsUnasked => slow(coherent(Drops, 3, 2, 20, 0, Random)),
        GroupDropUnseen => quick(coherent(GroupDrops, 3, 2, 20, 0, Random)),
        DropSeenBefore | DropCreationUnasked => quick(small(coherent(Drops, 3, 2, 20, 0, Random))),
        DropDeadTrusted | DropGoneAtOnce => slow(small(coherent(Drops, 3, 2, 20, 2, Random))),
        CreatedUnpinned | DropUnmasked => slow(small(delegated(Drops, 3, 2, 10, 2))),
        RepairUnasked | RepairUncounted => quick(coherent(Repairs, 3, 1, 10, 0, Random)),
        AttachScansOnce => quick(noncoherent(Places, 3, 2, 10, 2, Random)),
        InstanceByPlace => slow(coherent(Places, 3, 2, 10, 2, Random)),
    }
}

fn quick(plan: Plan) -> Trial {
    Trial { plan, quick: true }
}

fn slow(plan: Plan) -> Trial {
    Trial { plan, quick: false }
}

fn coherent(
    subject: Subject,
    hosts: u32,
    threads: u32,
    operations: u32,
    crashes: u32,
    policy: PolicyKind,
) -> Plan {
    Plan {
        subject,
        coherent: true,
        hosts,
        threads,
        operations,
        crashes,
        delegated: false,
        draws_guidelines: false,
        prefetches: false,
        has_membarrier: true,
        blind_exchanges: false,
        limits: LimitsKind::Usual,
        profile: None,
        policy,
        steps_max: 1_000_000,
    }
}

pub fn noncoherent(
    subject: Subject,
    hosts: u32,
    threads: u32,
    operations: u32,
    crashes: u32,
    policy: PolicyKind,
) -> Plan {
    Plan {
        coherent: false,
        ..coherent(subject, hosts, threads, operations, crashes, policy)
    }
}

/// On kernels without the asymmetric barrier.
fn no_membarrier(plan: Plan) -> Plan {
    Plan {
        has_membarrier: false,
        ..plan
    }
}

/// With small thresholds.
fn small(plan: Plan) -> Plan {
    Plan {
        limits: LimitsKind::Small,
        ..plan
    }
}

/// With more steps: hosts that fence each other again and again come to an end late.
fn long(plan: Plan) -> Plan {
    Plan {
        steps_max: 4_000_000,
        ..plan
    }
}

/// With a server that executes exchanges, of which there are many more steps.
fn delegated(subject: Subject, hosts: u32, threads: u32, operations: u32, crashes: u32) -> Plan {
    Plan {
        delegated: true,
        ..long(noncoherent(
            subject,
            hosts,
            threads,
            operations,
            crashes,
            PolicyKind::Random,
        ))
    }
}

/// A plan in a few words.
pub fn describe(plan: &Plan) -> String {
    let limits = match plan.limits {
        LimitsKind::Usual => "",
        LimitsKind::Small => ", small limits",
        LimitsKind::Drawn => ", limits drawn",
    };
    let barrier = match plan.has_membarrier {
        true => "",
        false => " without membarrier",
    };
    format!(
        "{}, {}{barrier}, {} × {}, {}, {}, {}{limits}",
        plan.subject.name(),
        plan.memory(),
        plan.hosts,
        plan.threads,
        plan.operations,
        plan.crashes,
        match plan.policy {
            PolicyKind::Random => "random".to_owned(),
            PolicyKind::Pct(depth) => format!("PCT {depth}"),
            PolicyKind::Exhaustive(preemptions) => format!("exhaustive {preemptions}"),
        }
    )
}
