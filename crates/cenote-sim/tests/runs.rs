//! Runs of the simulator on the library. One program, as each costs a link of both.

mod cached_words;
mod calibration;
mod delegated;
mod drops;
mod every_step;
mod left_in_front;
mod litmus;
mod moved_lists;
mod own_index;
mod reader_turns;
mod refusals;
mod relay;
mod snapshots;
mod subjects;
mod throughput;
