//! Clusters of this machine: memory nodes that are killed, added and drained; a master that is killed and started
//! again.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Here, kill};

/// A cluster, which ends with its test.
struct Cluster<'h>(&'h Here);

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        self.0.run("cluster stop here");
    }
}

fn start<'h>(here: &'h Here, more: &str) -> Cluster<'h> {
    here.ok(&format!("cluster start here --memory 64MiB {more}"));
    Cluster(here)
}

/// Waits until the cluster is as it shall be.
fn wait_for(here: &Here, is: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let begun = Instant::now();
    loop {
        let status = here.json("cluster status here");
        if is(&status) {
            return status;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_whole(status: &serde_json::Value) -> bool {
    status["under_replicated"] == 0 && status["closed"] == 0 && status["unavailable"] == 0
}

fn nodes(status: &serde_json::Value) -> Vec<u64> {
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().map(|node| node["node"].as_u64().unwrap()).collect()
}

fn found(here: &Here, key: &str) -> String {
    let pair = here.json(&format!("cluster get here {key}"));
    pair["value"].as_str().unwrap().to_owned()
}

#[test]
fn a_cluster_outlives_its_nodes() {
    let here = Here::new();
    let _cluster = start(&here, "");
    here.ok("cluster put here greeting hello");
    here.ok("cluster put here 00ff ff00 --hex");
    for key in ["b", "c", "a"] {
        here.ok(&format!("cluster put here --ordered names {key} {key}{key}"));
    }
    here.ok("cluster kill-node here 1");
    assert_eq!(found(&here, "greeting"), "hello");
    wait_for(&here, |status| is_whole(status) && nodes(status) == [2, 3]);
    here.ok("cluster del here --ordered names c");
    let some = here.ok("cluster scan here --ordered names --reverse");
    assert_eq!(some, "b\tbb\na\taa\n");
    assert_eq!(
        here.ok("cluster scan here --ordered names --from b --limit 1"),
        "b\tbb\n"
    );
    here.ok("cluster add-node here");
    here.ok("cluster drain here 2");
    wait_for(&here, |status| is_whole(status) && nodes(status) == [3, 4]);
    here.ok("cluster kill-node here 3");
    assert_eq!(found(&here, "greeting"), "hello");
    assert_eq!(here.json("cluster get here 00ff --hex")["value_hex"], "ff00");
    here.ok("cluster del here greeting");
    let none = here.run("cluster get here greeting");
    assert_eq!(none.code, Some(1), "{none:?}");
    let measured = here.json("cluster bench here --ops 20 --clients 2 --seconds 1");
    assert!(measured["per_second"].as_f64().unwrap() > 0.0);
    let ended = here.run("cluster stop here");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!here.path("here").exists());
}

#[cfg(feature = "ofi")]
#[test]
fn a_cluster_over_libfabric_outlives_its_nodes() {
    let here = Here::new();
    let _cluster = start(&here, "--network ofi");
    here.ok("cluster put here greeting hello");
    here.ok("cluster kill-node here 1");
    assert_eq!(found(&here, "greeting"), "hello");
    here.ok("cluster add-node here");
    wait_for(&here, |status| is_whole(status) && nodes(status) == [2, 3, 4]);
    here.ok("cluster kill-node here 2");
    assert_eq!(found(&here, "greeting"), "hello");
    let measured = here.json("cluster bench here --ops 20 --clients 2 --seconds 1");
    assert!(measured["per_second"].as_f64().unwrap() > 0.0);
    here.ok("cluster stop here");
}

#[cfg(feature = "ofi")]
#[test]
fn memory_in_a_file_is_not_reached_by_libfabric() {
    let here = Here::new();
    std::fs::write(here.path("token"), "a token").unwrap();
    let refused = here
        .run("memnode --listen 127.0.0.1:0 --memory 64MiB --token-file token --pool memory --network ofi");
    assert!(
        refused.code == Some(2) && refused.stderr.contains("do not go together"),
        "{refused:?}"
    );
    assert!(!here.path("memory").exists());
}

#[test]
fn clients_map_memory_of_nodes() {
    let here = Here::new();
    let refused = here.run("cluster start here --mapped --network ofi");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let cluster = start(&here, "--mapped");
    here.ok("cluster put here greeting hello");
    assert_eq!(found(&here, "greeting"), "hello");
    let files = || {
        let names = std::fs::read_dir(here.path("here")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.starts_with("cenote-memnode-") && !name.contains(".client-"))
            .count()
    };
    assert_eq!(files(), 3);
    here.ok("cluster kill-node here 1");
    wait_for(&here, |status| is_whole(status) && nodes(status) == [2, 3]);
    assert_eq!(found(&here, "greeting"), "hello");
    here.ok("cluster add-node here");
    assert_eq!(files(), 4);
    // Over TCP.
    let master = master(&here);
    let pair = here.json(&format!("cluster get {master} greeting --token-file here/token"));
    assert_eq!(pair["value"], "hello");
    drop(cluster);
    assert!(!here.path("here").exists());
}

#[cfg(feature = "tls")]
#[test]
fn an_encrypted_cluster_refuses_who_has_no_certificate() {
    use std::os::unix::fs::PermissionsExt;

    let here = Here::new();
    let _cluster = start(&here, "--tls");
    here.ok("cluster put here greeting hello");
    here.ok("cluster kill-node here 1");
    assert_eq!(found(&here, "greeting"), "hello");
    here.ok("cluster add-node here");
    wait_for(&here, |status| is_whole(status) && nodes(status) == [2, 3, 4]);
    let key = std::fs::metadata(here.path("here/member.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let get = format!("cluster get {} greeting --token-file here/token", master(&here));
    let refused = here.run(&get);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let with = "--tls-cert here/member.pem --tls-key here/member.key --tls-ca here/ca.pem";
    assert_eq!(here.json(&format!("{get} {with}"))["value"], "hello");
    // Of another cluster, by another authority.
    let there = Here::new();
    let _another = start(&there, "--tls");
    let of_another = ["cert member.pem", "key member.key", "ca ca.pem"].map(|file| {
        let (name, file) = file.split_once(' ').unwrap();
        format!("--tls-{name} {}", there.path("here").join(file).display())
    });
    let refused = here.run(&format!("{get} {}", of_another.join(" ")));
    assert_eq!(refused.code, Some(1), "{refused:?}");
}

#[test]
fn encryption_that_cannot_be_had_is_refused() {
    let here = Here::new();
    // For the feature that is missing, or because libfabric sends keys and values as they are.
    let refused = match cfg!(feature = "tls") {
        true if cfg!(feature = "ofi") => here.run("cluster start here --tls --network ofi"),
        true => return,
        false => here.run("cluster start here --tls"),
    };
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(!here.path("here").exists());
}

#[cfg(not(feature = "ofi"))]
#[test]
fn libfabric_needs_its_feature() {
    let here = Here::new();
    let refused = here.run("cluster start here --network ofi");
    assert!(
        refused.code == Some(2) && refused.stderr.contains("--features ofi"),
        "{refused:?}"
    );
    assert!(!here.path("here").exists());
}

#[test]
fn redis_is_asked_for_where_it_is_missing() {
    let here = Here::new();
    let _cluster = start(&here, "--nodes 1 --replicas 1");
    let line = "cluster bench here --ops 1 --clients 1 --seconds 1 --redis";
    let output = here
        .command(line.split_whitespace())
        .env("PATH", "")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && said.contains("apt-get install redis-server"),
        "{said}"
    );
}

#[test]
fn a_master_is_started_again_on_its_store() {
    let here = Here::new();
    let _cluster = start(&here, "--nodes 2");
    here.ok("cluster put here key value");
    let text = std::fs::read(here.path("here/cluster.json")).unwrap();
    let said: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let master = &said["master"];
    kill(master["pid"].as_u64().unwrap(), Signal::KILL.as_raw());
    let line = format!(
        "cluster master --listen {} --store here/store --token-file here/token",
        master["address"].as_str().unwrap()
    );
    let start_again = || {
        here.command(line.split_whitespace())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut again = start_again();
    let begun = Instant::now();
    while here.run("cluster status here").code != Some(0) {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
        if again.try_wait().unwrap().is_some() {
            // Another test's connection has its port for a moment.
            again = start_again();
        }
    }
    assert_eq!(found(&here, "key"), "value");
    // The store has one leader.
    let second = "cluster master --listen 127.0.0.1:0 --store here/store --token-file here/token";
    let refused = here.run(second);
    assert!(
        refused.code == Some(1) && refused.stderr.contains("another master leads"),
        "{refused:?}"
    );
    here.ok("cluster stop here");
    again.wait().unwrap();
}

#[test]
fn misuse_of_clusters_is_told() {
    let here = Here::new();
    std::fs::write(here.path("cli-token"), "secret\n").unwrap();
    for (code, line) in [
        (2, "cluster start here --nodes 1 --replicas 2"),
        (2, "cluster start here --nodes 0"),
        (2, "cluster start"),
        (2, "cluster get cluster://nowhere key"),
        (2, "cluster get cluster://127.0.0.1:1 key"),
        (1, "cluster status here"),
        (1, "cluster stop here"),
        (2, "memnode --listen nowhere --memory 1GiB --token-file token"),
        (2, "memnode --listen 127.0.0.1:0 --memory much --token-file token"),
        (1, "memnode --listen 127.0.0.1:0 --memory 1GiB --token-file token"),
        (
            1,
            "memnode --listen 127.0.0.1:0 --memory 1MiB --token-file cli-token --mapped nowhere",
        ),
        (1, "cluster start here --memory 1MiB"),
        (
            2,
            "cluster master --listen 127.0.0.1:0 --store etcd://nowhere --token-file token",
        ),
        (
            2,
            "cluster master --listen 127.0.0.1:0 --store etcd://127.0.0.1:1/x --etcd-lease 1s --token-file token",
        ),
    ] {
        let ran = here.run(line);
        assert_eq!(ran.code, Some(code), "{line}: {ran:?}");
        assert!(!here.path("here").exists(), "{line}");
    }
    let _cluster = start(&here, "--nodes 1 --replicas 1");
    for line in [
        "cluster start here",
        "cluster drain here 7",
        "cluster kill-node here 7",
        "cluster add-node here 127.0.0.1:1",
        "cluster put here key value --token-file here/cluster.json",
    ] {
        let ran = here.run(line);
        assert_eq!(ran.code, Some(1), "{line}: {ran:?}");
    }
    let long = "x".repeat(100_000);
    assert_eq!(here.run(&format!("cluster put here key {long}")).code, Some(0));
}

/// Where the master of the cluster `here` is.
fn master(here: &Here) -> String {
    let text = std::fs::read(here.path("here/cluster.json")).unwrap();
    let said: serde_json::Value = serde_json::from_slice(&text).unwrap();
    format!("cluster://{}", said["master"]["address"].as_str().unwrap())
}

#[test]
fn a_cluster_stands_in_the_place_of_a_pool() {
    let here = Here::new();
    let _cluster = start(&here, "");
    let (at, token) = (master(&here), "--token-file here/token");
    here.ok(&format!("put {at} apple red {token}"));
    let pair = here.json(&format!("get {at} apple {token}"));
    assert_eq!(pair["value"], "red");
    std::fs::write(
        here.path("words.tsv"),
        "apple\tgreen\npear\tyellow\napple\tbrown\n",
    )
    .unwrap();
    let loaded = here.json(&format!("load {at} words.tsv {token}"));
    assert_eq!(loaded["records"], 3);
    assert_eq!(here.json(&format!("get {at} apple {token}"))["value"], "brown");
    here.ok(&format!("del {at} apple pear {token}"));
    here.ok(&format!("put {at} apple red --if-absent {token}"));
    let replaced = here.json(&format!("put {at} apple blue --expect red {token}"));
    assert_eq!(replaced["result"], "replaced");
    let differs = here.run(&format!("put {at} apple green --expect red {token}"));
    assert!(
        differs.code == Some(1) && differs.stderr.contains("blue"),
        "{differs:?}"
    );
    let line = format!("bench {at} --records 200 --threads 2 --batch 8 --workload f {token}");
    here.ok(&line);
    let scanned = here.ok(&format!(
        "bench {at} --records 200 --workload e --map ordered {token} --json"
    ));
    // The load comes first.
    let scanned: serde_json::Value = serde_json::from_str(scanned.lines().last().unwrap()).unwrap();
    assert_eq!(scanned["workload"], "e", "{scanned}");
    assert_eq!(scanned["misses"], 0, "{scanned}");
    for (code, line) in [
        (1, format!("put {at} apple blue --if-absent {token}")),
        (1, format!("del {at} pear {token}")),
        (1, format!("get {at} pear {token}")),
        (1, format!("get {at} pear --token-file words.tsv")),
        (2, format!("get {at} pear")),
        (2, format!("get {at} pear --map other {token}")),
        (1, format!("put {at} pear blue --expect red {token}")),
        (2, format!("put {at} pear blue --ordered {token}")),
        (2, format!("load {at} words.tsv --processes 2 {token}")),
        (2, format!("bench {at} --workload e {token}")),
        (2, format!("bench {at} --processes 2 {token}")),
        (2, format!("stat {at}")),
        (2, format!("export {at}")),
        (2, format!("get cluster://nowhere pear {token}")),
        (2, "torture --cluster --nodes 2 --replicas 3".to_owned()),
        (2, "torture --nodes 2".to_owned()),
    ] {
        let ran = here.run(&line);
        assert_eq!(ran.code, Some(code), "{line}: {ran:?}");
    }
}

#[test]
fn a_cluster_is_tortured() {
    let here = Here::new();
    let report = here.json("torture --cluster --workers 2 --seconds 4 --seed 3");
    assert_eq!(report["linearizable"], true, "{report}");
    assert!(report["answered"].as_u64().unwrap() > 12, "{report}");
}

#[test]
fn a_memory_node_ends_in_order() {
    let here = Here::new();
    std::fs::write(here.path("token"), "secret\n").unwrap();
    let line = "memnode --listen 127.0.0.1:0 --memory 1MiB --token-file token --pool memory";
    let mut node = here
        .command(line.split_whitespace())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let output = node.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut said).unwrap();
    assert!(said.contains("listening"), "{said}");
    let second = here.run(line);
    assert!(
        second.code == Some(1) && second.stderr.contains("another memory node"),
        "{second:?}"
    );
    kill(node.id().into(), Signal::TERM.as_raw());
    assert_eq!(node.wait().unwrap().code(), Some(128 + Signal::TERM.as_raw()));
    let larger = here.run(&line.replace("1MiB", "2MiB"));
    assert!(
        larger.code == Some(1) && larger.stderr.contains("1048576"),
        "{larger:?}"
    );
}
