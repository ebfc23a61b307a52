//! Flush rounds with a slow process: what a reader holds stays.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use cenote::memory::LocalWord;
use cenote::pod::{reclaim::collect, reclaim::retire};
use cenote::{Noncoherent, Options, Pool};

/// A waker that delays the background thread for a while: 1 meanwhile, 2 afterwards.
struct Slow(LocalWord);

impl Wake for Slow {
    fn wake(self: Arc<Self>) {
        self.0.store(1);
        std::thread::sleep(Duration::from_millis(3000));
        self.0.store(2);
    }
}

fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// A thread has recycled all that it had retired, and is idle: its list is taken over, without live entries. While a
/// process acknowledges no round, a list with what a reader holds is appended to that list.
#[test]
fn a_round_over_nothing_frees_nothing_behind_it() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let options = Options {
        size: 4 << 20,
        max: 64 << 20,
        ..Options::default()
    };
    let pool: Pool<Noncoherent> = Pool::create(&path, &options).unwrap();
    let other: Pool<Noncoherent> = Pool::open(&path, &options).unwrap();
    let map = pool.map("m").unwrap();
    map.put(b"victim", &[1; 40]).unwrap();
    let key = |kind: &str, n: u64| format!("{kind}{n:05}").into_bytes();
    for n in 0..900 {
        map.put(&key("v", n), &[5; 40]).unwrap();
    }

    let (tell, told) = channel();
    let (rest, may_rest) = channel::<()>();
    let its_pool = pool.clone();
    let first = std::thread::spawn(move || {
        let map = its_pool.map("m").unwrap();
        let worker = its_pool.worker().unwrap();
        let hold = worker.hold_list().unwrap();
        for n in 0..20u64 {
            let mut value = [2; 40];
            value[..8].copy_from_slice(&n.to_le_bytes());
            map.put(b"itsown", &value).unwrap();
        }
        for _ in 0..60 {
            collect::collect_now(&worker).unwrap();
            sleep(5);
        }
        let waits = || {
            let mut found = 0;
            retire::pending(&worker, worker.record(), |_| found += 1).unwrap();
            found
        };
        let mut n = 0;
        while waits() > 0 && n < 200 {
            map.put(&key("k", n), &[3; 40]).unwrap();
            n += 1;
        }
        tell.send(()).unwrap();
        may_rest.recv().unwrap();
        drop(hold);
        let _ = may_rest.recv();
    });
    told.recv().unwrap();

    let group = other.group("g", b"token").unwrap();
    let mut observer = group.observe().unwrap();
    while observer.try_next().unwrap().is_some() {}
    let slow = Arc::new(Slow(LocalWord::new(0)));
    {
        let waker: Waker = slow.clone().into();
        let event = pin!(observer.next_event());
        assert!(event.poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let member = group.join("somebody").unwrap();
    while slow.0.load() == 0 {
        sleep(1);
    }
    rest.send(()).unwrap();
    sleep(700);

    let held = map.get(b"victim").unwrap().unwrap();
    let (tell, told) = channel();
    let (rest_too, may_rest) = channel::<()>();
    let its_pool = pool.clone();
    let second = std::thread::spawn(move || {
        let map = its_pool.map("m").unwrap();
        map.put(b"victim", &[9; 40]).unwrap();
        for n in 0..900 {
            map.remove(&key("v", n)).unwrap();
        }
        tell.send(()).unwrap();
        let _ = may_rest.recv();
    });
    told.recv().unwrap();
    sleep(700);
    assert!(pool.stat().unwrap().retired_objects > 800);
    while slow.0.load() != 2 {
        sleep(1);
    }
    sleep(500);
    let later = pool.stat().unwrap().retired_objects;
    assert!(
        later > 800,
        "a reader may hold all of it, and {later} objects are left"
    );
    let its_pool = pool.clone();
    let third = std::thread::spawn(move || {
        let map = its_pool.map("m").unwrap();
        for n in 0..6000 {
            map.put(&key("n", n), &[7; 40]).unwrap();
        }
    });
    third.join().unwrap();
    assert_eq!(
        &*held, &[1; 40],
        "what a reader holds was freed, and is another object now"
    );
    drop((member, rest, rest_too));
    first.join().unwrap();
    second.join().unwrap();
}
