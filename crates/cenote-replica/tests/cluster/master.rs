//! The master of a run.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use cenote_replica::client::{Layout, Session};
use cenote_replica::master::equalise::{Equalise, Report};
use cenote_replica::verbs::Verbs;
use cenote_replica::view::{Access, Key, NodeId, Region, View};

use super::network::{Port, Shared, World};
use super::plan::{Fault, Plan, layout, session};

/// Its number as a client of the network.
const MASTER: u32 = 0;

/// The master: closes what a client suspects, or a crash concerns, and opens it again.
pub struct Master {
    world: Shared,
    layout: Layout,
    sessions: Vec<Session>,
    /// What is to be closed.
    closing: BTreeSet<u16>,
    /// Clients whose sessions have ended, and what they had begun is being decided.
    ended: BTreeSet<u32>,
    key: u64,
    keys_apart: bool,
    /// How many copies regions get again; 0 if they get none.
    copies: usize,
    /// Whether it has told nobody of its eras.
    begins: bool,
    fault: Option<Fault>,
}

impl Master {
    /// The master of a map with so many clients.
    pub fn new(world: &Shared, plan: &Plan, clients: u32) -> Self {
        Self {
            world: Rc::clone(world),
            layout: layout(plan),
            sessions: (1..=clients).map(session).collect(),
            closing: BTreeSet::new(),
            ended: BTreeSet::new(),
            key: 1,
            keys_apart: plan.keys_apart || plan.master_crashes > 0,
            copies: if plan.copies_again { plan.replicas } else { 0 },
            begins: false,
            fault: plan.fault,
        }
    }

    /// One that begins where another one has died: it closes all regions, with later keys.
    pub fn after(world: &Shared, plan: &Plan) -> Self {
        let mut master = Self::new(world, plan, plan.clients);
        let world = world.borrow_mut();
        master.key = world.last_key;
        master.closing.extend(0..plan.regions);
        master.ended = world.ended.difference(&world.gone).copied().collect();
        master.begins = true;
        drop(world);
        master
    }

    /// Tells all clients of eras that are later than those of the master before: with the view of its first closing.
    fn begin(&mut self, world: &mut World) {
        if std::mem::take(&mut self.begins) {
            world.eras.now += 1_000;
            let now = world.eras.now;
            let all = self.sessions.iter().map(|session| (session.number, now));
            world.heard.extend(all);
        }
    }

    /// Whether something is to be closed.
    pub fn is_asked(&self) -> bool {
        !self.closing.is_empty()
    }

    /// What clients suspect is to be closed.
    pub fn close_suspect_regions(&mut self) {
        let suspect_regions = std::mem::take(&mut self.world.borrow_mut().suspect_regions);
        self.closing.extend(suspect_regions);
    }

