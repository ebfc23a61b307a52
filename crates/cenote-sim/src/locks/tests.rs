//! Every lock excludes, on real threads and on the simulated network.
#![allow(clippy::disallowed_types)] // counters that the threads of a test share

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use cenote::memory::{Coherent, Mapped, Mapping};
use cenote::sync::directory::queue::Permission;

use super::cohort::Cohort;
use super::mail::{Letter, Mail};
use super::mcs::Mcs;
use super::per_core::PerCore;
use super::posix::Posix;
use super::room::Room;
use super::service::{Manager, Service};
use super::words::OnMemory;
use super::{Lock, Who, Words};
use crate::msi::{Body, Machine, NetworkProfile, Shape, run};

const THREADS: u32 = 6;
const NODES: u32 = 3;
const ROUNDS: u64 = 300;

/// What a thread wants in a round: one in three writes.
fn wants(thread: u32, round: u64) -> Permission {
    match (u64::from(thread) + round).is_multiple_of(3) {
        true => Permission::Exclusive,
        false => Permission::Shared,
    }
}

fn writes_of(thread: u32) -> u64 {
    let writes = |round: &u64| wants(thread, *round) == Permission::Exclusive;
    (0..ROUNDS).filter(writes).count() as u64
}

/// A thread's rounds: a writer changes two words one after another, which everybody must find the same.
fn rounds<W: Words, L: Lock>(mem: &W, lock: &L, who: Who, data: u64) {
    for round in 0..ROUNDS {
        let wants = wants(who.thread, round);
        lock.acquire(mem, who, wants);
        let first = mem.load(data);
        if wants == Permission::Exclusive {
            mem.store(data, first + 1);
        }
        let second = mem.load(data + 8);
        assert_eq!(first, second, "{who:?}, round {round}");
        if wants == Permission::Exclusive {
            mem.store(data + 8, second + 1);
        }
        lock.release(mem, who, wants);
    }
}

fn who(thread: u32) -> Who {
    Who {
        thread,
        node: thread % NODES,
    }
}

fn excludes<L: Lock + Copy + Send + 'static>(line: u64, new: impl Fn(&mut Room) -> L) {
    let mut room = Room::new(line);
    let lock = new(&mut room);
    let data = room.line();
    let total: u64 = (0..THREADS).map(writes_of).sum();

    // On real threads.
    let mapping = Mapping::anonymous(room.end().next_multiple_of(1 << 16)).unwrap();
    let mem = Coherent::over(Arc::new(mapping)).unwrap();
    // SAFETY: the mapping is anonymous memory of this test, all of it there, and used through these words alone.
    let words = unsafe { OnMemory::new(mem, room.end()) };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let words = words.clone();
            scope.spawn(move || rounds(&words, &lock, who(thread), data));
        }
    });
    assert_eq!(words.load(data), total);

    // On simulated ones.
    for profile in NetworkProfile::names() {
        let profile = NetworkProfile::load(profile).unwrap();
        let mut machine = Machine::new(&profile, shape(0));
        let last = Rc::new(Cell::new(0));
        let body = |thread| -> Body {
            let last = last.clone();
            Box::new(move |cpu| {
                rounds(cpu, &lock, who(thread), data);
                last.set(last.get().max(cpu.load(data)));
            })
        };
        run(&mut machine, (0..THREADS).map(body).collect(), 0).unwrap();
        assert_eq!(last.get(), total, "{}", profile.name);
    }
}

fn shape(managers: u8) -> Shape {
    let threads = (0..THREADS).map(|thread| who(thread).node as u8);
    Shape {
        nodes: NODES as u8,
        threads: threads.chain(0..managers).collect(),
        locks: 0,
        covered_bytes: 0,
        keeps: true,
    }
}

#[test]
fn the_queue_lock_excludes() {
    excludes(64, |room| {
        let entries = Mcs::entries(room, THREADS);
        Mcs::new(room, entries)
    });
}

