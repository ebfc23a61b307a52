//! `cenote torture --cluster`: kills and stops clients and memory nodes of a cluster that it starts, and checks that
//! what the clients saw is linearizable: nothing that was acknowledged is lost, or comes back.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cenote_cluster::control::{Request, Status};
use cenote_sim::check::linear::{Options, check_parts};
use cenote_sim::check::spec::map::{Map, Op, Ret};
use cenote_sim::history::{Event, History};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use super::client::{Heard, KEYS, listen, now};
use crate::commands::cluster::place::{ClusterArg, Folder, Process, token_file};
use crate::commands::cluster::start;
use crate::complaint::complain;
use crate::failure::Failure;
use crate::output::{Output, count};
use crate::role::Role;

/// How long the cluster may take to be whole again.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What is tortured.
pub struct Settings {
    /// Decides operations and kills, as far as that can be decided.
    pub seed: u64,
    /// Client processes.
    pub clients: u32,
    /// Memory nodes.
    pub nodes: u8,
    /// Copies of everything.
    pub replicas: u8,
    /// For how long.
    pub time: Duration,
    /// How many processes are struck in a second, at most.
    pub per_second: f64,
    /// Where the cluster's folder is made.
    pub folder: PathBuf,
}

#[derive(Serialize)]
struct Report {
    seed: u64,
    clients: u32,
    nodes: u8,
    replicas: u8,
    seconds: f64,
    kills_of_clients: u64,
    kills_of_nodes: u64,
    stops: u64,
    calls: usize,
    answered: usize,
    linearizable: bool,
    problems: Vec<String>,
}

impl Report {
    fn is_clean(&self) -> bool {
        self.linearizable && self.problems.is_empty()
    }
}

/// A client, and what hears it.
struct Client {
    child: Child,
    hearing: JoinHandle<Heard>,
}

/// The processes of the cluster, which end with this.
struct Cluster(PathBuf);

impl Drop for Cluster {
    fn drop(&mut self) {
        end(&self.0);
    }
}

/// Ends a cluster's processes and removes its folder, if it is there.
fn end(folder: &Path) {
    if let Ok(said) = Folder::read(folder) {
        let all = std::iter::once(&said.master).chain(&said.nodes);
        all.for_each(|process| process.signal(libc::SIGKILL));
    }
    let _ = std::fs::remove_dir_all(folder);
}

struct Trial {
    folder: PathBuf,
    cluster: ClusterArg,
    clients: Vec<Client>,
    random: SmallRng,
    heard: Heard,
    kills_of_clients: u64,
    kills_of_nodes: u64,
    stops: u64,
}

