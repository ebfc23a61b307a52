//! Generated histories for the tests: those of a map that is right by construction, and what they become when one
//! result is changed.

use super::super::Specification;
use super::super::spec::map::{Map, Op, Ret};
use super::Durability;
use crate::history::{History, Recorder, Ticket};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// What to generate.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub calls: usize,
    pub keys: u64,
    pub processes: u32,
    /// How many steps of a running process in a thousand are its death.
    pub deaths_permille: u64,
    /// Whether calls of the dead may take effect later.
    pub durability: Durability,
}

struct Running {
    ticket: Ticket,
    op: Op,
    result: Option<Ret>,
}

/// A map whose operations take effect at one step between their begin and their return. No value is written twice.
struct Machine {
    plan: Plan,
    rng: Xoshiro256PlusPlus,
    recorder: Recorder<Op, Ret>,
    state: BTreeMap<u64, u64>,
    running: BTreeMap<u32, Running>,
    /// What the dead may still do.
    left: Vec<Op>,
    step: u64,
}

/// The history of this plan and seed. At the end some calls may be running.
pub fn generate(plan: Plan, seed: u64) -> History<Op, Ret> {
    println!("seed {seed}, {plan:?}");
    let mut machine = Machine {
        plan,
        rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        recorder: Recorder::new(),
        state: BTreeMap::new(),
        running: BTreeMap::new(),
        left: Vec::new(),
        step: 0,
    };
    let mut begun = 0;
    while begun < plan.calls {
        begun += usize::from(machine.advance());
    }
    for _ in 0..4 * plan.processes {
        machine.advance_running();
    }
    machine.recorder.finish().expect("a history")
}

impl Machine {
    fn draw(&mut self, below: u64) -> u64 {
        self.rng.next_u64() % below
    }

    /// One step of some process; whether it begins a call.
    fn advance(&mut self) -> bool {
        self.step += 1;
        if !self.left.is_empty() && self.draw(20) == 0 {
            let op = self.left.remove(0);
            self.take_effect(&op);
        }
        let process = self.draw(self.plan.processes.into()) as u32;
        if self.running.contains_key(&process) {
            self.proceed(process);
            return false;
        }
        let op = self.op();
        let ticket = self.recorder.invoke(process, op.clone(), self.step);
        let result = None;
        self.running.insert(process, Running { ticket, op, result });
        true
    }

    /// One step of some process that is in a call, if there is one.
    fn advance_running(&mut self) {
        self.step += 1;
        let chosen = self.draw(self.plan.processes.into()) as usize;
        if let Some(&process) = self.running.keys().nth(chosen) {
            self.proceed(process);
        }
    }

    fn proceed(&mut self, process: u32) {
        let Some(mut running) = self.running.remove(&process) else {
            return;
        };
        if self.draw(1_000) < self.plan.deaths_permille {
            self.recorder.lose(process, self.step);
            if running.result.is_none() && self.plan.durability == Durability::Durable {
                self.left.push(running.op);
            }
            return;
        }
        match running.result {
            Some(ret) => self.recorder.complete(running.ticket, ret, self.step),
            None => {
                running.result = Some(self.take_effect(&running.op));
                self.running.insert(process, running);
            }
        }
    }

    fn op(&mut self) -> Op {
        let (key, value) = (self.draw(self.plan.keys), self.step);
        match self.draw(10) {
            0 | 1 => Op::Put { key, value },
            2 => Op::Insert { key, value },
            3 => Op::Remove { key },
            4 | 5 => {
                let expected = self.state.get(&key).copied().unwrap_or(0);
                Op::Replace { key, expected, value }
            }
            _ => Op::Get { key },
        }
    }

    fn take_effect(&mut self, op: &Op) -> Ret {
        let bound = self.state.get(&op.key()).copied().unwrap_or(0);
        let apply = |ret: &Ret| Map.step(&self.state, 0, op, Some(ret));
        let outcome = results(bound)
            .into_iter()
            .find_map(|ret| apply(&ret).map(|next| (ret, next)));
        let (ret, next) = outcome.expect("a result");
        self.state = next;
        ret
    }
}

/// All results, about this value.
fn results(value: u64) -> [Ret; 7] {
    [
        Ret::Inserted,
        Ret::Replaced,
        Ret::Present,
        Ret::Removed,
        Ret::Missing,
        Ret::Found(value),
        Ret::Differs(value),
    ]
}

/// The history with one result changed.
pub fn with_result(history: &History<Op, Ret>, place: usize, ret: Ret) -> History<Op, Ret> {
    let mut events = history.events().to_vec();
    events[place].result = Some(ret);
    History::new(events).expect("a history")
}

/// The history with the result of some call changed to another that the operation may have.
pub fn with_some_result(history: &History<Op, Ret>, seed: u64) -> History<Op, Ret> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut draw = |below: usize| rng.next_u64() as usize % below;
    let events = history.events();
    let returned: Vec<usize> = (0..events.len())
        .filter(|&place| events[place].result.is_some())
        .collect();
    if returned.is_empty() {
        return history.clone();
    }
    let place = returned[draw(returned.len())];
    let values = [
        BTreeMap::new(),
        BTreeMap::from([(events[place].op.key(), events[draw(events.len())].invoke)]),
    ];
    let possible = |ret: &Ret| {
        let step = |state| Map.step(state, 0, &events[place].op, Some(ret));
        values.iter().any(|state| step(state).is_some())
    };
    let value = values[1].values().copied().next().unwrap_or(0);
    let others: Vec<Ret> = results(value).into_iter().filter(possible).collect();
    with_result(history, place, others[draw(others.len())].clone())
}
