//! What every backend promises, by a program that adds up bytes.

use super::super::{Malformed, Meter, Modules, ModulesError, Profile, Program, Simulated};
use super::Threads;

/// Answers each byte by the sum of all so far, and refuses 255.
#[derive(Default)]
struct Sums(u8);

impl Program for Sums {
    fn run(&mut self, commands: &[u8], answers: &mut Vec<u8>, meter: &mut Meter) -> Result<(), Malformed> {
        for (at, byte) in commands.iter().enumerate() {
            if *byte == 255 {
                return Err(Malformed { at });
            }
            self.0 = self.0.wrapping_add(*byte);
            meter.chases += 1;
            meter.accesses += 2;
            answers.push(self.0);
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        1
    }
}

fn programs(count: usize) -> Vec<Sums> {
    (0..count).map(|_| Sums::default()).collect()
}

fn keeps_the_contract(modules: &mut dyn Modules) {
    assert_eq!(modules.count(), 5);
    let first = modules
        .round(vec![vec![1, 2], vec![], vec![3], vec![], vec![9]])
        .unwrap();
    assert_eq!(first, [vec![1, 3], vec![], vec![3], vec![], vec![9]]);
    // Memory stays.
    let second = modules
        .round(vec![vec![1], vec![4], vec![], vec![], vec![]])
        .unwrap();
    assert_eq!(second, [vec![4], vec![4], vec![], vec![], vec![]]);
    let counters = modules.counters();
    assert_eq!((counters.rounds, counters.sent, counters.received), (2, 6, 6));
    assert_eq!((counters.chases, modules.memory_bytes()), (6, 5));
    assert!(matches!(
        modules.round(vec![]),
        Err(ModulesError::Batches { given: 0, modules: 5 })
    ));
    assert_eq!(modules.collect(), Err(ModulesError::NoRound));
    modules.launch(vec![vec![]; 5]).unwrap();
    assert_eq!(modules.launch(vec![vec![]; 5]), Err(ModulesError::RoundPending));
    modules.collect().unwrap();
    let refused = modules.round(vec![vec![], vec![], vec![], vec![7, 255], vec![]]);
    let cause = Malformed { at: 1 };
    assert_eq!(refused, Err(ModulesError::Malformed { module: 3, cause }));
}

#[test]
fn threads_keep_the_contract() {
    for threads in [1, 2, 5, 9] {
        keeps_the_contract(&mut Threads::new(programs(5), threads).unwrap());
    }
}

#[test]
fn simulated_modules_keep_the_contract() {
    keeps_the_contract(&mut Simulated::new(programs(5), Profile::upmem().unwrap()).unwrap());
}

#[test]
fn virtual_time_is_that_of_the_busiest_module() {
    let mut modules = Simulated::new(programs(2), Profile::upmem().unwrap()).unwrap();
    modules.round(vec![vec![1; 63], vec![1]]).unwrap();
    let counters = modules.counters();
    // 126 accesses, 63 chases of 5 cycles, 126 bytes of commands and answers.
    assert_eq!(
        counters.module_ns,
        126 * 14 + 63 * 5 * 1000 / 350 + 126 * 1000 / 630
    );
    assert_eq!(counters.virtual_ns, 500_000 + 128 / 25 + counters.module_ns);
    modules.host_steps(320);
    assert_eq!(modules.counters().host_ns, 50);
}

#[test]
fn what_the_host_computes_meanwhile_takes_no_longer() {
    let after = |beside_ns: u64| {
        let mut modules = Simulated::new(programs(1), Profile::upmem().unwrap()).unwrap();
        modules.launch(vec![vec![1; 63]]).unwrap();
        modules.host_steps(beside_ns * 32 / 5);
        modules.collect().unwrap();
        let counters = modules.counters();
        assert_eq!(counters.host_ns, beside_ns);
        counters
    };
    let (alone, hidden, longer) = (after(0), after(100_000), after(800_000));
    assert_eq!((alone.overlapped_ns, hidden.overlapped_ns), (0, 100_000));
    assert_eq!(hidden.virtual_ns, alone.virtual_ns);
    // A launch, and what the module computes.
    let modules_ns = 500_000 + alone.module_ns;
    assert!(longer.overlapped_ns.abs_diff(modules_ns) <= 1, "{longer:?}");
    assert!((longer.virtual_ns - alone.virtual_ns).abs_diff(800_000 - modules_ns) <= 1);
}

#[test]
fn a_program_that_panics_is_a_lost_module() {
    struct Broken;
    impl Program for Broken {
        fn run(&mut self, _: &[u8], _: &mut Vec<u8>, _: &mut Meter) -> Result<(), Malformed> {
            panic!("planted");
        }
        fn memory_bytes(&self) -> u64 {
            0
        }
    }
    let mut modules = Threads::new(vec![Broken], 1).unwrap();
    let outcome = modules.round(vec![vec![1]]);
    assert!(
        matches!(outcome, Err(ModulesError::Lost { module: 0, .. })),
        "{outcome:?}"
    );
}
