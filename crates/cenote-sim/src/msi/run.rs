//! A run: threads as coroutines, each of which goes on when its operation has ended.

use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::cpu::Cpu;
use super::machine::Machine;
use super::op::{Op, Reply};

/// What a thread does.
pub type Body = Box<dyn FnOnce(&Cpu<'_>)>;

/// All threads that had not ended wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} simulated threads wait for each other")]
pub struct Stuck(pub usize);

/// Runs a body for each thread of the machine, in their order, until all have ended but the daemons, which come last.
pub fn run(machine: &mut Machine, bodies: Vec<Body>, daemons: usize) -> Result<(), Stuck> {
    run_watched(machine, bodies, daemons, |_| {})
}

/// The same; `watch` looks at the machine before each step of a thread.
pub fn run_watched(
    machine: &mut Machine,
    bodies: Vec<Body>,
    daemons: usize,
    mut watch: impl FnMut(&Machine),
) -> Result<(), Stuck> {
    let mut left = bodies.len().saturating_sub(daemons);
    let last = left;
    let fiber = |body: Body| {
        Coroutine::new(move |yielder: &Yielder<Reply, Op>, begun: Reply| body(&Cpu::new(yielder, begun)))
    };
    let mut fibers: Vec<_> = bodies.into_iter().map(fiber).collect();
    machine.begin();
    while left > 0 {
        let Some((thread, reply)) = machine.advance() else {
            return Err(Stuck(left));
        };
        watch(machine);
        let number = thread as usize;
        match fibers[number].resume(reply) {
            CoroutineResult::Yield(op) => machine.submit(thread, op),
            CoroutineResult::Return(()) if number < last => left -= 1,
            CoroutineResult::Return(()) => {}
        }
    }
    Ok(())
}
