//! All that a pool made by [`fill`](crate::fill) holds, as reads find it.

use std::collections::BTreeMap;
use std::path::Path;

use cenote::memory::Mapped;
use cenote::{Error, Pool, Range};

/// What is read: a structure and a key, and the value or what kept it from being read.
pub type Content = BTreeMap<(String, Vec<u8>), Result<Vec<u8>, String>>;

/// The hash maps that are read and written.
pub const MAPS: [&str; 2] = ["m", "large"];
/// The ordered map that is read and written.
pub const ORDERED: &str = "ordered";
/// The task list that is read and written.
pub const TASKS: &str = "tasks";
/// The group that is read and written.
pub const GROUP: &str = "group";
/// The locks that are read and written, and the array of locks.
pub const LOCKS: [&str; 7] = ["mutex", "spin", "queue", "rw", "semaphore", "condvar", "mutexes"];

/// Reads everything in all ways. A difference between two ways, or a value that only one finds, is an error of its own
/// in the content.
pub fn read<M: Mapped>(pool: &Pool<M>) -> Content {
    let mut content = Content::new();
    for name in MAPS {
        read_map(pool, name, &mut content);
    }
    read_ordered(pool, &mut content);
    read_tasks(pool, &mut content);
    open_others(pool, &mut content);
    content
}

/// A structure that is not there is not read: its keys are missed. A group that differs only in its token is another
/// group, and a lock that differs only in its form is another lock.
fn is_missing(error: &Error) -> bool {
    use Error::{NoSuch, OtherKind, WrongToken};
    matches!(error, NoSuch { .. } | WrongToken { .. } | OtherKind { .. })
}

/// Checks whether structures without values are there.
fn open_others<M: Mapped>(pool: &Pool<M>, content: &mut Content) {
    let [mutex, spin, queue, rw, semaphore, condvar, mutexes] = LOCKS;
    let opened = [
        (mutex, pool.existing_mutex(mutex).map(drop)),
        (spin, pool.existing_spin_mutex(spin).map(drop)),
        (queue, pool.existing_queue_mutex(queue).map(drop)),
        (rw, pool.existing_raw_rwlock(rw).map(drop)),
        (semaphore, pool.existing_semaphore(semaphore).map(drop)),
        (condvar, pool.existing_condvar(condvar).map(drop)),
        (mutexes, pool.existing_mutexes(mutexes).map(drop)),
        (
            GROUP,
            pool.existing_group(GROUP, crate::live::TOKEN)
                .and_then(|group| group.members())
                .map(drop),
        ),
    ];
    for (name, opened) in opened {
        match opened {
            Err(error) if is_missing(&error) => {}
            opened => {
                let found = opened.map(|()| Vec::new()).map_err(|error| error.to_string());
                content.insert((name.to_owned(), b"(there)".to_vec()), found);
            }
        }
    }
}

