//! What is said on a connection before it has a session. All frames are as those of
//! [messages](crate::sync::directory::messages::frame).
//!
//! ```text
//!   0 hello        magic u64, purpose u8 (0 to join, 1 to see the status), label (length u8, UTF-8)
//!  32 welcome      session u64, lease u64 in microseconds
//!  33 turned away  nothing: there is no number for another node
//! ```
//!
//! A connection that does not say hello in time, or says something else, is cut, so that nobody takes a node's number
//! by mistake.

use crate::sync::directory::messages::frame::FrameError;
use crate::sync::directory::messages::message::Session;
use crate::sync::directory::messages::wire::{Reader, Writer};

/// "CNLOCKS" and a version.
const MAGIC: u64 = u64::from_le_bytes(*b"CNLOCKS\x01");
/// The most bytes of a label.
pub const LABEL_MAX: usize = 100;
/// The most bytes of a greeting's body.
pub const GREETING_MAX: usize = 10 + 1 + LABEL_MAX;
/// The longest lease, in microseconds.
const LEASE_MAX: u64 = 3_600_000_000;

/// Why somebody connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be a node.
    Join,
    /// To see who has which lock.
    Status,
}

/// What a directory answers to a process that wants to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The session, and after how many microseconds the directory declares a node dead of which it hears nothing.
    Welcome(Session, u64),
    /// There is no number for another node.
    TurnedAway,
}

/// The frame that says hello.
pub fn hello(purpose: Purpose, label: &str) -> Vec<u8> {
    let purpose = match purpose {
        Purpose::Join => 0,
        Purpose::Status => 1,
    };
    Writer::of_kind(0)
        .u64(MAGIC)
        .byte(purpose)
        .text(cut_to(label, LABEL_MAX))
        .finish()
}

/// Reads a [`hello`]'s body.
pub fn read_hello(body: &[u8]) -> Result<(Purpose, String), FrameError> {
    let mut reader = Reader::new(body);
    if reader.byte()? != 0 {
        return Err(FrameError::Value("kind"));
    }
    if reader.u64()? != MAGIC {
        return Err(FrameError::Value("version"));
    }
    let purpose = match reader.byte()? {
        0 => Purpose::Join,
        1 => Purpose::Status,
        _ => return Err(FrameError::Value("purpose")),
    };
    let label = reader.text()?;
    reader.end()?;
    match label.len() <= LABEL_MAX {
        true => Ok((purpose, label)),
        false => Err(FrameError::Value("label")),
    }
}

/// The frame of an answer.
pub fn answer(answer: Answer) -> Vec<u8> {
    match answer {
        Answer::Welcome(session, lease) => Writer::of_kind(32).u64(session.bits()).u64(lease),
        Answer::TurnedAway => Writer::of_kind(33),
    }
    .finish()
}

/// Reads an [`answer`]'s body.
pub fn read_answer(body: &[u8]) -> Result<Answer, FrameError> {
    let mut reader = Reader::new(body);
    let answer = match reader.byte()? {
        32 => {
            let session = Session::from_bits(reader.u64()?).ok_or(FrameError::Value("session"))?;
            let lease = reader.u64()?;
            if lease == 0 || lease > LEASE_MAX {
                return Err(FrameError::Value("lease"));
            }
            Answer::Welcome(session, lease)
        }
        33 => Answer::TurnedAway,
        _ => return Err(FrameError::Value("kind")),
    };
    reader.end()?;
    Ok(answer)
}

/// The beginning of a text, of so many bytes at most.
fn cut_to(text: &str, most: usize) -> &str {
    let mut len = text.len().min(most);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    &text[..len]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::directory::messages::frame::HEAD;
    use crate::sync::directory::node::Node;

    #[test]
    fn greetings_are_read_and_others_refused() {
        for purpose in [Purpose::Join, Purpose::Status] {
            let frame = hello(purpose, &"ä".repeat(LABEL_MAX));
            let body = &frame[HEAD..];
            assert!(body.len() <= GREETING_MAX);
            assert_eq!(read_hello(body), Ok((purpose, "ä".repeat(LABEL_MAX / 2))));
            for len in 0..body.len() {
                assert!(read_hello(&body[..len]).is_err());
            }
        }
        assert_eq!(read_hello(b"GET / HTTP/1.1\r\n"), Err(FrameError::Value("kind")));
        assert!(read_hello(&answer(Answer::TurnedAway)[HEAD..]).is_err());
        let session = Session::new(Node::new(7).unwrap(), 9);
        for said in [Answer::Welcome(session, 1), Answer::TurnedAway] {
            let frame = answer(said);
            assert_eq!(read_answer(&frame[HEAD..]), Ok(said));
            assert!(read_answer(&frame[HEAD..frame.len() - 1]).is_err());
        }
        assert!(read_answer(&answer(Answer::Welcome(session, 0))[HEAD..]).is_err());
    }
}
