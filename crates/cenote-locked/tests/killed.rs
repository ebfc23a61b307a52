//! Processes that work on a store under a directory lock and are killed anywhere: no acknowledged order is lost, none
//! is half there, and the conditions of consistency hold.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use cenote::{Backend, Coherent, Delegated, Noncoherent, Options, Pool, RegionsLock};
use cenote_locked::tpcc::{Input, Kind, Layout, Output, Repairs, Scale, Store, Terminals, execute};
use cenote_locked::words::{self, Load, WordsMut};
use cenote_locked::{Error, Result};
use rustix::process::{Signal, getpid, kill_process};

const SCALE: Scale = Scale::small(2);
/// Processes at a time, and how many are killed.
const WORKERS: usize = 3;
const KILLS: u64 = 24;
/// Transactions that a worker has acknowledged when it is killed, at least.
const LIFE: u64 = 40;

fn open<M: Backend>(path: &Path) -> (Pool<M>, RegionsLock<M>) {
    let options = Options {
        size: 8 << 20,
        max: 64 << 20,
        ..Options::default()
    };
    let pool = Pool::<M>::open_or_create(path, &options).unwrap();
    let bytes = Layout::new(SCALE).unwrap().bytes();
    let lock = pool.regions_builder("store").region(bytes).open().unwrap();
    (pool, lock)
}

/// This program again, as a worker.
struct Worker {
    child: Child,
    /// What it says. Read as it comes, so that the worker never waits for that.
    said: Receiver<String>,
    /// Orders that it has acknowledged, and transactions of others that it has rolled back.
    orders: u64,
    rolled_back: u64,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    fn start<M: Backend>(path: &Path, seed: u64, dies_after: Option<u64>) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "role", "--nocapture"])
            .env("CENOTE_LOCKED_POOL", path)
            .env("CENOTE_LOCKED_KIND", M::NAME)
            .env("CENOTE_LOCKED_SEED", seed.to_string())
            .envs(dies_after.map(|stores| ("CENOTE_LOCKED_STORES", stores.to_string())))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (tell, said) = channel();
        std::thread::spawn(move || {
            // Others are what the test harness says.
            let lines = lines.map_while(std::result::Result::ok);
            for line in lines.filter(|line| line.starts_with("did ")) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            said,
            orders: 0,
            rolled_back: 0,
        }
    }

    /// Waits until it has done something; false if it has ended.
    fn hear(&mut self) -> bool {
        let said = self.said.recv();
        self.orders += u64::from(said.as_deref() == Ok("did an order"));
        self.rolled_back += u64::from(said.as_deref() == Ok("did roll back"));
        said.is_ok()
    }

    /// Kills it, and returns the orders that it has acknowledged, and what it has rolled back.
    fn kill(mut self) -> [u64; 2] {
        self.child.kill().unwrap();
        while self.hear() {}
        [self.orders, self.rolled_back]
    }
}

fn killed_anywhere<M: Backend>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let (pool, lock) = open::<M>(&path);
    let store = Store::load(lock, SCALE, 1, 1).unwrap();
    let mut workers: Vec<Worker> = (0..WORKERS as u64)
        .map(|seed| Worker::start::<M>(&path, seed, None))
        .collect();
    let [mut acknowledged, mut rolled_back] = [0; 2];
    let mut add = |of: Worker| {
        let [orders, back] = of.kill();
        acknowledged += orders;
        rolled_back += back;
    };
    for kill in 0..KILLS {
        let victim = kill as usize % WORKERS;
        for _ in 0..LIFE {
            assert!(workers[victim].hear(), "a worker has ended");
        }
        let next = Worker::start::<M>(&path, 100 + kill, None);
        add(std::mem::replace(&mut workers[victim], next));
        if kill % 6 == 5 {
            assert_eq!(store.check().unwrap(), []);
        }
    }
    let kills = KILLS + workers.len() as u64;
    workers.into_iter().for_each(add);
    assert_eq!(store.check().unwrap(), []);
    rolled_back += store.repairs().rolled_back;
    println!("{kills} kills, {acknowledged} orders, {rolled_back} rolled back");
    // A victim may have entered one that it had no time to acknowledge.
    let entered = store.orders_entered().unwrap();
    assert!(
        (acknowledged..=acknowledged + kills).contains(&entered),
        "{acknowledged} acknowledged, {entered} entered"
    );
    drop(store);
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn workers_that_are_killed_anywhere_lose_nothing_and_leave_nothing_half_done() {
    killed_anywhere::<Coherent>();
    killed_anywhere::<Noncoherent>();
    killed_anywhere::<Delegated>();
}

