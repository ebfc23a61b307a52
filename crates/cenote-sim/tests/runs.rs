//! Runs of the simulator on the library. One program, as each costs a link of both.

mod cached_words;
mod calibration;
mod confirmed_replicas;
mod delegated;
mod directed;
mod drops;
mod empty_blocks;
mod every_step;
mod late_views;
mod left_at_end;
mod left_in_front;
mod litmus;
mod moved_lists;
mod next_turn;
mod own_index;
mod reader_turns;
mod refusals;
mod relay;
mod snapshots;
mod spare_lines;
mod subjects;
mod throughput;
