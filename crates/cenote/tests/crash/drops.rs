//! Maps, object stores and task lists that are made, filled and dropped by a process that is killed, at any step of a
//! drop and at steps of the removals that it is made of. What has a name is whole; what has none is gone, with all its
//! memory.

use std::path::Path;

use cenote::memory::Mapped;
use cenote::objects::ObjectSettings;
use cenote::pod::instance::crash::Point;
use cenote::{Coherent, Dropped, Noncoherent, Plan, Pool, Tasks};

use super::{Case, Outcome, options, run_case, text};

/// At which passing of a point of a drop the process is killed.
const PASSINGS: [u64; 4] = [1, 2, 3, 4];
/// Points of removals, at passings that are in the drop of each structure.
const REMOVALS: [(&str, [u64; 4]); 4] = [
    ("publish.intent", [500, 1_400, 1_860, 2_500]),
    ("publish.done", [500, 1_400, 1_860, 2_500]),
    ("retire.pushed", [250, 700, 1_000, 1_250]),
    ("publish.counted", [500, 1_400, 1_860, 2_300]),
];
const KEYS: u64 = 300;
const NAMES: [&str; 4] = ["hash", "ordered", "objects", "tasks"];
/// Bytes that stay reachable, for lists of what was retired.
const LISTS: u64 = 64 << 10;

fn value(key: u64) -> Vec<u8> {
    key.to_le_bytes().repeat(1 + key as usize % 30)
}

fn keys() -> impl Iterator<Item = (u64, [u8; 8])> {
    (0..KEYS).map(|key| (key, key.to_be_bytes()))
}

fn tasks<M: Mapped>(pool: &Pool<M>) -> Result<Tasks<M>, String> {
    pool.tasks("tasks", &Plan::phases(vec![KEYS, 1])).map_err(text)
}

/// Makes them, fills them and drops them.
pub fn work<M: Mapped>(path: &Path) -> Outcome {
    let pool: Pool<M> = Pool::open(path, &options()).map_err(text)?;
    let (hash, ordered) = (
        pool.map("hash").map_err(text)?,
        pool.ordered("ordered").map_err(text)?,
    );
    let objects = pool
        .objects("objects", &ObjectSettings::default())
        .map_err(text)?;
    let tasks = tasks(&pool)?;
    for (key, bytes) in keys() {
        let _ = tasks.commit(key, &value(key)).map_err(text)?;
        hash.put(&bytes, &value(key)).map_err(text)?;
        ordered.put(&bytes, &value(key)).map_err(text)?;
        objects.insert(&bytes, &value(key)).map_err(text)?;
    }
    for name in NAMES {
        match pool.drop_named(name).map_err(text)? {
            Dropped::Freed => {}
            Dropped::InUse => return Err(format!("{name} is in use, and nobody uses it")),
        }
    }
    Ok(())
}

/// A process is killed. Whatever still has a name has everything, unless it was killed before all was written.
fn kill_and_check<M: Mapped>(
    case: &Case<'_, M>,
    (point, passing): (&str, u64),
    log: &Path,
) -> Result<bool, String> {
    let pool = case.pool;
    let before = pool.fsck().map_err(text)?.reachable_bytes;
    let killed = case.victim("drops", point, passing, log)?;
    pool.recover().map_err(text)?;
    let is_of_drop = point.starts_with("drop.");
    for name in pool.names().map_err(text)? {
        let found: u64 = match &name[..] {
            "hash" => pool.map("hash").map_err(text)?.len(),
            "ordered" => pool.ordered("ordered").map_err(text)?.len(),
            "objects" => {
                let objects = pool
                    .objects("objects", &ObjectSettings::default())
                    .map_err(text)?;
                let mut found = 0;
                for (key, bytes) in keys() {
                    let view = objects.get(&bytes).map_err(text)?;
                    found += u64::from(view.is_some_and(|view| *view == value(key)[..]));
                }
                found
            }
            "tasks" => {
                let tasks = tasks(pool)?;
                let mut found = 0;
                for (key, _) in keys() {
                    let result = tasks.result(key).map_err(text)?;
                    found += u64::from(result.is_some_and(|result| *result == value(key)[..]));
                }
                found
            }
            _ => continue,
        };
        if is_of_drop && found != KEYS {
            return Err(format!("{name} was not dropped, and has {found} of {KEYS} keys"));
        }
    }
    // The survivor's handles of these names are of new ones, or of those that are left.
    for name in NAMES {
        let put = match name {
            "hash" => pool.map(name).and_then(|map| map.put(b"key", b"value")),
            "ordered" => pool.ordered(name).and_then(|map| map.put(b"key", b"value")),
            "objects" => pool
                .objects(name, &ObjectSettings::default())
                .and_then(|store| store.put(b"key", b"value")),
            _ => {
                let _ = tasks(pool)?.commit(KEYS, b"value").map_err(text)?;
                continue;
            }
        };
        put.map_err(text)?;
    }
    let report = pool.fsck().map_err(text)?;
    if !report.is_clean() {
        return Err(format!("not clean: {report:#?}"));
    }
    for name in NAMES {
        if pool.drop_named(name).map_err(text)? != Dropped::Freed {
            return Err(format!("{name} is in use"));
        }
    }
    pool.collect().map_err(text)?;
    let report = pool.fsck().map_err(text)?;
    if !report.is_clean() || report.dropped > 0 || report.reachable_bytes > before + LISTS {
        return Err(format!(
            "{before} bytes before, and after all was dropped: {report:#?}"
        ));
    }
    Ok(killed)
}

/// Kills at all points of a drop, and at some of the removals that it is made of.
pub fn all(
    folder: &Path,
    log: &Path,
    wanted: impl Fn(&str) -> bool,
    kills: &mut u64,
    failures: &mut Vec<String>,
) {
    let drops = Point::ALL.iter().map(|point| point.name());
    let drops = drops.filter(|name| name.starts_with("drop."));
    let cases = drops.map(|name| (name, PASSINGS)).chain(REMOVALS);
    for (point, passings) in cases.filter(|(name, _)| wanted(name)) {
        let mut reached = 0;
        for passing in passings {
            for outcome in [
                run_case::<Coherent>(folder, |case| {
                    reached += u64::from(kill_and_check(case, (point, passing), log)?);
                    Ok(())
                }),
                run_case::<Noncoherent>(folder, |case| {
                    reached += u64::from(kill_and_check(case, (point, passing), log)?);
                    Ok(())
                }),
            ] {
                if let Err(what) = outcome {
                    failures.push(format!("{point}:{passing}, drops: {what}"));
                }
            }
        }
        if reached < 2 * passings.len() as u64 {
            failures.push(format!("{point} kills {reached} of {}", 2 * passings.len()));
        }
        *kills += reached;
    }
}
