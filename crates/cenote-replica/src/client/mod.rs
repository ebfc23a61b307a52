//! The operations of the map.
//!
//! | file | |
//! |---|---|
//! | here | a client, what it is given, and what can go wrong |
//! | [`known`] | the segments that a client knows |
//! | [`cache`] | the objects that it knows |
//! | [`get`] | reading a key |
//! | [`change`] | binding and unbinding a key |
//! | [`pending`] | a change that is going on |
//! | [`round`] | rounds of its slot |
//! | [`memory`] | memory for objects |
//! | [`extents`] | values that are longer than a block |
//! | [`replace`] | changes on a condition |
//! | [`ordered`] | a map with an order of keys on top of that |
//! | [`twins`] | two clients that insert one key |
//! | [`late`] | the last copy of a log |
//! | [`split`] | segments that are full |
//! | [`offers`] | what is made for a split, and may come to nothing |
//! | [`join`] | several at once |
//! | [`doubt`] | verbs that may still arrive |
//! | [`upkeep`] | what a client does in the background |
//! | [`sweep`] | objects of its blocks that clients were to free that have gone |
//! | [`adopt`] | blocks of clients that have gone |

mod adopt;
mod cache;
mod change;
mod doubt;
mod extents;
mod get;
pub(crate) mod join;
pub(crate) mod known;
mod late;
mod memory;
mod offers;
mod ordered;
mod pending;
mod replace;
mod round;
pub(crate) mod split;
mod sweep;
mod twins;
mod upkeep;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::index::layout::Segments;
use crate::memory::heap::Heap;
use crate::object::Identity;
use crate::slot::snapshot::Interrupted;
use crate::verbs::{Address, Completion, Request, Verb, Verbs};
use crate::view::{Control, Region, SessionEnded, View};
use cache::Cache;
use doubt::Doubting;
use known::Known;
use late::Late;
use offers::Offer;

pub use cache::Caching;
pub use change::Changed;
pub use ordered::{OrderedMap, Pairs, Shape};
pub use replace::{Replaced, Versioned};

/// How a map lies in its regions. The same for all its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// How large its segments are.
    pub segments: Segments,
    /// Its directory: a word for each prefix of [`Layout::depth`] bits.
    pub directory: Address,
    /// Bits of the directory's prefixes.
    pub depth: u32,
    /// Bytes of a block.
    pub block: u32,
}

/// What the master gave to a client when it joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Session {
    /// Its number, below 2^24. It never comes twice.
    pub number: u32,
    /// Its first in-flight cell.
    pub cells: Address,
    /// How many it has: so many changes can be in flight at once.
    pub count: u32,
}

/// Why an operation did not do what it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The session has ended.
    #[error(transparent)]
    Ended(#[from] SessionEnded),
    /// There is no memory for it.
    #[error("the memory nodes have no free block of {0} bytes: add nodes, or remove keys")]
    Full(u32),
    /// Key or value are too long.
    #[error(
        "a record of {key} + {value} bytes is too long: with blocks of {block} bytes the value of such a key has {longest} bytes at most"
    )]
    TooLong {
        /// Bytes of the key.
        key: usize,
        /// Bytes of the value.
        value: usize,
        /// Bytes of a block.
        block: u32,
        /// Bytes of the longest value of a key of that length; 0 if it cannot have any.
        longest: u64,
    },
    /// This process has no memory for a value of so many bytes.
    #[error("this process has no memory for a value of {0} bytes")]
    Memory(u64),
    /// Key or value are too long for an ordered map.
    #[error(
        "a key of {key} bytes with a value of {value}: an ordered map has keys of up to {key_max} bytes, with their values {entry_max}; keep long values in a map, and here its keys"
    )]
    EntryTooLong {
        /// Bytes of the key.
        key: usize,
        /// Bytes of the value.
        value: usize,
        /// Bytes of a key at most.
        key_max: usize,
        /// Bytes of a key and its value at most.
        entry_max: usize,
    },
    /// The name of an ordered map is too long.
    #[error("the name of an ordered map has {0} bytes: 255 are the most")]
    NameTooLong(usize),
    /// The key is of a kind that only ordered maps use.
    #[error("a key that begins with \"\\0cenote/ordered\\0\" belongs to an ordered map: choose another one")]
    Reserved,
    /// Words of the map are not what any client writes.
    #[error("damaged: {what} at {at:#x}")]
    Damaged {
        /// What.
        what: &'static str,
        /// Where.
        at: u64,
    },
    /// All nodes that held a region are lost.
    #[error("region {0} is lost: all memory nodes that held it are")]
    Lost(u16),
    /// This session has made as many changes as it has identities for.
    #[error("this session has made 2^34 changes: connect again")]
    Exhausted,
}

/// Why a step of an operation did not come to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    /// It goes on under a later view.
    Interrupted(Interrupted),
    /// It does not go on.
    Failed(Error),
}

impl From<Interrupted> for Trouble {
    fn from(interrupted: Interrupted) -> Self {
        Trouble::Interrupted(interrupted)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Failed(error)
    }
}

impl From<SessionEnded> for Trouble {
    fn from(ended: SessionEnded) -> Self {
        Trouble::Failed(ended.into())
    }
}

pub(crate) type Step<T> = Result<T, Trouble>;

/// How often a loser looks whether the round is over, before it asks for a later view.
const POLLS: u32 = 20;
/// How often something is tried again that ends by itself, such as a split of others, before the map counts as damaged.
const ATTEMPTS_MAX: u32 = 10_000;

