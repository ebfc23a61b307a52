//! The network of memory nodes over TCP, as a client or the master has it. In a `LocalSet`.
//!
//! A connection to a node is made with the first batch that goes there, and again when it has ended. Batches that go out meanwhile are unknown at once, as are those whose
//! deadline ends. Batches of several operations share a connection, and are answered in any order.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use cenote_replica::verbs::{Completion, Request};
use cenote_replica::view::NodeId;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};

use crate::credentials::Credentials;
use crate::master::term::Term;
use crate::stream::Seal;
use crate::wire::{Answer, Hello, Item, decode_answers, encode_items, encode_requests, first_frame};

/// How long it may take to connect.
const CONNECT: Duration = Duration::from_millis(500);
/// The time between two attempts to connect to a node that refuses.
const AGAIN: Duration = Duration::from_millis(20);

/// Who waits for an answer.
type Waiting = oneshot::Sender<Vec<Answer>>;

/// A connection.
struct Connection {
    stream: TcpStream,
    seal: RefCell<Seal>,
    out: RefCell<Vec<u8>>,
    more: Notify,
    waiting: RefCell<HashMap<u64, Waiting>>,
    is_over: Cell<bool>,
}

/// A node, as it is reached.
#[derive(Default)]
struct Peer {
    address: Cell<Option<SocketAddr>>,
    connection: RefCell<Option<Rc<Connection>>>,
    is_connecting: Cell<bool>,
}

/// The network.
pub struct Network {
    /// In which a master leads: without one nothing is sent.
    term: Option<Rc<Term>>,
    /// A later term that a node has told of.
    later: Cell<Option<u64>>,
    credentials: Credentials,
    deadline: Duration,
    peers: RefCell<BTreeMap<NodeId, Rc<Peer>>>,
    tag: Cell<u64>,
}

impl Network {
    /// A network whose batches have so long.
    pub fn new(credentials: Credentials, deadline: Duration) -> Self {
        Self {
            term: None,
            later: Cell::new(None),
            credentials,
            deadline,
            peers: RefCell::default(),
            tag: Cell::new(0),
        }
    }

    /// The network of a master that leads in this term: when that is over, nothing is sent any more.
    pub fn led(mut self, term: Rc<Term>) -> Self {
        self.term = Some(term);
        self
    }

    /// A term later than this master's, if a node has told of one.
    pub fn later(&self) -> Option<u64> {
        self.later.get()
    }

    /// Where a node is.
    pub fn set_address(&self, node: NodeId, address: SocketAddr) {
        let peer = Rc::clone(self.peers.borrow_mut().entry(node).or_default());
        if peer.address.replace(Some(address)) != Some(address) {
            peer.connection.take();
        }
    }

    /// Sends each node its part of a batch, and waits for all answers.
    pub async fn post(&self, batch: &[Request]) -> Vec<Completion> {
        let mut parts: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (place, request) in batch.iter().enumerate() {
            parts.entry(request.node).or_default().push(place);
        }
        let mut completions = vec![Completion::Unknown; batch.len()];
        let mut waits = Vec::new();
        for (node, places) in parts {
            let requests: Vec<&Request> = places.iter().map(|place| &batch[*place]).collect();
            let sent = self
                .send(node, |out, tag| encode_requests(out, tag, &requests))
                .await;
            waits.extend(sent.map(|wait| (places, wait)));
        }
        let until = tokio::time::Instant::now() + self.deadline;
        for (places, wait) in waits {
            let Ok(Ok(answers)) = tokio::time::timeout_at(until, wait).await else {
                continue;
            };
            for (place, answer) in places.into_iter().zip(answers) {
                if let Answer::Verb(completion) = answer {
                    completions[place] = completion;
                }
            }
        }
        completions
    }

    /// Asks a node for what only the master asks for. `None` if it has not answered within the deadline, or obeys a later master.
    pub async fn ask(&self, node: NodeId, items: &[Item]) -> Option<Vec<Answer>> {
        // Everybody may ask what a node has; it may be another cluster's.
        let is_led = items.iter().any(|item| *item != Item::Info);
        let lead = self
            .term
            .iter()
            .filter(|_| is_led)
            .map(|term| Item::Lead { term: term.number() });
        let batch: Vec<Item> = lead.chain(items.iter().cloned()).collect();
        let wait = self.send(node, |out, tag| encode_items(out, tag, &batch)).await?;
        let mut answers = tokio::time::timeout(self.deadline, wait).await.ok()?.ok()?;
        let asked = answers.split_off(answers.len().min(batch.len() - items.len()));
        if let Some(Answer::Later(term)) = answers.first() {
            self.later.set(Some(*term));
            return None;
        }
        (asked.len() == items.len()).then_some(asked)
    }

