//! A memory node: it holds regions, and executes verbs on them. It knows neither keys of the map nor the index.
//!
//! One thread executes everything, a verb after the other, so each verb is atomic; whether a verb's key is the region's
//! is decided in the same step.
//!
//! **Lease.** A node that the master has given up may have been stopped, or cut off, and come back: then its regions
//! are elsewhere by now, and what it holds is stale. So it executes verbs only while it has a lease. The master sends a
//! heartbeat, with the number of the last one whose answer it has. The node counts its lease from when it *sent* that
//! answer, by its own clock; the master, which gives a node up, waits until a lease that it counts from when it
//! *received* the last answer has run out. So the node's has run out before, whatever was on its way, and for how long
//! the node was stopped.
//!
//! **Terms.** A master that was stopped may go on after another one has been elected, and what it had sent may arrive
//! late. Each batch of a master names its term. A node that holds regions obeys the latest term that it has heard of,
//! and refuses what masters of earlier ones ask for. One that holds nothing has nothing to lose, and obeys any master.
//! The term is in the file of a node's memory, if it has one.
//!
//! **Restart.** A node whose memory is in a [file](crate::memory_file) comes back with its regions, their keys and its
//! incarnation, and without a lease: it executes nothing before two heartbeats of a master that has not given it up.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cenote_replica::verbs::{Address, Completion, Verb};
use cenote_replica::view::Key;
use tokio::net::{TcpListener, TcpStream};

use crate::Unsupported;
use crate::credentials::Credentials;
use crate::mapped;
use crate::mapped::node::MappedNode;
use crate::memory_file::MemoryFile;
use crate::near;
use crate::ofi::{Exports, PLAIN, Registration, Transport};
use crate::stream::greeted;
use crate::wire::{
    Answer, FRAME_MAX, Item, MAPPED, OUTLIVES, Purpose, decode_items, encode_answers, first_frame,
};

/// Heartbeats whose times a node remembers.
const REMEMBERED: usize = 64;

/// How a node is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes that it may give to regions.
    pub memory: u64,
    /// What clients and the master have to show.
    pub credentials: Credentials,
    /// Where its memory is, if it is to outlive the process; it has as many bytes for regions.
    pub pool: Option<Arc<MemoryFile>>,
    /// A folder for the file with its memory, which clients of the same machine map ([`crate::mapped`]). `None`: its
    /// memory is its own.
    pub mapped: Option<PathBuf>,
    /// How verbs come.
    pub transport: Transport,
    /// The provider of libfabric, if they come by it.
    pub provider: String,
}

impl Options {
    /// Those of a node to which verbs come by TCP, with its memory in this process.
    pub fn new(memory: u64, credentials: impl Into<Credentials>) -> Self {
        Self {
            memory,
            credentials: credentials.into(),
            pool: None,
            mapped: None,
            transport: Transport::Tcp,
            provider: PLAIN.to_owned(),
        }
    }
}

/// A region that it holds.
struct Held {
    key: Key,
    /// Closed before its memory goes.
    registration: Option<Registration>,
    bytes: Bytes,
}

/// Where a region's bytes are.
enum Bytes {
    /// In this process.
    Own(Vec<u8>),
    /// In a file; so many.
    Kept(u64),
}

impl Bytes {
    fn len(&self) -> u64 {
        match self {
            Self::Own(bytes) => bytes.len() as u64,
            Self::Kept(len) => *len,
        }
    }
}

/// What became of a change of the file. A node whose memory fails ends, as it cannot say what took effect.
fn kept<T>(done: io::Result<T>) -> T {
    done.unwrap_or_else(|error| {
        eprintln!("cenote memnode: the file of its memory: {error}; the node ends");
        std::process::exit(1);
    })
}

/// A memory node's state.
pub struct Node {
    options: Options,
    incarnation: u64,
    regions: RefCell<BTreeMap<u16, Held>>,
    /// Its memory, if clients map it; then it holds no other.
    mapped: Option<MappedNode>,
    /// When it answered which heartbeats.
    answered: RefCell<VecDeque<(u64, Instant)>>,
    /// Until when it may execute verbs.
    lease: Cell<Option<Instant>>,
    /// The latest term of a master.
    term: Cell<u64>,
    executed: Cell<u64>,
    /// If verbs come by libfabric. Then nobody here reads or writes what regions have in them.
    exports: Option<Exports>,
    /// Whether its regions are open there.
    is_open: Cell<bool>,
    /// Bytes that modules have ([`crate::near`]).
    lent: Cell<u64>,
}