    /// Closes regions, makes their copies equal, and opens them.
    pub async fn close(&mut self) -> Result<(), String> {
        let nonces = Cell::new(0_u64);
        let mut promoted = BTreeSet::new();
        let mut to_tell = None;
        loop {
            self.key += u64::from(self.fault != Some(Fault::KeysKept));
            let view = {
                let mut world = self.world.borrow_mut();
                if self.fault != Some(Fault::OneRegion) {
                    self.closing.extend(0..world.view.regions.len() as u16);
                }
                let mut view = (*world.view).clone();
                view.number += 1;
                for number in &self.closing {
                    let region = &mut view.regions[usize::from(*number)];
                    let primary = region.primary();
                    region.nodes.retain(|node| world.is_up(*node));
                    if region.primary() != primary {
                        promoted.insert(*number);
                    }
                    region.key = Key(self.key);
                    region.access = Access::Closed;
                    if !self.keys_apart {
                        world.set_key(*number, Key(self.key));
                    }
                }
                world.last_key = self.key;
                // What a backup holds that has become the first, no other copy may have yet: nobody is to read it.
                let mut told = view.clone();
                for number in &promoted {
                    told.regions[usize::from(*number)].key = Key(0);
                }
                if self.keys_apart {
                    told.regions.iter_mut().for_each(|region| region.key = Key(0));
                    to_tell = Some(told);
                } else {
                    world.set_view(told);
                }
                view
            };
            let port = Port {
                world: Rc::clone(&self.world),
                client: MASTER,
            };
            if let Some(told) = to_tell.take() {
                let nodes = self.world.borrow().living();
                for node in nodes {
                    port.pause(0).await;
                    self.world.borrow_mut().set_key_at(node, Key(self.key));
                }
                let world = Rc::clone(&self.world);
                let mut world = world.borrow_mut();
                // Those about an earlier view are over.
                world.suspect_regions.clear();
                self.begin(&mut world);
                world.set_view(told);
            }
            let key = self.key;
            let nonce = || {
                nonces.set(nonces.get() + 1);
                ((1 << 24) - 1) << 34 | key << 16 | nonces.get()
            };
            let equalise = Equalise {
                layout: self.layout,
                view: &view,
                sessions: &self.sessions,
                verbs: &port,
                nonce: &nonce,
            };
            let equalised = match self.fault {
                Some(Fault::CopiesKept) => Ok(Report::default()),
                _ => equalise.run().await,
            };
            match equalised {
                Ok(_) => {
                    let mut view = view;
                    let missing = self.open(&mut view);
                    for (number, node) in missing {
                        port.pause(3).await;
                        self.give_copy(&mut view, number, node);
                    }
                    return Ok(());
                }
                Err(cenote_replica::client::Error::Lost(_)) => self.add_lost(),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Opens what was closed, but for regions that are to have another copy: these, and where.
    fn open(&mut self, view: &mut View) -> Vec<(u16, NodeId)> {
        let mut world = self.world.borrow_mut();
        view.number += 1;
        let missing = self.missing(&world, view);
        for number in &self.closing {
            view.regions[usize::from(*number)].access = Access::Open;
        }
        let mut told = view.clone();
        for (number, _) in &missing {
            view.regions[usize::from(*number)].access = Access::Closed;
            told.regions[usize::from(*number)].access = Access::Closed;
            told.regions[usize::from(*number)].key = Key(0);
        }
        world.set_view(told);
        world.gone.append(&mut self.ended);
        self.closing.clear();
        missing
    }

    /// Regions that are short of a copy, and a node that may have one.
    fn missing(&self, world: &World, view: &View) -> Vec<(u16, NodeId)> {
        let place = |(number, region): (u16, &Region)| {
            let is_short = !region.nodes.is_empty() && region.nodes.len() < self.copies;
            let others = world
                .living()
                .into_iter()
                .filter(|node| !region.nodes.contains(node));
            Some((number, others.min().filter(|_| is_short)?))
        };
        (0..).zip(&view.regions).filter_map(place).collect()
    }

    /// Gives a region another copy, if nodes last, and opens it.
    fn give_copy(&self, view: &mut View, number: u16, node: NodeId) {
        let mut world = self.world.borrow_mut();
        let region = &mut view.regions[usize::from(number)];
        let source = region.nodes.iter().copied().find(|node| world.is_up(*node));
        if let Some(source) = source
            && world.is_up(node)
        {
            world.copy(number, source, node);
            region.nodes.push(node);
        }
        region.access = Access::Open;
        view.number += 1;
        let mut told = view.clone();
        for region in told
            .regions
            .iter_mut()
            .filter(|region| region.access == Access::Closed)
        {
            region.key = Key(0);
        }
        world.set_view(told);
    }

    /// The session of a client has ended.
    pub fn end(&mut self, client: u32) {
        self.ended.insert(client);
        self.closing.insert(0);
    }

    /// Regions that a node which is down held.
    pub fn add_lost(&mut self) {
        let world = self.world.borrow();
        for (number, region) in (0..).zip(&world.view.regions) {
            if region.nodes.iter().any(|node| !world.is_up(*node)) {
                self.closing.insert(number);
            }
        }
    }
}
