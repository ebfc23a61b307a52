//! What was written is read, and nothing else is.

use proptest::prelude::*;

use super::*;
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

fn to_directory() -> Vec<ToDirectory> {
    let session = Session::new(node(3), 9);
    let handover = Handover {
        readers: Nodes::from_bits(6).unwrap(),
        writer: Some(node(5)),
        rest: queue(),
    };
    let says = [
        NodeSays::Request {
            ticket: u64::MAX,
            wants: Permission::Exclusive,
        },
        NodeSays::Arrived { epoch: 4, version: 5 },
        NodeSays::Transfer(Box::new(Transfer {
            epoch: 4,
            version: 2,
            handover,
            data: Arc::new(vec![1, 2, 3]),
            former: Some(Session::new(node(0), 1)),
        })),
        NodeSays::GaveUp { ticket: 1 },
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
            data: Arc::new(Vec::new()),
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
        DirectorySays::NoSuchLock { ticket: 1 },
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
    let session = Session::new(node(7), 7);
    assert_eq!(read_welcome(&welcome(session)[HEAD..]), Ok(session));
}

#[test]
fn lengths_beyond_the_longest_frame_are_refused_before_anything_is_allocated() {
    assert_eq!(body_len(&[1, 2, 3]), Ok(None));
    assert_eq!(
        body_len(&u32::MAX.to_le_bytes()),
        Err(FrameError::TooLong(u32::MAX))
    );
    // Data that says it is longer than its frame.
    let mut frame = to_directory()[2].encode();
    let at = frame.len() - 7;
    frame[at..at + 4].copy_from_slice(&1000_u32.to_le_bytes());
    assert_eq!(ToDirectory::decode(&frame[HEAD..]), Err(FrameError::Cut));
    frame[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        ToDirectory::decode(&frame[HEAD..]),
        Err(FrameError::Value("length of data"))
    );
}

proptest! {
    /// Whatever is read is what its message would be written as.
    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0_u8..34) {
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
        let _ = read_welcome(&body);
    }

    /// The same, for frames with some bytes changed.
    #[test]
    fn changed_frames_are_a_message_or_an_error(n in 0_usize..11, at in any::<usize>(), byte in any::<u8>()) {
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
