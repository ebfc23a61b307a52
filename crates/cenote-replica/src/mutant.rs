//! Planted faults: changes of the protocols that the tests must find. Without the feature `mutants` there are none, and
//! the checks for them cost nothing.

macro_rules! mutants {
    ($($variant:ident = $name:literal, $what:literal;)*) => {
        /// A planted fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant { $(#[doc = $what] $variant,)* }

        #[cfg(feature = "mutants")]
        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$variant,)*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Mutant::$variant => $name,)* }
            }

            /// What it does.
            pub const fn what(self) -> &'static str {
                match self { $(Mutant::$variant => $what,)* }
            }
        }
    };
}

mutants! {
    HalfIsMajority = "half-is-majority", "a writer whose value half of the backups hold takes that for a majority";
    MinorityKept = "minority-kept", "a winner leaves the backups that hold other values as they are";
    LoserNotAwaiting = "loser-not-awaiting", "a loser does not wait until the winner's value shows";
    AloneAsOthers = "alone-as-others", "without backups a change writes its log before the primary has decided";
    DoubtForgotten = "doubt-forgotten", "a client forgets verbs that may still arrive, if another one interrupted it";
    DecisionUnasked = "decision-unasked", "a change that was interrupted begins again without asking what the master decided";
    CellNotWritten = "cell-not-written", "a change does not name its object in its in-flight cell";
    SealTakenForChange = "seal-taken-for-change", "a change that lost against a seal takes that for another change";
    TwinsIgnored = "twins-ignored", "a client that inserts does not look for another one that inserts the same key";
    TwinsBothStay = "twins-both-stay", "of two clients that insert the same key neither gives up for the other's smaller slot";
    ContentReadEarly = "content-read-early", "a client that splits a segment copies what was in it before it was sealed";
    TakenBackUnfreed = "taken-back-unfreed", "a client takes back objects that are marked and not freed";
    AdoptedShown = "adopted-shown", "a client that takes over a block retires objects that the index has";
    DecisionNotTold = "decision-not-told", "the master does not write to the logs of changes what it has decided";
    FingerprintBelieved = "fingerprint-believed", "a reader takes an object with the key's fingerprint for the key's";
    CachedForEver = "cached-for-ever", "a client reads an object that it has seen in any era along with the key's slots, and believes it";
    ExtentsAfterHead = "extents-after-head", "a change writes the extents of its value when its slot shows";
    ExtentsFreedAtOnce = "extents-freed-at-once", "extents of a value that was replaced are free before operations that may read them have ended";
    ExtentsKept = "extents-kept", "who replaces a value retires its head and not its extents";
    ExtentsForgotten = "extents-forgotten", "a client that takes over a block leaves extents in it that belong to nothing";
    ExtentsTaken = "extents-taken", "a client that takes over a block retires extents whose head the index has";
    FreedUnpinned = "freed-unpinned", "eras go on while marks of objects that a client frees are on their way";
    FreedTwice = "freed-twice", "a client that frees an object of its own does not ask whether the object was free before";
    AdoptedFreed = "adopted-freed", "a client that frees an object while it takes over the block of it takes back what it has found to be free";
    ReplacedKept = "replaced-kept", "a change that goes on after an interruption forgets the object that it has replaced";
    AdoptedForgotten = "adopted-forgotten", "a client that takes over a block leaves objects in it that are in no slot";
    NotSwept = "not-swept", "a client does not look for objects in its blocks that clients were to free that have gone";
    BusySwept = "busy-swept", "a client that looks for such objects takes those of its own changes that go on for some";
    PassedOverLearnt = "passed-over-learnt", "a client that looks for such objects learns the marks of those that it passes over";
    SizeBelieved = "size-believed", "a client that takes over a block does not write how it is cut to all nodes";
    BoundBelieved = "bound-believed", "who replaces an object whose log says that it won a vacant slot takes that for proof that it was shown";
    ToldLate = "told-late", "who replaces an object whose log is empty writes to that log when the backups have its own";
    UndoneShown = "undone-shown", "a change whose slot was shown, and then closed, does not ask whether it was undone";
    LogAtOnce = "log-at-once", "who reads an object whose log says that it won a vacant slot takes it for granted that all copies of the log say so";
    BoundOverwrites = "bound-overwrites", "an insert writes to its log that it has won, over what another may have decided";
    RemovalPassed = "removal-passed", "an insert does not see another slot of its key that a removal has emptied at the backup alone";
    ReplacingUnsaid = "replacing-unsaid", "the slot of an object does not say that it came in the place of another one of its key";
    LoserReplaced = "loser-replaced", "a conditional replacement that lost its round counts as done";
    ConditionOverlooked = "condition-overlooked", "a blind write that lost against a conditional one counts as overwritten by it";
    ConditionUnasked = "condition-unasked", "a conditional replacement does not ask whether the key is bound to what it expects";
    FenceOverlooked = "fence-overlooked", "a client of an ordered map takes a page for that of a key above its high fence";
    DivisionLeft = "division-left", "a client of an ordered map changes a page that is being divided, and leaves the division to others";
    RightPageLate = "right-page-late", "a page of an ordered map is shortened before its upper half is in the map";
    PageOverwritten = "page-overwritten", "a page of an ordered map is replaced whatever has become of the one that was read";
    LeafBelieved = "leaf-believed", "a reader of an ordered map believes a leaf that it has seen before";
    GapOverlooked = "gap-overlooked", "a scan of an ordered map goes on with the next page that it has read ahead, where another one has come between";
    WonOverwrites = "won-overwrites", "without backups a change writes to its log that it has won, over what another may have decided";
    LostInTheWay = "lost-in-the-way", "a reader fails for an object in a lost region that only has the fingerprint of its key";
    OffersForgotten = "offers-forgotten", "a client whose split was interrupted forgets the parts that it has made";
    LateForEver = "late-for-ever", "a client writes the last copy of a log under a later view than that under which it saw the object";
    TwinUntold = "twin-untold", "an insert that gives up for another one begins again for ever, though that one stands still";
    FailedKept = "failed-kept", "a change that finds no memory for a split keeps the memory of its object";
    SuccessorIgnored = "successor-ignored", "a client goes on with a segment that has been split";
}

#[cfg(feature = "mutants")]
mod chosen {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static CHOSEN: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Plants a fault for this thread, or none.
    pub fn choose(mutant: Option<Mutant>) {
        CHOSEN.set(mutant);
    }

    /// Whether a fault is planted.
    pub fn is(mutant: Mutant) -> bool {
        CHOSEN.get() == Some(mutant)
    }
}

#[cfg(feature = "mutants")]
pub use chosen::{choose, is};

/// Whether a fault is planted: none is.
#[cfg(not(feature = "mutants"))]
pub const fn is(_: Mutant) -> bool {
    false
}
