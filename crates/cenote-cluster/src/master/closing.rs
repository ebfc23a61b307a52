//! Regions are closed, their copies made equal or moved, and opened: `docs/protocols/replicated-map.md`, "Failures".

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use cenote_replica::client::Session;
use cenote_replica::master::equalise::Equalise;
use cenote_replica::verbs::{Address, Completion, Request, Verb};
use cenote_replica::view::{Key, NodeId};

use super::Master;
use crate::control::SessionText;
use crate::together::together;
use crate::wire::{Answer, Item};

/// The time between two attempts.
const AGAIN: Duration = Duration::from_millis(10);
/// The time after which it looks for work that nobody told it of.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);
/// How often it is tried to give a region another copy, before that is put off.
const ATTEMPTS_TO_MOVE: u32 = 20;
/// How many regions get another copy after one closing. They stay closed until they have it.
const MOVED_AT_ONCE: usize = 8;
/// For how long a node that has no memory for a region is asked for none: it may have lent it to modules, or its file
/// system be full. Each time that it is asked, regions are closed.
const UNFIT: Duration = Duration::from_secs(30);
/// Bytes that are copied at once.
const CHUNK: u32 = 1 << 20;
/// A node that has not answered by then does not, as far as a closing is concerned.
const TIMEOUT: Duration = Duration::from_millis(100);

/// Does what is to be done, as long as this process lives.
pub async fn work(master: Rc<Master>) {
    loop {
        let _ = tokio::time::timeout(LONGEST_SLEEP, master.work.notified()).await;
        while master.is_due() {
            master.close(&[]).await;
        }
        let copies = master
            .state
            .borrow()
            .copies_to_make(MOVED_AT_ONCE, &master.unfit());
        if copies.is_empty() {
            master.forget_empty_nodes().await;
        } else {
            master.close(&copies).await;
            // There may be others; first what is more urgent.
            master.work.notify_one();
        }
    }
}

impl Master {
    fn ended(&self) -> BTreeSet<u32> {
        let state = self.state.borrow();
        let ended = state.sessions.iter().filter(|(_, session)| session.ended);
        ended.map(|(number, _)| *number).collect()
    }

    fn is_due(&self) -> bool {
        self.is_asked.get() || !self.ended().is_empty() || self.state.borrow().is_broken()
    }

    /// The nodes that have refused a region of late.
    fn unfit(&self) -> Vec<u32> {
        let mut unfit = self.unfit.borrow_mut();
        unfit.retain(|_, until| Instant::now() < *until);
        unfit.keys().copied().collect()
    }

    async fn forget_empty_nodes(&self) {
        let before = self.state.borrow().nodes.len();
        self.state.borrow_mut().forget_empty_nodes();
        if self.state.borrow().nodes.len() != before {
            self.state.borrow_mut().number += 1;
            self.save_or_end().await;
            self.publish();
        }
    }

    /// Whether all nodes that hold something answer, now: what was heard before says nothing, since a closing is asked
    /// for when one dies. A closing that cannot give its keys to one of them would keep clients from all the others
    /// until that one is given up.
    async fn all_answer(&self) -> bool {
        let holding: BTreeMap<u32, u64> = {
            let state = self.state.borrow();
            let nodes = state.regions.iter().flat_map(|region| region.nodes.iter());
            let living = nodes.filter_map(|node| state.nodes.get_key_value(node));
            let living = living.filter(|(_, known)| known.alive);
            living.map(|(node, known)| (*node, known.incarnation)).collect()
        };
        let asked = holding.into_iter().map(|(node, known)| {
            let ask = self.network.ask(NodeId(node), &[Item::Info]);
            async move {
                let answer = tokio::time::timeout(TIMEOUT, ask).await;
                match answer.as_ref().map(Option::as_deref) {
                    // Another process at its address is given up first.
                    Ok(Some([Answer::Info([incarnation, ..])])) => *incarnation == known,
                    _ => false,
                }
            }
        });
        together(asked).await.into_iter().all(|answers| answers)
    }

    /// Closes all regions, makes their copies equal, and opens them; those that get another copy when they have it.
    async fn close(&self, moved: &[(u16, u32)]) {
        let mut begun = Instant::now();
        let mut attempts = 0;
        let ended = loop {
            if !self.all_answer().await {
                tokio::time::sleep(AGAIN).await;
                begun = Instant::now();
                continue;
            }
            let ended = self.ended();
            self.is_asked.set(false);
            self.state.borrow_mut().close();
            self.save_or_end().await;
            if self.set_keys().await {
                // With this view, and not before, clients are told of eras of this master.
                self.has_closed.set(true);
                self.publish();
                if self.equalise().await {
                    break ended;
                }
            }
            attempts += 1;
            tokio::time::sleep(AGAIN * attempts.min(100)).await;
        };
        let staying: BTreeSet<u16> = moved.iter().map(|(region, _)| *region).collect();
        self.state
            .borrow_mut()
            .open(|region| !staying.contains(&region), &ended);
        self.save_or_end().await;
        // From now on eras do not wait for them: no master does anything of theirs again.
        self.clients
            .borrow_mut()
            .retain(|session, _| !ended.contains(session));
        self.publish();
        self.closings.set(self.closings.get() + 1);
        self.last_closing.set(begun.elapsed());
        for (region, node) in moved {
            self.give_copy(*region, *node).await;
        }
    }

