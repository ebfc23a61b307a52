//! A process is stopped while it makes a name. A worker that waits for its lock must not keep its retired list from
//! others.

use std::sync::mpsc::channel;

use cenote::memory::Mapped;
use cenote::pod::format::superblock::DIRECTORY_LOCK;
use cenote::pod::lock;
use cenote::{Coherent, Noncoherent, Options, Pool};

/// What a worker with garbage does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    Idles,
    Reserves,
    Creates,
}

static VALUE: [u8; 65_000] = [1; 65_000];

fn who_waits_keeps_no_garbage<M: Mapped>(then: Then) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = Options {
        size: 1 << 20,
        max: 16 << 20,
        ..Options::default()
    };
    let pool: Pool<M> = Pool::create(folder.path().join("pool"), &options).unwrap();
    let map = pool.map("m").unwrap();
    pool.map("other").unwrap();
    let worker = pool.worker().unwrap();
    std::thread::scope(|scope| {
        let (pool, (tell, told), (go, goes), (end, ends)) =
            (&pool, channel(), channel::<()>(), channel::<()>());
        scope.spawn(move || {
            let (map, other) = (pool.map("m").unwrap(), pool.map("other").unwrap());
            map.put(b"mine", b"1").unwrap();
            tell.send(()).unwrap();
            goes.recv().unwrap();
            for n in 0..14_u64 {
                assert!(map.remove(&n.to_le_bytes()).unwrap());
            }
            tell.send(()).unwrap();
            match then {
                Then::Idles => drop(ends.recv()),
                Then::Reserves => drop(other.reserve(1000)),
                Then::Creates => drop(pool.map("a new one")),
            }
        });
        told.recv().unwrap();
        let refused = (0..).find(|n: &u64| map.put(&n.to_le_bytes(), &VALUE).is_err());
        assert!(refused.unwrap() > 14);
        let held = lock::acquire(&worker, DIRECTORY_LOCK).unwrap();
        go.send(()).unwrap();
        told.recv().unwrap();
        // Whether it waits by now or is about to: it must not matter.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let outcomes: Vec<_> = (0..8_u64)
            .map(|n| map.put(&(n + 1000).to_le_bytes(), &VALUE).map(drop))
            .collect();
        drop((held, end));
        assert!(outcomes.iter().all(Result::is_ok), "{then:?}: {outcomes:?}");
    });
}

#[test]
fn on_coherent_memory() {
    for then in [Then::Idles, Then::Reserves, Then::Creates] {
        who_waits_keeps_no_garbage::<Coherent>(then);
    }
}

#[test]
fn on_incoherent_memory() {
    for then in [Then::Idles, Then::Reserves, Then::Creates] {
        who_waits_keeps_no_garbage::<Noncoherent>(then);
    }
}
