//! Lock services on a simulated network: all orders of steps in small cases, runs from seeds, nodes that say anything,
//! and what an acquisition costs. The same world is the subject `lock-service` of the simulator.

mod costs;
mod exhaustive;
mod hostile;
mod random;
