//! What was written is read, and nothing else is.

use proptest::prelude::*;

use std::sync::Arc;

use super::*;
use crate::sync::directory::messages::message::Former;
use crate::sync::directory::messages::region::{Change, Region};
use crate::sync::directory::node::{Node, Nodes};
use crate::sync::directory::queue::{Handover, Permission, Queue, Request};

fn node(number: u8) -> Node {
    Node::new(number).unwrap()
}

fn queue() -> Queue {
    let request = |(number, wants)| Request {
        node: node(number),
        wants,
    };
    [(1, Permission::Shared), (39, Permission::Exclusive)]
        .map(request)
        .into_iter()
        .collect()
}

fn changes() -> Vec<Change> {
    let change = |region, bytes: &[u8]| Change {
        region,
        bytes: Arc::new(Region::of(bytes)),
    };
    vec![change(0, &[1, 2, 3]), change(2, &[]), change(1023, &[4])]
}

fn former() -> Option<Former> {
    let session = Session::new(node(0), 1);
    Some(Former { session, note: 9 })
}

fn to_directory() -> Vec<ToDirectory> {
    let session = Session::new(node(3), 9);
    let handover = Handover {
        readers: Nodes::from_bits(6).unwrap(),
        writer: Some(node(5)),
        rest: queue(),
    };
    let open = |regions| {
        NodeSays::Open(Box::new(Open {
            serial: 3,
            name: "stöck".to_owned(),
            regions,
        }))
    };
    let says = [
        NodeSays::Transfer(Box::new(Transfer {
            epoch: 4,
            version: 2,
            handover,
            changes: changes(),
            former: former(),
        })),
        NodeSays::Request {
            ticket: u64::MAX,
            wants: Permission::Exclusive,
            known: 7,
        },
        NodeSays::Arrived { epoch: 4, version: 5 },
        NodeSays::GaveUp { ticket: 1 },
        NodeSays::Note {
            epoch: 1,
            number: 2,
            note: u64::MAX,
        },
        open(None),
        open(Some(vec![4096, 0, 1])),
        NodeSays::Alive { heartbeat: 77 },
        NodeSays::Leave,
    ];
    let lock = 77;
    says.map(|says| ToDirectory { session, lock, says }).to_vec()
}

fn to_node() -> Vec<ToNode> {
    let session = Session::new(node(39), u32::MAX);
    let request = queue().requests()[0];
    let says = [
        DirectorySays::Grant(Box::new(Grant {
            ticket: 8,
            permission: Permission::Shared,
            epoch: 1,
            queue: queue(),
            changes: changes(),
            former: None,
        })),
        DirectorySays::Next {
            ticket: 3,
            epoch: 9,
            queue: Queue::default(),
        },
        DirectorySays::Forward {
            epoch: 2,
            number: 1,
            request,
        },
        DirectorySays::Transferred { epoch: 7 },
        DirectorySays::Denied { epoch: 7, version: 3 },
        DirectorySays::Yield {
            ticket: 2,
            next: node(8),
        },
        DirectorySays::Noted { epoch: 2, number: 8 },
        DirectorySays::Opened {
            serial: 4,
            regions: vec![1 << 20],
        },
        DirectorySays::Refused {
            serial: 4,
            why: Refusal::Regions,
        },
        DirectorySays::Heard { heartbeat: 5 },
        DirectorySays::Ended,
    ];
    says.map(|says| ToNode {
        session,
        lock: 1,
        says,
    })
    .to_vec()
}

/// All frames, cut anywhere or with a byte more, are refused; whole, they say what they said.
#[test]
fn whole_frames_are_read_and_others_refused() {
    fn check<T: PartialEq + std::fmt::Debug>(
        message: &T,
        frame: &[u8],
        decode: impl Fn(&[u8]) -> Result<T, FrameError>,
    ) {
        let body = &frame[HEAD..];
        assert_eq!(body_len(frame), Ok(Some(body.len())));
        assert_eq!(decode(body).as_ref(), Ok(message));
        for len in 0..body.len() {
            assert!(decode(&body[..len]).is_err(), "{message:?}, cut to {len}");
        }
        assert_eq!(decode(&[body, &[0]].concat()), Err(FrameError::Rest));
    }
    for message in to_directory() {
        check(&message, &message.encode(), ToDirectory::decode);
    }
    for message in to_node() {
        check(&message, &message.encode(), ToNode::decode);
    }
}

#[test]
fn lengths_beyond_the_longest_frame_are_refused_before_anything_is_allocated() {
    assert_eq!(body_len(&[1, 2, 3]), Ok(None));
    assert_eq!(
        body_len(&u32::MAX.to_le_bytes()),
        Err(FrameError::TooLong(u32::MAX))
    );
    // A region that says it is longer than its frame: the last one, of one byte.
    let mut frame = to_directory()[0].encode();
    let at = frame.len() - 5;
    let mut with_len = |len: u32| {
        frame[at..at + 4].copy_from_slice(&len.to_le_bytes());
        ToDirectory::decode(&frame[HEAD..]).err()
    };
    assert_eq!(with_len(1), None);
    assert_eq!(with_len(1000), Some(FrameError::Cut));
    let too_long = FrameError::Value("length of regions");
    assert_eq!(with_len(u32::MAX), Some(too_long));
    // All regions together.
    assert_eq!(with_len(1 << 20), Some(too_long));
}

#[test]
fn regions_come_once_and_in_their_order() {
    for regions in [[0, 0], [1, 0], [0, 1024]] {
        let change = |region| Change {
            region,
            bytes: Arc::new(Region::zeroed(1)),
        };
        let mut message = to_node().remove(0);
        if let DirectorySays::Grant(grant) = &mut message.says {
            grant.changes = regions.map(change).to_vec();
        }
        let read = ToNode::decode(&message.encode()[HEAD..]);
        assert_eq!(read, Err(FrameError::Value("region")), "{regions:?}");
    }
}

proptest! {
    /// Whatever is read is what its message would be written as.
    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0_u8..30) {
        let mut body = bytes;
        if let Some(first) = body.first_mut() {
            *first = kind;
        }
        if let Ok(message) = ToDirectory::decode(&body) {
            prop_assert_eq!(&message.encode()[HEAD..], &body[..]);
        }
        if let Ok(message) = ToNode::decode(&body) {
            prop_assert_eq!(&message.encode()[HEAD..], &body[..]);
        }
    }

    /// The same, for frames with some bytes changed.
    #[test]
    fn changed_frames_are_a_message_or_an_error(n in 0_usize..20, at in any::<usize>(), byte in any::<u8>()) {
        let frames: Vec<Vec<u8>> = to_directory()
            .iter()
            .map(ToDirectory::encode)
            .chain(to_node().iter().map(ToNode::encode))
            .collect();
        let mut body = frames[n][HEAD..].to_vec();
        let at = at % body.len();
        body[at] = byte;
        if let Ok(message) = ToDirectory::decode(&body) {
            prop_assert_eq!(&message.encode()[HEAD..], &body[..]);
        }
        if let Ok(message) = ToNode::decode(&body) {
            prop_assert_eq!(&message.encode()[HEAD..], &body[..]);
        }
    }
}
