//! A worker whose list was taken over removes keys from a full pool, by its spare chunk, and is killed meanwhile.
//! Nothing is lost or named twice, and the next worker at its place can remove keys as well.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use cenote::memory::Mapped;
use cenote::pod::format::class::TABLE;
use cenote::pod::instance::crash::Point;
use cenote::{Coherent, Map, Noncoherent, Options, Pool};

use super::{Files, Outcome, text};

/// Keys of the worker that leaves.
const KEYS: u64 = 200;

fn options() -> Options {
    Options {
        size: 1 << 20,
        max: 8 << 20,
        ..Options::default()
    }
}

/// Fills a pool until no class has an object left.
fn fill_every_class<M: Mapped>(map: &Map<M>, who: &str) {
    for class in TABLE.iter().rev().filter(|class| class.size > 40) {
        let value = vec![1; class.size as usize - 40];
        let (mut n, mut refused) = (0, 0);
        while refused < 3 {
            let key = format!("{who}, {}, {n}", class.size);
            refused += u32::from(map.put(key.as_bytes(), &value).is_err());
            n += 1;
        }
    }
}

/// The process that is killed: a worker leaves after its list was taken over, the pool is filled, and the next worker
/// at its place has no chunk.
pub fn remove<M: Mapped>(path: &Path) -> Outcome {
    let pool: Pool<M> = Pool::open(path, &options()).map_err(text)?;
    let map = pool.map("map").map_err(text)?;
    let on_a_thread = |body: fn(&Pool<M>, &Receiver<()>, &Sender<()>) -> Outcome| {
        let pool = pool.clone();
        let ((go_on, may_go_on), (tell, told)) = (channel(), channel());
        let thread = std::thread::spawn(move || body(&pool, &may_go_on, &tell));
        let _ = told.recv();
        (thread, go_on)
    };
    let (first, go_on) = on_a_thread(|pool, may_go_on, tell| {
        let map = pool.map("map").map_err(text)?;
        for n in 0..KEYS {
            map.put(&n.to_le_bytes(), b"first").map_err(text)?;
            map.put(&n.to_le_bytes(), b"second").map_err(text)?;
        }
        let _ = tell.send(());
        let _ = may_go_on.recv();
        Ok(())
    });
    for part in ["a", "b", "c"] {
        fill_every_class(&map, part);
        pool.collect().map_err(text)?;
    }
    drop(go_on);
    first
        .join()
        .map_err(|_| "the first thread panicked".to_owned())??;
    for part in ["d", "e"] {
        fill_every_class(&map, part);
        pool.collect().map_err(text)?;
    }
    fill_every_class(&map, "f");
    let (second, _) = on_a_thread(|pool, _, _| {
        let map = pool.map("map").map_err(text)?;
        (0..KEYS).try_for_each(|n| map.remove(&n.to_le_bytes()).map(drop).map_err(text))
    });
    second
        .join()
        .map_err(|_| "the second thread panicked".to_owned())?
}

type Kill = fn(&Files, Point, &Path) -> Outcome;

/// Kills on both memories.
pub fn all(
    folder: &Path,
    log: &Path,
    wanted: &dyn Fn(&str) -> bool,
    kills: &mut u64,
    failures: &mut Vec<String>,
) {
    let point = Point::RetireSpare;
    if !wanted(point.name()) {
        return;
    }
    let kills_on: [(&str, Kill); 2] = [
        ("coherent", kill::<Coherent>),
        ("noncoherent", kill::<Noncoherent>),
    ];
    for (memory, kill) in kills_on {
        let files = Files::new(folder);
        let outcome = kill(&files, point, log);
        files.remove();
        *kills += 1;
        if let Err(what) = outcome {
            failures.push(format!("{}, spare chunks, {memory}: {what}", point.name()));
        }
    }
    println!("spare chunks: {} failures so far", failures.len());
}

fn kill<M: Mapped>(files: &Files, point: Point, log: &Path) -> Outcome {
    let pool: Pool<M> = Pool::create(&files.pool, &options()).map_err(text)?;
    if !files.victim::<M>("spare", point.name(), 1, log)? {
        return Err("the point was not passed".to_owned());
    }
    pool.recover().map_err(text)?;
    check(&pool)?;
    let map = pool.map("map").map_err(text)?;
    for n in 0..KEYS {
        map.remove(&n.to_le_bytes())
            .map_err(|error| format!("key {n} after the kill: {error}"))?;
    }
    for n in 0..1_000 {
        map.put(&(n % (KEYS / 2)).to_le_bytes(), b"third").map_err(text)?;
    }
    pool.collect().map_err(text)?;
    check(&pool)
}

fn check<M: Mapped>(pool: &Pool<M>) -> Outcome {
    let report = pool.fsck().map_err(text)?;
    match report.is_clean() {
        true => Ok(()),
        false => Err(format!("{report:?}")),
    }
}
