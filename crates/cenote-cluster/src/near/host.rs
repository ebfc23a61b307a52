//! The modules of memory nodes, as a host reaches them: one thread for each node, which sends what the host has for it
//! and waits for what comes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use cenote_near::modules::{Counters, Malformed, Modules, ModulesError};

use super::wire::{CHUNK, Refusal, Request, Response, encode_commands, take_frame};
use crate::credentials::Credentials;
use crate::stream::Outgoing;
use crate::wire::{Hello, Purpose};

/// How a host asks nodes for modules.
#[derive(Clone, Debug)]
pub struct Options {
    /// Modules of each node.
    pub modules_each: u32,
    /// Bytes of each module.
    pub module_bytes: u64,
    /// Decides the heights of their skiplists.
    pub seed: u64,
    /// What nodes demand.
    pub credentials: Credentials,
    /// A node that says nothing for so long is lost.
    pub silence: Duration,
}

impl Options {
    /// So many modules of so many bytes at each node; silence of five seconds.
    pub fn new(modules_each: u32, module_bytes: u64, credentials: impl Into<Credentials>) -> Self {
        Self {
            modules_each,
            module_bytes,
            seed: 1,
            credentials: credentials.into(),
            silence: Duration::from_secs(5),
        }
    }
}

/// Why there are no modules.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NearError {
    /// No node, or no module.
    #[error("no module was asked for: name at least one memory node, and one module of each")]
    Nothing,
    /// A node cannot be reached.
    #[error("memory node {node}: {source}; is it running, with the same token, and TLS as here?")]
    Node {
        /// Its address.
        node: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A node has no modules for this host.
    #[error("memory node {node} refuses: {why}")]
    Refused {
        /// Its address.
        node: SocketAddr,
        /// Why.
        why: Refusal,
    },
}

/// A module's batch.
type Batch = (u32, Vec<u8>);

/// What came of a node's part of a round.
struct Done {
    answers: Vec<Batch>,
    chases: u64,
    memory: u64,
}

enum Failed {
    Malformed { module: u32, at: u64 },
    Lost(String),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Lost(match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it is silent".to_owned(),
            _ => error.to_string(),
        })
    }
}

struct Peer {
    address: SocketAddr,
    work: Option<Sender<Vec<Batch>>>,
    done: Receiver<Result<Done, Failed>>,
    thread: Option<JoinHandle<()>>,
    /// Whether it has work of the round that is under way.
    is_busy: bool,
    chases: u64,
    memory: u64,
}

/// Modules of memory nodes. Module m is at node m modulo the nodes. Dropping it gives the modules up.
pub struct Nodes {
    peers: Vec<Peer>,
    modules: usize,
    launched: bool,
    counters: Counters,
}

impl Nodes {
    /// Asks these nodes for modules. Costs two round trips to each node, one node after the other.
    ///
    /// # Errors
    /// [`NearError`]: no node; one that is not reached, or refuses.
    pub fn connect(nodes: &[SocketAddr], options: &Options) -> Result<Self, NearError> {
        if nodes.is_empty() || options.modules_each == 0 {
            return Err(NearError::Nothing);
        }
        let peers = nodes.iter().map(|node| Peer::connect(*node, options));
        Ok(Self {
            peers: peers.collect::<Result<_, _>>()?,
            modules: nodes.len() * options.modules_each as usize,
            launched: false,
            counters: Counters::default(),
        })
    }

    /// The error of a round in which a node was lost: it names the first of the node's modules.
    fn lost(&self, node: usize, why: &str) -> ModulesError {
        ModulesError::Lost {
            module: node,
            why: format!("memory node {}: {why}", self.peers[node].address),
        }
    }
}

impl Modules for Nodes {
    fn count(&self) -> usize {
        self.modules
    }

    fn launch(&mut self, batches: Vec<Vec<u8>>) -> Result<(), ModulesError> {
        if self.launched {
            return Err(ModulesError::RoundPending);
        }
        if batches.len() != self.modules {
            return Err(ModulesError::Batches {
                given: batches.len(),
                modules: self.modules,
            });
        }
        let nodes = self.peers.len();
        let mut parts: Vec<Vec<Batch>> = (0..nodes).map(|_| Vec::new()).collect();
        for (module, batch) in batches.into_iter().enumerate() {
            self.counters.sent += batch.len() as u64;
            if !batch.is_empty() {
                parts[module % nodes].push(((module / nodes) as u32, batch));
            }
        }
        let mut failed = None;
        for (node, part) in parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty()) {
            let peer = &mut self.peers[node];
            let is_sent = peer.work.as_ref().is_some_and(|work| work.send(part).is_ok());
            peer.is_busy = is_sent;
            if !is_sent {
                failed.get_or_insert(self.lost(node, "it was lost before"));
            }
        }
        self.counters.rounds += 1;
        // Those that have begun are collected, also if another is lost.
        self.launched = true;
        match failed {
            Some(error) => self.collect().and(Err(error)),
            None => Ok(()),
        }
    }

    fn collect(&mut self) -> Result<Vec<Vec<u8>>, ModulesError> {
        if !std::mem::take(&mut self.launched) {
            return Err(ModulesError::NoRound);
        }
        let nodes = self.peers.len();
        let mut all = vec![Vec::new(); self.modules];
        let mut failed = None;
        for node in 0..nodes {
            if !std::mem::take(&mut self.peers[node].is_busy) {
                continue;
            }
            let outcome = self.peers[node].done.recv();
            let outcome = outcome.unwrap_or_else(|_| Err(Failed::Lost("its thread has ended".to_owned())));
            let error = match outcome {
                Ok(done) => {
                    let peer = &mut self.peers[node];
                    (peer.chases, peer.memory) = (done.chases, done.memory);
                    for (module, answers) in done.answers {
                        self.counters.received += answers.len() as u64;
                        if let Some(place) = all.get_mut(module as usize * nodes + node) {
                            *place = answers;
                        }
                    }
                    continue;
                }
                Err(Failed::Malformed { module, at }) => ModulesError::Malformed {
                    module: module as usize * nodes + node,
                    cause: Malformed { at: at as usize },
                },
                Err(Failed::Lost(why)) => self.lost(node, &why),
            };
            failed.get_or_insert(error);
        }
        self.counters.chases = self.peers.iter().map(|peer| peer.chases).sum();
        failed.map_or(Ok(all), Err)
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn memory_bytes(&self) -> u64 {
        self.peers.iter().map(|peer| peer.memory).sum()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for peer in &mut self.peers {
            peer.work = None;
            if let Some(thread) = peer.thread.take() {
                // One that panicked has said so itself.
                let _ = thread.join();
            }
        }
    }
}

