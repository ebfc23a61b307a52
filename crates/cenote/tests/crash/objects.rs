//! Work on an object store whose process is killed: what was acknowledged is there and whole, a survivor's view keeps
//! its bytes, and nothing that the dead one wrote or viewed stays.

use std::ops::ControlFlow;
use std::path::Path;

use cenote::memory::Mapped;
use cenote::objects::{NewObject, ObjectSettings, Objects};
use cenote::pod::instance::crash::Point;
use cenote::{Coherent, Noncoherent, Pool};

use super::{ACKNOWLEDGED, BEGUN, Case, Journal, Outcome, options, run_case, text};

/// At which passing of a point the process is killed.
const PASSINGS: [u64; 3] = [1, 5, 40];
const OBJECTS: u64 = 30;
/// An object that the survivor views.
const SHARED: u64 = 1 << 20;

fn points() -> impl Iterator<Item = &'static str> {
    let names = Point::ALL.iter().map(|point| point.name());
    names.filter(|name| name.starts_with("object."))
}

fn open<M: Mapped>(pool: &Pool<M>) -> Result<Objects<M>, String> {
    pool.objects("store", &ObjectSettings::default()).map_err(text)
}

/// What an object looks like in a version; 0 stands for none.
fn bytes(id: u64, version: u64) -> Vec<u8> {
    let len = [9, 100, 3_000, 80_000][((id + version) % 4) as usize];
    let word = (id ^ version << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word.to_le_bytes().iter().copied().cycle().take(len).collect()
}

/// The work, until it is killed.
pub fn work<M: Mapped>(path: &Path, journal: &Path) -> Outcome {
    let mut journal = Journal::open(journal)?;
    let pool: Pool<M> = Pool::open(path, &options()).map_err(text)?;
    let objects = open(&pool)?;
    let cache = pool.objects("cache", &ObjectSettings::cache()).map_err(text)?;
    let shared = objects.get(&SHARED.to_le_bytes()).map_err(text)?;
    let mut views = Vec::new();
    for n in 0..OBJECTS {
        let id = n.to_le_bytes();
        journal.write(BEGUN, n, 1)?;
        if !objects.insert(&id, &bytes(n, 1)).map_err(text)? {
            return Err(format!("there is an object {n}"));
        }
        journal.write(ACKNOWLEDGED, n, 1)?;
        drop(
            objects
                .create(b"given up", 5_000, &NewObject::default())
                .map_err(text)?,
        );
        views.push(objects.get(&id).map_err(text)?);
        journal.write(BEGUN, n, 2)?;
        objects.put(&id, &bytes(n, 2)).map_err(text)?;
        journal.write(ACKNOWLEDGED, n, 2)?;
        if n % 3 == 0 {
            views.push(objects.get(&id).map_err(text)?);
            journal.write(BEGUN, n, 0)?;
            objects.delete(&id).map_err(text)?;
            journal.write(ACKNOWLEDGED, n, 0)?;
        }
        if n % 5 == 4 {
            views.clear();
        }
        cache.put(&id, &bytes(n, 1)).map_err(text)?;
        if n % 4 == 3 {
            cache.evict(1).map_err(text)?;
        }
    }
    // The survivor's view stays.
    objects.delete(&SHARED.to_le_bytes()).map_err(text)?;
    drop(shared);
    Ok(())
}

/// The survivor views an object; a process is killed, and perhaps a second one that recovers it. Returns whether the
/// first was.
fn kill_and_check<M: Mapped>(
    case: &Case<'_, M>,
    (point, passing): (&str, u64),
    second: Option<&str>,
    log: &Path,
) -> Result<bool, String> {
    let objects = open(case.pool)?;
    objects
        .put(&SHARED.to_le_bytes(), &bytes(SHARED, 1))
        .map_err(text)?;
    let view = objects
        .get(&SHARED.to_le_bytes())
        .map_err(text)?
        .ok_or("nothing to view")?;
    let killed = case.victim("objects", point, passing, log)?;
    if let Some(second) = second {
        case.victim("open", second, 1, log)?;
    }
    case.pool.recover().map_err(text)?;
    if *view != bytes(SHARED, 1) {
        return Err("a view has changed".to_owned());
    }
    drop(view);
    objects.delete(&SHARED.to_le_bytes()).map_err(text)?;
    check_journal(case, &objects)?;
    // What the dead evicted in part.
    let cache = case
        .pool
        .objects("cache", &ObjectSettings::cache())
        .map_err(text)?;
    cache.evict(u64::MAX).map_err(text)?;
    let mut ids = Vec::new();
    let each = |info: cenote::objects::ObjectInfo| {
        ids.push(info.id);
        ControlFlow::Continue(())
    };
    objects.list(b"", each).map_err(text)?;
    for id in ids {
        objects.delete(&id).map_err(text)?;
    }
    if objects.bytes() + cache.bytes() != 0 {
        return Err(format!(
            "empty stores have {} and {} bytes",
            objects.bytes(),
            cache.bytes()
        ));
    }
    let report = case.pool.fsck().map_err(text)?;
    if !report.is_clean() {
        return Err(format!("not clean: {report:#?}"));
    }
    for store in &report.objects {
        let found = &store.found;
        if found.unnamed + found.lost + found.evicted > 0 || !found.holders.is_empty() {
            return Err(format!("{store:?}"));
        }
    }
    Ok(killed)
}

fn check_journal<M: Mapped>(case: &Case<'_, M>, objects: &Objects<M>) -> Outcome {
    let (acknowledged, begun) = Journal::read(&case.files.journal)?;
    for id in 0..OBJECTS {
        let before = acknowledged.get(&id).copied().unwrap_or(0);
        let found = objects.get(&id.to_le_bytes()).map_err(text)?;
        let is = |version: u64| match &found {
            None => version == 0,
            Some(found) => version != 0 && **found == bytes(id, version)[..],
        };
        if !is(before) && !begun.is_some_and(|(of, version)| of == id && is(version)) {
            return Err(format!(
                "object {id}: acknowledged version {before}, begun {begun:?}"
            ));
        }
    }
    let mut others = 0;
    let count = |info: cenote::objects::ObjectInfo| {
        others += u64::from(info.id.len() != 8);
        ControlFlow::Continue(())
    };
    objects.list(b"", count).map_err(text)?;
    match others {
        0 => Ok(()),
        others => Err(format!("{others} objects that were given up are there")),
    }
}

/// Kills at all points that work on object stores passes.
pub fn all(
    folder: &Path,
    log: &Path,
    wanted: impl Fn(&str) -> bool,
    kills: &mut u64,
    failures: &mut Vec<String>,
) {
    for point in points().filter(|name| wanted(name)) {
        let recovered = Point::ObjectRecovered.name();
        let (first, second) = match point == recovered {
            true => (Point::ObjectStored.name(), Some(recovered)),
            false => (point, None),
        };
        let mut reached = 0;
        for passing in PASSINGS {
            for outcome in [
                run_case::<Coherent>(folder, |case| {
                    reached += u64::from(kill_and_check(case, (first, passing), second, log)?);
                    Ok(())
                }),
                run_case::<Noncoherent>(folder, |case| {
                    reached += u64::from(kill_and_check(case, (first, passing), second, log)?);
                    Ok(())
                }),
            ] {
                if let Err(what) = outcome {
                    failures.push(format!("{point}:{passing}, objects: {what}"));
                }
            }
        }
        if reached == 0 {
            failures.push(format!("{point} kills nobody"));
        }
        *kills += reached;
    }
}
