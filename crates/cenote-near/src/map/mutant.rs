//! Planted faults, for the tests: each must be found by the comparison with a model. Outside tests there are none.

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// A predecessor is asked of the key's own subrange alone.
    PredecessorStays,
    /// A least key that the batch deletes is believed to be there still.
    LeastBelieved,
    /// Keys that the batch deletes are believed to be there still.
    SureBelieved,
    /// A scan leaves out pulled subranges.
    ScanWithoutHost,
    /// A merge forgets the pulled subranges of its region.
    MergeWithoutHost,
    /// What moves arrives after the next round's commands.
    ArrivesLate,
    /// A subrange that a batch has split is looked for where it was.
    SplitForgotten,
    /// A read that was there before is believed to find the same, whatever was changed since.
    RepeatsBelieved,
    /// A change goes with an earlier operation on its key, whatever reads are between them.
    ChangeBeforeRead,
    /// Of several operations on a key, a module executes two.
    NetForgotten,
    /// What a key has after several operations on it is what it had before.
    StateForgotten,
    /// What was found out of a batch is believed, whatever the batch before has moved since.
    PreparedBelieved,
}

#[cfg(test)]
pub(super) const ALL: [Mutant; 12] = [
    Mutant::PredecessorStays,
    Mutant::LeastBelieved,
    Mutant::SureBelieved,
    Mutant::ScanWithoutHost,
    Mutant::MergeWithoutHost,
    Mutant::ArrivesLate,
    Mutant::SplitForgotten,
    Mutant::RepeatsBelieved,
    Mutant::ChangeBeforeRead,
    Mutant::NetForgotten,
    Mutant::StateForgotten,
    Mutant::PreparedBelieved,
];

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Plants a fault in maps that this thread uses, or none.
#[cfg(test)]
pub(super) fn plant(mutant: Option<Mutant>) {
    PLANTED.set(mutant);
}

/// Whether a fault is planted.
#[cfg(test)]
pub(super) fn planted(mutant: Mutant) -> bool {
    PLANTED.get() == Some(mutant)
}

/// Whether a fault is planted.
#[cfg(not(test))]
pub(super) fn planted(_: Mutant) -> bool {
    false
}
