//! Every subject on both machines under both seeded policies, with and without crashes. A failure prints the command
//! that repeats it. `CENOTE_SIM_SEEDS` sets how many seeds each case gets (default 12; 20000 is a night's work).

use cenote_sim::campaign::{LimitsKind, Plan, PolicyKind, Result as Ended};
use cenote_sim::subjects::Subject;

fn seeds() -> u64 {
    std::env::var("CENOTE_SIM_SEEDS").map_or(12, |text| text.parse().expect("CENOTE_SIM_SEEDS is a number"))
}

fn plan(subject: Subject, coherent: bool, policy: PolicyKind) -> Plan {
    Plan {
        subject,
        coherent,
        hosts: 3,
        threads: 2,
        operations: 8,
        crashes: 0,
        delegated: false,
        draws_guidelines: true,
        prefetches: false,
        has_membarrier: true,
        blind_exchanges: false,
        limits: LimitsKind::Drawn,
        policy,
        profile: None,
        steps_max: 4_000_000,
    }
}

/// Runs a plan's seed, twice if `twice`.
fn check(plan: &Plan, seed: u64, twice: bool) {
    let run = plan.run(seed);
    let repeat = format!("repeat it with: cenote sim {}", plan.arguments(seed));
    assert_eq!(run.result, Ended::Passed, "{repeat}");
    if twice {
        let again = plan.run(seed);
        assert_eq!(
            again.outcome.digest, run.outcome.digest,
            "not the same twice; {repeat}"
        );
        assert_eq!(
            again.outcome.decisions, run.outcome.decisions,
            "not the same twice; {repeat}"
        );
    }
}

fn all_cases(subject: Subject) {
    for coherent in [true, false] {
        for policy in [PolicyKind::Random, PolicyKind::Pct(3)] {
            for crashes in [0, 1, 2] {
                let plan = Plan {
                    crashes,
                    ..plan(subject, coherent, policy)
                };
                for seed in 1..=seeds() {
                    check(&plan, seed, true);
                }
            }
        }
    }
}

#[test]
fn hash() {
    all_cases(Subject::Hash);
}

#[test]
fn growth() {
    all_cases(Subject::Growth);
}

#[test]
fn allocator() {
    all_cases(Subject::Allocator);
}

#[test]
fn repairs() {
    all_cases(Subject::Repairs);
}

#[test]
fn trim() {
    all_cases(Subject::Trim);
}

#[test]
fn names() {
    all_cases(Subject::Names);
}

#[test]
fn group() {
    all_cases(Subject::Group);
}

#[test]
fn instances() {
    all_cases(Subject::Instances);
}

#[test]
fn moving() {
    all_cases(Subject::Moving);
}

#[test]
fn reuse() {
    all_cases(Subject::Reuse);
}

#[test]
fn shrinking() {
    all_cases(Subject::Shrinking);
}

#[test]
fn ordered() {
    all_cases(Subject::Ordered);
}

#[test]
fn tree() {
    all_cases(Subject::Tree);
}

#[test]
fn thin() {
    all_cases(Subject::Thin);
}

#[test]
fn split() {
    all_cases(Subject::Split);
}

#[test]
fn merge() {
    all_cases(Subject::Merge);
}

#[test]
fn ends() {
    all_cases(Subject::Ends);
}

#[test]
fn notes() {
    all_cases(Subject::Notes);
}

#[test]
fn bulk() {
    all_cases(Subject::Bulk);
}

#[test]
fn crowded() {
    all_cases(Subject::Crowded);
}

#[test]
fn epochs() {
    all_cases(Subject::Epochs);
}

#[test]
fn places() {
    all_cases(Subject::Places);
}

#[test]
fn drops() {
    all_cases(Subject::Drops);
}

#[test]
fn objects() {
    all_cases(Subject::Objects);
}

#[test]
fn tasks() {
    all_cases(Subject::Tasks);
}

#[test]
fn spin() {
    all_cases(Subject::Spin);
}

#[test]
fn mutex() {
    all_cases(Subject::Mutex);
}

