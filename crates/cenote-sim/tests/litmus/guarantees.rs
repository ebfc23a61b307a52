//! What the contract excludes is not seen.

use cenote::memory::Memory;

use super::harness::{FLAG, Litmus, Registers, Thread, X, Y, outcomes};
use cenote::memory::{OwnedWord, SyncWord, Unpublished, WordLine};

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of simulated memory, which checks each access.
    unsafe { SyncWord::at(at) }
}

/// An owned word.
#[inline(always)]
fn owned_word(at: u64) -> OwnedWord {
    // SAFETY: an owned word of simulated memory, which checks each access.
    unsafe { OwnedWord::at(at) }
}

/// A line of words.
#[inline(always)]
fn word_line(at: u64) -> WordLine {
    // SAFETY: a line of words of simulated memory, which checks each access.
    unsafe { WordLine::at(at) }
}

/// Unpublished bytes.
#[inline(always)]
fn unpublished(at: u64, len: u64) -> Unpublished {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Unpublished::at(at, len) }
}

/// Preemptions of the exhaustive runs: more than any of these tests has places for.
pub const PREEMPTIONS: u32 = 8;
const SEEDS: u64 = 2_000;

/// Neither all schedules nor random walks find what is forbidden; all schedules find all that is `wanted`.
pub fn never<const C: bool>(litmus: &Litmus<C>, forbidden: fn(&Registers) -> bool, wanted: &[Registers]) {
    let seen = litmus.all(PREEMPTIONS);
    for seen in [&seen, &litmus.walks(SEEDS)] {
        let found = seen.iter().find(|(registers, _)| forbidden(registers));
        assert_eq!(found, None);
    }
    for wanted in wanted {
        assert!(seen.contains_key(wanted), "{wanted:?}");
    }
}

fn store_buffering<const C: bool>(t: &Thread<'_, C>) {
    let (own, other) = if t.number == 0 { (X, Y) } else { (Y, X) };
    sync_word(own).store_seq_cst(&t.mem, 1);
    t.find(t.number as usize, sync_word(other).load(&t.mem));
}

#[test]
fn store_buffering_is_not_seen() {
    let wanted = [[0, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]];
    never(
        &Litmus::new(2, store_buffering::<false>),
        |found| found[..2] == [0, 0],
        &wanted,
    );
    never(
        &Litmus::new(2, store_buffering::<true>),
        |found| found[..2] == [0, 0],
        &wanted,
    );
}

fn message_passing<const C: bool>(t: &Thread<'_, C>) {
    if t.number == 0 {
        sync_word(X).store(&t.mem, 1);
        sync_word(Y).store(&t.mem, 1);
    } else {
        t.find(0, sync_word(Y).load(&t.mem));
        t.find(1, sync_word(X).load(&t.mem));
    }
}

#[test]
fn messages_of_sync_words_arrive_in_order() {
    let wanted = [[0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]];
    never(
        &Litmus::new(2, message_passing::<false>),
        |found| found[..2] == [1, 0],
        &wanted,
    );
    never(
        &Litmus::new(2, message_passing::<true>),
        |found| found[..2] == [1, 0],
        &wanted,
    );
}

#[test]
fn load_buffering_is_not_seen() {
    let litmus = Litmus::new(2, |t: &Thread<'_, false>| {
        let (own, other) = if t.number == 0 { (X, Y) } else { (Y, X) };
        t.find(t.number as usize, sync_word(other).load(&t.mem));
        sync_word(own).store(&t.mem, 1);
    });
    never(
        &litmus,
        |found| found[..2] == [1, 1],
        &[[0; 4], [0, 1, 0, 0], [1, 0, 0, 0]],
    );
}

#[test]
fn readers_agree_on_the_order_of_two_writers() {
    let litmus = Litmus::new(4, |t: &Thread<'_, false>| match t.number {
        0 => sync_word(X).store(&t.mem, 1),
        1 => sync_word(Y).store(&t.mem, 1),
        2 => {
            t.find(0, sync_word(X).load(&t.mem));
            t.find(1, sync_word(Y).load(&t.mem));
        }
        _ => {
            t.find(2, sync_word(Y).load(&t.mem));
            t.find(3, sync_word(X).load(&t.mem));
        }
    });
    never(
        &litmus,
        |found| *found == [1, 0, 1, 0],
        &[[0; 4], [1; 4], [1, 0, 0, 1]],
    );
}

fn additions<const C: bool>(t: &Thread<'_, C>) {
    t.find(t.number as usize, 1 + sync_word(X).fetch_add(&t.mem, 1));
}

