//! Eras of a master that begins.

use std::time::Duration;

use cenote_cluster::control::{Request, Response};

use super::cluster::Cluster;

/// What others have taken out of the index in an era of the master before is free in the eras of the new one. So a
/// client may know these only when nothing goes on of what it has begun before.
#[test]
fn who_knows_eras_of_a_new_master_knows_its_first_closing() {
    // As long as nobody has given up the node that is dead, no closing begins.
    let mut cluster = Cluster::with_lease(3, Duration::from_secs(2));
    let ask = Request::Join {
        name: "one that has nothing to do".to_owned(),
    };
    let Response::Joined {
        session, view, eras, ..
    } = cluster.ask(&ask)
    else {
        panic!("it has not joined");
    };
    cluster.kill_node(0);
    cluster.restart_master();
    let mut before = 0;
    loop {
        let heartbeat = Request::Heartbeat {
            session: session.number,
            oldest: eras.now,
            view: view.number,
            suspect_regions: Vec::new(),
        };
        let Response::Heartbeat {
            view: later,
            eras: told,
        } = cluster.ask(&heartbeat)
        else {
            panic!("its session has ended");
        };
        let is_later = later.is_some_and(|later| later.number > view.number);
        assert!(
            is_later || told.now <= eras.now,
            "{told:?} after {eras:?}, under the view of before"
        );
        if told.now > eras.now {
            break;
        }
        before += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(before > 0, "it has closed at once");
}
