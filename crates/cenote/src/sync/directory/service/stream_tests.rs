//! Frames that come in pieces, and connections that are cut.

use std::io::Write;
use std::time::Duration;

use super::*;
use crate::sync::directory::service::greeting::{Answer, GREETING_MAX, answer, read_answer};

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(1))
}

fn frames(stream: UnixStream) -> Frames {
    Frames::new(Stream::Unix(stream), GREETING_MAX)
}

#[test]
fn frames_are_found_in_any_pieces() {
    let (mut writes, reads) = UnixStream::pair().unwrap();
    let mut frames = frames(reads);
    let said = Answer::TurnedAway;
    let two = [answer(said), answer(said)].concat();
    let mut found = 0;
    for byte in &two {
        writes.write_all(&[*byte]).unwrap();
        if let Some(body) = frames.next(soon()).unwrap() {
            assert_eq!(read_answer(&body), Ok(said));
            found += 1;
        }
    }
    assert_eq!(found, 2);
    assert!(frames.next(soon()).unwrap().is_none());
}

#[test]
fn a_connection_that_is_cut_within_a_frame_is_cut() {
    let (mut writes, reads) = UnixStream::pair().unwrap();
    let mut frames = frames(reads);
    writes.write_all(&[9, 0, 0, 0, 1, 2]).unwrap();
    assert!(frames.next(soon()).unwrap().is_none());
    drop(writes);
    assert!(matches!(frames.next(None), Err(LinkError::Cut)));
}

#[test]
fn a_length_that_no_frame_has_is_an_error_and_so_is_a_long_greeting() {
    let too_long = |frames: &mut Frames| matches!(frames.next(None), Err(LinkError::Frame(_)));
    let (mut writes, reads) = UnixStream::pair().unwrap();
    writes.write_all(&[0xff; 4]).unwrap();
    assert!(too_long(&mut frames(reads)));
    let long = (GREETING_MAX as u32 + 1).to_le_bytes();
    let (mut writes, reads) = UnixStream::pair().unwrap();
    writes.write_all(&long).unwrap();
    assert!(too_long(&mut frames(reads)));
    let (mut writes, reads) = UnixStream::pair().unwrap();
    writes.write_all(&long).unwrap();
    let mut frames = frames(reads);
    frames.admit_all();
    assert!(frames.next(soon()).unwrap().is_none());
}

#[test]
fn pieces_that_keep_coming_do_not_put_off_the_end_of_the_wait() {
    let (mut writes, reads) = UnixStream::pair().unwrap();
    let mut frames = frames(reads);
    let until = Some(Instant::now() + Duration::from_millis(50));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for byte in [100, 0, 0, 0].into_iter().chain([0; 90]) {
                std::thread::sleep(Duration::from_millis(2));
                writes.write_all(&[byte]).unwrap();
            }
        });
        assert!(frames.next(until).unwrap().is_none());
        assert!(frames.arrived.len() < 94);
    });
}
