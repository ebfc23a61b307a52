//! What a client is asked for, where it is, and what it sends.

use cenote_replica::object::Outcome;

/// What a client is asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Call {
    /// To bind the key, if it is not bound. As the first call of a client: it has looked at the slots already, when
    /// both were vacant.
    Insert,
    /// To read the key.
    Get,
    /// To unbind the key.
    Remove,
    /// To write the last copy of its log, if it is still to be written.
    Tidy,
}

/// A client that is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Its calls, one after the other.
    pub calls: Vec<Call>,
    /// The slot that its inserts take, if it is vacant.
    pub slot: usize,
    /// Nodes that hold its objects, with their logs: the primary first.
    pub log: Vec<usize>,
}

/// Where a client is. A slot is named by its number, and by what it held when the client looked; an object by its
/// number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// Between calls, or after the last.
    Idle,
    /// It writes its object, if it has one, and reads the slots at the primary.
    Looks,
    /// It reads the log of the object that it has found.
    Hears(usize, usize),
    /// It writes *decided* to the backups of that log, or to its only copy.
    TellsFirst(usize, usize),
    /// It writes *decided* to the primary of that log.
    TellsLast(usize, usize),
    /// An insert: it swaps the backups; without backups, it makes the primary tentative.
    Swaps(usize, u64),
    /// It looks whether the other slot has the key.
    Peeks(usize, u64),
    /// It waits for what becomes of the other slot.
    Lurks(usize, u64),
    /// It swaps the primary, and writes *bound* to its log.
    Binds(usize, u64),
    /// It gives up at the backups.
    Vacates(usize, u64),
    /// It gives up at the primary.
    Leaves(usize, u64),
    /// It has given up as often as it may while nothing changes, and waits for what becomes of the other slot. In fact
    /// it would look again and again.
    Rests(usize),
    /// A removal: it swaps the backups; without backups, it makes the primary tentative.
    Takes(usize, usize),
    /// It writes *won* to its log.
    Notes(usize, usize),
    /// It swaps the primary.
    Ends(usize, usize),
    /// It has lost, and waits until the primary has changed.
    Awaits(usize, u64),
    /// It writes the last copy of its log.
    Tidies,
    /// It waits for a closing.
    Waits {
        /// Whether its round had begun.
        has_round: bool,
        /// Whether it knows that its change was shown.
        is_shown: bool,
    },
    /// It reads in its log how its change has gone.
    Asks {
        /// Whether it knew that its change was shown.
        is_shown: bool,
    },
    /// It has crashed. `true`: its regions have been closed since.
    Crashed(bool),
}

/// What a verb does to a slot, or to the log of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Act {
    /// Reads a slot.
    Read(usize),
    /// Replaces what is in a slot, if it is the expected word.
    Swap(usize, u64, u64),
    /// Writes a log, or with nothing the whole object.
    Write(usize, Option<Outcome>),
    /// Writes *bound* to a log that says nothing.
    Bind(usize),
    /// Reads a log.
    Hear(usize),
}

/// What a verb has come back with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// The slot as it was.
    Was(u64),
    /// The log has been written.
    Written,
    /// What the log says.
    Said(Option<Outcome>),
}

/// A verb on its way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Flight {
    /// To which node.
    pub node: usize,
    /// What it does.
    pub act: Act,
}

/// A client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Client {
    /// Calls that it has begun.
    pub begun: usize,
    /// Where it is.
    pub stage: Stage,
    /// The verbs of the batch that it waits for, with what they have come back with.
    pub batch: Vec<(Flight, Option<Answer>)>,
    /// The object of an insert of its own that was shown, if the last copy of its log is still to be written.
    pub late: Option<usize>,
    /// Nonces that it has used.
    pub nonces: u64,
}

impl Act {
    /// Whether it leaves anything behind.
    pub fn changes(self) -> bool {
        matches!(self, Act::Swap(..) | Act::Write(..) | Act::Bind(_))
    }
}

impl Client {
    /// Where it is after its batch was interrupted.
    pub fn interrupted(&self) -> Stage {
        let has_shown = |(flight, answer): &(Flight, Option<Answer>)| match (flight.act, answer) {
            (Act::Swap(_, before, mine), Some(Answer::Was(was))) => *was == before || *was == mine,
            _ => false,
        };
        match self.stage {
            Stage::Looks
            | Stage::Hears(..)
            | Stage::TellsFirst(..)
            | Stage::TellsLast(..)
            | Stage::Rests(_)
            | Stage::Tidies => Stage::Waits {
                has_round: false,
                is_shown: false,
            },
            Stage::Asks { is_shown } => Stage::Waits {
                has_round: true,
                is_shown,
            },
            Stage::Binds(..) => Stage::Waits {
                has_round: true,
                is_shown: self.batch.iter().any(has_shown),
            },
            stage @ (Stage::Waits { .. } | Stage::Idle | Stage::Crashed(_)) => stage,
            _ => Stage::Waits {
                has_round: true,
                is_shown: false,
            },
        }
    }
}
