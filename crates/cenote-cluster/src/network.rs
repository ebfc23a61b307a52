//! The network of memory nodes over TCP, as a client or the master has it. In a `LocalSet`.
//!
//! A connection to a node is made with the first batch that goes there, and again when it has ended. Batches that go
//! out meanwhile are unknown at once, as are those whose deadline ends. Batches of several operations share a
//! connection, and are answered in any order. A node whose memory this process has mapped ([`crate::mapped`]) gets
//! none: its verbs are executed here.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use cenote_replica::verbs::{Completion, Request};
use cenote_replica::view::{Key, NodeId};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};

use crate::credentials::Credentials;
use crate::mapped::client::MappedClient;
use crate::mapped::file_of;
use crate::master::term::Term;
use crate::ofi::{Link, Remote, Transport};
use crate::stream::Seal;
use crate::wire::{Answer, Hello, Item, Purpose, decode_answers, encode_items, encode_requests, first_frame};

/// How long it may take to connect.
const CONNECT: Duration = Duration::from_millis(500);
/// The time between two attempts to connect to a node that refuses.
const AGAIN: Duration = Duration::from_millis(20);

/// The time between two attempts to reach a node by libfabric, which says why it did not: that will rarely pass.
const LINK_AGAIN: Duration = Duration::from_secs(1);

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
    over: Notify,
    /// The way for verbs, if they go by libfabric.
    link: RefCell<Option<Rc<Link>>>,
    is_linking: Cell<bool>,
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
    transport: Transport,
    deadline: Duration,
    peers: RefCell<BTreeMap<NodeId, Rc<Peer>>>,
    tag: Cell<u64>,
    /// Where files of nodes are whose memory this process may map.
    folder: Option<PathBuf>,
    /// Those that were looked for. `None`: its verbs go over TCP.
    mapped: RefCell<BTreeMap<NodeId, Option<Rc<MappedClient>>>>,
}