impl Peer {
    fn connect(address: SocketAddr, options: &Options) -> Result<Self, NearError> {
        let failed = |source| NearError::Node {
            node: address,
            source,
        };
        let open = Request::Open {
            modules: options.modules_each,
            bytes: options.module_bytes,
            seed: options.seed ^ u64::from(address.port()),
        };
        let mut connection = NodeConnection::connect(address, options).map_err(failed)?;
        let mut out = Vec::new();
        open.encode(&mut out);
        connection.stream.write_all(&out).map_err(failed)?;
        match connection.response().map_err(failed)? {
            Response::Opened => {}
            Response::Refused(why) => return Err(NearError::Refused { node: address, why }),
            _ => {
                return Err(failed(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "it answers another request",
                )));
            }
        }
        let (work, jobs) = channel::<Vec<Batch>>();
        let (results, done) = channel();
        let serve = move || {
            for job in jobs {
                let outcome = connection.round(job);
                let is_over = outcome.is_err();
                if results.send(outcome).is_err() || is_over {
                    return;
                }
            }
        };
        let thread = Builder::new()
            .name("near-node".to_owned())
            .spawn(serve)
            .map_err(failed)?;
        Ok(Self {
            address,
            work: Some(work),
            done,
            thread: Some(thread),
            is_busy: false,
            chases: 0,
            memory: 0,
        })
    }
}

/// A connection to a node.
struct NodeConnection {
    stream: Outgoing,
    arrived: Vec<u8>,
    taken: usize,
    modules: u32,
}

impl NodeConnection {
    fn connect(address: SocketAddr, options: &Options) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, options.silence)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(options.silence))?;
        stream.set_write_timeout(Some(options.silence))?;
        let mut stream = Outgoing::new(stream, &options.credentials)?;
        let hello = Hello {
            purpose: Purpose::Modules,
            token: options.credentials.token.clone(),
        };
        stream.write_all(&hello.encode())?;
        Ok(Self {
            stream,
            arrived: Vec::new(),
            taken: 0,
            modules: options.modules_each,
        })
    }

    /// Reads the node's next response.
    fn response(&mut self) -> io::Result<Response> {
        loop {
            let response = take_frame(&self.arrived, &mut self.taken, Response::decode);
            if let Some(response) = response.map_err(io::Error::other)? {
                return Ok(response);
            }
            self.arrived.drain(..self.taken);
            self.taken = 0;
            let len = self.arrived.len();
            self.arrived.resize(len + (256 << 10), 0);
            let read = self.stream.read(&mut self.arrived[len..]);
            self.arrived.truncate(len + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "it has ended the connection",
                ));
            }
        }
    }

    /// Writes; if that fails, the node may have said why it ended the connection.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        match self.stream.write_all(bytes) {
            Ok(()) => Ok(()),
            Err(error) => match self.response() {
                Ok(Response::Refused(why)) => Err(Failed::Lost(why.to_string())),
                _ => Err(error.into()),
            },
        }
    }

    fn round(&mut self, job: Vec<Batch>) -> Result<Done, Failed> {
        let mut out = Vec::new();
        for (module, batch) in job {
            for chunk in batch.chunks(CHUNK) {
                encode_commands(&mut out, module, chunk);
                if out.len() > CHUNK {
                    self.write(&out)?;
                    out.clear();
                }
            }
        }
        Request::Run.encode(&mut out);
        self.write(&out)?;
        self.stream.flush()?;
        let mut answers: Vec<Batch> = Vec::new();
        loop {
            match self.response()? {
                Response::Running => {}
                Response::Answers { module, bytes } if module < self.modules => match answers.last_mut() {
                    Some((last, all)) if *last == module => all.extend(bytes),
                    _ => answers.push((module, bytes)),
                },
                Response::Ran { chases, memory } => {
                    return Ok(Done {
                        answers,
                        chases,
                        memory,
                    });
                }
                Response::Malformed { module, at } => return Err(Failed::Malformed { module, at }),
                Response::Refused(why) => return Err(Failed::Lost(why.to_string())),
                Response::Answers { .. } | Response::Opened => {
                    return Err(Failed::Lost("it answers another request".to_owned()));
                }
            }
        }
    }
}
