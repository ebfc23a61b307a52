//! The threads of a host's agent that relay event counts ([`crate::pod::death::relay`]), and tell agents of other hosts
//! to do so.
//!
//! One thread polls the event counts once in a heartbeat. Where the agents of other hosts are known, a second thread
//! sleeps on the event counts, and sends each agent a datagram when one is notified here; a third receives datagrams,
//! and has the first poll at once. A datagram says nothing but *poll*: a lost one delays the poll until the next
//! heartbeat, a forged one costs a poll.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::memory::{LocalWord, Memory};
use crate::pod::Pod;
use crate::pod::death::relay::Relay;
use crate::pod::hosts::agent::HEARTBEAT;

/// What a datagram begins with; the pool's id follows.
const MAGIC: [u8; 8] = *b"CENBELL\x01";
/// The longest sleep of the sending and the receiving thread, before they check whether to end.
const LONGEST: Duration = Duration::from_millis(100);
/// The pause after each datagram, valid or not.
const HEEDED: Duration = Duration::from_micros(50);

/// Where this agent receives datagrams, and where it sends them.
#[derive(Clone, Debug)]
pub struct Peers {
    /// The address of this host's UDP socket.
    pub listen: SocketAddr,
    /// The addresses of the other agents.
    pub tell: Vec<SocketAddr>,
}

#[derive(Default)]
struct Shared {
    ends: LocalWord,
    relay: Mutex<Relay>,
}

/// The threads, which end when this is dropped.
pub(super) struct Relaying {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Relaying {
    /// Starts the polling thread.
    pub(super) fn start<M: Memory>(pod: &Arc<Pod<M>>) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let (mem, theirs) = (pod.mem().clone(), shared.clone());
        let thread = spawn("cenote-relay", pod, move || {
            let mut beat = Instant::now();
            while theirs.ends.load() == 0 {
                if beat.elapsed() >= HEARTBEAT {
                    beat = Instant::now();
                    theirs.relay().poll(&mem);
                } else {
                    theirs.relay().poll_between(&mem);
                }
                std::thread::park_timeout(HEARTBEAT.saturating_sub(beat.elapsed()));
            }
        })?;
        Ok(Self {
            shared,
            threads: vec![thread],
        })
    }

    /// Starts to send datagrams to other agents, and to receive theirs.
    pub(super) fn tell<M: Memory>(&mut self, pod: &Arc<Pod<M>>, peers: &Peers) -> Result<()> {
        let io = |source| Error::Io {
            path: peers.listen.to_string().into(),
            source,
        };
        let socket = UdpSocket::bind(peers.listen).map_err(io)?;
        socket.set_read_timeout(Some(LONGEST)).map_err(io)?;
        let sending = socket.try_clone().map_err(io)?;
        let mut message = [0; 16];
        message[..8].copy_from_slice(&MAGIC);
        message[8..].copy_from_slice(&pod.superblock().id.to_le_bytes());
        let relaying = self.threads[0].thread().clone();
        let theirs = self.shared.clone();
        self.threads.push(spawn("cenote-hear", pod, move || {
            while theirs.ends.load() == 0 {
                if hears(&socket, &message) {
                    relaying.unpark();
                    std::thread::sleep(HEEDED);
                }
            }
        })?);
        let (theirs, mem, peers) = (self.shared.clone(), pod.mem().clone(), peers.tell.clone());
        self.threads.push(spawn("cenote-tell", pod, move || {
            while theirs.ends.load() == 0 {
                let event_counts = theirs.relay().prepare_wait(&mem);
                let is_news = {
                    let mut relay = theirs.relay();
                    relay.poll_between(&mem);
                    relay.take_news()
                };
                if is_news {
                    for peer in &peers {
                        // An agent that is not there has no sleepers to wake.
                        let _ = sending.send_to(&message, peer);
                    }
                }
                mem.kernel().wait(&[], &event_counts, LONGEST);
            }
        })?);
        Ok(())
    }
}

/// Whether a valid datagram has come.
fn hears(socket: &UdpSocket, message: &[u8; 16]) -> bool {
    let mut received = [0; 17];
    match socket.recv(&mut received) {
        Ok(len) => {
            let is_heeded = received[..len] == message[..];
            if !is_heeded {
                // Datagrams that are not for this pool must not keep a processor busy either.
                std::thread::sleep(HEEDED);
            }
            is_heeded
        }
        Err(error) => {
            let is_time = matches!(
                error.kind(),
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
            );
            // A peer that is not there shows as an error of the socket. A lasting error must not keep a processor busy.
            if !is_time {
                std::thread::sleep(HEARTBEAT);
            }
            false
        }
    }
}

fn spawn<M: Memory>(
    name: &str,
    pod: &Arc<Pod<M>>,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|source| Error::Io {
        path: pod.path().to_owned(),
        source,
    })
}

impl Shared {
    fn relay(&self) -> std::sync::MutexGuard<'_, Relay> {
        self.relay.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Relaying {
    fn drop(&mut self) {
        self.shared.ends.store(1);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A thread that panicked has nothing to say here.
            let _ = thread.join();
        }
    }
}