impl Node {
    /// A number that memory has which is new.
    pub fn new_incarnation() -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let nanos = since.map_or(0, |since| since.as_nanos() as u64);
        nanos.rotate_left(20) ^ u64::from(std::process::id())
    }

    /// A node that holds nothing, or what the file of its memory has.
    pub fn new(options: Options) -> Self {
        let (mut incarnation, mut term) = (Self::new_incarnation(), 0);
        let mut regions = BTreeMap::new();
        if let Some(file) = &options.pool {
            (incarnation, term) = (file.incarnation(), file.term());
            regions.extend(file.regions().into_iter().map(|(number, entry)| {
                let held = Held {
                    key: Key(entry.key),
                    registration: None,
                    bytes: Bytes::Kept(entry.bytes),
                };
                (number, held)
            }));
        }
        Self {
            options,
            incarnation,
            regions: RefCell::new(regions),
            mapped: None,
            answered: RefCell::default(),
            lease: Cell::new(None),
            term: Cell::new(term),
            executed: Cell::new(0),
            exports: None,
            is_open: Cell::new(false),
            lent: Cell::new(0),
        }
    }

    /// The same at an address; verbs come to it as its options say.
    ///
    /// Errors: [`io::ErrorKind::InvalidInput`] for libfabric with memory in a file, or with TLS, and for memory that
    /// clients map with either; those of libfabric, and of the file that clients map.
    pub fn at(options: Options, address: SocketAddr) -> io::Result<Self> {
        if options.mapped.is_some() && (options.pool.is_some() || options.transport == Transport::Ofi) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "memory that clients map goes neither with memory that outlives the node nor with libfabric",
            ));
        }
        let exports = match options.transport {
            Transport::Tcp => None,
            Transport::Ofi if options.pool.is_some() => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "libfabric cannot reach memory that is in a file: it needs memory of the process",
                ));
            }
            Transport::Ofi if options.credentials.encrypts() => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    Unsupported::TlsOverLibfabric,
                ));
            }
            Transport::Ofi => Some(Exports::new(&options.provider, address.ip())?),
        };
        let mut node = Self::new(options);
        node.exports = exports;
        if let Some(folder) = &node.options.mapped {
            let path = mapped::file_of(folder, address.port());
            let made = MappedNode::create(&path, node.options.memory, node.incarnation);
            node.mapped = Some(made.map_err(io::Error::other)?);
        }
        Ok(node)
    }

    fn has_lease(&self) -> bool {
        self.lease.get().is_some_and(|until| Instant::now() < until)
    }

    /// Opens or closes all regions, as the lease has begun or ended.
    fn admit(&self) {
        let may = self.exports.is_some() && self.has_lease();
        if self.is_open.replace(may) != may {
            let mut regions = self.regions.borrow_mut();
            regions.values_mut().for_each(|held| self.open(held));
        }
    }

    /// Opens a region to who learns its new key, if regions are open, and closes it to others.
    fn open(&self, held: &mut Held) {
        held.registration = None;
        let Some(exports) = self.exports.as_ref().filter(|_| self.is_open.get()) else {
            return;
        };
        // Others are in no node that has exports.
        let Bytes::Own(bytes) = &mut held.bytes else {
            return;
        };
        // SAFETY: the registration is dropped before the bytes, which never move; and no reference to them is made in a
        // node with exports.
        held.registration = unsafe { exports.open(bytes.as_mut_ptr(), bytes.len()) };
    }

    /// How a region is reached.
    fn remote(&self, region: u16, key: Key) -> Answer {
        self.admit();
        let regions = self.regions.borrow();
        let held = regions.get(&region).filter(|held| held.key == key);
        match held.and_then(|held| held.registration.as_ref()) {
            Some(registration) => {
                let remote = registration.remote();
                Answer::Remote([remote.key, remote.base])
            }
            None => Answer::Failed,
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
            Item::Verb { .. } | Item::Info | Item::Fabric | Item::Remote { .. } => self.execute(item),
            _ if is_led => self.execute(item),
            _ => Answer::Failed,
        };
        items.into_iter().map(answer).collect()
    }

    /// Whether a master of this term is obeyed.
    fn obeys(&self, term: u64) -> bool {
        let obeys = term >= self.term.get() || self.holds_nothing();
        if !obeys || term == self.term.get() {
            return obeys;
        }
        // Before anything is done for that master: else a node that comes back could obey an earlier one.
        let is_kept = match &self.options.pool {
            Some(file) => file.set_term(term).is_ok(),
            None => true,
        };
        if is_kept {
            self.term.set(term);
        }
        is_kept
    }

    fn execute(&self, item: Item) -> Answer {
        let done = self.mapped.as_ref().and_then(|mapped| mapped.execute(&item));
        if let Some(answer) = done {
            let is_verb = matches!(answer, Answer::Verb(_));
            self.executed.set(self.executed.get() + u64::from(is_verb));
            return answer;
        }
        match item {
            // What it is worth is known in its batch.
            Item::Lead { .. } => Answer::Failed,
            Item::Verb { key, at, verb } => Answer::Verb(self.verb(key, at, &verb)),
            Item::Hold { region, bytes, key } => self.hold(region, bytes, key),
            Item::SetKey { region, key } => match self.regions.borrow_mut().get_mut(&region) {
                // A key that comes late takes nobody's place.
                Some(held) if held.key <= key => {
                    if held.key != key {
                        if let Some(file) = &self.options.pool {
                            kept(file.set_key(region, key.0));
                        }
                        held.key = key;
                        self.open(held);
                    }
                    Answer::Done
                }
                _ => Answer::Failed,
            },
            Item::Drop { region } => {
                self.forget(region);
                Answer::Done
            }
            Item::Ping {
                number,
                answered,
                lease,
            } => {
                self.heartbeat(number, answered, Duration::from_micros(lease));
                Answer::Done
            }
            Item::Info => Answer::Info([
                self.incarnation,
                self.options.memory,
                self.held(),
                self.executed.get(),
                match (&self.options.pool, &self.mapped) {
                    (Some(_), _) => OUTLIVES,
                    (None, Some(_)) => MAPPED,
                    (None, None) => 0,
                },
            ]),
            Item::Fabric => match &self.exports {
                Some(exports) => {
                    let (provider, name) = exports.address();
                    Answer::Fabric(provider, name)
                }
                None => Answer::Failed,
            },
            Item::Remote { region, key } => self.remote(region, key),
        }
    }

    fn holds_nothing(&self) -> bool {
        self.held() == 0 && self.regions.borrow().is_empty()
    }

    fn held(&self) -> u64 {
        if let Some(mapped) = &self.mapped {
            return mapped.held();
        }
        let regions = self.regions.borrow();
        regions.values().map(|held| held.bytes.len()).sum()
    }

    /// Bytes that neither regions nor modules have.
    pub(crate) fn free(&self) -> u64 {
        self.options.memory.saturating_sub(self.held() + self.lent.get())
    }

    /// Whether its memory is the process's own, so that it can be lent.
    pub(crate) fn has_own_memory(&self) -> bool {
        self.options.pool.is_none() && self.mapped.is_none()
    }

    /// Lends bytes of its memory to modules, if so many are free.
    pub(crate) fn lend(&self, bytes: u64) -> bool {
        let is_lent = bytes <= self.free();
        self.lent.set(self.lent.get() + if is_lent { bytes } else { 0 });
        is_lent
    }

    /// Has back what modules had.
    pub(crate) fn take_back(&self, bytes: u64) {
        self.lent.set(self.lent.get().saturating_sub(bytes));
    }

    fn forget(&self, region: u16) {
        if let Some(file) = &self.options.pool {
            kept(file.drop_region(region));
        }
        self.regions.borrow_mut().remove(&region);
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
        self.forget(region);
        if u64::from(bytes) > self.free() {
            return Answer::Failed;
        }
        let bytes = match &self.options.pool {
            Some(file) => match file.hold(region, bytes, key.0) {
                Ok(()) => Bytes::Kept(bytes.into()),
                Err(error) => {
                    eprintln!("cenote memnode: there is no memory for region {region}: {error}");
                    return Answer::Failed;
                }
            },
            None => {
                let mut memory: Vec<u8> = Vec::new();
                if memory.try_reserve_exact(bytes as usize).is_err() {
                    return Answer::Failed;
                }
                // The system gives zeroed pages as they are touched.
                drop(memory);
                Bytes::Own(vec![0; bytes as usize])
            }
        };
        let mut held = Held {
            key,
            registration: None,
            bytes,
        };
        self.open(&mut held);
        self.regions.borrow_mut().insert(region, held);
        Answer::Done
    }

    fn heartbeat(&self, number: u64, acknowledged: u64, lease: Duration) {
        let mut answered = self.answered.borrow_mut();
        if let Some((_, at)) = answered.iter().find(|(number, _)| *number == acknowledged) {
            let until = *at + lease;
            let until = self.lease.get().map_or(until, |now| now.max(until));
            self.lease.set(Some(until));
            if let Some(mapped) = &self.mapped {
                mapped.set_lease(until);
            }
        }
        answered.retain(|(number, _)| *number > acknowledged);
        answered.push_back((number, Instant::now()));
        if answered.len() > REMEMBERED {
            answered.pop_front();
        }
        self.admit();
    }

    fn verb(&self, key: Key, at: Address, verb: &Verb) -> Completion {
        let mut regions = self.regions.borrow_mut();
        // Words that a card changes are atomic for cards alone, so there is one way to a node's memory.
        let may = self.has_lease() && self.exports.is_none();
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
        if from as u64 + len as u64 > held.bytes.len() {
            return Completion::Refused;
        }
        self.executed.set(self.executed.get() + 1);
        match &mut held.bytes {
            Bytes::Own(bytes) => in_place(&mut bytes[from..from + len], verb),
            Bytes::Kept(_) => self.in_file(at, len, verb),
        }
    }

    /// Executes a verb whose bytes are in the file.
    fn in_file(&self, at: Address, len: usize, verb: &Verb) -> Completion {
        let Some(file) = &self.options.pool else {
            return Completion::Refused;
        };
        if let Verb::Write(new) = verb {
            kept(file.write(at.region(), at.offset(), new));
            return Completion::Written;
        }
        let mut bytes = vec![0; len];
        kept(file.read(at.region(), at.offset(), &mut bytes));
        if let Verb::Read(_) = verb {
            return Completion::Read(bytes);
        }
        let before = u64::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]));
        let completion = in_place(&mut bytes, verb);
        let after = u64::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]));
        if before != after {
            kept(file.write(at.region(), at.offset(), &bytes));
        }
        completion
    }
}

