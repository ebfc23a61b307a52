//! A client's requests for blocks, of which one may come twice, and late: over a connection that the client has left,
//! as it had no answer there.
//!
//! Requests have numbers, which grow with each answer that the client has received. The last one is answered again as
//! it was, be it that there was no block; earlier ones get nothing, as nobody reads it. That is in the master's memory
//! alone: another master has no connections of before. What an earlier master has given, and its client has not
//! received, is known by the number of blocks ([`State::block`](super::state::State::block)).

/// The last request.
#[derive(Debug, Default)]
pub struct BlockRequests {
    last: Option<Answered>,
}

#[derive(Clone, Copy, Debug)]
struct Answered {
    number: u64,
    size: u32,
    block: Option<u64>,
}

impl BlockRequests {
    /// The answer to a request for a block of this size; a new one is given what `give` gives.
    pub fn answer(&mut self, number: u64, size: u32, give: impl FnOnce() -> Option<u64>) -> Option<u64> {
        match self.last {
            Some(last) if number < last.number => None,
            Some(last) if number == last.number => last.block.filter(|_| size == last.size),
            _ => {
                let block = give();
                self.last = Some(Answered { number, size, block });
                block
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_comes_again_has_the_same_answer() {
        let mut requests = BlockRequests::default();
        let never = || -> Option<u64> { panic!("it was answered") };
        assert_eq!(requests.answer(0, 64, || Some(7)), Some(7));
        assert_eq!(requests.answer(0, 64, never), Some(7));
        // There was none. When it comes again there would be one.
        assert_eq!(requests.answer(1, 64, || None), None);
        assert_eq!(requests.answer(1, 64, never), None);
        assert_eq!(requests.answer(2, 128, || Some(8)), Some(8));
        assert_eq!(requests.answer(1, 64, never), None);
        assert_eq!(requests.answer(2, 64, never), None, "it is of another size");
    }

    /// A master that is new to the client.
    #[test]
    fn the_first_request_may_have_any_number() {
        assert_eq!(BlockRequests::default().answer(9, 64, || Some(7)), Some(7));
    }
}
