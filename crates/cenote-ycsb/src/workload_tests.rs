//! Tests of the workloads: mixes, choosers, several workers, and seeds that repeat.

use super::*;
use std::collections::HashSet;

fn operations(spec: &Spec) -> Vec<Operation> {
    spec.stream().collect()
}

#[test]
fn mixes_add_up_and_appear() {
    for workload in Workload::ALL {
        let mix = workload.mix();
        assert_eq!(mix.total(), 100, "{workload}");
        let spec = Spec {
            operations: 100_000,
            ..Spec::new(workload, 1_000)
        };
        let operations = operations(&spec);
        assert_eq!(operations.len(), 100_000);
        for (action, percent) in [
            (Action::Read, mix.read),
            (Action::Update, mix.update),
            (Action::Insert, mix.insert),
            (Action::Scan, mix.scan),
            (Action::Modify, mix.modify),
        ] {
            let count = operations
                .iter()
                .filter(|operation| operation.action == action)
                .count();
            assert!(
                count.abs_diff(usize::from(percent) * 1_000) < 800,
                "{workload}: {action:?} {count} times"
            );
        }
    }
}

#[test]
fn names_parse() {
    for workload in Workload::ALL {
        assert_eq!(workload.to_string().parse(), Ok(workload));
        assert_eq!(workload.name().to_uppercase().parse(), Ok(workload));
    }
    assert!("g".parse::<Workload>().is_err());
}

#[test]
fn seeds_repeat() {
    for workload in Workload::ALL {
        let spec = Spec {
            seed: 42,
            ..Spec::new(workload, 500)
        };
        assert_eq!(operations(&spec), operations(&spec), "{workload}");
    }
    let first = operations(&Spec {
        seed: 1,
        ..Spec::new(Workload::A, 500)
    });
    let other = operations(&Spec {
        seed: 2,
        ..Spec::new(Workload::A, 500)
    });
    assert_ne!(first, other);
}

#[test]
fn a_seed_means_the_same_for_ever() {
    // A seed in a report must give the same run later. If this fails, the generator has changed.
    let records: Vec<u64> = Spec {
        operations: 6,
        seed: 42,
        ..Spec::new(Workload::C, 1_000_000)
    }
    .stream()
    .map(|operation| operation.record)
    .collect();
    assert_eq!(records, [444_328, 729_977, 828_580, 444_328, 893_160, 976_648]);
}

#[test]
fn loads_cover_every_record_once() {
    for workers in [1, 2, 3, 7] {
        let mut seen = HashSet::new();
        for worker in 0..workers {
            let spec = Spec::new(Workload::Load, 1_000).for_worker(worker, workers);
            for operation in spec.stream() {
                assert_eq!(operation.action, Action::Insert);
                assert!(seen.insert(operation.record), "{} twice", operation.record);
            }
        }
        assert_eq!(seen.len(), 1_000);
        assert!(seen.iter().all(|&record| record < 1_000));
    }
}

#[test]
fn workers_insert_different_records_and_read_only_what_exists() {
    for workload in [Workload::D, Workload::E] {
        let mut all = HashSet::new();
        for worker in 0..3 {
            let spec = Spec {
                operations: 20_000,
                ..Spec::new(workload, 100)
            }
            .for_worker(worker, 3);
            let mut own: HashSet<u64> = (0..100).collect();
            for operation in spec.stream() {
                if operation.action == Action::Insert {
                    assert!(all.insert(operation.record), "{} twice", operation.record);
                    own.insert(operation.record);
                } else {
                    assert!(
                        own.contains(&operation.record),
                        "{} was never inserted",
                        operation.record
                    );
                }
            }
        }
        assert_eq!(all.len(), all.iter().filter(|&&record| record >= 100).count());
    }
}

#[test]
fn workers_with_one_seed_draw_differently() {
    let spec = Spec::new(Workload::C, 10_000);
    let first = operations(&spec.clone().for_worker(0, 2));
    let other = operations(&spec.for_worker(1, 2));
    let same = first.iter().zip(&other).filter(|(a, b)| a == b).count();
    assert!(same < first.len() / 10, "{same} of {}", first.len());
}

#[test]
fn choosers_differ_as_they_should() {
    let records = 10_000;
    let share = |chooser, wanted: &dyn Fn(u64) -> bool| {
        let spec = Spec {
            chooser,
            operations: 100_000,
            ..Spec::new(Workload::C, records)
        };
        spec.stream().filter(|operation| wanted(operation.record)).count()
    };
    let newest = |record| record >= records - 100;
    assert!(share(Chooser::Latest, &newest) > 40_000);
    assert!(share(Chooser::Uniform, &newest).abs_diff(1_000) < 200);
    let hottest = Scatter::new(records).apply(0);
    let expected = Zipfian::new(records, THETA).probability(0) * 100_000.0;
    let drawn = share(Chooser::Zipfian, &|record| record == hottest);
    assert!(
        (drawn as f64 / expected - 1.0).abs() < 0.05,
        "{drawn} for {expected}"
    );
}

#[test]
fn ranks_beyond_the_records_make_them_as_skewed_as_more_records() {
    let records = 100_000;
    let share = |chooser, ranks, hottest| {
        let spec = Spec {
            chooser,
            ranks,
            operations: 200_000,
            ..Spec::new(Workload::C, records)
        };
        let mut drawn = spec.stream().map(|operation| operation.record);
        assert!(drawn.by_ref().take(100_000).all(|record| record < records));
        drawn.filter(|&record| record == hottest).count() as f64 / 100_000.0
    };
    let hottest = Scatter::new(records).apply(0);
    let as_many = share(Chooser::Zipfian, 0, hottest);
    let more = share(Chooser::Zipfian, 100_000_000, hottest);
    let latest = share(Chooser::Latest, 100_000_000, records - 1);
    assert!((as_many - 0.079).abs() < 0.003, "{as_many}");
    assert!((more - 0.048).abs() < 0.003, "{more}");
    assert!((latest - 0.048).abs() < 0.003, "{latest}");
}

#[test]
fn scans_have_every_length() {
    let spec = Spec {
        operations: 50_000,
        scan_max: 10,
        ..Spec::new(Workload::E, 1_000)
    };
    let lengths: HashSet<u32> = spec
        .stream()
        .filter(|operation| operation.action == Action::Scan)
        .map(|scan| scan.length)
        .collect();
    assert_eq!(lengths, (1..=10).collect());
}

#[test]
fn any_skew_can_be_drawn() {
    let often = |theta| {
        let spec = Spec {
            theta,
            operations: 20_000,
            ..Spec::new(Workload::C, 1_000)
        };
        let mut counts = vec![0; 1_000];
        for operation in spec.stream() {
            counts[operation.record as usize] += 1;
        }
        counts.into_iter().max().unwrap()
    };
    let (uniform, usual, steep) = (often(0.0), often(0.99), often(1.5));
    assert!(
        uniform < 60 && usual > 1_500 && steep > 2 * usual,
        "{uniform} {usual} {steep}"
    );
    let latest = Spec {
        theta: 1.2,
        ..Spec::new(Workload::D, 1_000)
    };
    assert!(latest.stream().all(|operation| operation.record < 1_200));
}