#[test]
fn queue() {
    all_cases(Subject::Queue);
}

#[test]
fn rwlock() {
    all_cases(Subject::Rwlock);
}

#[test]
fn lock_service() {
    all_cases(Subject::LockService);
}

#[test]
fn removal() {
    all_cases(Subject::Removal);
}

#[test]
fn hosts() {
    all_cases(Subject::Hosts);
}

#[test]
fn death_notices() {
    all_cases(Subject::DeathNotices);
}

#[test]
fn second_processes() {
    all_cases(Subject::SecondProcesses);
}

#[test]
fn machines() {
    all_cases(Subject::Machines);
}

#[test]
fn lease() {
    all_cases(Subject::Lease);
}

#[test]
fn observers() {
    all_cases(Subject::Observers);
}

#[test]
fn baselines() {
    for subject in Subject::BASELINES {
        all_cases(subject);
    }
}

/// A prefetcher may fetch a line between its flush and its reuse; then the reuse rule does not hold. The paper switches
/// prefetchers off, and so must users of incoherent memory (docs/memory-model.md). This test shows that it matters.
#[test]
fn hardware_prefetchers_must_be_off() {
    let plan = Plan {
        prefetches: true,
        has_membarrier: true,
        crashes: 1,
        ..plan(Subject::Hash, false, PolicyKind::Random)
    };
    let seen = (1..=50).any(|seed| plan.run(seed).result != Ended::Passed);
    assert!(seen, "50 seeds with prefetchers, and nothing went wrong");
}

