//! pcc-indexes, figure 12: latency and bandwidth of memories, and compare-exchanges by 1 to 64 threads.

use super::{Charted, Figure, Origin, Place, Quantity, ReproduceError, Row, measure};
use crate::exec::SimMemory;
use crate::machine::LINE;
use crate::profile::Profile;
use cenote::memory::{Published, SyncWord};

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of simulated memory, which checks each access.
    unsafe { SyncWord::at(at) }
}

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Published::at(at, len) }
}

pub const NAME: &str = "pcc/fig12";

const MISS: Quantity = Quantity {
    name: "latency",
    unit: "ns",
};
const BANDWIDTH: Quantity = Quantity {
    name: "bandwidth",
    unit: "GB/s",
};
const EXCHANGE: Quantity = Quantity {
    name: "mean latency",
    unit: "us",
};
const THREADS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Operations of each thread.
const ROUNDS: u32 = 200;

/// Memories: the profile, the paper's name, its latency in nanoseconds, and its bandwidth in GB a second.
const MEMORIES: [(&str, &str, f64, f64); 4] = [
    ("dram", "cached loads that miss, DRAM-L", 107.0, 52.0),
    ("dram-remote", "cached loads that miss, DRAM-R", 160.0, 30.0),
    ("cxl-local", "cached loads that miss, CXL-L", 241.0, 2.0),
    ("cxl-remote", "cached loads that miss, CXL-R", 383.0, 0.28),
];

/// Threads that load at once when bandwidth is measured, and the bytes that each asks for at a time.
const STREAMS: u32 = 64;
const STREAM_BYTES: u64 = 4096;
const STREAM_ROUNDS: u32 = 20;

/// A curve of compare-exchanges: its name, the paper's means with 1 and with 64 threads in microseconds, and what is
/// done.
type Case = (&'static str, [Option<f64>; 2], fn(&SimMemory<false>, Place));

const EXCHANGES: [Case; 2] = [
    (
        "compare-exchange, one word",
        [Some(0.474), Some(9.0)],
        |mem, _| {
            let _ = sync_word(0).compare_exchange(mem, 0, 0);
        },
    ),
    (
        "compare-exchange, different words",
        [Some(0.474), None],
        |mem, place| {
            let _ = sync_word(place.thread * LINE).compare_exchange(mem, 0, 0);
        },
    ),
];

pub fn make() -> Result<Figure, ReproduceError> {
    let mut rows = Vec::new();
    for (name, case, latency, bandwidth) in MEMORIES {
        let profile = Profile::load(name)?;
        let bytes = LINE * u64::from(ROUNDS + 1);
        let alone = measure(&profile, 1, ROUNDS, bytes, |mem, place| {
            sync_word(place.round * LINE).load_speculative(mem);
        })?;
        rows.push(Row::new(case, 1, MISS, Some(latency), alone.mean_ns()));
        let bytes = STREAM_BYTES * u64::from(STREAMS * (STREAM_ROUNDS + 1));
        let streams = measure(&profile, STREAMS, STREAM_ROUNDS, bytes, |mem, place| {
            published(
                (place.round * place.threads + place.thread) * STREAM_BYTES,
                STREAM_BYTES,
            )
            .bytes(mem);
        })?;
        let simulated = streams.per_ns() * STREAM_BYTES as f64;
        rows.push(Row::new(case, STREAMS, BANDWIDTH, Some(bandwidth), simulated));
    }
    let profile = Profile::load("cxl-remote-wide")?;
    for (case, paper, operation) in EXCHANGES {
        for threads in THREADS {
            let measured = measure(&profile, threads, ROUNDS, LINE * u64::from(threads), operation)?;
            let paper = match threads {
                1 => paper[0],
                64 => paper[1],
                _ => None,
            };
            rows.push(Row::new(case, threads, EXCHANGE, paper, measured.mean_ns() / 1e3));
        }
    }
    Ok(Figure {
        name: NAME,
        title: "Basic operations",
        source: "pcc-indexes, section 7.1, figure 12",
        origin: Origin::Simulated,
        conditions: "under profiles dram, dram-remote, cxl-local and cxl-remote, compare-exchanges under cxl-remote-wide",
        charted: Charted::Threads(EXCHANGE),
        rows,
        notes: vec![
            "The profiles' latencies and bandwidths are the paper's: these rows show that the model gives them back.",
            "The queues' service time was chosen for 9 us at 64 threads and one word. The paper does not say which words its threads use; \
             with different ones, 4,096 queues would hardly ever fill. Of 0.28 GB/s, 64 threads' exchanges alone would take 14 us.",
        ],
    })
}