/// Runs it.
pub fn run(settings: &Settings, out: &Output) -> Result<ExitCode, Failure> {
    let folder = settings.folder.join("cluster");
    if !out.json {
        out.line(format!(
            "seed {}: {} clients of {} memory nodes with {} copies, {} seconds",
            settings.seed,
            settings.clients,
            settings.nodes,
            settings.replicas,
            settings.time.as_secs()
        ))?;
    }
    let doomed = settings.folder.clone();
    crate::interrupt::on_interrupt(move || {
        end(&doomed.join("cluster"));
        let _ = std::fs::remove_dir_all(doomed);
        complain!("cenote: interrupted; the cluster is ended");
    });
    start::begin_in(&folder, settings.nodes, settings.replicas)?;
    let _cluster = Cluster(folder.clone());
    let mut trial = Trial {
        cluster: ClusterArg::of_folder(&folder),
        folder,
        clients: Vec::new(),
        random: SmallRng::seed_from_u64(settings.seed),
        heard: Heard::default(),
        kills_of_clients: 0,
        kills_of_nodes: 0,
        stops: 0,
    };
    for _ in 0..settings.clients {
        let client = trial.client()?;
        trial.clients.push(client);
    }
    let begun = Instant::now();
    let pause = Duration::from_secs_f64(1.0 / settings.per_second);
    while begun.elapsed() < settings.time {
        std::thread::sleep(pause.min(settings.time.saturating_sub(begun.elapsed())));
        trial.strike()?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let report = trial.finish(settings, seconds)?;
    out.result(&report, text)?;
    Ok(match report.is_clean() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

impl Trial {
    fn client(&mut self) -> Result<Client, Failure> {
        let master = Folder::read(&self.folder)?.master.address;
        let seed: u64 = self.random.random();
        let args = [
            master.to_string(),
            token_file(&self.folder).display().to_string(),
            seed.to_string(),
        ];
        let mut child = Role::Client
            .command(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Failure::io("starting a client"))?;
        let output = child
            .stdout
            .take()
            .ok_or_else(|| Failure::failed("a client has no standard output"))?;
        Ok(Client {
            child,
            hearing: std::thread::spawn(move || listen(BufReader::new(output))),
        })
    }

    fn end_client(&mut self, mut client: Client) {
        let _ = client.child.kill();
        let _ = client.child.wait();
        let heard = client.hearing.join().unwrap_or_default();
        self.heard.events.extend(heard.events);
        self.heard.problems.extend(heard.problems);
    }

    /// Waits until the cluster is as it should be.
    fn wait(&self, what: &str, is_so: impl Fn(&Status) -> bool) -> Result<Status, Failure> {
        let begun = Instant::now();
        loop {
            let status = self.cluster.status()?;
            if is_so(&status) {
                return Ok(status);
            }
            if begun.elapsed() > TIMEOUT {
                return Err(Failure::failed(format!(
                    "the cluster is not {what} after {TIMEOUT:?}: cenote cluster status showed {status:?}"
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The processes of nodes that the master has not given up.
    fn nodes(&self) -> Result<Vec<Process>, Failure> {
        let status = self.cluster.status()?;
        let is_alive = |process: &Process| {
            let mut nodes = status.nodes.iter();
            nodes.any(|node| node.alive && node.address == process.address)
        };
        let mut nodes = Folder::read(&self.folder)?.nodes;
        nodes.retain(is_alive);
        Ok(nodes)
    }

    /// Something befalls a process.
    fn strike(&mut self) -> Result<(), Failure> {
        let what = self.random.random_range(0..6);
        if what < 3 {
            let place = self.random.random_range(0..self.clients.len());
            if what == 2 {
                self.stops += 1;
                let pid = self.clients[place].child.id() as i32;
                let time = self.random.random_range(20..4500);
                stop(
                    |signal| {
                        // SAFETY: a child of ours that was not waited for.
                        unsafe { libc::kill(pid, signal) };
                    },
                    time,
                );
                return Ok(());
            }
            self.kills_of_clients += 1;
            let new = self.client()?;
            let old = std::mem::replace(&mut self.clients[place], new);
            self.end_client(old);
            return Ok(());
        }
        let nodes = self.nodes()?;
        let Some(node) = nodes.get(self.random.random_range(0..nodes.len().max(1))) else {
            return Err(Failure::failed("no memory node is alive"));
        };
        if what == 3 {
            self.stops += 1;
            let time = self.random.random_range(20..2000);
            stop(|signal| node.signal(signal), time);
        } else {
            self.kills_of_nodes += 1;
            node.signal(libc::SIGKILL);
            let address = node.address;
            let is_alive = |status: &Status| {
                let mut nodes = status.nodes.iter();
                nodes.any(|node| node.address == address && node.alive)
            };
            self.wait("without the node that was killed", |status| !is_alive(status))?;
        }
        self.repair(nodes.len())
    }

    /// There are as many nodes again.
    fn repair(&mut self, wanted: usize) -> Result<(), Failure> {
        self.wait("open", |status| status.closed == 0)?;
        let alive = self.nodes()?;
        if alive.len() < wanted {
            // One that was stopped for too long comes back and is refused.
            for node in Folder::read(&self.folder)?.nodes {
                if !alive.iter().any(|other| other.address == node.address) {
                    node.signal(libc::SIGKILL);
                }
            }
            let (address, begun) = start::another(&self.folder)?;
            self.cluster.ask(&Request::AddNode { address })?;
            begun.go_on();
        }
        self.wait("whole", |status| {
            status.closed == 0 && status.under_replicated == 0
        })?;
        Ok(())
    }

    /// Ends the clients, and judges what they saw.
    fn finish(mut self, settings: &Settings, seconds: f64) -> Result<Report, Failure> {
        for client in std::mem::take(&mut self.clients) {
            self.end_client(client);
        }
        // What the dead had begun is decided.
        self.wait("without clients", |status| status.sessions.is_empty())?;
        let map = self.cluster.open()?;
        let process = map.session();
        for key in 0..KEYS {
            let invoke = now();
            let found = map.get(&key.to_le_bytes())?;
            let value = |bytes: &Vec<u8>| bytes.first_chunk().map_or(0, |n| u64::from_le_bytes(*n));
            let result: Ret = found
                .as_ref()
                .map_or(Ret::Missing, |bytes| Ret::Found(value(bytes)));
            let op = Op::Get { key };
            self.heard.events.push(Event {
                process,
                op,
                result: Some(result),
                invoke,
                returned: Some(now()),
                lost: None,
            });
        }
        map.close();
        let calls = self.heard.events.len();
        let answered = self.heard.events.iter().filter(|event| event.returned.is_some());
        let answered = answered.count();
        let mut problems = self.heard.problems;
        let linearizable = match History::new(self.heard.events) {
            Ok(history) => {
                let verdict = check_parts(&Map, &history, &Options::default());
                if !verdict.is_linearizable() {
                    problems.push(format!("what the clients saw is not linearizable: {verdict:?}"));
                }
                verdict.is_linearizable()
            }
            Err(error) => {
                problems.push(format!("what the clients saw is no history: {error:?}"));
                false
            }
        };
        Ok(Report {
            seed: settings.seed,
            clients: settings.clients,
            nodes: settings.nodes,
            replicas: settings.replicas,
            seconds,
            kills_of_clients: self.kills_of_clients,
            kills_of_nodes: self.kills_of_nodes,
            stops: self.stops,
            calls,
            answered,
            linearizable,
            problems,
        })
    }
}

/// Stops a process for so many milliseconds.
fn stop(signal: impl Fn(i32), milliseconds: u64) {
    signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(milliseconds));
    signal(libc::SIGCONT);
}

fn text(report: &Report) -> String {
    let mut lines = vec![
        format!(
            "{} clients and {} memory nodes killed, {} stops in {:.0} s",
            report.kills_of_clients, report.kills_of_nodes, report.stops, report.seconds
        ),
        format!(
            "{} calls, {} of them answered: {}",
            count(report.calls as u64),
            count(report.answered as u64),
            match report.linearizable {
                true => "linearizable",
                false => "NOT linearizable",
            }
        ),
    ];
    lines.extend(report.problems.iter().take(10).cloned());
    if !report.is_clean() {
        lines.push(format!(
            "FAILED; again: cenote torture --cluster --workers {} --nodes {} --replicas {} --seconds {:.0} --seed {}",
            report.clients,
            report.nodes,
            report.replicas,
            report.seconds.ceil(),
            report.seed
        ));
    }
    lines.join("\n")
}