fn killed_at_stores<M: Backend>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let (_pool, lock) = open::<M>(&path);
    let store = Store::load(lock, SCALE, 1, 1).unwrap();
    let mut repairs = Repairs::default();
    for stores in [0, 2, 3, 4, 50, 77, 200] {
        let mut worker = Worker::start::<M>(&path, 7, Some(stores));
        assert!(!worker.hear(), "it has come to an end after {stores} stores");
        assert_eq!(worker.child.wait().unwrap().signal(), Some(9));
        // The next one is told, and rolls back if a pair counts: that takes three stores.
        assert_eq!(store.check().unwrap(), [], "killed after {stores} stores");
        repairs.told += 1;
        repairs.rolled_back += u64::from(stores >= 3);
        assert_eq!(store.repairs(), repairs, "killed after {stores} stores");
        assert_eq!(store.orders_entered().unwrap(), 0);
    }
}

#[test]
fn who_follows_a_worker_killed_in_a_transaction_is_told_and_rolls_it_back() {
    killed_at_stores::<Coherent>();
    killed_at_stores::<Noncoherent>();
    killed_at_stores::<Delegated>();
}

/// Words whose owner kills itself before it has made one store more.
struct Mortal<'w, 'l> {
    words: &'w mut WordsMut<'l>,
    left: u64,
}

impl Load for Mortal<'_, '_> {
    fn covered(&self) -> u64 {
        self.words.covered()
    }

    fn load(&self, at: u64) -> Result<u64> {
        self.words.load(at)
    }

    fn words(&self, at: u64, len: u64) -> Result<&[u64]> {
        self.words.words(at, len)
    }
}

impl words::Store for Mortal<'_, '_> {
    fn store(&mut self, at: u64, value: u64) -> Result<()> {
        if self.left == 0 {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        self.left -= 1;
        self.words.store(at, value)
    }
}

/// A worker; does nothing unless it is started as one.
#[test]
fn role() {
    let Ok(path) = std::env::var("CENOTE_LOCKED_POOL") else {
        return;
    };
    match std::env::var("CENOTE_LOCKED_KIND").as_deref() {
        Ok("noncoherent") => work::<Noncoherent>(Path::new(&path)),
        Ok("delegated") => work::<Delegated>(Path::new(&path)),
        _ => work::<Coherent>(Path::new(&path)),
    }
}

/// Works until it is killed.
fn work<M: Backend>(path: &Path) {
    let (_pool, lock) = open::<M>(path);
    let seed = std::env::var("CENOTE_LOCKED_SEED").unwrap().parse().unwrap();
    let mut terminals = Terminals::new(SCALE, seed, 0);
    let store = Store::open(lock, SCALE).unwrap();
    if let Ok(stores) = std::env::var("CENOTE_LOCKED_STORES") {
        let left = stores.parse().unwrap();
        let input = terminals.of_kind(Kind::NewOrder);
        let layout = *store.layout();
        let done = store.write(|words| execute(&layout, &mut Mortal { words, left }, &input, 1));
        return drop(done.unwrap());
    }
    let mut rolled_back = 0;
    for date in 1.. {
        if store.repairs().rolled_back > rolled_back {
            rolled_back += 1;
            println!("did roll back");
        }
        let input = terminals.next_input();
        match store.run(&input, date) {
            Ok(Output::Ordered { .. }) => println!("did an order"),
            Ok(_) => println!("did something"),
            Err(Error::Full { warehouse, .. }) => {
                let delivery = Input::Delivery {
                    warehouse,
                    carrier: 1,
                };
                store.run(&delivery, date).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
}
