//! All orders of steps in small cases, with a loss, a repetition or a death at any step: nothing that must not be is
//! ever reached, and from everything that is reached all threads can still get what they ask for.

use std::collections::{BTreeSet, HashMap};

use cenote::mutant::{Mutant, choose};
use cenote_sim::subjects::lock_service::Op::{self, Commit, Panic, Read, Write, WriteNoted};
use cenote_sim::subjects::lock_service::{Fault, World, hash_of};

/// What may be harmed in a run.
#[derive(Clone, Copy, Debug, Hash)]
struct Harm {
    losses: u8,
    repetitions: u8,
    deaths: u8,
}

const NONE: Harm = Harm {
    losses: 0,
    repetitions: 0,
    deaths: 0,
};
const LOSS: Harm = Harm {
    losses: 1,
    repetitions: 0,
    deaths: 0,
};
const REPETITION: Harm = Harm {
    losses: 0,
    repetitions: 1,
    deaths: 0,
};
const DEATH: Harm = Harm {
    losses: 0,
    repetitions: 0,
    deaths: 1,
};
const ALL: Harm = Harm {
    losses: 1,
    repetitions: 1,
    deaths: 1,
};

/// What is reached from a beginning.
#[derive(Default)]
struct Reached {
    numbers: HashMap<u64, u32>,
    /// For each, where it is reached from.
    from: Vec<Vec<u32>>,
    done: Vec<u32>,
    todo: Vec<(u32, World, Harm)>,
}

impl Reached {
    fn add(&mut self, mut world: World, harm: Harm, from: Option<u32>) {
        world.sort_network();
        let next = self.from.len() as u32;
        let number = *self.numbers.entry(hash_of(&(&world, harm))).or_insert(next);
        if number == next {
            self.from.push(Vec::new());
            if world.is_done() {
                self.done.push(number);
            }
            self.todo.push((number, world, harm));
        }
        self.from[number as usize].extend(from);
    }

    /// How many are reached from which all threads can get what they ask for.
    fn are_served(&self) -> usize {
        let mut is_served = vec![false; self.from.len()];
        let mut todo = self.done.clone();
        while let Some(number) = todo.pop() {
            if !std::mem::replace(&mut is_served[number as usize], true) {
                todo.extend(&self.from[number as usize]);
            }
        }
        is_served.into_iter().filter(|is_served| *is_served).count()
    }
}

/// Everything that can happen next.
fn successors(world: &World, harm: Harm) -> Result<Vec<(World, Harm)>, Fault> {
    let mut next = Vec::new();
    let mut add = |harm: Harm, change: &dyn Fn(&mut World) -> Result<(), Fault>| {
        let mut world = world.clone();
        change(&mut world)?;
        next.push((world, harm));
        Ok::<(), Fault>(())
    };
    let nodes = world.peers.len();
    let mut is_at_rest = world.network.is_empty();
    for n in 0..nodes {
        if world.can_start(n, 0) {
            add(harm, &|world| world.start(n, 0))?;
            is_at_rest = false;
        }
        if world.holds(n, 0) {
            add(harm, &|world| world.finish(n, 0))?;
            is_at_rest = false;
        }
        if harm.deaths > 0 && world.peers[n].is_some() {
            let deaths = harm.deaths - 1;
            add(Harm { deaths, ..harm }, &|world| world.kill(n, true))?;
        }
    }
    let mut known = BTreeSet::new();
    for (at, packet) in world.network.iter().enumerate() {
        if !known.insert(hash_of(packet)) {
            continue;
        }
        let arrive = |world: &mut World| {
            let packet = world.network.remove(at);
            world.deliver(packet)
        };
        add(harm, &arrive)?;
        if harm.losses > 0 {
            let losses = harm.losses - 1;
            let lose = |world: &mut World| {
                world.network.remove(at);
                Ok(())
            };
            add(Harm { losses, ..harm }, &lose)?;
        }
        if harm.repetitions > 0 {
            let repetitions = harm.repetitions - 1;
            let repeat = |world: &mut World| {
                let packet = world.network[at].clone();
                world.network.push(packet);
                Ok(())
            };
            add(Harm { repetitions, ..harm }, &repeat)?;
        }
    }
    // Time passes when nothing else can happen. That a message comes late is the same as that it comes twice.
    if is_at_rest && !world.is_done() {
        let all_tick = |world: &mut World| {
            (0..nodes).for_each(|n| world.send_again(Some(n)));
            world.send_again(None);
            Ok(())
        };
        add(harm, &all_tick)?;
    }
    Ok(next)
}