/// Executes a verb on the bytes that it names.
fn in_place(bytes: &mut [u8], verb: &Verb) -> Completion {
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

/// Runs a node at a listener that is bound, until the process ends.
pub fn run(options: Options, listener: std::net::TcpListener) -> io::Result<()> {
    let (runtime, local) = crate::event_loop()?;
    let node = Rc::new(Node::at(options, listener.local_addr()?)?);
    local.block_on(&runtime, async {
        listener.set_nonblocking(true)?;
        serve(node, TcpListener::from_std(listener)?).await
    })
}

/// Answers everybody who connects, until the listener fails. In a `LocalSet`.
pub async fn serve(node: Rc<Node>, listener: TcpListener) -> io::Result<()> {
    let executes = async {
        match &node.exports {
            Some(exports) => {
                exports
                    .serve(|| {
                        node.admit();
                        node.lease.get().filter(|_| node.is_open.get())
                    })
                    .await
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = executes => ended,
        ended = accept(&node, listener) => ended,
    }
}

async fn accept(node: &Rc<Node>, listener: TcpListener) -> io::Result<()> {
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
    let mut stream = match greeted(stream, &node.options.credentials).await? {
        (Purpose::Cluster, stream) => stream,
        (Purpose::Modules, stream) => return near::serve(node, stream).await,
    };
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
#[path = "node_tests.rs"]
mod tests;
