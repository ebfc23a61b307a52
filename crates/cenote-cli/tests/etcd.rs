//! Monitors whose leader is elected by a real etcd, which these tests start: Debian's package etcd-server.

#[path = "etcd/server.rs"]
mod server;
#[path = "etcd/started.rs"]
mod started;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use server::Etcd;
use started::Started;

/// What takes longer than this does not happen.
const DEADLINE: Duration = Duration::from_secs(60);
/// Long enough for a host that is silent to be accused, if anybody watched.
const QUIET: Duration = Duration::from_secs(4);
const NOBODY: [u64; 0] = [];
/// The hosts of the two monitors.
const MONITORS: [u32; 2] = [1, 2];

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "not in {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A pool, hosts with agents, and two monitors.
struct Pod {
    folder: tempfile::TempDir,
    monitors: Vec<Started>,
    agents: Vec<Started>,
}

impl Pod {
    fn start(endpoints: &str, hosts: &[u32]) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("cenote-etcd-test-")
            .tempdir_in("/dev/shm")
            .unwrap();
        let mut pod = Self {
            folder,
            monitors: Vec::new(),
            agents: Vec::new(),
        };
        let created = pod.command("create ./p --hosts 8 --size 4MiB").output().unwrap();
        assert!(created.status.success(), "{created:?}");
        for &host in hosts {
            let agent = Started::new(pod.command(&format!("agent ./p --host {host}")));
            until("the agent is up", || !agent.told().is_empty());
            pod.agents.push(agent);
        }
        for host in MONITORS {
            // Patient with hosts, as the machine may be busy.
            let line = format!("monitor ./p --host {host} --missed 25 --health m{host} --etcd {endpoints}");
            pod.monitors.push(Started::new(pod.command(&line)));
        }
        until("the monitors are up", || (0..2).all(|n| pod.health(n).is_some()));
        pod
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cenote"));
        command
            .arg("--json")
            .args(line.split_whitespace())
            .env_remove("CENOTE_HOST")
            .current_dir(self.folder.path());
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a monitor says of itself.
    fn health(&self, n: usize) -> Option<Value> {
        started::ask(&self.path(&format!("m{}", MONITORS[n])))
    }

    fn leads(&self, n: usize) -> bool {
        self.health(n).is_some_and(|health| health["leads"] == true)
    }

    /// Waits until exactly one monitor leads, and says which.
    fn leader(&self) -> usize {
        let mut leader = 0;
        until("exactly one monitor leads", || {
            let leads = [self.leads(0), self.leads(1)];
            leader = usize::from(leads[1]);
            leads[0] != leads[1]
        });
        leader
    }

    /// Hosts that were in an event of this kind, whichever monitor told it.
    fn hosts(&self, event: &str) -> Vec<u64> {
        let events = self.monitors.iter().flat_map(Started::told);
        events
            .filter(|told| told["event"] == event)
            .map(|told| told["host"].as_u64().unwrap())
            .collect()
    }
}

fn was_told(monitor: &Started, event: &str) -> usize {
    monitor
        .told()
        .iter()
        .filter(|told| told["event"] == event)
        .count()
}

#[test]
fn one_leads_and_another_takes_over() {
    let etcd = Etcd::start();
    // The first endpoint is nobody's.
    let pod = Pod::start(&format!("127.0.0.1:1,{}", etcd.endpoint()), &[3, 4]);
    let leader = pod.leader();
    let other = 1 - leader;
    until("the other stands by", || {
        was_told(&pod.monitors[other], "stands-by") == 1
    });
    until("it campaigns", || {
        pod.health(other).unwrap()["etcd"]["stage"] == "campaigns"
    });
    let health = pod.health(leader).unwrap();
    assert_eq!(
        (&health["etcd"]["stage"], &health["etcd"]["may_lead"]),
        (&"elected".into(), &true.into()),
        "{health}"
    );
    let key = health["etcd"]["key"].as_str().unwrap();
    assert!(key.starts_with("cenote/monitor/") && key.len() == 31, "{key}");
    assert_eq!(pod.hosts("accused"), NOBODY);

    pod.monitors[leader].signal(libc::SIGKILL);
    until("the other leads", || pod.leads(other));
    let dead = u64::from(MONITORS[leader]);
    assert_eq!(
        (pod.hosts("accused"), pod.hosts("moved")),
        (vec![dead], vec![dead])
    );

    pod.agents[0].signal(libc::SIGKILL);
    until("the dead host is fenced", || pod.hosts("moved").len() == 2);
    assert_eq!(pod.hosts("accused"), [dead, 3]);
    assert_eq!(pod.monitors[other].ends(), Some(0));
}

