//! A memory node: it holds regions, and executes verbs on them. It knows neither keys of the map nor the index.
//!
//! One thread executes everything, a verb after the other, so each verb is atomic; whether a verb's key is the region's is decided in the same step.
//!
//! **Lease.** A node that the master has given up may have been stopped, or cut off, and come back: then its regions are elsewhere by now,
//! and what it holds is stale. So it executes verbs only while it has a lease. The master sends a heartbeat, with the number of the last
//! one whose answer it has. The node counts its lease from when it *sent* that answer, by its own clock; the master, which gives a node up,
//! waits until a lease that it counts from when it *received* the last answer has run out. So the node's has run out before, whatever was
//! on its way, and for how long the node was stopped.
//!
//! **Terms.** A master that was stopped may go on after another one has been elected, and what it had sent may arrive late. Each batch of a master names its
//! term. A node that holds regions obeys the latest term that it has heard of, and refuses what masters of earlier ones ask for. One that holds nothing
//! has nothing to lose, and obeys whoever asks.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cenote_replica::verbs::{Address, Completion, Verb};
use cenote_replica::view::Key;
use tokio::net::{TcpListener, TcpStream};

use crate::credentials::Credentials;
use crate::stream::greeted;
use crate::wire::{Answer, FRAME_MAX, Item, decode_items, encode_answers, first_frame};

/// Heartbeats whose times a node remembers.
const REMEMBERED: usize = 64;

/// How a node is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes that it may give to regions.
    pub memory: u64,
    /// What clients and the master have to show.
    pub credentials: Credentials,
}

/// A region that it holds.
struct Held {
    key: Key,
    bytes: Vec<u8>,
}

/// A memory node's state.
pub struct Node {
    options: Options,
    incarnation: u64,
    regions: RefCell<BTreeMap<u16, Held>>,
    /// When it answered which heartbeats.
    answered: RefCell<VecDeque<(u64, Instant)>>,
    /// Until when it may execute verbs.
    lease: Cell<Option<Instant>>,
    /// The latest term of a master.
    term: Cell<u64>,
    executed: Cell<u64>,
}

impl Node {
    /// A node that holds nothing.
    pub fn new(options: Options) -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let nanos = since.map_or(0, |since| since.as_nanos() as u64);
        Self {
            options,
            incarnation: nanos.rotate_left(20) ^ u64::from(std::process::id()),
            regions: RefCell::default(),
            answered: RefCell::default(),
            lease: Cell::new(None),
            term: Cell::new(0),
            executed: Cell::new(0),
        }
    }

    /// Executes a batch.
    fn batch(&self, items: Vec<Item>) -> Vec<Answer> {
        let mut is_led = false;
        let answer = |item| match item {
            Item::Lead { term } => match self.obeys(term) {
                true => {
                    is_led = true;
                    Answer::Done
                }
                false => Answer::Later(self.term.get()),
            },
            Item::Verb { .. } | Item::Info => self.execute(item),
            _ if is_led => self.execute(item),
            _ => Answer::Failed,
        };
        items.into_iter().map(answer).collect()
    }

    /// Whether a master of this term is obeyed.
    fn obeys(&self, term: u64) -> bool {
        let obeys = term >= self.term.get() || self.regions.borrow().is_empty();
        if obeys {
            self.term.set(term);
        }
        obeys
    }

    fn execute(&self, item: Item) -> Answer {
        match item {
            // What it is worth is known in its batch.
            Item::Lead { .. } => Answer::Failed,
            Item::Verb { key, at, verb } => Answer::Verb(self.verb(key, at, &verb)),
            Item::Hold { region, bytes, key } => self.hold(region, bytes, key),
            Item::SetKey { region, key } => match self.regions.borrow_mut().get_mut(&region) {
                // A key that comes late takes nobody's place.
                Some(held) if held.key <= key => {
                    held.key = key;
                    Answer::Done
                }
                _ => Answer::Failed,
            },
            Item::Drop { region } => {
                self.regions.borrow_mut().remove(&region);
                Answer::Done
            }
            Item::Ping {
                number,
                answered,
                lease,
            } => {
                self.beat(number, answered, Duration::from_micros(lease));
                Answer::Done
            }
            Item::Info => Answer::Info([
                self.incarnation,
                self.options.memory,
                self.held(),
                self.executed.get(),
            ]),
        }
    }

    fn held(&self) -> u64 {
        let regions = self.regions.borrow();
        regions.values().map(|held| held.bytes.len() as u64).sum()
    }

    fn hold(&self, region: u16, bytes: u32, key: Key) -> Answer {
        // A region is made anew only by who has a later key.
        if self
            .regions
            .borrow()
            .get(&region)
            .is_some_and(|held| held.key >= key)
        {
            return Answer::Failed;
        }
        self.regions.borrow_mut().remove(&region);
        if self.held() + u64::from(bytes) > self.options.memory {
            return Answer::Failed;
        }
        let mut memory: Vec<u8> = Vec::new();
        if memory.try_reserve_exact(bytes as usize).is_err() {
            return Answer::Failed;
        }
        // The system gives zeroed pages as they are touched.
        drop(memory);
        let held = Held {
            key,
            bytes: vec![0; bytes as usize],
        };
        self.regions.borrow_mut().insert(region, held);
        Answer::Done
    }

    fn beat(&self, number: u64, acknowledged: u64, lease: Duration) {
        let mut answered = self.answered.borrow_mut();
        if let Some((_, at)) = answered.iter().find(|(number, _)| *number == acknowledged) {
            let until = *at + lease;
            self.lease
                .set(Some(self.lease.get().map_or(until, |now| now.max(until))));
        }
        answered.retain(|(number, _)| *number > acknowledged);
        answered.push_back((number, Instant::now()));
        if answered.len() > REMEMBERED {
            answered.pop_front();
        }
    }

    fn verb(&self, key: Key, at: Address, verb: &Verb) -> Completion {
        let mut regions = self.regions.borrow_mut();
        let may = self.lease.get().is_some_and(|until| Instant::now() < until);
        let Some(held) = regions
            .get_mut(&at.region())
            .filter(|held| held.key == key && may)
        else {
            return Completion::Refused;
        };
        let from = at.offset() as usize;
        let len = match verb {
            Verb::Read(len) => *len as usize,
            Verb::Write(bytes) => bytes.len(),
            Verb::CompareSwap { .. } | Verb::FetchAdd(_) => 8,
        };
        let Some(bytes) = held.bytes.get_mut(from..from.saturating_add(len)) else {
            return Completion::Refused;
        };
        self.executed.set(self.executed.get() + 1);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        match verb {
            Verb::Read(_) => Completion::Read(bytes.to_vec()),
            Verb::Write(new) => {
                bytes.copy_from_slice(new);
                Completion::Written
            }
            Verb::CompareSwap { expected, new } => {
                let was = word(bytes);
                if was == *expected {
                    bytes.copy_from_slice(&new.to_le_bytes());
                }
                Completion::Was(was)
            }
            Verb::FetchAdd(add) => {
                let was = word(bytes);
                bytes.copy_from_slice(&was.wrapping_add(*add).to_le_bytes());
                Completion::Was(was)
            }
        }
    }
}

