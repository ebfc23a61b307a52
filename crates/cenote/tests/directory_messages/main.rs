//! Directory locks by messages: on a simulated network, in all small cases, between threads, and between processes.

mod exhaustive;
mod handles;
mod mutants;
mod processes;
mod random;
mod world;
