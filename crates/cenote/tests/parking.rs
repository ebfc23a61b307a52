//! Waits of the library leave alone what a thread was unparked for by its user.

use std::time::{Duration, Instant};

use cenote::{Backend, Coherent, Delegated, Noncoherent, Options, Pool};

/// For so long a thread would sleep that is unparked no more.
const LONG: Duration = Duration::from_secs(60);

/// A thread is unparked while it waits for a spin lock, on `Delegated` also for the server; then it parks.
fn check<M: Backend>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = Options {
        size: 8 << 20,
        max: 64 << 20,
        ..Options::default()
    };
    let pool: Pool<M> = Pool::create(folder.path().join("pool"), &options).unwrap();
    let (says, said) = std::sync::mpsc::channel();
    let waiter = std::thread::current();
    std::thread::scope(|scope| {
        let other = pool.clone();
        scope.spawn(move || {
            let lock = other.spin_mutex("lock").unwrap();
            let guard = lock.lock().unwrap();
            says.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            waiter.unpark();
            std::thread::sleep(Duration::from_millis(100));
            drop(guard);
        });
        let lock = pool.spin_mutex("lock").unwrap();
        said.recv().unwrap();
        drop(lock.lock().unwrap());
        let begun = Instant::now();
        std::thread::park_timeout(LONG);
        assert!(
            begun.elapsed() < LONG / 2,
            "the wait took what the thread was unparked for"
        );
    });
}

#[test]
fn a_wait_leaves_the_token_of_who_unparked_the_thread() {
    check::<Coherent>();
    check::<Noncoherent>();
    check::<Delegated>();
}