fn read_map<M: Mapped>(pool: &Pool<M>, name: &str, content: &mut Content) {
    let whole = |what: String| ((name.to_owned(), b"(whole)".to_vec()), Err(what));
    let map = match pool.existing_map(name) {
        Ok(map) => map,
        Err(error) if is_missing(&error) => return,
        Err(error) => {
            content.extend([whole(error.to_string())]);
            return;
        }
    };
    let mut walked = BTreeMap::new();
    let ended = map.for_each(|key, value| drop(walked.insert(key.to_vec(), value.to_vec())));
    if let Err(error) = &ended {
        content.extend([whole(format!("the walk: {error}"))]);
    }
    if ended.is_ok() && walked.len() as u64 != map.len() {
        content.extend([whole(format!("{} keys, length {}", walked.len(), map.len()))]);
    }
    for (key, value) in walked {
        let found = match map.get(&key) {
            Ok(Some(found)) if found[..] == value => Ok(value),
            Ok(Some(_)) => Err("get and walk differ".to_owned()),
            Ok(None) => Err("walked, and not there".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        content.insert((name.to_owned(), key), found);
    }
}

fn read_ordered<M: Mapped>(pool: &Pool<M>, content: &mut Content) {
    let whole = |what: String| ((ORDERED.to_owned(), b"(whole)".to_vec()), Err(what));
    let map = match pool.existing_ordered(ORDERED) {
        Ok(map) => map,
        Err(error) if is_missing(&error) => return,
        Err(error) => {
            content.extend([whole(error.to_string())]);
            return;
        }
    };
    let (mut forth, mut back) = (Vec::new(), Vec::new());
    let scans = [
        map.scan(Range::ALL, |key, value| {
            forth.push((key.to_vec(), value.to_vec()));
            true
        }),
        map.scan_reverse(Range::ALL, |key, value| {
            back.push((key.to_vec(), value.to_vec()));
            true
        }),
    ];
    for error in scans.into_iter().filter_map(Result::err) {
        content.extend([whole(format!("a scan: {error}"))]);
    }
    back.reverse();
    if forth != back || !forth.is_sorted() || forth.len() as u64 != map.len() {
        content.extend([whole(format!(
            "{} pairs forth, {} back, length {}",
            forth.len(),
            back.len(),
            map.len()
        ))]);
    }
    for (key, value) in forth {
        let found = match map.get(&key) {
            Ok(Some(found)) if found[..] == value => Ok(value),
            Ok(_) => Err("get and scan differ".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        content.insert((ORDERED.to_owned(), key), found);
    }
}

fn read_tasks<M: Mapped>(pool: &Pool<M>, content: &mut Content) {
    let tasks = match pool.existing_tasks(TASKS) {
        Ok(tasks) => tasks,
        Err(error) if is_missing(&error) => return,
        Err(error) => {
            content.insert((TASKS.to_owned(), b"(whole)".to_vec()), Err(error.to_string()));
            return;
        }
    };
    for task in 0..tasks.len().min(1_000) {
        let found = match tasks.result(task) {
            Ok(Some(result)) => Ok(result.to_vec()),
            Ok(None) => continue,
            Err(error) => Err(error.to_string()),
        };
        content.insert((TASKS.to_owned(), task.to_be_bytes().to_vec()), found);
    }
}

/// Writes a content of values to a file.
pub fn store(content: &Content, path: &Path) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let mut field = |field: &[u8]| {
        bytes.extend((field.len() as u64).to_le_bytes());
        bytes.extend(field);
    };
    for ((name, key), value) in content {
        field(name.as_bytes());
        field(key);
        field(value.as_deref().unwrap_or_default());
    }
    std::fs::write(path, bytes)
}

/// Reads what [`store`] wrote.
pub fn load(path: &Path) -> std::io::Result<Content> {
    let bytes = std::fs::read(path)?;
    let mut rest = &bytes[..];
    let mut field = || {
        let (len, behind) = rest.split_at_checked(8)?;
        let len = u64::from_le_bytes(len.try_into().ok()?) as usize;
        let (field, behind) = behind.split_at_checked(len)?;
        rest = behind;
        Some(field.to_vec())
    };
    let mut content = Content::new();
    while let Some(name) = field() {
        let (key, value) = (field().unwrap_or_default(), field().unwrap_or_default());
        content.insert((String::from_utf8_lossy(&name).into_owned(), key), Ok(value));
    }
    Ok(content)
}

/// In how many keys two contents differ, and the first of them.
pub fn differences(one: &Content, other: &Content) -> (usize, Option<String>) {
    let keys: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let mut differing = keys.into_iter().filter(|key| one.get(key) != other.get(key));
    let first = differing.next().map(|key| {
        let short = |content: &Content| match content.get(key) {
            Some(Ok(value)) => format!("{} bytes {:x?}", value.len(), &value[..value.len().min(8)]),
            Some(Err(error)) => error.clone(),
            None => "nothing".to_owned(),
        };
        format!("{} {:x?}: {} was {}", key.0, key.1, short(other), short(one))
    });
    (usize::from(first.is_some()) + differing.count(), first)
}
