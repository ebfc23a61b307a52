//! Runs on a simulated network, from seeds, with counts of what they have met.

use std::collections::VecDeque;

use cenote::sync::directory::messages::message::{DirectorySays, LockId};
use cenote::sync::directory::queue::Permission;
use cenote_sim::subjects::lock_service::{Fault, Op, Packet, RATE, Weather, World, round, step};

/// Runs of the library as it is.
const SEEDS: u64 = 6_000;
/// Steps of a run.
const STEPS: usize = 600;
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
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn script(&mut self) -> VecDeque<(LockId, Op)> {
        let ops = [
            Op::Read,
            Op::Write,
            Op::Read,
            Op::WriteNoted,
            Op::Commit,
            Op::Panic,
        ];
        (0..self.below(8))
            .map(|_| (1, ops[self.below(6) as usize]))
            .collect()
    }

    /// Scripts of a node's threads.
    fn scripts(&mut self) -> Vec<VecDeque<(LockId, Op)>> {
        (0..1 + self.below(3)).map(|_| self.script()).collect()
    }

    fn clock(&mut self) -> (u64, u64) {
        (self.below(1000), RATE - 1 + self.below(3))
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
    /// Nodes that heard that they had been declared dead.
    fenced: u32,
}

/// A run in which somebody else interferes before each step, and is told when that is over. Fails with what must not
/// be.
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
    let nodes = 2 + draws.below(4) as usize;
    let mut world = World::new(1);
    for _ in 0..nodes {
        let n = world.add_place();
        let (scripts, clock) = (draws.scripts(), draws.clock());
        world.join(n, scripts, clock);
    }
    let weather = Weather::drawn(&mut |bound| draws.below(bound));
    let mut deaths = draws.below(3);
    for _ in 0..STEPS {
        interfere(&mut world, false)?;
        act(&mut world, &mut draws, &mut deaths, met)?;
        let before = (living(&world), denials(&world));
        step(&mut world, &mut |bound| draws.below(bound), &weather)?;
        met.fenced += (before.0 - living(&world)) as u32;
        met.denials += denials(&world).saturating_sub(before.1) as u32;
    }
    interfere(&mut world, true)?;
    for _ in 0..ROUNDS {
        if world.is_done() {
            return Ok(());
        }
        for n in 0..nodes {
            visit(&mut world, n, &mut |_| true)?;
        }
        round(&mut world)?;
    }
    Err(format!("wait for ever: {:?}", world.peers))
}

/// Threads of a node go on.
fn visit(world: &mut World, n: usize, does: &mut dyn FnMut(bool) -> bool) -> Result<(), Fault> {
    let threads = world.peers[n].as_ref().map_or(0, |peer| peer.threads.len());
    for t in 0..threads {
        if world.can_start(n, t) && does(true) {
            world.start(n, t)?;
        }
        if world.holds(n, t) && does(false) {
            world.finish(n, t)?;
        }
    }
    Ok(())
}

fn act(world: &mut World, draws: &mut Draws, deaths: &mut u64, met: &mut Met) -> Result<(), Fault> {
    let n = draws.below(world.peers.len() as u64) as usize;
    match draws.below(100) {
        0..60 => visit(world, n, &mut |starts| {
            draws.below(if starts { 3 } else { 2 }) == 0
        })?,
        60 if *deaths > 0 && world.peers[n].is_some() => {
            *deaths -= 1;
            met.count_death(world, n);
            match draws.below(3) {
                0 => world.kill(n, false)?,
                1 => world.kill(n, true)?,
                // Nobody is told.
                _ => drop(world.crash(n)),
            }
        }
        61 if draws.below(4) == 0 => world.close(n)?,
        62..65 if world.peers[n].is_none() => {
            let (scripts, clock) = (draws.scripts(), draws.clock());
            world.join(n, scripts, clock);
        }
        _ => {}
    }
    Ok(())
}

fn living(world: &World) -> usize {
    world.peers.iter().flatten().count()
}

fn denials(world: &World) -> usize {
    world.network.iter().filter(|packet| is_denial(packet)).count()
}

fn is_denial(packet: &Packet) -> bool {
    matches!(packet, Packet::ToNode(message) if matches!(message.says, DirectorySays::Denied { .. }))
}

impl Met {
    /// Node `n` is about to die.
    fn count_death(&mut self, world: &World, n: usize) {
        let (Some(session), Some(lock)) = (world.session(n), world.lock(1)) else {
            return;
        };
        let (node, entry, waiting) = (session.node(), lock.entry(), lock.waiting());
        let others_wait = waiting.iter().any(|request| request.node != node);
        match entry.permission(node) {
            Some(Permission::Shared) => self.readers_died += 1,
            Some(Permission::Exclusive) => self.writers_died += 1,
            None if entry.holder() == Some(node) => self.next_writers_died += 1,
            None => self.waiters_died += u32::from(waiting.iter().any(|request| request.node == node)),
        }
        self.queues_rebuilt += u32::from(entry.holder() == Some(node) && others_wait);
    }

    fn all(&self) -> [u32; 7] {
        [
            self.denials,
            self.writers_died,
            self.next_writers_died,
            self.readers_died,
            self.waiters_died,
            self.queues_rebuilt,
            self.fenced,
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
    assert!(met.all().iter().all(|times| *times > 20), "{met:?}");
}
