//! The background thread of a process: users' wakers that misbehave in it, and its death while the process lives.

// Has the library compiled for both memories (`cenote_damage::ALL_CALLS`).
extern crate cenote_damage as _;

use cenote::memory::LocalWord;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use cenote::memory::Mapped;
use cenote::{Coherent, Membership, Noncoherent, Options, Pool};

const TOKEN: &[u8] = b"token";

fn options() -> Options {
    Options {
        size: 4 << 20,
        max: 1 << 30,
        ..Options::default()
    }
}

/// Waits for something that must come.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A waker that panics, or ends the thread that calls it.
struct Bad {
    was_called: LocalWord,
    ends_thread: bool,
}

impl Wake for Bad {
    fn wake(self: Arc<Self>) {
        self.was_called.store(1);
        if self.ends_thread {
            // SAFETY: ends this very thread. What it had on its stack is leaked.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        panic!("a waker that panics, as this test wants it to");
    }
}

struct Good(LocalWord);

impl Wake for Good {
    fn wake(self: Arc<Self>) {
        self.0.store(1);
    }
}

/// Registers a waker for the next event of the member's group.
fn await_with<M: Mapped>(membership: &mut Membership<M>, waker: Waker) {
    while membership.try_next().unwrap().is_some() {}
    let future = pin!(membership.next_event());
    assert!(future.poll(&mut Context::from_waker(&waker)).is_pending());
}

/// Makes the background thread call a waker that misbehaves.
fn call_a_bad_waker<M: Mapped>(pool: &Pool<M>, ends_thread: bool) {
    let group = pool.group("g", TOKEN).unwrap();
    let mut observer = group.observe().unwrap();
    let bad = Arc::new(Bad {
        was_called: LocalWord::new(0),
        ends_thread,
    });
    await_with(&mut observer, bad.clone().into());
    let member = group.join("somebody").unwrap();
    eventually("the call of a waker", || bad.was_called.load() != 0);
    member.leave().unwrap();
}

/// Overwrites a key; then all that is retired can be freed, if the other processes do their part.
fn memory_comes_back<M: Mapped>(pool: &Pool<M>, mut meanwhile: impl FnMut()) {
    let map = pool.map("m").unwrap();
    for n in 0..5_000u64 {
        map.put(b"k", format!("version {n}").as_bytes()).unwrap();
    }
    eventually("memory", || {
        meanwhile();
        pool.collect().unwrap();
        pool.stat().unwrap().retired_objects < 100
    });
}

fn a_panic_of_a_waker_ends_nothing<M: Mapped>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool: Pool<M> = Pool::create(&path, &options()).unwrap();
    call_a_bad_waker(&pool, false);

    let group = pool.group("g", TOKEN).unwrap();
    let mut observer = group.observe().unwrap();
    let good = Arc::new(Good(LocalWord::new(0)));
    await_with(&mut observer, good.clone().into());
    let _member = group.join("somebody else").unwrap();
    eventually("the next call", || good.0.load() != 0);
    // To the pool this is another process.
    memory_comes_back(&Pool::<M>::open(&path, &options()).unwrap(), || {});
}

#[test]
fn a_waker_that_panics_ends_nothing() {
    a_panic_of_a_waker_ends_nothing::<Coherent>();
    a_panic_of_a_waker_ends_nothing::<Noncoherent>();
}

#[test]
fn others_stand_in_for_a_background_thread_that_has_died() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool: Pool<Noncoherent> = Pool::create(&path, &options()).unwrap();
    let map = pool.map("mine").unwrap();
    call_a_bad_waker(&pool, true);
    eventually("the thread's death", || {
        pool.worker().unwrap().pod().has_lost_flush_server()
    });
    // This thread has its worker already, and works on.
    memory_comes_back(&Pool::<Noncoherent>::open(&path, &options()).unwrap(), || {
        map.put(b"k", b"v").unwrap();
        pool.collect().unwrap();
    });
    assert!(pool.worker().unwrap().pod().has_lost_flush_server());
}

#[test]
fn a_background_thread_that_has_died_begins_again_with_the_next_handle() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool: Pool<Noncoherent> = Pool::create(&path, &options()).unwrap();
    let worker = pool.worker().unwrap();
    call_a_bad_waker(&pool, true);
    eventually("the thread's death", || worker.pod().has_lost_flush_server());
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| drop(pool.map("m").unwrap()));
        opened.join().unwrap();
    });
    assert!(!worker.pod().has_lost_flush_server());
    memory_comes_back(&Pool::<Noncoherent>::open(&path, &options()).unwrap(), || {});
}
