//! Monitors whose leader is elected by a real etcd, which these tests start: Debian's package etcd-server.

#[path = "etcd/server.rs"]
mod server;
#[path = "etcd/started.rs"]
mod started;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use server::Etcd;
use started::Started;

/// An event that takes longer than this does not happen.
const DEADLINE: Duration = Duration::from_secs(60);
/// Long enough for a silent host to be suspected, if a monitor polled it.
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
        let mut pod = Self::create("");
        hosts.iter().for_each(|&host| pod.start_agent(host));
        pod.start_monitors(&format!("--etcd {endpoints}"));
        pod
    }

    /// A pod of delegated memory, whose hosts are fenced by a program.
    fn start_delegated(endpoints: &str, host: u32) -> Self {
        let mut pod = Self::create("--delegated");
        // Kills the host's agent, and ends when that is dead.
        let program = "#!/bin/sh\nread pid < \"${0%/*}/pid$1\" || exit 1\nkill -9 $pid 2>/dev/null\n\
                       while grep -qs '^State:.[^ZX]' /proc/$pid/status; do sleep 0.01; done\n";
        std::fs::write(pod.path("fence"), program).unwrap();
        let fence = format!("{}", pod.path("fence").display());
        std::fs::set_permissions(&fence, std::fs::Permissions::from_mode(0o755)).unwrap();
        pod.start_monitors(&format!("--etcd {endpoints} --fence {fence}"));
        pod.start_agent(host);
        pod
    }

    fn create(kind: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("cenote-etcd-test-")
            .tempdir_in("/dev/shm")
            .unwrap();
        let pod = Self {
            folder,
            monitors: Vec::new(),
            agents: Vec::new(),
        };
        let create = format!("create ./p --hosts 8 --size 4MiB {kind}");
        let created = pod.command(&create).output().unwrap();
        assert!(created.status.success(), "{created:?}");
        pod
    }

    fn start_agent(&mut self, host: u32) {
        let agent = self.started(host, &format!("agent ./p --host {host}"));
        until("the agent is up", || !agent.told().is_empty());
        self.agents.push(agent);
    }

    fn start_monitors(&mut self, how: &str) {
        let fence = if how.contains("--fence") {
            ""
        } else {
            "--one-machine"
        };
        for host in MONITORS {
            // A long timeout for hosts, as the machine may be busy.
            let line = format!("monitor ./p --host {host} --missed 25 --health m{host} {fence} {how}");
            let monitor = self.started(host, &line);
            self.monitors.push(monitor);
        }
        until("the monitors are up", || (0..2).all(|n| self.health(n).is_some()));
    }

    /// Starts the agent or monitor of a host, and writes down its process id.
    fn started(&self, host: u32, line: &str) -> Started {
        let started = Started::new(self.command(line));
        std::fs::write(self.path(&format!("pid{host}")), format!("{}\n", started.id())).unwrap();
        started
    }

    /// What a command prints that must succeed, soon.
    fn run(&self, line: &str) -> String {
        let command = Started::new(self.command(line));
        let code = command.ended();
        assert_eq!(
            code,
            Some(0),
            "{line}: {:?} {:?}",
            command.told(),
            command.warned()
        );
        command.told().iter().map(Value::to_string).collect()
    }

    /// Which of the monitors' hosts executes exchanges, by their last events.
    fn server(&self) -> Option<usize> {
        let told = |n: &usize| self.monitors[*n].told();
        (0..2)
            .flat_map(|n| told(&n).into_iter().map(move |event| (n, event)))
            .filter(|(_, event)| event["event"] == "lease-taken")
            .max_by_key(|(_, event)| event["at_ms"].as_u64())
            .map(|(n, _)| n)
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
        self.health(n).is_some_and(|health| health["monitor"] == "leads")
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

    /// Hosts that were in an event of this kind, of any monitor.
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
    // No etcd answers at the first endpoint.
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
    assert_eq!(pod.hosts("suspected"), NOBODY);

    pod.monitors[leader].signal(libc::SIGKILL);
    until("the other leads", || pod.leads(other));
    let dead = u64::from(MONITORS[leader]);
    assert_eq!(
        (pod.hosts("suspected"), pod.hosts("moved")),
        (vec![dead], vec![dead])
    );

    pod.agents[0].signal(libc::SIGKILL);
    until("the dead host is fenced", || pod.hosts("moved").len() == 2);
    assert_eq!(pod.hosts("suspected"), [dead, 3]);
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
    assert_eq!(pod.hosts("suspected"), NOBODY);
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
    assert_eq!(pod.hosts("suspected"), NOBODY);
    assert!(!pod.leads(0) && !pod.leads(1));

    etcd.signal(libc::SIGCONT);
    let leader = pod.leader();
    until("the dead host is fenced", || !pod.hosts("moved").is_empty());
    std::thread::sleep(QUIET);
    // Once, and no other host: agents and monitors have sent heartbeats all the time.
    assert_eq!((pod.hosts("suspected"), pod.hosts("moved")), (vec![3], vec![3]));
    let health = pod.health(leader).unwrap();
    assert_eq!(health["generation"], health["current_generation"], "{health}");
    let stood_by: usize = pod
        .monitors
        .iter()
        .map(|monitor| was_told(monitor, "stands-by"))
        .sum();
    assert!(stood_by >= 2, "{stood_by}");
}

