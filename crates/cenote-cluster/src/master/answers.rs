//! What a master serves: requests of clients, and of people.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cenote_replica::verbs::Address;
use cenote_replica::view::NodeId;
use tokio::net::{TcpListener, TcpStream};

use super::formation::offer;
use super::{Client, Heard, Master, state, watch};
use crate::control::{ErasText, NodeStatus, Request, Response, SessionStatus, Status, frame, length};
use crate::stream::greeted_by_cluster;
use crate::{Error, Refusal};

/// Characters of a client's name that are kept.
const NAME_MAX: usize = 100;

impl Master {
    /// Answers everybody who connects.
    pub(super) async fn answer_all(self: Rc<Self>, listener: TcpListener) -> Result<Infallible, Error> {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let master = self.clone();
            tokio::task::spawn_local(async move {
                // Who went away, or speaks otherwise, is no concern of others.
                let _ = master.answer(stream).await;
            });
        }
    }

    /// Answers requests until the connection ends.
    async fn answer(self: Rc<Self>, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = greeted_by_cluster(stream, &self.options.credentials).await?;
        loop {
            let mut prefix = [0; 4];
            stream.read_exact(&mut prefix).await?;
            let mut text = vec![0; length(prefix)?];
            stream.read_exact(&mut text).await?;
            let response = match serde_json::from_slice(&text) {
                Ok(request) => self.respond(request).await,
                Err(error) => Response::Refused(Refusal::Unknown {
                    why: error.to_string(),
                }),
            };
            // Another one leads, and may have decided otherwise.
            let response = match self.term.lasts() {
                true => response,
                false => Response::Standby { leader: None },
            };
            stream.write_all(&frame(&response)?).await?;
        }
    }

    async fn respond(self: &Rc<Self>, request: Request) -> Response {
        match request {
            Request::Join { name } => self.join(name).await.unwrap_or_else(Response::Refused),
            Request::Heartbeat {
                session,
                oldest,
                view,
                suspect_regions,
            } => self.heartbeat(session, oldest, view, &suspect_regions),
            Request::Block {
                session,
                size,
                number,
                received,
            } => {
                if !self.is_in(session) {
                    return Response::Ended;
                }
                self.hear(session);
                let give = || self.state.borrow_mut().block(session, size, received);
                let block = match self.clients.borrow_mut().get_mut(&session) {
                    Some(client) => client.blocks.answer(number, size, give),
                    None => None,
                };
                if block.is_some() {
                    self.save_or_end().await;
                }
                Response::Block(block)
            }
            Request::Leave { session } => {
                if self.is_in(session) {
                    self.clients.borrow_mut().remove(&session);
                    self.state.borrow_mut().forget(session);
                    self.save_or_end().await;
                }
                Response::Done
            }
            Request::Leads => Response::Done,
            Request::Status => Response::Status(self.status()),
            Request::AddNode { address } => self.add_node(address).await.unwrap_or_else(Response::Refused),
            Request::Drain { node } => {
                let drained = self.state.borrow_mut().drain(node);
                if let Err(why) = drained {
                    return Response::Refused(why);
                }
                self.save_or_end().await;
                self.work.notify_one();
                Response::Done
            }
            Request::GiveUp { node } => {
                if let Err(why) = self.may_give_up(node) {
                    return Response::Refused(why);
                }
                watch::give_up(self, node, "does not come back, as it is said").await;
                Response::Done
            }
            Request::Stop => {
                self.stopping.notify_one();
                Response::Done
            }
        }
    }

    async fn join(&self, name: String) -> Result<Response, Refusal> {
        let name = name.chars().take(NAME_MAX).collect();
        let session = self.state.borrow_mut().join(name);
        let session = session.ok_or(Refusal::TooManyClients)?;
        self.save_or_end().await;
        // What the one before it had in flight is not this one's.
        let cells = Address::from_bits(session.cells).unwrap_or(Address::new(0, 0));
        if let Err(error) = self.write(cells, &[0; 64]).await {
            self.state.borrow_mut().forget(session.number);
            return Err(error);
        }
        let client = Client::new(self.eras.get().now);
        self.clients.borrow_mut().insert(session.number, client);
        Ok(Response::Joined {
            session,
            layout: self.state.borrow().layout,
            view: self.published.borrow().clone(),
            eras: self.eras_text(),
            lease_us: self.options.client_lease.as_micros() as u64,
            transport: self.options.transport,
        })
    }

    fn eras_text(&self) -> ErasText {
        let eras = self.eras.get();
        ErasText {
            now: eras.now,
            least: eras.least,
            sessions_ended: self.state.borrow().sessions_ended(),
        }
    }

    pub(super) fn is_in(&self, session: u32) -> bool {
        let state = self.state.borrow();
        state.sessions.get(&session).is_some_and(|session| !session.ended)
    }

    fn hear(&self, session: u32) {
        if let Some(client) = self.clients.borrow_mut().get_mut(&session) {
            client.heard = Heard::now();
        }
    }

    fn heartbeat(&self, session: u32, oldest: u64, view: u64, suspect_regions: &[u16]) -> Response {
        if !self.is_in(session) {
            return Response::Ended;
        }
        let is_open = |region: &u16| {
            let state = self.state.borrow();
            let region = state.regions.get(usize::from(*region));
            region.is_some_and(|region| !region.closed)
        };
        let published = self.published.borrow();
        if let Some(client) = self.clients.borrow_mut().get_mut(&session) {
            client.heard = Heard::now();
            client.oldest = oldest;
            if view == published.number && suspect_regions.iter().any(is_open) {
                client.suspicions.add(view);
            }
        }
        self.count_eras();
        self.act_on_suspicions();
        Response::Heartbeat {
            view: (view != published.number).then(|| published.clone()),
            eras: match self.has_closed.get() {
                true => self.eras_text(),
                false => ErasText::NONE,
            },
        }
    }

    /// Has regions closed if a client suspects one of them under the view that is published.
    pub(super) fn act_on_suspicions(&self) {
        let view = self.published.borrow().number;
        let mut clients = self.clients.borrow_mut();
        let due = clients
            .values_mut()
            .filter_map(|client| client.suspicions.take(view, Instant::now()).then_some(()));
        // All of them are taken, not the first one alone.
        if due.count() > 0 {
            self.is_asked.set(true);
            self.work.notify_one();
        }
    }

    /// An era ends when all clients have seen it.
    fn count_eras(&self) {
        // A closing reads and writes objects, and is no client's operation. Before its first one a new master tells
        // nobody of its eras.
        if !self.has_closed.get() || self.state.borrow().regions.iter().any(|region| region.closed) {
            return;
        }
        let mut eras = self.eras.get();
        let clients = self.clients.borrow();
        let least = clients.values().map(|client| client.oldest).min();
        // An operation that began under another master has an era of that one: it is the least there is.
        eras.least = eras.least.max(least.unwrap_or(eras.now).min(eras.now));
        if eras.least == eras.now {
            eras.now += 1;
        }
        self.eras.set(eras);
    }

    async fn add_node(self: &Rc<Self>, address: SocketAddr) -> Result<Response, Refusal> {
        // A number that no node has, and no other question.
        self.offers.set(self.offers.get() + 1);
        let offer = offer(&self.network, u32::MAX - self.offers.get() % (1 << 16), address).await?;
        let is_known = |node: &state::NodeState| {
            node.alive && (node.address == address || node.incarnation == offer.incarnation)
        };
        if self.state.borrow().nodes.values().any(is_known) {
            return Err(Refusal::NodeKnown { address });
        }
        let node = self.state.borrow_mut().add_node(offer);
        self.network.set_address(NodeId(node), address);
        self.nodes.borrow_mut().insert(node, Heard::now());
        self.state.borrow_mut().number += 1;
        self.save_or_end().await;
        self.publish();
        tokio::task::spawn_local(watch::node(self.clone(), node));
        self.work.notify_one();
        Ok(Response::Done)
    }

    fn status(&self) -> Status {
        let state = self.state.borrow();
        let holds = |node: u32, primary: bool| {
            let is = |nodes: &[u32]| match primary {
                true => nodes.first() == Some(&node),
                false => nodes.iter().skip(1).any(|other| *other == node),
            };
            state.regions.iter().filter(|region| is(&region.nodes)).count()
        };
        let heard = self.nodes.borrow();
        let nodes = state.nodes.iter().map(|(node, known)| NodeStatus {
            node: *node,
            address: known.address,
            alive: known.alive,
            answers: heard.get(node).is_some_and(|heard| heard.answers),
            draining: known.draining,
            memory: known.memory,
            primary_of: holds(*node, true),
            backup_of: holds(*node, false),
        });
        let clients = self.clients.borrow();
        let sessions = state.sessions.iter().map(|(session, known)| SessionStatus {
            session: *session,
            name: known.name.clone(),
            blocks: known.blocks.len() as u64,
            silent_us: clients.get(session).map_or(0, |client| {
                (client.heard.silent + client.heard.counted.elapsed()).as_micros() as u64
            }),
        });
        let is_unavailable = |nodes: &[u32]| !nodes.iter().any(|node| state.is_alive(*node));
        let given: usize = state.sessions.values().map(|session| session.blocks.len()).sum();
        let per_region = u64::from(state.region_bytes / state.layout.block);
        Status {
            term: self.term.number(),
            view: state.number,
            replicas: state.replicas,
            nodes: nodes.collect(),
            sessions: sessions.collect(),
            region_bytes: state.region_bytes,
            regions: state.regions.len(),
            closed: state.regions.iter().filter(|region| region.closed).count(),
            under_replicated: state.under_replicated(),
            unavailable: state
                .regions
                .iter()
                .filter(|region| is_unavailable(&region.nodes))
                .count(),
            blocks: (given + state.orphans.len()) as u64,
            blocks_max: state.regions.len() as u64 * (per_region - 1) - 3,
            closings: self.closings.get(),
            last_closing_us: self.last_closing.get().as_micros() as u64,
            era: self.eras.get().now,
        }
    }
}
