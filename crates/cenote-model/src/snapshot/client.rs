//! What a client does: the shipped parts of a write and a read of a replicated word, and between them what
//! `client/change.rs` does.
//!
//! A shipped part is a future. A state of the model cannot hold one, so it holds the completions that the part has had
//! so far; to go on, the part is run again from its beginning with these, until it posts the next batch or ends.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use cenote_replica::object::Outcome;
use cenote_replica::slot::snapshot::{
    Interrupted, Verdict, Word, await_end, read, swap_backups, swap_primary,
};
use cenote_replica::verbs::{Address, Completion, Request, Verb, Verbs};
use cenote_replica::view::{NodeId, Region};

/// Where the word is.
const AT: Address = Address::new(0, 64);

/// What a client is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Call {
    /// To write a value that nobody else writes.
    Write,
    /// To read.
    Read,
}

/// Where a client is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// Between calls, or after the last.
    Idle,
    /// It reads the word, for a reader.
    Reads,
    /// It writes: it reads the word that it is to replace.
    Looks,
    /// It swaps this word at the backups, and judges.
    Swaps(u64),
    /// It has won, and writes so to its log.
    Logs(u64),
    /// It swaps this word at the primary.
    Ends(u64),
    /// It has lost, and waits until this word is gone.
    Awaits(u64),
    /// It waits for a view later than the one that it acts by. `true`: its round has begun, so the region has to have
    /// another key.
    Waits(bool),
    /// It reads in its log how its change has gone.
    Asks,
    /// It has crashed. `true`: its regions have been closed since.
    Crashed(bool),
}

/// What a verb does to the word, or to the log of its client's change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Act {
    /// Reads the word.
    Read,
    /// Replaces the word, if it is the expected one.
    Swap(u64, u64),
    /// Writes to the log that the change has won, over this word.
    Log(u64),
    /// Reads the log.
    Ask,
}

/// What a verb has come back with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// The word as it was.
    Was(u64),
    /// The log has been written.
    Logged,
    /// What the log says.
    Said(Option<Outcome>),
    /// The node has another key.
    Refused,
}

/// A verb on its way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Flight {
    /// Whose.
    pub client: usize,
    /// To which node.
    pub node: usize,
    /// With which key.
    pub key: u64,
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
    /// The view that it acts by: who holds the word, and under which key.
    pub region: Region,
    /// What the batches of its stage have come back with so far.
    pub done: Vec<Vec<u64>>,
    /// The verbs of the batch that it waits for, with what they have come back with.
    pub batch: Vec<(Flight, Option<Answer>)>,
}

/// How far a shipped part has come.
pub enum Progress {
    /// It has sent this batch.
    Posted(Vec<Request>),
    /// It has read this.
    Read(u64),
    /// It has judged.
    Judged(Verdict),
    /// A verb was refused, or the region is closed.
    Interrupted,
}

/// A network that gives the completions of an earlier run again, and then none.
struct Recorded {
    completions: Vec<Vec<Completion>>,
    given: Cell<usize>,
    posted: RefCell<Vec<Request>>,
}

impl Verbs for Recorded {
    async fn post(&self, batch: Vec<Request>) -> Vec<Completion> {
        let given = self.given.get();
        self.given.set(given + 1);
        match self.completions.get(given) {
            Some(completions) => completions.clone(),
            None => {
                self.posted.replace(batch);
                pending().await
            }
        }
    }

    async fn pause(&self, _attempt: u32) {}
}

impl Stage {
    /// Runs the shipped part of this stage, for the writer of `new`, with the completions that it has had so far.
    pub fn run(self, region: &Region, new: u64, completions: Vec<Vec<Completion>>) -> Progress {
        let network = Recorded {
            completions,
            given: Cell::new(0),
            posted: RefCell::default(),
        };
        let word = Word { at: AT, region };
        let part = async {
            let judged = |verdict: Result<Verdict, Interrupted>| verdict.map(Progress::Judged);
            let seen = |word: Result<u64, Interrupted>| word.map(Progress::Read);
            match self {
                Stage::Reads | Stage::Looks => seen(read(&network, word).await),
                Stage::Swaps(old) => judged(swap_backups(&network, word, old, new).await),
                Stage::Ends(old) => judged(swap_primary(&network, word, old, new).await),
                Stage::Awaits(old) => seen(await_end(&network, word, old, 1).await),
                _ => Err(Interrupted { region: 0 }),
            }
        };
        let polled = pin!(part).poll(&mut Context::from_waker(Waker::noop()));
        match polled {
            Poll::Pending => Progress::Posted(network.posted.take()),
            Poll::Ready(progress) => progress.unwrap_or(Progress::Interrupted),
        }
    }

    /// Whether the client is in the middle of a call.
    pub fn is_calling(self) -> bool {
        !matches!(self, Stage::Idle | Stage::Crashed(_))
    }
}

impl Answer {
    /// What the shipped parts get.
    pub fn completion(self) -> Completion {
        match self {
            Answer::Was(word) => Completion::Was(word),
            Answer::Logged => Completion::Written,
            Answer::Said(_) | Answer::Refused => Completion::Refused,
        }
    }
}

impl Flight {
    /// The verb of a request of a shipped part.
    pub fn of(client: usize, request: &Request) -> Self {
        let NodeId(node) = request.node;
        Self {
            client,
            node: node as usize,
            key: request.key.0,
            act: match request.verb {
                Verb::CompareSwap { expected, new } => Act::Swap(expected, new),
                _ => Act::Read,
            },
        }
    }
}

impl Client {
    /// The values that the backups hold, if it has tried to swap them all and has not judged yet: its first batch has
    /// been done.
    pub fn held(&self, new: u64) -> Option<Vec<u64>> {
        let Stage::Swaps(old) = self.stage else {
            return None;
        };
        let was: Option<Vec<u64>> = match self.done.first() {
            Some(done) => Some(done.clone()),
            None => self
                .batch
                .iter()
                .map(|(_, answer)| match answer {
                    Some(Answer::Was(word)) => Some(*word),
                    _ => None,
                })
                .collect(),
        };
        was.map(|was| {
            was.into_iter()
                .map(|was| if was == old { new } else { was })
                .collect()
        })
    }
}