/// Seeds that once found a defect of the library; the changelog describes each.
#[test]
fn what_was_found_stays_mended() {
    let base = |subject, coherent, policy| Plan {
        operations: 10,
        crashes: 2,
        limits: LimitsKind::Usual,
        steps_max: 2_000_000,
        ..plan(subject, coherent, policy)
    };
    let small = |subject| Plan {
        hosts: 2,
        threads: 1,
        operations: 8,
        crashes: 0,
        ..base(subject, false, PolicyKind::Random)
    };
    let fourteen = |subject, coherent| Plan {
        operations: 14,
        crashes: 2,
        ..plan(subject, coherent, PolicyKind::Random)
    };
    let many = |subject| Plan {
        hosts: 6,
        threads: 3,
        operations: 25,
        crashes: 4,
        steps_max: 4_000_000,
        ..plan(subject, false, PolicyKind::Random)
    };
    let pct = PolicyKind::Pct(3);
    for (plan, seeds) in [
        // Cells of a block read as data after it had become an extent; lists read through a stale cache by fsck.
        (small(Subject::Hash), vec![13, 14, 32]),
        (small(Subject::Allocator), vec![2, 4, 10, 12]),
        // Lines that an earlier process of the same host had left in its cache.
        (small(Subject::Instances), vec![14, 16]),
        // A replayed log wrote a stale line back.
        (base(Subject::Growth, false, PolicyKind::Random), vec![100]),
        // A read of a block that was being made anew.
        (base(Subject::Allocator, false, PolicyKind::Random), vec![1264]),
        // The adopter of a list did not wait for its own host.
        (base(Subject::Instances, false, pct), vec![1406, 1646, 1832]),
        // A place that was freed between the scan for free places and the scan for places of the dead.
        (
            Plan {
                operations: 20,
                delegated: false,
                draws_guidelines: false,
                ..base(Subject::Places, true, PolicyKind::Random)
            },
            vec![282],
        ),
        // A store in place between the comparison and the exchange of a compare-and-replace.
        (
            Plan {
                hosts: 2,
                crashes: 1,
                ..base(Subject::Instances, true, PolicyKind::Random)
            },
            vec![1531, 3595],
        ),
        // A background thread that had adopted a list and never scanned it.
        (
            Plan {
                hosts: 2,
                ..base(Subject::Epochs, false, PolicyKind::Random)
            },
            vec![22222],
        ),
        // A line of a level that was read again after its flush.
        (
            Plan {
                hosts: 2,
                crashes: 1,
                operations: 40,
                ..base(Subject::Moving, false, PolicyKind::Random)
            },
            vec![3, 7],
        ),
        // Faults of the subjects: their pools had no places for workers whose processes were being torn down.
        (many(Subject::Hash), vec![88003]),
        (many(Subject::Shrinking), vec![1, 129]),
        // A process that had just joined served a request that was over.
        (many(Subject::Shrinking), vec![250]),
        // A split read the values beside the keys.
        (many(Subject::Objects), vec![22]),
        // A deleter loaded the state of a storage that another one had removed; and a worker that had given up a block
        // read its cells when the block was another one by then.
        (fourteen(Subject::Objects, false), vec![3888, 8831]),
        (many(Subject::Ordered), vec![80, 202]),
        (many(Subject::Instances), vec![48]),
        (many(Subject::Crowded), vec![80]),
        (base(Subject::Places, false, PolicyKind::Random), vec![1, 2, 3]),
        // What a killed process had left in its host's cache came back over what others had made of that memory.
        (
            Plan {
                hosts: 2,
                operations: 20,
                draws_guidelines: false,
                ..base(Subject::SecondProcesses, false, PolicyKind::Random)
            },
            vec![134],
        ),
        // A second recoverer freed what the first had committed to free.
        (base(Subject::Allocator, true, pct), vec![2053]),
        // A slot in a lock's queue that was said to be passed while another put it at rest.
        (fourteen(Subject::Queue, true), vec![310301, 311870]),
        // A thread that gave up waiting applied what it had read of the queue to a turn that was over: the lock that
        // the onlooker held had no owner.
        (fourteen(Subject::Observers, false), vec![129]),
        // `fsck` relied on words of a worker's record that their owner clears without waiting for that.
        (fourteen(Subject::Observers, false), vec![7716]),
        // The last one: a death that was being announced while its host was fenced.
        (fourteen(Subject::DeathNotices, false), vec![2807, 10419, 15659]),
        // A fault of the simulator: a notification under another kernel had told this kernel's notifiers that nobody
        // sleeps.
        (fourteen(Subject::DeathNotices, false), vec![17610]),
        // A waiter left that recovery had just made the end of the queue, for a slot behind it that was a dead
        // worker's.
        (fourteen(Subject::Semaphore, true), vec![17048]),
        (fourteen(Subject::Machines, false), vec![13140]),
        // A worker left a place that was scanned already for one that was not yet, and was seen in both: all seemed
        // taken. And two faults of the simulator: half a second of rests that was over before a lock's pauses; a death
        // while another process joined.
        (fourteen(Subject::Places, true), vec![309621, 301251]),
        // The other one: a background thread read a chunk through its cache that a request named which was over.
        (fourteen(Subject::Places, false), vec![303170, 307763]),
        // Another worker had the trim lock before its dead owner's log was replayed, which made the hole in question
        // free.
        (fourteen(Subject::Trim, true), vec![601852, 609660]),
        // A background thread read the first line of a level through the cache, which its own process had dropped by
        // then.
        (fourteen(Subject::Growth, false), vec![612685]),
        (fourteen(Subject::Shrinking, false), vec![601235]),
        // The simulator took a host for one that has the pool whose last process had left it.
        (fourteen(Subject::Moving, false), vec![610759]),
        // A failover controller gave back the lease as it had read it, although another host that was named had taken
        // it since. And a fault of the subject: the host named for the lease was dead for good, and no other host might
        // act for as long as one waits for it.
        (fourteen(Subject::Lease, true), vec![604968, 605141]),
        // A process of no host was killed as it began to serve, and what it had said kept hosts from serving.
        (fourteen(Subject::Lease, true), vec![358]),
        // The simulator took the newest of many stores to one word, in a buffer that was full, for one that its thread
        // does not wait for.
        (fourteen(Subject::Thin, false), vec![704841]),
    ] {
        for seed in seeds {
            check(&plan, seed, false);
        }
    }
}
