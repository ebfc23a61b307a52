//! A master that etcd does not take for the leader any more changes nothing, though it does not know that yet.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use cenote_cluster::master::state::{Offer, Shape, State};
use cenote_cluster::master::store::Unkept;
use cenote_cluster::master::store::etcd::Store;
use cenote_cluster::master::store::etcd::election::{Election, Leader, Outcome};

use super::server::Etcd;
use super::{PREFIX, until};

fn election(etcd: &Etcd, port: u16) -> Election {
    let own = Leader {
        address: ([127, 0, 0, 1], port).into(),
        name: "a test".to_owned(),
    };
    Election::new(
        vec![etcd.endpoint()],
        PREFIX.to_owned(),
        own,
        Duration::from_secs(30),
    )
}

async fn elected(election: &Election) -> Rc<Store> {
    for _ in 0..100 {
        if let Ok(Outcome::Elected(store)) = election.attempt().await {
            return store;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nobody is elected");
}

fn run(test: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test());
}

fn cluster() -> State {
    let offer = Offer {
        address: ([127, 0, 0, 1], 1).into(),
        memory: 1 << 30,
        incarnation: 1,
        outlives: false,
        mapped: false,
    };
    let shape = Shape {
        replicas: 1,
        ..Shape::default()
    };
    State::new(shape, &[offer]).unwrap()
}

#[test]
fn who_leads_no_more_keeps_nothing() {
    let etcd = Etcd::start();
    run(async || {
        let one = elected(&election(&etcd, 1)).await;
        assert!(one.load().await.unwrap().is_none());
        let state = RefCell::new(cluster());
        one.save(&state).await.unwrap();
        let Ok(Outcome::Another(Some(at))) = election(&etcd, 2).attempt().await else {
            panic!("two are elected");
        };
        assert_eq!(at.port(), 1);

        // Somebody ends its lease: by its own clock it leads for half a minute yet.
        let mut client = etcd_client::Client::connect([etcd.endpoint()], None)
            .await
            .unwrap();
        let leader = client.get(format!("{PREFIX}/leader"), None).await.unwrap();
        client.lease_revoke(leader.kvs()[0].lease()).await.unwrap();
        assert!(one.term().lasts());
        state.borrow_mut().key = 100;
        assert!(
            matches!(one.save(&state).await, Err(Unkept::Deposed(_))),
            "nobody leads"
        );

        let two = elected(&election(&etcd, 2)).await;
        assert!(two.term().number() > one.term().number());
        let found = two.load().await.unwrap().unwrap();
        assert_eq!(found, cluster());
        assert!(
            matches!(one.save(&state).await, Err(Unkept::Deposed(_))),
            "another leads"
        );
        let found = RefCell::new(found);
        found.borrow_mut().key = 50;
        two.save(&found).await.unwrap();
        assert!(
            matches!(one.save(&state).await, Err(Unkept::Deposed(_))),
            "another leads"
        );
        two.resign().await;
        let three = elected(&election(&etcd, 3)).await;
        assert_eq!(three.load().await.unwrap().unwrap().key, 50);
        // It notices itself.
        one.renew().await;
        assert!(!one.term().lasts());
    });
}

#[test]
fn a_state_that_somebody_else_has_changed_is_not_written_over() {
    let etcd = Etcd::start();
    run(async || {
        let store = elected(&election(&etcd, 1)).await;
        let state = RefCell::new(cluster());
        assert!(store.load().await.unwrap().is_none());
        store.save(&state).await.unwrap();
        let mut client = etcd_client::Client::connect([etcd.endpoint()], None)
            .await
            .unwrap();
        let head = format!("{PREFIX}/state/head");
        let text = client.get(head.clone(), None).await.unwrap().kvs()[0]
            .value()
            .to_vec();
        client.put(head, text, None).await.unwrap();
        state.borrow_mut().key += 1;
        match store.save(&state).await {
            Err(Unkept::Failed(error)) => assert!(error.to_string().contains("does not lead"), "{error}"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn saves_wait_for_an_etcd_that_comes_back() {
    let etcd = Etcd::start();
    run(async || {
        let store = elected(&election(&etcd, 1)).await;
        assert!(store.load().await.unwrap().is_none());
        let state = RefCell::new(cluster());
        store.save(&state).await.unwrap();
        etcd.signal(libc::SIGSTOP);
        let mut saves = Vec::new();
        for n in 0..3 {
            state.borrow_mut().key = 10 + n;
            saves.push(store.save(&state));
        }
        let wakes = async {
            // So that requests are sent, and maybe sent again.
            tokio::time::sleep(Duration::from_millis(500)).await;
            etcd.signal(libc::SIGCONT);
        };
        let all = async {
            for save in saves {
                save.await.unwrap();
            }
        };
        tokio::join!(all, wakes);
        store.resign().await;
        let next = elected(&election(&etcd, 2)).await;
        assert_eq!(next.load().await.unwrap().unwrap().key, 12);
    });
    until("etcd is there", || {
        std::net::TcpStream::connect(etcd.endpoint()).is_ok()
    });
}
