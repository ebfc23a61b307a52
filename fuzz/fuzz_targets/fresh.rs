//! Wholly new inputs. Without coverage (a stable toolchain) libFuzzer keeps nothing, and so only ever tries inputs of a
//! few bytes; half of the inputs are drawn afresh instead.

/// The size of the next input, which is in `data`.
pub fn fresh(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    if seed.is_multiple_of(2) {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let len = (next() % (max_size as u64 + 1)) as usize;
    // Some inputs have bytes of few values, so that keys coincide.
    let mask = [0xff, 0x3f, 0x0f][(next() % 3) as usize];
    let len = len.min(data.len());
    data[..len].fill_with(|| (next() >> 32) as u8 & mask);
    len
}