#[test]
fn no_addition_is_lost() {
    let wanted = [[1, 2, 3, 0], [3, 2, 1, 0]];
    let is_lost = |found: &Registers| {
        let mut sorted = found[..3].to_vec();
        sorted.sort_unstable();
        sorted != [1, 2, 3]
    };
    never(&Litmus::new(3, additions::<false>), is_lost, &wanted);
    never(&Litmus::new(3, additions::<true>), is_lost, &wanted);
}

fn exchange<const C: bool>(t: &Thread<'_, C>) {
    let won = sync_word(X)
        .compare_exchange(&t.mem, 0, 1 + u64::from(t.number))
        .is_ok();
    t.find(t.number as usize, u64::from(won));
}

#[test]
fn one_compare_exchange_wins() {
    let wanted = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]];
    never(
        &Litmus::new(3, exchange::<false>),
        |found| found.iter().sum::<u64>() != 1,
        &wanted,
    );
    never(
        &Litmus::new(3, exchange::<true>),
        |found| found.iter().sum::<u64>() != 1,
        &wanted,
    );
}

#[test]
fn a_word_is_never_torn() {
    let litmus = Litmus::new(3, |t: &Thread<'_, false>| match t.number {
        0 => sync_word(X).store(&t.mem, u64::MAX),
        1 => {
            unpublished(Y, [0xff; 8].len() as u64).write(&t.mem, &[0xff; 8]);
            t.mem.write_back(Y, 8);
            t.mem.fence();
        }
        _ => {
            t.find(0, word_line(X).fetch(&t.mem)[0]);
            t.find(1, word_line(Y).fetch(&t.mem)[0]);
        }
    });
    let is_torn = |found: &Registers| found.iter().any(|&word| word != 0 && word != u64::MAX);
    never(&litmus, is_torn, &[[0; 4], [u64::MAX, u64::MAX, 0, 0]]);
}

#[test]
fn threads_of_a_host_share_its_cache() {
    // Threads 0 and 1 are on one host, thread 2 is on another.
    let mut litmus = Litmus::new(3, |t: &Thread<'_, false>| {
        if t.number == 0 {
            owned_word(X).set(&t.mem, 1);
            sync_word(FLAG).store(&t.mem, 1);
        } else {
            let flag = sync_word(FLAG).load(&t.mem);
            t.find(t.number as usize - 1, 2 * flag + owned_word(X).get(&t.mem));
        }
    });
    litmus.hosts = vec![1, 1, 2];
    // A thread that sees the flag sees the store on the same host, and not on the other.
    let seen = litmus.all(PREEMPTIONS);
    assert!(seen.keys().all(|found| found[0] != 2 && found[1] & 1 == 0));
    assert!(seen.contains_key(&[3, 2, 0, 0]));
    assert!(litmus.walks(SEEDS).keys().all(|found| found[0] != 2));
}

#[test]
fn a_host_sees_every_store_of_its_own() {
    let mut litmus = Litmus::new(2, |t: &Thread<'_, false>| {
        if t.number == 0 {
            owned_word(X).set(&t.mem, 1);
            owned_word(X).set(&t.mem, 2);
        } else {
            t.find(0, owned_word(X).get(&t.mem));
        }
    });
    litmus.hosts = vec![1, 1];
    assert_eq!(
        outcomes(&litmus.all(PREEMPTIONS)),
        [[0; 4], [1, 0, 0, 0], [2, 0, 0, 0]]
    );
}

#[test]
fn a_dead_process_leaves_its_stores_to_its_host() {
    let mut litmus = Litmus::new(2, |t: &Thread<'_, false>| {
        if t.number == 0 {
            owned_word(X).set(&t.mem, 1);
            t.mem.pause();
        } else {
            // In the exhaustive policy, a waiting thread lets the other one run.
            t.mem.pause();
            t.mem.pause();
            t.find(0, owned_word(X).get(&t.mem));
        }
    })
    .dies_at(1);
    litmus.hosts = vec![1, 1];
    assert_eq!(outcomes(&litmus.all(PREEMPTIONS)), [[1, 0, 0, 0]]);
}

#[test]
fn dropping_a_stale_clean_line_writes_nothing() {
    let mut litmus = Litmus::new(2, |t: &Thread<'_, false>| {
        if t.number == 0 {
            sync_word(X).load_speculative(&t.mem);
            t.mem.invalidate(X, 8);
            t.mem.fence();
        } else {
            sync_word(X).store(&t.mem, 1);
        }
    });
    litmus.audit = |t| t.find(0, sync_word(X).load(&t.mem));
    never(&litmus, |found| found[0] != 1, &[]);
}