    async fn send(
        &self,
        node: NodeId,
        encode: impl FnOnce(&mut Vec<u8>, u64),
    ) -> Option<oneshot::Receiver<Vec<Answer>>> {
        let peer = self.peers.borrow().get(&node).cloned()?;
        let connection = self.connection(&peer).await?;
        // After the wait: the term may be over by now.
        if self.term.as_ref().is_some_and(|term| !term.lasts()) {
            return None;
        }
        let tag = self.tag.get() + 1;
        self.tag.set(tag);
        let (answered, wait) = oneshot::channel();
        {
            let mut waiting = connection.waiting.borrow_mut();
            // Those whose deadline has ended.
            if waiting.len() > 1000 {
                waiting.retain(|_, waiting| !waiting.is_closed());
            }
            waiting.insert(tag, answered);
        }
        connection.put(|out| encode(out, tag));
        connection.flush();
        Some(wait)
    }

    /// The connection to a node, which is made if there is none; waits for that.
    async fn connection(&self, peer: &Rc<Peer>) -> Option<Rc<Connection>> {
        let until = tokio::time::Instant::now() + self.deadline;
        loop {
            if let Some(connection) = peer.connection.borrow().as_ref().filter(|c| !c.is_over.get()) {
                return Some(connection.clone());
            }
            let address = peer.address.get()?;
            if !peer.is_connecting.replace(true) {
                let (peer, credentials) = (peer.clone(), self.credentials.clone());
                tokio::task::spawn_local(async move {
                    match tokio::time::timeout(CONNECT, connect(address, &credentials)).await {
                        Ok(Ok(connection)) => {
                            peer.connection.replace(Some(connection));
                        }
                        _ => tokio::time::sleep(AGAIN).await,
                    }
                    peer.is_connecting.set(false);
                });
            }
            if tokio::time::Instant::now() >= until {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            if !peer.is_connecting.get() && peer.connection.borrow().is_none() {
                // It was refused.
                return None;
            }
        }
    }
}

async fn connect(address: SocketAddr, credentials: &Credentials) -> io::Result<Rc<Connection>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut seal = Seal::connect(&mut stream, credentials).await?;
    let hello = Hello {
        token: credentials.token.clone(),
    };
    let mut first = Vec::new();
    seal.seal(&hello.encode(), &mut first)?;
    stream.write_all(&first).await?;
    let connection = Rc::new(Connection {
        stream,
        seal: RefCell::new(seal),
        out: RefCell::default(),
        more: Notify::new(),
        waiting: RefCell::default(),
        is_over: Cell::new(false),
    });
    for work in [true, false] {
        let connection = connection.clone();
        tokio::task::spawn_local(async move {
            let _ = match work {
                true => connection.receive().await,
                false => connection.send_rest().await,
            };
            // A task that waits learns that nobody answers.
            connection.is_over.set(true);
            connection.waiting.borrow_mut().clear();
            connection.more.notify_one();
        });
    }
    Ok(connection)
}

impl Connection {
    /// Has bytes sent, as soon as that can be done.
    fn put(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        let (mut seal, mut out) = (self.seal.borrow_mut(), self.out.borrow_mut());
        if matches!(*seal, Seal::Plain) {
            return encode(&mut out);
        }
        let mut bytes = Vec::new();
        encode(&mut bytes);
        // A connection that cannot encrypt is over: nobody gets an answer.
        if seal.seal(&bytes, &mut out).is_err() {
            self.is_over.set(true);
        }
    }

    /// Sends what can be sent at once.
    fn flush(&self) {
        let mut out = self.out.borrow_mut();
        let sent = self.stream.try_write(&out).unwrap_or(0);
        out.drain(..sent);
        if !out.is_empty() {
            self.more.notify_one();
        }
    }

    /// Sends what could not be sent at once.
    async fn send_rest(&self) -> io::Result<()> {
        loop {
            self.more.notified().await;
            while !self.out.borrow().is_empty() {
                if self.is_over.get() {
                    return Ok(());
                }
                self.stream.writable().await?;
                let mut out = self.out.borrow_mut();
                match self.stream.try_write(&out) {
                    Ok(sent) => drop(out.drain(..sent)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            if self.is_over.get() {
                return Ok(());
            }
        }
    }

    /// Hands answers to those who wait for them.
    async fn receive(&self) -> io::Result<()> {
        let (mut arrived, mut received) = (Vec::new(), Vec::new());
        let is_plain = matches!(*self.seal.borrow(), Seal::Plain);
        loop {
            self.stream.readable().await?;
            let into = match is_plain {
                true => &mut arrived,
                false => &mut received,
            };
            match self.stream.try_read_buf(into) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            if !is_plain {
                self.seal.borrow_mut().open(&received, &mut arrived)?;
                received.clear();
            }
            let mut taken = 0;
            while let Some((frame, len)) = first_frame(&arrived[taken..]).map_err(io::Error::other)? {
                let (tag, answers) = decode_answers(frame).map_err(io::Error::other)?;
                if let Some(waiting) = self.waiting.borrow_mut().remove(&tag) {
                    let _ = waiting.send(answers);
                }
                taken += len;
            }
            arrived.drain(..taken);
        }
    }
}