impl Network {
    /// A network whose batches have so long.
    pub fn new(credentials: impl Into<Credentials>, transport: Transport, deadline: Duration) -> Self {
        Self {
            term: None,
            later: Cell::new(None),
            credentials: credentials.into(),
            transport,
            deadline,
            peers: RefCell::default(),
            tag: Cell::new(0),
            folder: None,
            mapped: RefCell::default(),
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

    /// Whether this is the network of a master that leads no more.
    fn is_over(&self) -> bool {
        self.term.as_ref().is_some_and(|term| !term.lasts())
    }

    /// How verbs go.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Maps the memory of nodes of this machine whose files are in a folder, and executes their verbs here.
    pub fn map_from(&mut self, folder: PathBuf) {
        self.folder = Some(folder);
    }

    /// The memory of a node, if it is mapped. The node is asked for its incarnation when it is met first, so that no
    /// other node's memory is taken for its.
    async fn mapped(&self, node: NodeId) -> Option<Rc<MappedClient>> {
        let folder = self.folder.as_ref()?;
        if let Some(known) = self.mapped.borrow().get(&node) {
            return known.clone();
        }
        let address = self.peers.borrow().get(&node)?.address.get()?;
        let Some(&[Answer::Info([incarnation, ..])]) = self.ask(node, &[Item::Info]).await.as_deref() else {
            return None;
        };
        // Whatever keeps it from being mapped, the node executes the verbs.
        let opened = MappedClient::open(&file_of(folder, address.port()), incarnation).unwrap_or(None);
        let opened = opened.map(Rc::new);
        self.mapped.borrow_mut().insert(node, opened.clone());
        opened
    }

    /// Forgets the nodes that are not among these: what was mapped of their memory stays no longer.
    pub fn forget_others(&self, nodes: &[(u32, SocketAddr)]) {
        let stays = |node: &NodeId| nodes.iter().any(|(number, _)| *number == node.0);
        self.peers.borrow_mut().retain(|node, _| stays(node));
        self.mapped.borrow_mut().retain(|node, _| stays(node));
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
        match self.transport {
            Transport::Tcp => self.post_messages(batch, parts).await,
            Transport::Ofi => self.post_verbs(batch, parts).await,
        }
    }

    async fn post_messages(&self, batch: &[Request], parts: BTreeMap<NodeId, Vec<usize>>) -> Vec<Completion> {
        let mut completions = vec![Completion::Unknown; batch.len()];
        let mut waits = Vec::new();
        for (node, places) in parts {
            let requests: Vec<&Request> = places.iter().map(|place| &batch[*place]).collect();
            if let Some(mapped) = self.mapped(node).await {
                for (place, completion) in places.into_iter().zip(mapped.post(&requests)) {
                    completions[place] = completion;
                }
                continue;
            }
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

    /// By libfabric: a verb's region is reached by what its node says of it, once for each key of the region.
    async fn post_verbs(&self, batch: &[Request], parts: BTreeMap<NodeId, Vec<usize>>) -> Vec<Completion> {
        let mut completions = vec![Completion::Unknown; batch.len()];
        let mut reached = Vec::new();
        for (node, places) in parts {
            let way = self.link(node).await;
            reached.extend(way.map(|(connection, link)| (node, places, connection, link)));
        }
        let until = tokio::time::Instant::now() + self.deadline;
        let mut asked = Vec::new();
        for (node, places, _, link) in &reached {
            let regions = places
                .iter()
                .map(|place| (batch[*place].at.region(), batch[*place].key));
            let new: BTreeSet<(u16, Key)> = regions
                .filter(|(region, key)| link.remote(*region, *key).is_none())
                .collect();
            if new.is_empty() {
                continue;
            }
            let items: Vec<Item> = new
                .iter()
                .map(|(region, key)| Item::Remote {
                    region: *region,
                    key: *key,
                })
                .collect();
            let sent = self.send(*node, |out, tag| encode_items(out, tag, &items)).await;
            asked.extend(sent.map(|wait| (*node, link, new, wait)));
        }
        let mut refused = BTreeSet::new();
        for (node, link, new, wait) in asked {
            let Ok(Ok(answers)) = tokio::time::timeout_at(until, wait).await else {
                continue;
            };
            for ((region, key), answer) in new.into_iter().zip(answers) {
                match answer {
                    Answer::Remote([word, base]) => link.learn(region, key, Remote { key: word, base }),
                    _ => drop(refused.insert((node, region, key))),
                }
            }
        }
        let mut waits = Vec::new();
        // After the waits: the term may be over by now.
        if self.is_over() {
            return completions;
        }
        for (node, places, connection, link) in &reached {
            if connection.is_over.get() {
                continue;
            }
            for place in places {
                let Request { key, at, verb, .. } = &batch[*place];
                match link.remote(at.region(), *key) {
                    Some(remote) => match link.post(remote, *at, verb) {
                        Some(posted) => waits.push((*place, link, posted)),
                        None => completions[*place] = Completion::Refused,
                    },
                    None if refused.contains(&(*node, at.region(), *key)) => {
                        completions[*place] = Completion::Refused;
                    }
                    None => {}
                }
            }
            link.begin();
        }
        for (place, link, posted) in waits {
            if let Ok(completion) = tokio::time::timeout_at(until, posted.completion()).await {
                if completion == Completion::Refused {
                    link.forget(batch[place].at.region(), batch[place].key);
                }
                completions[place] = completion;
            }
        }
        completions
    }

    /// The way for verbs to a node, which is made if there is none, and the connection that it belongs to; waits for
    /// that.
    async fn link(&self, node: NodeId) -> Option<(Rc<Connection>, Rc<Link>)> {
        let peer = self.peers.borrow().get(&node).cloned()?;
        let connection = self.connection(&peer).await?;
        let until = tokio::time::Instant::now() + self.deadline;
        while !connection.is_over.get() && tokio::time::Instant::now() < until {
            if let Some(link) = connection.link.borrow().clone() {
                return Some((connection.clone(), link));
            }
            let address = peer.address.get()?;
            if !connection.is_linking.replace(true) {
                let connection = connection.clone();
                tokio::task::spawn_local(async move { connection.keep_link(address).await });
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        None
    }

    /// Asks a node for what only the master asks for. `None` if it has not answered within the deadline, or obeys a
    /// later master.
    pub async fn ask(&self, node: NodeId, items: &[Item]) -> Option<Vec<Answer>> {
        // Everybody may ask what a node has; it may be another cluster's.
        let is_led = items
            .iter()
            .any(|item| !matches!(item, Item::Info | Item::Fabric));
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
        if self.is_over() {
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
        purpose: Purpose::Cluster,
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
        over: Notify::new(),
        link: RefCell::default(),
        is_linking: Cell::new(false),
    });
    for work in [true, false] {
        let connection = connection.clone();
        tokio::task::spawn_local(async move {
            let _ = match work {
                true => connection.receive().await,
                false => connection.send_rest().await,
            };
            connection.end();
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

    /// Nothing comes any more: tasks that wait learn that nobody answers.
    fn end(&self) {
        self.is_over.set(true);
        self.waiting.borrow_mut().clear();
        self.more.notify_one();
        self.over.notify_one();
        // A node that has died is not missed by the library: an operation that waits for its answer would wait on.
        self.link.take();
    }

    /// Makes the way for verbs, and does what there is to do there, until the connection ends.
    async fn keep_link(self: Rc<Self>, address: SocketAddr) {
        match self.find_link(address).await {
            Ok(link) if !self.is_over.get() => {
                let link = Rc::new(link);
                self.link.replace(Some(link.clone()));
                tokio::select! {
                    _ = link.drive() => {}
                    () = self.over.notified() => {}
                }
                self.end();
                link.end();
            }
            Err(error) if !self.is_over.get() => {
                eprintln!("cenote cluster: the memory node at {address}: {error}");
                tokio::time::sleep(LINK_AGAIN).await;
                self.is_linking.set(false);
            }
            _ => {}
        }
    }

    /// Asks the node how it is reached over libfabric.
    async fn find_link(&self, address: SocketAddr) -> io::Result<Link> {
        let (answered, wait) = oneshot::channel();
        // No batch has this tag.
        self.waiting.borrow_mut().insert(0, answered);
        self.put(|out| encode_items(out, 0, &[Item::Fabric]));
        self.flush();
        match wait.await.as_deref() {
            Ok([Answer::Fabric(provider, name)]) => Link::new(provider, address.ip(), name).await,
            Ok(_) => Err(io::Error::other("it is not reached by libfabric")),
            Err(_) => Err(io::Error::other("it has ended the connection")),
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