#[test]
fn the_lock_with_one_counter_excludes() {
    excludes(64, Posix::new);
}

#[test]
fn the_lock_with_a_word_for_each_thread_excludes() {
    excludes(64, |room| PerCore::new(room, THREADS));
}

#[test]
fn the_cohort_lock_excludes() {
    excludes(4096, |room| Cohort::new(room, NODES));
}

/// A lock that lets everybody in.
#[derive(Clone, Copy)]
struct Open;

impl Lock for Open {
    fn acquire<W: Words>(&self, _: &W, _: Who, _: Permission) {}

    fn release<W: Words>(&self, _: &W, _: Who, _: Permission) {}
}

#[test]
#[should_panic(expected = "round")]
fn a_lock_that_excludes_nobody_is_found() {
    let profile = NetworkProfile::load("ethernet").unwrap();
    let mut machine = Machine::new(&profile, shape(0));
    let body = |thread| -> Body { Box::new(move |cpu| rounds(cpu, &Open, who(thread), 0)) };
    // An error instead of the panic fails the test too.
    let _ = run(&mut machine, (0..THREADS).map(body).collect(), 0);
}

/// Ports of real threads.
#[derive(Clone)]
struct Ports(Arc<Vec<(Mutex<VecDeque<Letter>>, Condvar)>>);

impl Mail for Ports {
    fn send(&self, port: u32, letter: Letter) {
        let (letters, sent) = &self.0[port as usize];
        letters.lock().unwrap().push_back(letter);
        sent.notify_one();
    }

    fn receive(&self, port: u32) -> Letter {
        let (letters, sent) = &self.0[port as usize];
        let mut letters = sent
            .wait_while(letters.lock().unwrap(), |letters| letters.is_empty())
            .unwrap();
        letters.pop_front().unwrap()
    }
}

/// A thread's rounds under a lock of the service.
fn served<M: Mail>(mail: &M, service: Service, thread: u32, data: &[AtomicU64; 2]) {
    for round in 0..ROUNDS {
        let wants = wants(thread, round);
        service.acquire(mail, thread, 1, wants);
        let first = data[0].load(Ordering::Relaxed);
        if wants == Permission::Exclusive {
            data[0].store(first + 1, Ordering::Relaxed);
        }
        assert_eq!(
            data[1].load(Ordering::Relaxed),
            first,
            "thread {thread}, round {round}"
        );
        if wants == Permission::Exclusive {
            data[1].store(first + 1, Ordering::Relaxed);
        }
        service.release(mail, thread, 1);
    }
}

#[test]
fn the_lock_service_excludes() {
    let service = Service {
        managers: (THREADS, 2),
    };
    let total: u64 = (0..THREADS).map(writes_of).sum();
    let ports = Ports(Arc::new((0..THREADS + 2).map(|_| Default::default()).collect()));
    for manager in THREADS..THREADS + 2 {
        let ports = ports.clone();
        // It serves until the process ends.
        std::thread::spawn(move || Manager::default().serve(&ports, manager, |_| {}));
    }
    let data = [AtomicU64::new(0), AtomicU64::new(0)];
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (ports, data) = (&ports, &data);
            scope.spawn(move || served(ports, service, thread, data));
        }
    });
    assert_eq!(data[0].load(Ordering::Relaxed), total);

    let profile = NetworkProfile::load("ethernet").unwrap();
    let mut machine = Machine::new(&profile, shape(2));
    let data = Rc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let body = |thread| -> Body {
        let data = data.clone();
        match thread < THREADS {
            true => Box::new(move |cpu| served(cpu, service, thread, &data)),
            false => Box::new(move |cpu| Manager::default().serve(cpu, thread, |_| {})),
        }
    };
    run(&mut machine, (0..THREADS + 2).map(body).collect(), 2).unwrap();
    assert_eq!(data[0].load(Ordering::Relaxed), total);
}
