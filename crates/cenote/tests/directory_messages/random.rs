//! Runs on a simulated network, from seeds.

use std::collections::VecDeque;

use cenote::sync::directory::messages::message::DirectorySays;
use cenote::sync::directory::queue::Permission;

use crate::world::{Fault, Packet, Thread, World};

/// Runs of the library as it is.
const SEEDS: u64 = 50_000;
/// More messages than that are not on their way at once: the network loses one.
const NETWORK_MAX: usize = 64;
/// So many times, once losses have ended, all messages arrive and all nodes send again, at most.
const ROUNDS: usize = 400;

/// SplitMix64.
pub struct Draws(pub u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn script(&mut self) -> VecDeque<Permission> {
        let wants = [Permission::Shared, Permission::Exclusive];
        (0..self.below(8)).map(|_| wants[self.below(2)]).collect()
    }
}

/// How often runs have met what is hard to meet.
#[derive(Debug, Default)]
struct Met {
    denials: u32,
    writers_died: u32,
    next_writers_died: u32,
    readers_died: u32,
    waiters_died: u32,
    /// Deaths of holders in whose queues others stood.
    queues_rebuilt: u32,
}

/// A run from a seed. Fails with what must not be.
pub fn run(seed: u64) -> Result<(), Fault> {
    run_and_count(seed, &mut Met::default(), &mut |_, _| Ok(()))
}

/// A run in which somebody else interferes before each step, and is told when that is over.
pub fn run_with(
    seed: u64,
    interfere: &mut dyn FnMut(&mut World, bool) -> Result<(), Fault>,
) -> Result<(), Fault> {
    run_and_count(seed, &mut Met::default(), interfere)
}

fn run_and_count(
    seed: u64,
    met: &mut Met,
    interfere: &mut dyn FnMut(&mut World, bool) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut draws = Draws(seed);
    let nodes = 2 + draws.below(4);
    let mut world = World::new(&vec![&[][..]; nodes]);
    for n in 0..nodes {
        world.peers[n].as_mut().unwrap().script = draws.script();
    }
    let mut deaths = draws.below(3);
    // In some runs hardly a message is lost, in others many are.
    let harm = [0, 1, 5, 20][draws.below(4)];
    for _ in 0..400 {
        interfere(&mut world, false)?;
        step(&mut world, &mut draws, harm, &mut deaths, met)?;
    }
    interfere(&mut world, true)?;
    // From here on nothing is lost.
    for _ in 0..ROUNDS {
        if world.is_done() {
            return Ok(());
        }
        for n in 0..nodes {
            if world.can_start(n) {
                world.start(n)?;
            }
            if world.holds(n) {
                world.finish(n)?;
            }
            world.tick(Some(n));
        }
        world.tick(None);
        let arriving = std::mem::take(&mut world.network);
        arriving
            .into_iter()
            .try_for_each(|packet| world.deliver(packet))?;
    }
    let waiting = |n: &usize| {
        let thread = world.peers[*n].as_ref().map(|peer| peer.thread);
        matches!(thread, Some(Thread::Wants(_)))
    };
    Err(format!(
        "wait for ever: {:?}",
        (0..nodes).filter(waiting).collect::<Vec<_>>()
    ))
}

fn step(
    world: &mut World,
    draws: &mut Draws,
    harm: usize,
    deaths: &mut usize,
    met: &mut Met,
) -> Result<(), Fault> {
    if world.network.len() > NETWORK_MAX {
        world.network.remove(0);
    }
    let n = draws.below(world.peers.len());
    match draws.below(100) {
        0..45 if !world.network.is_empty() => {
            let at = draws.below(world.network.len());
            let is_lost = draws.below(100) < harm;
            let packet = match draws.below(100) < harm {
                true => world.network[at].clone(),
                false => world.network.swap_remove(at),
            };
            if !is_lost {
                met.denials += u32::from(is_denial(&packet));
                world.deliver(packet)?;
            }
        }
        45..65 if world.can_start(n) => world.start(n)?,
        65..85 if world.holds(n) => world.finish(n)?,
        85..90 => world.tick(Some(n)),
        90..93 => world.tick(None),
        93 if *deaths > 0 && world.peers[n].is_some() => {
            *deaths -= 1;
            met.count_death(world, n);
            world.kill(n, draws.below(2) == 0)?;
        }
        94..97 if world.peers[n].is_none() => {
            let script = draws.script();
            world.rejoin(n, script);
        }
        _ => {}
    }
    Ok(())
}

fn is_denial(packet: &Packet) -> bool {
    matches!(packet, Packet::ToNode(message) if matches!(message.says, DirectorySays::Denied { .. }))
}

impl Met {
    /// Node `n` is about to die.
    fn count_death(&mut self, world: &World, n: usize) {
        let Some(peer) = &world.peers[n] else {
            return;
        };
        let (node, lock) = (peer.client.session().node(), world.lock());
        let (entry, waiting) = (lock.entry(), lock.waiting());
        let others_wait = waiting.iter().any(|request| request.node != node);
        match entry.permission(node) {
            Some(Permission::Shared) => self.readers_died += 1,
            Some(Permission::Exclusive) => self.writers_died += 1,
            None if entry.holder() == Some(node) => self.next_writers_died += 1,
            None => self.waiters_died += u32::from(waiting.iter().any(|request| request.node == node)),
        }
        self.queues_rebuilt += u32::from(entry.holder() == Some(node) && others_wait);
    }

    fn all(&self) -> [u32; 6] {
        [
            self.denials,
            self.writers_died,
            self.next_writers_died,
            self.readers_died,
            self.waiters_died,
            self.queues_rebuilt,
        ]
    }
}

#[test]
fn whatever_the_network_does_locks_exclude_data_is_fresh_and_nobody_waits_for_ever() {
    let mut met = Met::default();
    for seed in 1..=SEEDS {
        if let Err(fault) = run_and_count(seed, &mut met, &mut |_, _| Ok(())) {
            panic!("seed {seed}: {fault}");
        }
    }
    println!("{SEEDS} seeds, from 1 on: {met:?}");
    assert!(met.all().iter().all(|times| *times > 100), "{met:?}");
}
