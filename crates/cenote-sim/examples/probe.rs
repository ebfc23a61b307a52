//! Probe.
use cenote_sim::campaign::{Plan, PolicyKind};
use cenote_sim::exec::Event;
use cenote_sim::subjects::Subject;
fn main() {
    let seed: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(62);
    let subject = Subject::named(&std::env::args().nth(2).unwrap_or("thin".into())).unwrap_or(Subject::Thin);
    let plan = Plan {
        subject,
        coherent: false,
        delegated: true,
        hosts: 3,
        threads: 2,
        operations: 10,
        crashes: 2,
        draws_guidelines: true,
        prefetches: false,
        blind_exchanges: false,
        policy: PolicyKind::Random,
        profile: None,
        steps_max: 900_000,
    };
    let run = plan.run(seed);
    println!("{:?} {}", run.result, run.outcome.steps);
    let run = plan.replay(seed, run.outcome.decisions);
    println!("{:?} {}", run.result, run.outcome.steps);
    let mut last: std::collections::BTreeMap<u32, (usize, String, usize)> = Default::default();
    for (n, e) in run.outcome.timeline.iter().enumerate() {
        match e {
            Event::Done { thread, op, found } => {
                let l = last.entry(*thread).or_insert((0, String::new(), 0));
                l.0 = n;
                l.2 += 1;
                l.1 = format!("{} {:#x} v {:#x} f {:#x}", op.kind.name(), op.at, op.value, found);
            }
            Event::Evicted { .. } => {}
            e => println!("{n} {e:?}"),
        }
    }
    println!("{} events", run.outcome.timeline.len());
    for (t, l) in last {
        println!("{t} {l:?}");
    }
    let n = run.outcome.timeline.len();
    let server: u32 = std::env::args().nth(3).and_then(|a| a.parse().ok()).unwrap_or(8);
    for e in run.outcome.timeline.iter().skip(n - 30000) {
        if let Event::Done { thread, op, found } = e {
            let k = op.kind.name();
            if *thread == server && (k == "load" || k == "store") {
                println!("S {k} {:#x} v {:#x} f {:#x}", op.at, op.value, found);
            } else if *thread != server && k != "wait" && k != "kernel" && k != "fetch line" {
                println!("  {thread} {k} {:#x} v {:#x} f {:#x}", op.at, op.value, found);
            }
        }
    }
}
