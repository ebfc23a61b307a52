//! Damage to what an ordered map refers to, part by part: nothing panics, faults or loops, and `fsck` notices whatever
//! makes reads wrong, except in keys and values, which have no checksums.
//!
//! Each case damages a part of a copy of a sound pool, and a child process judges it. `CENOTE_TEST_SEED` and
//! `CENOTE_DAMAGE_CASES` change the run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cenote::memory::Mapped;
use cenote::{Coherent, Noncoherent};
use cenote_damage::child::{Ended, TIMEOUT, end, number, start, tell_faults};
use cenote_damage::oracle::Seen;
use cenote_damage::ordered::{Part, Place, content, fill, judge, places};
use rand::prelude::*;

/// Exit codes of a child for what became of the damage.
const OUTCOMES: [(i32, Seen); 3] = [(40, Seen::Noticed), (41, Seen::Sound), (42, Seen::Late)];

/// The child's side; does nothing unless it is started as one.
#[test]
fn child() {
    let Ok(path) = std::env::var("CENOTE_DAMAGED_POOL") else {
        return;
    };
    tell_faults();
    let (path, allowance) = (Path::new(&path), number("CENOTE_ALLOWANCE").unwrap() as usize);
    let seen = match std::env::var("CENOTE_DAMAGED_KIND").as_deref() {
        Ok("noncoherent") => judge::<Noncoherent>(path, &content(), allowance),
        _ => judge::<Coherent>(path, &content(), allowance),
    };
    let seen = seen.unwrap_or_else(|unseen| panic!("{unseen}"));
    let code = OUTCOMES.iter().find(|(_, known)| *known == seen);
    std::process::exit(code.map_or(1, |(code, _)| *code));
}

/// Damages one place. Returns how.
fn damage(rng: &mut StdRng, bytes: &mut [u8], places: &[Place]) -> (Part, String) {
    let parts: BTreeSet<Part> = places.iter().map(|(part, ..)| *part).collect();
    let part = parts.into_iter().choose(rng).unwrap();
    let of_part = places.iter().filter(|place| place.0 == part);
    let &(_, start, len) = of_part.choose(rng).unwrap();
    let at = start + rng.random_range(0..len);
    let how = rng.random_range(0..4);
    match how {
        0 => bytes[at] ^= 1 << rng.random_range(0..8),
        1 => bytes[at] = bytes[at].wrapping_add(rng.random_range(1..=255)),
        // Whole words: of the same kind from elsewhere, or any.
        2 if len >= 8 => {
            let others = places.iter().filter(|place| place.0 == part && place.2 >= 8);
            let &(_, from, _) = others.choose(rng).unwrap();
            bytes.copy_within(from..from + 8, start);
        }
        _ => rng.fill(&mut bytes[start..start + len.min(64)]),
    }
    (part, format!("{part:?} at {start:#x}, byte {at:#x}, way {how}"))
}

/// Lets a child judge a pool. The error is how the child ended, if not with an outcome.
fn judged<M: Mapped>(path: &Path, allowance: usize) -> Result<Seen, Ended> {
    let ended = end(
        start(
            "damage_ordered::child",
            &[
                ("CENOTE_DAMAGED_POOL", path.to_str().unwrap()),
                ("CENOTE_DAMAGED_KIND", M::NAME),
                ("CENOTE_ALLOWANCE", &allowance.to_string()),
            ],
        ),
        TIMEOUT,
    );
    match OUTCOMES.iter().find(|(code, _)| ended == Ended::Status(*code)) {
        Some((_, seen)) => Ok(*seen),
        None => Err(ended),
    }
}

fn run<M: Mapped>(cases: u64) {
    let seed = number("CENOTE_TEST_SEED").unwrap_or(1);
    let cases = number("CENOTE_DAMAGE_CASES").unwrap_or(cases);
    println!("seed: CENOTE_TEST_SEED={seed}, {cases} cases");
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let (sound, path) = (folder.path().join("sound"), folder.path().join("damaged"));
    let header = fill::<M>(&sound);
    let sound = std::fs::read(sound).unwrap();
    let places = places(&sound, header);
    std::fs::write(&path, &sound).unwrap();
    assert_eq!(judged::<M>(&path, 0), Ok(Seen::Sound), "nothing is damaged yet");
    let (mut table, mut failures) = (BTreeMap::<Part, [u32; 3]>::new(), Vec::new());
    for case in seed..seed + cases {
        let mut rng = StdRng::seed_from_u64(case);
        let mut bytes = sound.clone();
        let (part, what) = damage(&mut rng, &mut bytes, &places);
        std::fs::write(&path, &bytes).unwrap();
        match judged::<M>(&path, part.allowance()) {
            Ok(seen) => table.entry(part).or_default()[seen as usize] += 1,
            Err(ended) => failures.push(format!(
                "CENOTE_TEST_SEED={case} CENOTE_DAMAGE_CASES=1 ({what}): {ended}"
            )),
        }
        if number("CENOTE_DAMAGE_GO_ON").is_none() && !failures.is_empty() {
            break;
        }
    }
    for (part, [noticed, sound, late]) in &table {
        println!("{part:?}: {noticed} noticed, {sound} sound, {late} late");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn damage_is_noticed_or_harmless() {
    run::<Coherent>(150);
}

#[test]
fn damage_is_noticed_or_harmless_noncoherent() {
    run::<Noncoherent>(40);
}

/// A write to it was once retried for ever.
#[test]
fn a_root_that_is_frozen_is_an_error() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let header = fill::<Coherent>(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[header] |= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(judged::<Coherent>(&path, 0), Ok(Seen::Noticed));
}
