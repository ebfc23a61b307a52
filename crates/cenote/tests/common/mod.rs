//! What all random tests share.

/// The seed; printed, and taken from `CENOTE_TEST_SEED` if that is set.
pub fn seed() -> u64 {
    let seed = std::env::var("CENOTE_TEST_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(0x5eed);
    println!("seed: CENOTE_TEST_SEED={seed}");
    seed
}
