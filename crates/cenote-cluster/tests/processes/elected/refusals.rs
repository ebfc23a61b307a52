//! A master whose store is wrong says what is wrong.

use std::net::{SocketAddr, TcpListener};

use cenote_cluster::Error;
use cenote_cluster::master::{self, Options, store::Place};

use super::super::cluster::{Cluster, TOKEN};
use super::server::Etcd;
use super::{Elected, PREFIX};

/// What a master says that does not begin.
fn refused(store: &str, nodes: Vec<SocketAddr>) -> String {
    let mut options = Options::new(TOKEN);
    options.nodes = nodes;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place: Place = store.parse().unwrap();
    let told = master::run(place, options, listener);
    match told {
        Err(error @ (Error::Store(_) | Error::Refused(_))) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_store_that_is_wrong_is_told_of() {
    let mut cluster = Elected::new(1);
    let nodes: Vec<SocketAddr> = cluster.nodes.iter().map(|(_, at)| *at).collect();

    let told = refused("etcd://127.0.0.1:1/x", nodes.clone());
    assert!(
        told.contains("127.0.0.1:1") && told.contains("is etcd running"),
        "{told}"
    );
    let told = refused(&format!("etcd://{}/another", cluster.etcd.endpoint()), Vec::new());
    assert!(told.contains("knows no cluster"), "{told}");
    let told = refused(
        &format!("etcd://{}/another", cluster.etcd.endpoint()),
        nodes.clone(),
    );
    assert!(told.contains("start a new one"), "{told}");
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let place: Place = cluster.store().parse().unwrap();
    let told = master::run(place, Options::new(TOKEN), listener)
        .unwrap_err()
        .to_string();
    assert!(told.contains("--advertise"), "{told}");

    // A master of a term that is far from the first.
    count_up(&cluster.etcd);
    drop(cluster.masters.remove(0));
    cluster.masters.push(cluster.master(&[]));
    // Its closing is over, so the nodes have heard of its term.
    let status = cluster.wait(|status| status.closings > 0 && Cluster::is_whole(status));
    assert!(status.term > 300, "{}", status.term);

    // All that the cluster knew is lost, or is copied to an etcd that knows nothing of its terms.
    drop(cluster.masters.remove(0));
    let other = Etcd::start();
    let place = format!("etcd://{}/{PREFIX}", other.endpoint());
    let told = refused(&place, nodes.clone());
    assert!(told.contains("start a new one"), "{told}");
    copy(&cluster.etcd, &other, |_, value| value);
    let told = refused(&place, nodes);
    assert!(told.contains("copied from another etcd"), "{told}");
    // As if it had been copied before the last masters led.
    copy(&cluster.etcd, &other, |key, value| match key.ends_with("/head") {
        true => {
            let mut head: serde_json::Value = serde_json::from_slice(&value).unwrap();
            head["stamp"]["term"] = 1.into();
            head.to_string().into_bytes()
        }
        false => value,
    });
    let told = refused(&place, Vec::new());
    assert!(told.contains("has lost what it had"), "{told}");
    copy(&cluster.etcd, &other, |key, value| {
        match key.ends_with("/nodes") {
            true => b"{".to_vec(),
            false => value,
        }
    });
    let told = refused(&place, Vec::new());
    assert!(told.contains("is the prefix right"), "{told}");
}

/// Adds to etcd's revision.
fn count_up(etcd: &Etcd) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut client = etcd_client::Client::connect([etcd.endpoint()], None)
            .await
            .unwrap();
        for _ in 0..300 {
            client.put("tests/other", "x", None).await.unwrap();
        }
    });
}

/// Copies the state to another etcd.
fn copy(from: &Etcd, to: &Etcd, change: impl Fn(&str, Vec<u8>) -> Vec<u8>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let options = etcd_client::GetOptions::new().with_prefix();
        let mut from = etcd_client::Client::connect([from.endpoint()], None)
            .await
            .unwrap();
        let mut to = etcd_client::Client::connect([to.endpoint()], None).await.unwrap();
        let found = from.get(format!("{PREFIX}/state/"), Some(options)).await.unwrap();
        for held in found.kvs() {
            let key = held.key_str().unwrap();
            to.put(key, change(key, held.value().to_vec()), None)
                .await
                .unwrap();
        }
    });
}