    /// Gives a region another copy, if its nodes last, and opens it. What was equal in it stays equal: nobody has its
    /// key.
    async fn give_copy(&self, region: u16, node: u32) {
        for attempt in 1..=ATTEMPTS_TO_MOVE {
            if !self.state.borrow().is_alive(node) || self.unfit().contains(&node) {
                break;
            }
            if self.copy(region, node).await {
                self.state.borrow_mut().gain(region, node);
                break;
            }
            tokio::time::sleep(AGAIN * attempt).await;
        }
        self.state
            .borrow_mut()
            .open(|opened| opened == region, &BTreeSet::new());
        self.save_or_end().await;
        self.publish();
    }

    /// Gives the nodes the regions' new keys. `false` if one does not answer: it will, or is given up.
    async fn set_keys(&self) -> bool {
        let mut items: BTreeMap<u32, Vec<Item>> = BTreeMap::new();
        {
            let state = self.state.borrow();
            for (number, region) in (0..).zip(&state.regions) {
                for node in &region.nodes {
                    items.entry(*node).or_default().push(Item::SetKey {
                        region: number,
                        key: Key(region.key),
                    });
                }
            }
        }
        for (node, items) in items {
            match self.network.ask(NodeId(node), &items).await {
                Some(answers) if answers.iter().all(|answer| *answer == Answer::Done) => {}
                Some(_) if self.state.borrow().may_lose(node) => {
                    // It has lost them: another process is at its address.
                    eprintln!("cenote cluster: memory node {node} has lost its memory, and is given up");
                    self.state.borrow_mut().give_up(node);
                    self.save_or_end().await;
                    return false;
                }
                _ => return false,
            }
        }
        true
    }

    async fn equalise(&self) -> bool {
        let (view, layout, sessions) = {
            let state = self.state.borrow();
            let sessions: Vec<Session> = state
                .sessions
                .keys()
                .filter_map(|number| state.session(*number).as_ref().and_then(SessionText::session))
                .collect();
            (state.own_view().view(), state.layout.layout(), sessions)
        };
        let Some(layout) = layout else { return false };
        let nonce = || self.nonce();
        let equalise = Equalise {
            layout,
            view: &view,
            sessions: &sessions,
            verbs: &self,
            nonce: &nonce,
        };
        match equalise.run().await {
            Ok(_) => true,
            Err(cenote_replica::client::Error::Lost(_)) => false,
            Err(error) => {
                let said = error.to_string();
                if self.trouble.replace(said.clone()) != said {
                    eprintln!("cenote cluster: copies cannot be made equal: {said}");
                }
                false
            }
        }
    }

    /// Copies a region, which is closed and whose copies are equal, to another node.
    async fn copy(&self, number: u16, target: u32) -> bool {
        let (source, key, used, bytes) = {
            let state = self.state.borrow();
            let region = &state.regions[usize::from(number)];
            let source = region.nodes.iter().copied().find(|node| state.is_alive(*node));
            (source, Key(region.key), region.used, state.region_bytes)
        };
        let Some(source) = source else { return false };
        let hold = Item::Hold {
            region: number,
            bytes,
            key,
        };
        // It may have a part of the region, of an attempt before.
        let items = [Item::Drop { region: number }, hold];
        match self.network.ask(NodeId(target), &items).await.as_deref() {
            Some([Answer::Done, Answer::Done]) => {}
            Some([Answer::Done, Answer::Failed]) => {
                self.unfit.borrow_mut().insert(target, Instant::now() + UNFIT);
                return false;
            }
            _ => return false,
        }
        for begin in (0..used).step_by(CHUNK as usize) {
            let at = Address::new(number, begin);
            let request = |node, verb| Request {
                node: NodeId(node),
                key,
                at,
                verb,
            };
            let read = request(source, Verb::Read(CHUNK.min(used - begin)));
            let mut completions = self.network.post(&[read]).await;
            let Some(Completion::Read(chunk)) = completions.pop() else {
                return false;
            };
            // A new region is all zeros.
            if chunk.iter().all(|byte| *byte == 0) {
                continue;
            }
            let written = self
                .network
                .post(&[request(target, Verb::Write(chunk.into()))])
                .await;
            if written != [Completion::Written] {
                return false;
            }
        }
        true
    }
}