/// How much is reached from a beginning. Fails with what must not be.
fn explore(scripts: &[&[Op]], harm: Harm) -> Result<usize, Fault> {
    let mut reached = Reached::default();
    reached.add(World::of_scripts(scripts), harm, None);
    while let Some((number, world, harm)) = reached.todo.pop() {
        for (world, harm) in successors(&world, harm)? {
            reached.add(world, harm, Some(number));
        }
    }
    let (all, served) = (reached.from.len(), reached.are_served());
    match all == served {
        true => Ok(all),
        false => Err(format!(
            "from {} of {all} states threads wait for ever",
            all - served
        )),
    }
}

fn explore_all(cases: &[&[&[Op]]], harms: &[Harm]) {
    for scripts in cases {
        for harm in harms {
            match explore(scripts, *harm) {
                Ok(states) => println!("{scripts:?}, {harm:?}: {states} states"),
                Err(fault) => panic!("{scripts:?}, {harm:?}: {fault}"),
            }
        }
    }
}

#[test]
fn two_nodes() {
    let cases: [&[&[Op]]; 4] = [
        &[&[Write, Write], &[Write, Write]],
        &[&[Read, Write], &[Read, Write]],
        &[&[Write, Read], &[Read, Write]],
        &[&[Read, Read], &[Write, Write]],
    ];
    explore_all(&cases, &[LOSS, REPETITION, DEATH]);
}

#[test]
fn two_nodes_and_all_harm_at_once() {
    let cases: [&[&[Op]]; 3] = [
        &[&[Write], &[Write]],
        &[&[Read, Write], &[Write]],
        &[&[Read, Read], &[Write]],
    ];
    explore_all(&cases, &[ALL]);
}

#[test]
fn commits_notes_and_panics() {
    let cases: [&[&[Op]]; 3] = [
        &[&[Commit, Write], &[Read]],
        &[&[WriteNoted, Read], &[Write]],
        &[&[Panic], &[Read, Write]],
    ];
    explore_all(&cases, &[LOSS, REPETITION, DEATH]);
}

const THREE_NODES: [&[&[Op]]; 2] = [&[&[Write], &[Read], &[Write]], &[&[Read], &[Read], &[Write]]];

#[test]
fn three_nodes() {
    explore_all(&THREE_NODES[..1], &[LOSS]);
    explore_all(&THREE_NODES[1..], &[LOSS, REPETITION, DEATH]);
}

#[test]
#[ignore = "takes a minute; cargo test --release -p cenote-sim --features mutants --test lock_service -- --ignored"]
fn three_nodes_and_all_harm() {
    explore_all(&THREE_NODES, &[LOSS, REPETITION, DEATH]);
}

/// Planted faults that each of these kinds of harm, or none, brings to light.
#[test]
fn planted_faults_are_found_in_small_cases() {
    let two: &[&[Op]] = &[&[Write, Read], &[Read, Write]];
    // One stands in the queue, or the writer would not hand over, and the request of another one is on its way.
    let three: &[&[Op]] = &[&[Write], &[Write], &[Write]];
    let others: &[&[Op]] = &[&[WriteNoted, Commit], &[Read]];
    let planted = [
        (Mutant::DirectoryVersionNotChecked, NONE),
        (Mutant::DirectoryDataNotKept, NONE),
        (Mutant::DirectoryNextReadersForgotten, NONE),
        (Mutant::DirectoryForwardNotRepeated, LOSS),
        (Mutant::DirectoryGrantOfOldTicket, REPETITION),
        (Mutant::DirectoryForwardCountedTwice, REPETITION),
        (Mutant::DirectoryEpochNotChecked, REPETITION),
        (Mutant::DirectoryQueueLost, DEATH),
        (Mutant::DirectoryEndedSessionHeard, DEATH),
        (Mutant::RemoteChangesForgotten, NONE),
        (Mutant::RemoteRegionNotStamped, NONE),
        (Mutant::RemoteCommitEarly, NONE),
        (Mutant::RemoteNoteOutOfOrder, DEATH),
    ];
    for (mutant, harm) in planted {
        let nodes = match mutant {
            Mutant::DirectoryVersionNotChecked => three,
            Mutant::RemoteCommitEarly | Mutant::RemoteNoteOutOfOrder => others,
            _ => two,
        };
        choose(Some(mutant));
        let outcome = explore(nodes, harm);
        choose(None);
        println!("{}, {harm:?}: {outcome:?}", mutant.name());
        assert!(outcome.is_err(), "{} is not found", mutant.name());
    }
}
