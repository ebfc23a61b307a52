//! The network keeps a single writer or many readers, and what is read is what was written last.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cenote::sync::directory::queue::Permission;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::cpu::Cpu;
use super::run::{Body, run, run_watched};
use super::{Machine, NetworkProfile, Shape};
use crate::locks::words::Words;

const NODES: u8 = 5;
const THREADS: u32 = 10;
const WORDS: u64 = 6;

fn shape(locks: u32, keeps: bool) -> Shape {
    Shape {
        nodes: NODES,
        threads: (0..THREADS)
            .map(|thread| (thread % u32::from(NODES)) as u8)
            .collect(),
        locks,
        covered_bytes: 4096,
        keeps,
    }
}

/// A profile whose costs are drawn, so that messages meet in other orders.
fn drawn(name: &str, draws: &mut Xoshiro256PlusPlus) -> NetworkProfile {
    let mut profile = NetworkProfile::load(name).unwrap();
    let mut some = |most: u32| f64::from(draws.next_u32() % most);
    profile.hop_ns = some(3000);
    profile.memory_hop_ns = some(3000);
    profile.memory_ns = some(500);
    profile.directory_ns = some(200);
    profile.fault_ns = some(2000);
    profile.invalidate_ns = some(4000);
    profile
}

/// Runs bodies, and looks at all caches before each of their steps.
fn run_checked(machine: &mut Machine, bodies: Vec<Body>, stride: u64, seed: u64) {
    let watch = |machine: &Machine| {
        for word in 0..WORDS {
            let (readers, writers) = machine.permissions(word * stride);
            assert!(
                writers.is_empty() || (writers.len() == 1 && readers.is_empty()),
                "seed {seed}, word {word}: {readers:?} read and {writers:?} write"
            );
        }
    };
    run_watched(machine, bodies, 0, watch).unwrap_or_else(|stuck| panic!("seed {seed}: {stuck}"));
}

/// For each word the additions that have ended: what each has found.
type Ended = Rc<Vec<RefCell<Vec<u64>>>>;

#[test]
fn lines_have_a_single_writer_or_many_readers_and_reads_are_fresh() {
    for seed in 1..=60 {
        // Shown if the test fails.
        println!("seed {seed}");
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
        let name = ["ethernet", "cxl3"][(seed % 2) as usize];
        let profile = drawn(name, &mut draws);
        // Two words in a line, so that lines are shared falsely too.
        let stride = profile.line_bytes / 2;
        let ended: Ended = Rc::new((0..WORDS).map(|_| RefCell::default()).collect());
        let body = |_| -> Body {
            let (ended, seed) = (ended.clone(), draws.next_u64());
            Box::new(move |cpu| add_and_read(cpu, &ended, stride, seed))
        };
        let bodies = (0..THREADS).map(body).collect();
        let mut machine = Machine::new(&profile, shape(0, true));
        run_checked(&mut machine, bodies, stride, seed);
        for word in ended.iter() {
            let mut numbers = word.borrow().clone();
            numbers.sort_unstable();
            let all: Vec<u64> = (0..numbers.len() as u64).collect();
            assert_eq!(numbers, all, "seed {seed}: each addition finds another number");
        }
    }
}

/// Additions, and reads that must find all additions that had ended when they began.
fn add_and_read(cpu: &Cpu<'_>, ended: &[RefCell<Vec<u64>>], stride: u64, seed: u64) {
    let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..60 {
        let word = draws.next_u64() % WORDS;
        let known = || {
            let ended = ended[word as usize].borrow();
            ended.iter().map(|number| number + 1).max().unwrap_or(0)
        };
        let before = known();
        if draws.next_u32().is_multiple_of(3) {
            let number = cpu.fetch_add(word * stride, 1);
            assert!(number >= before, "word {word} was {number} after {before}");
            ended[word as usize].borrow_mut().push(number);
        } else {
            let found = cpu.load(word * stride);
            assert!(found >= before, "word {word} is {found} after {before}");
        }
        cpu.sleep_ps(u64::from(draws.next_u32() % 20_000_000));
    }
}

#[test]
fn directory_locks_exclude_and_bring_fresh_data_with_one_transaction() {
    for seed in 1..=200 {
        // Shown if the test fails.
        println!("seed {seed}");
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
        let name = ["ethernet", "cxl3"][(seed % 2) as usize];
        let profile = drawn(name, &mut draws);
        let keeps = !seed.is_multiple_of(5);
        let written: Rc<Cell<u64>> = Rc::default();
        let inside: Rc<Cell<(u32, u32)>> = Rc::default();
        let acquired: Rc<Cell<u64>> = Rc::default();
        let body = |_| -> Body {
            let (written, inside, acquired) = (written.clone(), inside.clone(), acquired.clone());
            let seed = draws.next_u64();
            Box::new(move |cpu| read_and_write(cpu, &written, &inside, &acquired, seed))
        };
        let bodies = (0..THREADS).map(body).collect();
        let mut machine = Machine::new(&profile, shape(1, keeps));
        run(&mut machine, bodies, 0).unwrap_or_else(|stuck| panic!("seed {seed}: {stuck}"));
        let transactions: u64 = machine.counts().iter().map(|counts| counts.transactions()).sum();
        // Threads of a node share what it was granted.
        assert!(
            transactions <= acquired.get(),
            "seed {seed}: {transactions} transactions"
        );
    }
}

/// Acquisitions to read and to write; `inside` counts those that read and write now.
fn read_and_write(
    cpu: &Cpu<'_>,
    written: &Cell<u64>,
    inside: &Cell<(u32, u32)>,
    acquired: &Cell<u64>,
    seed: u64,
) {
    let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..40 {
        let (readers, writers) = (inside.get().0, inside.get().1);
        assert!(writers == 0 || (writers == 1 && readers == 0));
        match draws.next_u32().is_multiple_of(3) {
            true => {
                cpu.acquire(0, Permission::Exclusive);
                assert_eq!(inside.replace((0, 1)), (0, 0));
                assert_eq!(cpu.count_up_covered(0), Some(written.get()));
                written.set(written.get() + 1);
                inside.set((0, 0));
            }
            false => {
                cpu.acquire(0, Permission::Shared);
                let (readers, writers) = inside.get();
                assert_eq!(writers, 0);
                inside.set((readers + 1, 0));
                assert_eq!(cpu.read_covered(0), Some(written.get()));
                inside.set((inside.get().0 - 1, 0));
            }
        }
        acquired.set(acquired.get() + 1);
        cpu.release(0);
        cpu.sleep_ps(u64::from(draws.next_u32() % 30_000_000));
    }
}
