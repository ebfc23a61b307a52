//! Directory locks by messages: on a simulated network, in all small cases, between threads, and between processes.

mod costs;
mod exhaustive;
mod handles;
mod hostile;
mod lossy;
mod mutants;
mod processes;
mod random;
mod world;