/// Runs a node at a listener that is bound, until the process ends.
pub fn run(options: Options, listener: std::net::TcpListener) -> io::Result<()> {
    let (runtime, local) = crate::event_loop()?;
    local.block_on(&runtime, async {
        listener.set_nonblocking(true)?;
        serve(Rc::new(Node::new(options)), TcpListener::from_std(listener)?).await
    })
}

/// Answers everybody who connects, until the listener fails. In a `LocalSet`.
pub async fn serve(node: Rc<Node>, listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The peer has gone, or descriptors have run out: others may come later.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let node = node.clone();
        tokio::task::spawn_local(async move {
            if let Err(error) = answer(&node, stream).await {
                tell(from, &error);
            }
        });
    }
}

fn tell(from: SocketAddr, error: &io::Error) {
    let is_usual = matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    );
    if !is_usual {
        eprintln!("cenote memnode: {from}: {error}");
    }
}

async fn answer(node: &Node, stream: TcpStream) -> io::Result<()> {
    let mut stream = greeted(stream, &node.options.credentials).await?;
    let mut arrived = Vec::new();
    let mut out = Vec::new();
    loop {
        let mut taken = 0;
        while let Some((frame, len)) = first_frame(&arrived[taken..]).map_err(io::Error::other)? {
            let (tag, items) = decode_items(frame).map_err(io::Error::other)?;
            encode_answers(&mut out, tag, &node.batch(items));
            taken += len;
            if out.len() > FRAME_MAX {
                break;
            }
        }
        arrived.drain(..taken);
        if !out.is_empty() {
            stream.write_all(&out).await?;
            out.clear();
        }
        if taken == 0 && stream.read_buf(&mut arrived).await? == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        Node::new(Options {
            memory: 1 << 16,
            credentials: Credentials::default(),
        })
    }

    fn ping(node: &Node, number: u64, answered: u64, lease: u64) {
        let answer = node.execute(Item::Ping {
            number,
            answered,
            lease,
        });
        assert_eq!(answer, Answer::Done);
    }

    fn verb(node: &Node, key: u64, offset: u32, verb: Verb) -> Completion {
        let at = Address::new(2, offset);
        match node.execute(Item::Verb {
            key: Key(key),
            at,
            verb,
        }) {
            Answer::Verb(completion) => completion,
            other => panic!("{other:?}"),
        }
    }

    fn hold(node: &Node, region: u16, bytes: u32, key: u64) -> Answer {
        node.execute(Item::Hold {
            region,
            bytes,
            key: Key(key),
        })
    }

    #[test]
    fn verbs_need_a_lease_and_the_key() {
        let node = node();
        assert_eq!(hold(&node, 2, 4096, 5), Answer::Done);
        let read = |key| verb(&node, key, 0, Verb::Read(8));
        assert_eq!(read(5), Completion::Refused);
        ping(&node, 1, 0, 60_000_000);
        assert_eq!(read(5), Completion::Refused, "nothing was acknowledged");
        ping(&node, 2, 1, 60_000_000);
        assert_eq!(read(5), Completion::Read(vec![0; 8]));
        assert_eq!(read(4), Completion::Refused);
        let set = |key| {
            node.execute(Item::SetKey {
                region: 2,
                key: Key(key),
            })
        };
        assert_eq!((set(6), set(5)), (Answer::Done, Answer::Failed));
        assert_eq!(read(5), Completion::Refused);
        assert_eq!(read(6), Completion::Read(vec![0; 8]));
    }

    #[test]
    fn a_lease_counts_from_the_answer_that_is_acknowledged() {
        let node = node();
        assert_eq!(hold(&node, 2, 4096, 5), Answer::Done);
        ping(&node, 1, 0, 50_000);
        std::thread::sleep(Duration::from_millis(60));
        // As one that was stopped, and finds a heartbeat that was sent long ago.
        ping(&node, 2, 1, 50_000);
        assert_eq!(verb(&node, 5, 0, Verb::Read(8)), Completion::Refused);
        // A number that it never answered is worth nothing.
        ping(&node, 3, 77, 60_000_000);
        assert_eq!(verb(&node, 5, 0, Verb::Read(8)), Completion::Refused);
    }

    #[test]
    fn masters_of_earlier_terms_are_refused() {
        let node = node();
        let asks = |term, item| node.batch(vec![Item::Lead { term }, item]);
        let hold = |key| Item::Hold {
            region: 2,
            bytes: 4096,
            key: Key(key),
        };
        // Nothing is held: a cluster may be made that has lost all that it knew.
        assert_eq!(asks(9, Item::Info)[0], Answer::Done);
        assert_eq!(asks(4, hold(5)), [Answer::Done, Answer::Done]);
        assert_eq!(asks(6, Item::Drop { region: 3 }), [Answer::Done, Answer::Done]);
        let ping = Item::Ping {
            number: 1,
            answered: 0,
            lease: 1,
        };
        let set = Item::SetKey {
            region: 2,
            key: Key(9),
        };
        for item in [ping, set, hold(9), Item::Drop { region: 2 }] {
            assert_eq!(node.batch(vec![item.clone()]), [Answer::Failed], "of no master");
            assert_eq!(asks(5, item), [Answer::Later(6), Answer::Failed]);
        }
        assert_eq!(node.held(), 4096);
        assert_eq!(asks(6, Item::Drop { region: 2 }), [Answer::Done, Answer::Done]);
        assert_eq!(node.held(), 0);
    }

    #[test]
    fn words_change_and_bounds_hold() {
        let node = node();
        assert_eq!(hold(&node, 2, 4096, 5), Answer::Done);
        ping(&node, 1, 0, 0);
        ping(&node, 2, 1, 60_000_000);
        let swap = |expected, new| verb(&node, 5, 64, Verb::CompareSwap { expected, new });
        assert_eq!((swap(0, 7), swap(0, 8)), (Completion::Was(0), Completion::Was(7)));
        assert_eq!(verb(&node, 5, 64, Verb::FetchAdd(u64::MAX)), Completion::Was(7));
        assert_eq!(
            verb(&node, 5, 64, Verb::Read(8)),
            Completion::Read(6_u64.to_le_bytes().to_vec())
        );
        assert_eq!(verb(&node, 5, 0, Verb::Write(Rc::from([1]))), Completion::Written);
        assert_eq!(verb(&node, 5, 4090, Verb::Read(8)), Completion::Refused);
        assert_eq!(
            verb(&node, 5, u32::MAX, Verb::Read(u32::MAX)),
            Completion::Refused
        );
        assert_eq!(hold(&node, 3, 1 << 17, 1), Answer::Failed);
        assert_eq!(hold(&node, 2, 4096, 6), Answer::Done);
        assert_eq!(verb(&node, 6, 64, Verb::Read(8)), Completion::Read(vec![0; 8]));
    }
}