/// A process of one host executes exchanges; when it is killed, is stopped, or leaves, a process of another host does.
#[test]
fn the_server_of_exchanges_moves() {
    let etcd = Etcd::start();
    let mut pod = Pod::start_delegated(&etcd.endpoint(), 3);
    let first = pod.server().expect("a host has the lease");
    for n in 0..20 {
        pod.run(&format!("put ./p key{n} {n} --host 3"));
    }
    pod.monitors[first].signal(libc::SIGKILL);
    pod.run("put ./p killed 1 --host 3");
    let second = 1 - first;
    assert_eq!(pod.server(), Some(second));
    until("the dead host is over", || !pod.hosts("moved").is_empty());

    // The dead server's successor takes over from a stopped one, which would go on if it could.
    let line = format!(
        "monitor ./p --host {} --missed 25 --health again --etcd {} --fence {}",
        MONITORS[first],
        etcd.endpoint(),
        pod.path("fence").display()
    );
    pod.monitors[first] = pod.started(MONITORS[first], &line);
    until("it is up again", || !pod.monitors[first].told().is_empty());
    pod.monitors[second].signal(libc::SIGSTOP);
    pod.run("put ./p stopped 1 --host 3");
    assert_eq!(pod.server(), Some(first));
    pod.monitors[second].signal(libc::SIGCONT);
    until("the stopped host is over", || {
        was_told(&pod.monitors[first], "moved") == 1
    });

    // A server that leaves in order makes its last exchange itself, and no host is fenced for it.
    let line = line.replace(
        &format!("--host {} ", MONITORS[first]),
        &format!("--host {} ", MONITORS[second]),
    );
    pod.monitors[second] = pod.started(MONITORS[second], &line.replace("again", "third"));
    until("it is up, too", || !pod.monitors[second].told().is_empty());
    assert_eq!(pod.monitors[first].ends(), Some(0));
    pod.run("put ./p left 1 --host 3");
    assert_eq!(pod.server(), Some(second));
    assert_eq!(was_told(&pod.monitors[second], "suspected"), 0);
    let stat: Value = serde_json::from_str(&pod.run("stat ./p --host 3")).unwrap();
    let hosts = stat["hosts"].as_array().expect("hosts");
    let has_lease = |host: &&Value| host["has_lease"] == true;
    let leases: Vec<&Value> = hosts.iter().filter(has_lease).map(|host| &host["host"]).collect();
    assert_eq!(leases, [&Value::from(MONITORS[second])]);

    let keys = pod.run("export ./p --host 3");
    for key in ["key0", "key19", "killed", "stopped", "left"] {
        assert!(
            keys.contains(&format!("{key}\\t")) || keys.contains(key),
            "{key}: {keys}"
        );
    }
    pod.run("fsck ./p --host 3");
    let hostless = pod.command("get ./p left").output().unwrap();
    assert_eq!(hostless.status.code(), Some(1), "{hostless:?}");
    assert!(String::from_utf8_lossy(&hostless.stderr).contains("--host"));
}

#[test]
fn a_delegated_pool_needs_a_cluster_and_a_fence() {
    let pod = Pod::create("--delegated");
    for (line, code, says) in [
        ("monitor ./p --host 1", 2, "--etcd"),
        ("monitor ./p --host 1 --etcd 127.0.0.1:1", 2, "--fence"),
        (
            "monitor ./p --host 0 --etcd 127.0.0.1:1 --fence true",
            1,
            "host id of its own",
        ),
        ("agent ./p --host 1", 1, "start a monitor first"),
    ] {
        let output = pod.command(line).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {output:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(says),
            "{line}: {output:?}"
        );
    }
    // Nothing has changed: processes without a host's id use it as before.
    pod.run("put ./p key 1");
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
