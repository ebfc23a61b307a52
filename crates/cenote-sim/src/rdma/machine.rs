//! A machine: its card, its cores, and the regions that it holds if it is a memory node.

use cenote_replica::verbs::{Completion, Request, Verb};
use cenote_replica::view::Key;

use super::Time;

/// Something that does one thing after another, in the order in which they come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    free: Time,
}

impl Line {
    /// When it is done with something that comes at a time and takes so long.
    pub fn take(&mut self, now: Time, cost: Time) -> Time {
        self.free = self.free.max(now) + cost;
        self.free
    }
}

/// A card.
#[derive(Clone, Copy, Debug, Default)]
pub struct Card {
    /// Begins verbs.
    pub verbs: Line,
    /// Sends.
    pub out: Line,
    /// Receives.
    pub into: Line,
    /// Executes atomic verbs.
    pub atomics: Line,
}

/// A machine.
#[derive(Debug)]
pub struct Machine {
    /// Its card.
    pub card: Card,
    /// When each of its cores is free.
    pub cores: Vec<Time>,
    /// Whether it runs.
    pub is_up: bool,
    /// Regions by number, if it holds them: their key and their bytes.
    pub regions: Vec<Option<(Key, Vec<u8>)>>,
}

impl Machine {
    /// One with so many cores for requests.
    pub fn new(cores: u32) -> Self {
        Self {
            card: Card::default(),
            cores: vec![0; cores as usize],
            is_up: true,
            regions: Vec::new(),
        }
    }

    /// When a core is done with a request that comes at a time.
    pub fn serve(&mut self, now: Time, cost: Time) -> Time {
        let first = self.cores.iter_mut().min_by_key(|free| **free);
        first.map_or(now + cost, |free| {
            *free = (*free).max(now) + cost;
            *free
        })
    }

    /// Executes a verb at once.
    pub fn execute(&mut self, request: &Request) -> Completion {
        let region = self.regions.get_mut(usize::from(request.at.region()));
        let Some(Some((key, memory))) = region else {
            return Completion::Refused;
        };
        let from = request.at.offset() as usize;
        let bytes = match &request.verb {
            Verb::Read(len) => *len as usize,
            Verb::Write(bytes) => bytes.len(),
            Verb::CompareSwap { .. } | Verb::FetchAdd(_) => 8,
        };
        let Some(memory) = memory.get_mut(from..from + bytes).filter(|_| *key == request.key) else {
            return Completion::Refused;
        };
        match &request.verb {
            Verb::Read(_) => Completion::Read(memory.to_vec()),
            Verb::Write(bytes) => {
                memory.copy_from_slice(bytes);
                Completion::Written
            }
            Verb::CompareSwap { expected, new } => {
                let was = word(memory);
                if was == *expected {
                    memory.copy_from_slice(&new.to_le_bytes());
                }
                Completion::Was(was)
            }
            Verb::FetchAdd(add) => {
                let was = word(memory);
                memory.copy_from_slice(&was.wrapping_add(*add).to_le_bytes());
                Completion::Was(was)
            }
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}
