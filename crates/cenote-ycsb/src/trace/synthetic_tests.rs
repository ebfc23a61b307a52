//! Tests of synthetic traces: what cannot be drawn, seeds that repeat, keys that differ, and that what is written is
//! what was asked for.

use crate::trace::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Cases drawn from a seed that is printed, and that can be given.
pub fn config(cases: u32) -> ProptestConfig {
    let seed = std::env::var("CENOTE_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(0x5eed);
    println!("seed: CENOTE_TEST_SEED={seed}");
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        ..ProptestConfig::default()
    }
}

#[test]
fn what_cannot_be_drawn() {
    let base = Synthetic::default();
    for (spec, wanted) in [
        (
            Synthetic {
                reads: 1.1,
                ..base.clone()
            },
            "reads",
        ),
        (
            Synthetic {
                deletes: f64::NAN,
                ..base.clone()
            },
            "deletes",
        ),
        (
            Synthetic {
                inserts: 0.2,
                ..base.clone()
            },
            "more than 1",
        ),
        (
            Synthetic {
                keys: 0,
                ..base.clone()
            },
            "0 keys",
        ),
        (
            Synthetic {
                keys: u64::MAX,
                ..base.clone()
            },
            "keys",
        ),
        (
            Synthetic {
                exponent: -1.0,
                ..base.clone()
            },
            "exponent",
        ),
        (
            Synthetic {
                exponent: f64::NAN,
                ..base.clone()
            },
            "exponent",
        ),
        (
            Synthetic {
                worker: 2,
                workers: 2,
                ..base.clone()
            },
            "worker 2",
        ),
        (
            Synthetic {
                value_size: Sizes::fixed(u32::MAX),
                ..base.clone()
            },
            "value size",
        ),
        (
            Synthetic {
                key_size: Sizes::fixed(u32::MAX),
                ..base.clone()
            },
            "key size",
        ),
        (
            Synthetic {
                key_size: Sizes::fixed(2),
                ..base.clone()
            },
            "takes 3",
        ),
    ] {
        let error = spec.records().err().unwrap().to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
}

#[test]
fn a_seed_means_the_same_for_ever() {
    // A seed in a report must give the same run later. If this fails, the generator has changed.
    let spec = Synthetic {
        operations: 3,
        keys: 1_000,
        reads: 0.5,
        seed: 42,
        ..Synthetic::default()
    };
    let mut text = Vec::new();
    for record in spec.records().unwrap() {
        write_line(&record, &mut text).unwrap();
    }
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "0,---------------------DcTzACOrdfo,32,200,47,set,86400\n\
         0,---------------------1B_atIlEEK3,32,200,1,get,0\n\
         0,---------------------1zd_Ud0OqfY,32,200,14,get,0\n"
    );
}

#[test]
fn workers_share_the_operations_and_draw_differently() {
    let spec = Synthetic {
        operations: 1_000,
        ..Synthetic::default()
    };
    let shares: Vec<Vec<Step>> = (0..3)
        .map(|worker| synthetic(&spec.clone().for_worker(worker, 3)).unwrap().collect())
        .collect();
    assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), 1_000);
    let same = shares[0].iter().zip(&shares[1]).filter(|(a, b)| a == b).count();
    assert!(same < 100, "{same}");
    // Records are the steps, with more to them.
    let records: Vec<_> = spec.records().unwrap().collect();
    let steps: Vec<_> = synthetic(&spec).unwrap().collect();
    for (record, step) in records.iter().zip(&steps) {
        let of_record = record.step();
        assert_eq!(
            (of_record.action, of_record.value_size),
            (step.action, step.value_size)
        );
    }
}

#[test]
fn keys_of_any_size_are_distinct() {
    for (keys, size, shape) in [
        (4_096, 2, Shape::Fixed),
        (4_097, 3, Shape::Fixed),
        (20_000, 10, Shape::Fixed),
        (20_000, 11, Shape::Fixed),
        (20_000, 30, Shape::Exponential),
        (20_000, 4, Shape::Uniform),
        (1, 1, Shape::Fixed),
    ] {
        let spec = Synthetic {
            operations: 400_000,
            keys,
            exponent: 0.0,
            key_size: Sizes { mean: size, shape },
            ..Synthetic::default()
        };
        let mut seen = std::collections::HashMap::new();
        for record in spec.records().unwrap() {
            assert_eq!(record.key.len(), record.key_size as usize);
            assert!(record.key.iter().all(|byte| *byte != b','));
            *seen.entry(record.key).or_insert(0u32) += 1;
        }
        assert!(
            seen.len() as u64 <= keys && seen.len() as u64 > keys * 99 / 100,
            "{keys}: {}",
            seen.len()
        );
    }
}

proptest! {
    #![proptest_config(config(12))]

    /// What is written and read back has the asked mix and skew: shares within half a per cent (six standard deviations
    /// of 300,000 draws), the exponent within 0.05.
    #[test]
    fn generated_traces_are_as_asked(
        reads in 0.0..1.0f64,
        deletes in 0.0..0.3f64,
        exponent in 0.5..2.5f64,
        keys in 1_000u64..20_000,
        seed: u64,
    ) {
        let spec = Synthetic {
            operations: 300_000,
            keys,
            reads,
            deletes: deletes.min(1.0 - reads),
            exponent,
            key_size: Sizes { mean: 20, shape: Shape::Uniform },
            value_size: Sizes::fixed(77),
            seed,
            ..Synthetic::default()
        };
        let mut file = Vec::new();
        for record in spec.records().unwrap() {
            write_line(&record, &mut file).unwrap();
        }
        let mut summary = Summary::default();
        for record in Reader::new(Box::new(&*file), &Format::Twitter, "generated") {
            summary.add(&record.unwrap());
        }
        prop_assert_eq!(summary.operations(), spec.operations);
        for (action, wanted) in [
            (Action::Read, spec.reads),
            (Action::Delete, spec.deletes),
            (Action::Write, 1.0 - spec.reads - spec.deletes),
        ] {
            let found = summary.share(action);
            prop_assert!((found - wanted).abs() < 0.005, "{action:?}: {found} for {wanted}, seed {seed}");
        }
        prop_assert!(summary.distinct_keys() <= keys);
        prop_assert_eq!(summary.largest_value(), 77);
        let fit = summary.exponent().unwrap();
        prop_assert!((fit.exponent - exponent).abs() < 0.05, "{fit:?} for {exponent}, seed {seed}");
    }
}