/// A client of a map. Its operations may run side by side in one thread.
#[derive(Debug)]
pub struct Client<N> {
    net: Doubting<N>,
    layout: Layout,
    session: Session,
    /// Changes and nonces that it has had.
    count: Cell<u64>,
    /// Cells that no change is in.
    cells: RefCell<Vec<u32>>,
    heap: RefCell<Heap>,
    /// How many sessions had ended when it last looked for what they had left; `None` if it has to look in any case.
    swept: Cell<Option<u64>>,
    known: RefCell<Known>,
    cache: RefCell<Cache>,
    /// Logs whose last copy is still to be written.
    late: RefCell<VecDeque<Late>>,
    /// What it has offered for splits that were interrupted.
    offers: RefCell<Vec<Offer>>,
}

impl<N: Verbs + Control> Client<N> {
    /// A client that has just joined.
    pub fn new(net: N, layout: Layout, session: Session) -> Self {
        let swept = Cell::new(Some(net.sessions_ended()));
        Self {
            net: Doubting::new(net),
            layout,
            session,
            count: Cell::new(0),
            cells: RefCell::new((0..session.count).rev().collect()),
            heap: RefCell::default(),
            swept,
            known: RefCell::default(),
            cache: RefCell::default(),
            late: RefCell::default(),
            offers: RefCell::default(),
        }
    }

    /// A client that has just joined, and caches where objects are in a way of its own.
    pub fn with_caching(net: N, layout: Layout, session: Session, caching: Caching) -> Self {
        Self {
            cache: RefCell::new(Cache::new(caching)),
            ..Self::new(net, layout, session)
        }
    }

    /// The network that it was given.
    pub fn net(&self) -> &N {
        &self.net
    }

    /// Its session.
    pub fn session(&self) -> Session {
        self.session
    }

    /// What it knows of memory, for statistics and tests. No operation goes on meanwhile.
    pub fn memory(&self) -> std::cell::Ref<'_, Heap> {
        self.heap.borrow()
    }

    /// The era of its oldest operation, for its heartbeats.
    pub fn oldest(&self) -> u64 {
        self.heap.borrow().oldest(self.net.eras())
    }

    /// Reads a word of the directory at its primary, for comparison with operations.
    ///
    /// Cost: one round trip.
    pub async fn round_trip(&self) -> Result<(), Error> {
        self.under_views(async |view| {
            let request = read(view, self.layout.directory, 8)?;
            let completions = self.net.post(vec![request.clone()]).await;
            Ok(bytes_read(&request, completions.first()).map(drop)?)
        })
        .await
    }

    /// An identity or nonce that nobody else has.
    fn identity(&self) -> Result<Identity, Error> {
        let count = self.count.get() + 1;
        self.count.set(count);
        Identity::new(self.session.number, count).ok_or(Error::Exhausted)
    }

    /// Runs `step` under the newest view, and again under later ones as long as it is interrupted.
    async fn under_views<T>(&self, mut step: impl AsyncFnMut(&View) -> Step<T>) -> Result<T, Error> {
        loop {
            let view = self.net.view();
            match step(&view).await {
                Ok(done) => return Ok(done),
                Err(Trouble::Failed(error)) => return Err(error),
                Err(Trouble::Interrupted(Interrupted { region })) => {
                    self.net.later(view.number, region).await?;
                    loop {
                        let view = self.net.view();
                        let Some(region) = self.net.doubtful(&view) else {
                            break;
                        };
                        self.net.later(view.number, region).await?;
                    }
                }
            }
        }
    }
}

/// A region of a view.
pub(crate) fn region(view: &View, number: u16) -> Step<&Region> {
    let region = view.region(number).ok_or(Error::Damaged {
        what: "a region's number",
        at: number.into(),
    })?;
    match region.nodes.is_empty() {
        true => Err(Error::Lost(number).into()),
        false => Ok(region),
    }
}

/// Requests that write bytes to all nodes of a region.
pub(crate) fn writes(view: &View, at: Address, bytes: &Rc<[u8]>) -> Step<Vec<Request>> {
    let region = region(view, at.region())?;
    let write = |node| Request {
        node,
        key: region.key,
        at,
        verb: Verb::Write(Rc::clone(bytes)),
    };
    Ok(region.nodes.iter().copied().map(write).collect())
}

/// Whether all these requests were done, which write to one region or several.
pub(crate) fn all_written(requests: &[Request], completions: &[Completion]) -> Result<(), Interrupted> {
    let failed = requests
        .iter()
        .zip(completions)
        .find(|(_, completion)| **completion != Completion::Written);
    match failed {
        Some((request, _)) => Err(Interrupted {
            region: request.at.region(),
        }),
        None => Ok(()),
    }
}

/// A request that reads bytes at the primary of their region.
pub(crate) fn read(view: &View, at: Address, bytes: u32) -> Step<Request> {
    let region = region(view, at.region())?;
    let node = region.primary().ok_or(Error::Lost(at.region()))?;
    Ok(Request {
        node,
        key: region.key,
        at,
        verb: Verb::Read(bytes),
    })
}

/// The bytes that a request has read.
pub(crate) fn bytes_read<'a>(
    request: &Request,
    completion: Option<&'a Completion>,
) -> Result<&'a [u8], Interrupted> {
    match (completion, &request.verb) {
        (Some(Completion::Read(bytes)), Verb::Read(len)) if bytes.len() == *len as usize => Ok(bytes),
        _ => Err(Interrupted {
            region: request.at.region(),
        }),
    }
}
