//! Pools whose bytes change while they are used: errors, never a signal, a panic or a hang.
//!
//! Each case copies a well-filled pool; processes make calls of all kinds on it while this process changes its bytes.
//! The seed of a case is printed when it fails; `CENOTE_TEST_SEED`, `CENOTE_DAMAGE_CASES` and `CENOTE_DAMAGE_MS`, the
//! milliseconds of a case, change the run.

use std::path::Path;
use std::time::{Duration, Instant};

use cenote::memory::Mapped;
use cenote::{Coherent, Noncoherent, Pool};
use cenote_damage::aim::Part;
use cenote_damage::child::{Ended, end, number, start, tell_faults};
use cenote_damage::live::{Manner, damage, exercise};
use cenote_damage::random::Random;

/// Processes that use a pool at once.
const USERS: u64 = 2;
/// Nothing that is called takes longer than this.
const HANG: Duration = Duration::from_secs(10);

/// The child's side; does nothing unless it is started as one.
#[test]
fn child() {
    let Ok(path) = std::env::var("CENOTE_DAMAGED_POOL") else {
        return;
    };
    tell_faults();
    let seed = number("CENOTE_DAMAGED_SEED").unwrap();
    let until = Instant::now() + Duration::from_millis(number("CENOTE_DAMAGE_MS").unwrap());
    let path = Path::new(&path);
    let part = Part::of_name(&std::env::var("CENOTE_DAMAGED_PART").unwrap());
    let calls = match std::env::var("CENOTE_DAMAGED_KIND").as_deref() {
        Ok("noncoherent") => exercise::<Noncoherent>(path, seed, part, until),
        _ => exercise::<Coherent>(path, seed, part, until),
    };
    std::fs::write(path.with_extension(format!("calls-{seed}")), calls.to_string()).unwrap();
    // All is dropped: the rest of the test program must not run.
    std::process::exit(0);
}

fn run<M: Mapped>(part: Part, cases: u64) {
    let seed = number("CENOTE_TEST_SEED").unwrap_or(1);
    let cases = number("CENOTE_DAMAGE_CASES").unwrap_or(cases);
    let time = number("CENOTE_DAMAGE_MS").unwrap_or(300);
    println!("seed: CENOTE_TEST_SEED={seed}, {cases} cases of {time} ms");
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let (sound, path) = (folder.path().join("sound"), folder.path().join("pool"));
    cenote_damage::fill::<M>(&sound).unwrap();
    std::fs::copy(&sound, &path).unwrap();
    let aim = {
        let pool: Pool<M> = Pool::open(&path, &cenote_damage::options()).unwrap();
        part.ranges(&pool, &std::fs::read(&sound).unwrap())
    };
    let (mut changes, mut calls, mut failures) = (0, 0, Vec::new());
    for case in seed..seed + cases {
        std::fs::copy(&sound, &path).unwrap();
        let mut random = Random::new(case);
        let manner = Manner::of(&mut random);
        let time_text = time.to_string();
        let users: Vec<_> = (0..USERS)
            .map(|user| {
                let user = (case * USERS + user).to_string();
                start(
                    "damage_live::child",
                    &[
                        ("CENOTE_DAMAGED_POOL", path.to_str().unwrap()),
                        ("CENOTE_DAMAGED_KIND", M::NAME),
                        ("CENOTE_DAMAGED_PART", part.name()),
                        ("CENOTE_DAMAGED_SEED", &user),
                        ("CENOTE_DAMAGE_MS", &time_text),
                    ],
                )
            })
            .collect();
        let until = Instant::now() + Duration::from_millis(time);
        changes += damage(&path, &mut random, &aim, manner, until).unwrap();
        for user in users {
            match end(user, HANG) {
                Ended::Status(0) => {}
                other => failures.push(format!(
                    "CENOTE_TEST_SEED={case} CENOTE_DAMAGE_CASES=1 ({manner:?}): {other}"
                )),
            }
        }
        for user in 0..USERS {
            let said = path.with_extension(format!("calls-{}", case * USERS + user));
            if let Ok(text) = std::fs::read_to_string(&said) {
                calls += text.parse::<u64>().unwrap_or(0);
                std::fs::remove_file(said).unwrap();
            }
        }
        std::fs::remove_file(&path).unwrap();
        if number("CENOTE_DAMAGE_GO_ON").is_none() && !failures.is_empty() {
            break;
        }
    }
    println!("{calls} calls, {changes} changes, {} failures", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn bytes_change_while_a_pool_is_used() {
    run::<Coherent>(Part::Everything, 20);
}

#[test]
fn bytes_change_while_a_noncoherent_pool_is_used() {
    run::<Noncoherent>(Part::Everything, 6);
}

#[test]
fn bytes_of_locks_change() {
    run::<Coherent>(Part::Locks, 6);
    run::<Noncoherent>(Part::Locks, 2);
}

#[test]
fn bytes_of_groups_change() {
    run::<Coherent>(Part::Groups, 6);
    run::<Noncoherent>(Part::Groups, 2);
}

#[test]
fn bytes_of_tasks_change() {
    run::<Coherent>(Part::Tasks, 6);
    run::<Noncoherent>(Part::Tasks, 2);
}

#[test]
fn bytes_of_names_change() {
    run::<Coherent>(Part::Names, 6);
    run::<Noncoherent>(Part::Names, 2);
}
