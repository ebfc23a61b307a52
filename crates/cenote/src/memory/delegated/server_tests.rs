//! The server alone, pass by pass: requests to quiesce.

use std::sync::Arc;

use super::*;
use crate::memory::delegated::MAILBOX_BYTES;
use crate::memory::{Coherent, Mapped, Mapping};

const LEN: u64 = 1 << 16;
/// The word that two clients change.
const WORD: u64 = 64;

/// Two clients add to one word, and a third asks for all requests to be done. Returns, for each pass until the third is
/// answered, what the word was behind it.
fn passes_until_quiesced() -> Vec<u64> {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    let mapping = Mapping::of_file(file, LEN).unwrap();
    mapping.reserve(0, LEN, Some(0)).unwrap();
    let mem = Coherent::over(Arc::new(mapping)).unwrap();
    // SAFETY: lines of this test's memory, used for nothing else.
    let boxes = unsafe { Mailboxes::new(LEN / 2, MAILBOX_BYTES, 3, 1) };
    for (number, wish) in [Wish::Add(1), Wish::Add(1), Wish::Quiesce]
        .into_iter()
        .enumerate()
    {
        let (ticket, at) = (1, WORD);
        boxes.of(number as u32).ask(&mem, Request { ticket, wish, at });
    }
    let mut server = Server::take_over(mem.clone(), boxes, LEN);
    let mut words = Vec::new();
    while boxes.of(2).answered(&mem).is_none() {
        assert!(words.len() < 10, "the request to quiesce is never answered");
        server.pass();
        // SAFETY: a word of this test's memory.
        words.push(unsafe { mem.load(WORD) });
    }
    words
}

/// A pass changes a word once at most; the second addition is left to the next pass.
#[test]
fn who_asks_for_all_requests_to_be_done_waits_for_one_that_a_pass_put_off() {
    assert_eq!(passes_until_quiesced(), [1, 2]);
}

/// The planted fault that this shows.
#[test]
#[cfg(feature = "mutants")]
fn an_early_answer_leaves_a_request_undone() {
    mutant::choose(Some(Mutant::QuiescedEarly));
    assert_eq!(passes_until_quiesced(), [1]);
    mutant::choose(None);
}
