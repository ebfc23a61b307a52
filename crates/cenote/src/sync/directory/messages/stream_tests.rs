//! Frames that come in pieces, and connections that are cut.

use std::io::Write;
use std::time::Duration;

use super::*;
use crate::sync::directory::messages::message::Session;
use crate::sync::directory::node::Node;

const SOON: Option<Duration> = Some(Duration::from_millis(1));

#[test]
fn frames_are_found_in_any_pieces() {
    let (mut writes, reads) = UnixStream::pair().unwrap();
    let mut frames = Frames::new(reads);
    let session = Session::new(Node::new(1).unwrap(), 1);
    let two = [frame::welcome(session), frame::welcome(session)].concat();
    let mut found = 0;
    for byte in &two {
        writes.write_all(&[*byte]).unwrap();
        if let Some(body) = frames.next(SOON).unwrap() {
            assert_eq!(frame::read_welcome(&body), Ok(session));
            found += 1;
        }
    }
    assert_eq!(found, 2);
    assert!(frames.next(SOON).unwrap().is_none());
}

#[test]
fn a_connection_that_is_cut_within_a_frame_is_cut() {
    let (mut writes, reads) = UnixStream::pair().unwrap();
    let mut frames = Frames::new(reads);
    writes.write_all(&[9, 0, 0, 0, 1, 2]).unwrap();
    assert!(frames.next(SOON).unwrap().is_none());
    drop(writes);
    assert!(matches!(frames.next(None), Err(LinkError::Cut)));
}

#[test]
fn a_length_that_no_frame_has_is_an_error() {
    let (mut writes, reads) = UnixStream::pair().unwrap();
    writes.write_all(&[0xff; 4]).unwrap();
    assert!(matches!(Frames::new(reads).next(None), Err(LinkError::Frame(_))));
}
