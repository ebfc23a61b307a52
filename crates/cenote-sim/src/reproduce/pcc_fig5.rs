//! pcc-indexes, figure 5: loads of one word and of different words, past the cache and through it, by 1 to 96 threads.

use super::{Charted, Figure, Origin, Place, Quantity, ReproduceError, Row, measure};
use crate::exec::SimMemory;
use crate::machine::LINE;
use crate::profile::Profile;
use cenote::memory::SyncWord;

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of simulated memory, which checks each access.
    unsafe { SyncWord::at(at) }
}

pub const NAME: &str = "pcc/fig5";

const LATENCY: Quantity = Quantity {
    name: "latency P50",
    unit: "us",
};
const THROUGHPUT: Quantity = Quantity {
    name: "throughput",
    unit: "Mops/s",
};
const THREADS: [u32; 9] = [1, 2, 4, 8, 16, 24, 48, 72, 96];
/// Operations of each thread.
const ROUNDS: u32 = 200;

/// A curve: its name, the paper's median with 1 and with 96 threads in microseconds, and what is done.
type Case = (&'static str, [f64; 2], fn(&SimMemory<false>, Place));

const CASES: [Case; 4] = [
    ("sync load, one word", [0.3, 29.9], |mem, _| {
        sync_word(0).load(mem);
    }),
    ("sync load, different words", [0.3, 0.4], |mem, place| {
        sync_word(place.thread * LINE).load(mem);
    }),
    ("cached load, one word", [0.3, 0.3], |mem, _| {
        sync_word(0).load_speculative(mem);
    }),
    ("cached load, different words", [0.3, 0.3], |mem, place| {
        sync_word(place.thread * LINE).load_speculative(mem);
    }),
];

pub fn make() -> Result<Figure, ReproduceError> {
    let profile = Profile::load("cxl-remote-wide")?;
    let mut rows = Vec::new();
    for (case, paper, operation) in CASES {
        for threads in THREADS {
            let measured = measure(&profile, threads, ROUNDS, LINE * u64::from(threads), operation)?;
            let paper = match threads {
                1 => Some(paper[0]),
                96 => Some(paper[1]),
                _ => None,
            };
            rows.push(Row::new(
                case,
                threads,
                LATENCY,
                paper,
                measured.median_ns() / 1e3,
            ));
            rows.push(Row::new(case, threads, THROUGHPUT, None, measured.per_ns() * 1e3));
        }
    }
    Ok(Figure {
        name: NAME,
        title: "Loads of one word and of different words",
        source: "pcc-indexes, section 5.2, figure 5",
        origin: Origin::Simulated,
        conditions: "under profile cxl-remote-wide",
        charted: Charted::Threads(LATENCY),
        rows,
        notes: vec![
            "The profile's service time was chosen for 29.9 us at 96 threads. That one thread then takes 0.3 us follows from it.",
            "The profile's bandwidth was chosen for 0.4 us at 96 threads and different words.",
            "A cached load hits in the model. The paper measures 0.3 us for it here, and less than 10 ns in section 5.3; it does not say why.",
            "The paper gives throughput as a picture only.",
        ],
    })
}