#[test]
fn who_ends_gives_the_lease_back() {
    let etcd = Etcd::start();
    let pod = Pod::start(
        &format!("{} --etcd-lease 600 --etcd-key k/k", etcd.endpoint()),
        &[3],
    );
    let leader = pod.leader();
    assert_eq!(pod.health(leader).unwrap()["etcd"]["key"], "k/k");
    // Far sooner than the lease would have ended.
    assert_eq!(pod.monitors[leader].ends(), Some(0));
    until("the other leads", || pod.leads(1 - leader));
    assert_eq!(pod.hosts("accused"), NOBODY);
}

#[test]
fn nobody_leads_without_etcd() {
    let etcd = Etcd::start();
    let pod = Pod::start(&etcd.endpoint(), &[3, 4]);
    pod.leader();

    etcd.signal(libc::SIGSTOP);
    until("nobody leads", || !pod.leads(0) && !pod.leads(1));
    let warned = |monitor: &Started| {
        let all = monitor.warned();
        all.iter().any(|warning| {
            let text = warning["warning"].as_str().unwrap();
            text.contains(&etcd.endpoint()) && text.contains("may not lead")
        })
    };
    until("both say so", || pod.monitors.iter().all(warned));
    let trouble = |n: usize| pod.health(n).unwrap()["etcd"]["trouble"].clone();
    until("their health says so", || {
        trouble(0).is_string() && trouble(1).is_string()
    });
    pod.agents[0].signal(libc::SIGKILL);
    std::thread::sleep(QUIET);
    assert_eq!(pod.hosts("accused"), NOBODY);
    assert!(!pod.leads(0) && !pod.leads(1));

    etcd.signal(libc::SIGCONT);
    let leader = pod.leader();
    until("the dead host is fenced", || !pod.hosts("moved").is_empty());
    std::thread::sleep(QUIET);
    // Once, and nobody else: agents and monitors have beaten all the time.
    assert_eq!((pod.hosts("accused"), pod.hosts("moved")), (vec![3], vec![3]));
    let health = pod.health(leader).unwrap();
    assert_eq!(health["generation"], health["now"], "{health}");
    let stood_by: usize = pod
        .monitors
        .iter()
        .map(|monitor| was_told(monitor, "stands-by"))
        .sum();
    assert!(stood_by >= 2, "{stood_by}");
}

#[test]
fn misuse_is_refused() {
    let here = tempfile::tempdir().unwrap();
    let refused = |line: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_cenote"))
            .args(format!("monitor ./p --host 1 {line}").split_whitespace())
            .current_dir(Path::new(here.path()))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused("--etcd localhost").contains("HOST:PORT"));
    assert!(refused("--etcd a:1,,b:2").contains("HOST:PORT"));
    assert!(refused("--etcd https://a:1").contains("TLS"));
    assert!(refused("--etcd a:1 --etcd-lease 0").contains("--etcd-lease"));
    assert!(refused("--etcd a:1 --etcd-key=").contains("--etcd-key"));
    assert!(refused("--etcd-lease 5").contains("--etcd"));
    assert!(refused("--etcd-key k").contains("--etcd"));
}
