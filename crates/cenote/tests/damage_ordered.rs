//! Damage to what an ordered map refers to, part by part: nothing panics, faults or loops, and `fsck` notices whatever makes
//! reads wrong; but of keys and values, which have no checksums.
//!
//! Each case damages a part of a copy of a sound pool, and a child process judges it. `CENOTE_TEST_SEED` and
//! `CENOTE_DAMAGE_CASES` change the run.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cenote::memory::Mapped;
use cenote::{Coherent, Noncoherent};
use cenote_damage::ordered::{Outcome, Part, Place, fill, judge, places};
use rand::prelude::*;

/// A child that takes longer than this is taken to loop for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// Exit codes of a child for each outcome.
const OUTCOMES: [(i32, Outcome); 3] = [
    (40, Outcome::Noticed),
    (41, Outcome::Harmless),
    (42, Outcome::Unseen),
];

/// The child's side; does nothing unless it is started as one.
#[test]
fn child() {
    let Ok(path) = std::env::var("CENOTE_DAMAGED_POOL") else {
        return;
    };
    let outcome = match std::env::var("CENOTE_DAMAGED_KIND").as_deref() {
        Ok("noncoherent") => judge::<Noncoherent>(Path::new(&path)),
        _ => judge::<Coherent>(Path::new(&path)),
    };
    let code = OUTCOMES.iter().find(|(_, known)| *known == outcome);
    std::process::exit(code.map_or(1, |(code, _)| *code));
}

/// Damages one place; says how.
fn damage(rng: &mut StdRng, bytes: &mut [u8], places: &[Place]) -> (Part, String) {
    let parts: std::collections::BTreeSet<Part> = places.iter().map(|(part, ..)| *part).collect();
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

/// Has a child judge a pool; `Err` if it ended otherwise than by an outcome.
fn judged<M: Mapped>(path: &Path) -> Result<Outcome, String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("CENOTE_DAMAGED_POOL", path)
        .env("CENOTE_DAMAGED_KIND", M::NAME)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if begun.elapsed() > PATIENCE => {
                child.kill().unwrap();
                child.wait().unwrap();
                return Err("it hung".to_owned());
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let outcome = OUTCOMES.iter().find(|(code, _)| Some(*code) == status.code());
    outcome.map(|(_, outcome)| *outcome).ok_or_else(|| {
        let mut text = String::new();
        let _ = std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut text);
        format!("{status}\n{text}")
    })
}

/// Whether wrong bytes of a part can be right ones of another map: there is nothing to compare them with.
fn has_no_witness(part: Part) -> bool {
    matches!(
        part,
        Part::LeafValue | Part::RecordValue | Part::RecordLengths | Part::LeafHead | Part::RecordKey
    )
}

fn run<M: Mapped>(cases: u64) {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|text: String| text.parse().ok())
    };
    let seed: u64 = number("CENOTE_TEST_SEED").unwrap_or(1);
    let cases = number("CENOTE_DAMAGE_CASES").unwrap_or(cases);
    println!("seed: CENOTE_TEST_SEED={seed}, {cases} cases");
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let (sound, path) = (folder.path().join("sound"), folder.path().join("damaged"));
    let header = fill::<M>(&sound);
    let sound = std::fs::read(sound).unwrap();
    let places = places(&sound, header);
    std::fs::write(&path, &sound).unwrap();
    assert_eq!(
        judged::<M>(&path),
        Ok(Outcome::Harmless),
        "nothing is damaged yet"
    );
    let (mut table, mut unseen) = (BTreeMap::<Part, [u32; 3]>::new(), Vec::new());
    for case in seed..seed + cases {
        let mut rng = StdRng::seed_from_u64(case);
        let mut bytes = sound.clone();
        let (part, what) = damage(&mut rng, &mut bytes, &places);
        std::fs::write(&path, &bytes).unwrap();
        let outcome = judged::<M>(&path)
            .unwrap_or_else(|how| panic!("CENOTE_TEST_SEED={case} CENOTE_DAMAGE_CASES=1 ({what}): {how}"));
        table.entry(part).or_default()[outcome as usize] += 1;
        if outcome == Outcome::Unseen && !has_no_witness(part) {
            unseen.push(format!("CENOTE_TEST_SEED={case} CENOTE_DAMAGE_CASES=1 ({what})"));
        }
    }
    for (part, [noticed, harmless, unseen]) in &table {
        println!("{part:?}: {noticed} noticed, {harmless} harmless, {unseen} unseen");
    }
    assert!(
        unseen.is_empty(),
        "reads are wrong and fsck says nothing:\n{}",
        unseen.join("\n")
    );
}

#[test]
fn damage_is_noticed_or_harmless() {
    run::<Coherent>(150);
}

#[test]
fn damage_is_noticed_or_harmless_noncoherent() {
    run::<Noncoherent>(40);
}

/// A write to it was once tried for ever.
#[test]
fn a_root_that_is_frozen_is_an_error() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let header = fill::<Coherent>(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[header] |= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(judged::<Coherent>(&path), Ok(Outcome::Noticed));
}
