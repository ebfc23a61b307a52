//! Hosts with real processes: agents, workers and monitors that are killed, stopped and continued, and killed at each
//! of their crash points.
//!
//! Run with `cargo test -p cenote --features crash-points --test hosts`; it starts itself as the processes of the
//! hosts, each host in PID and network namespaces of its own where that is permitted. Words on the command line choose
//! cases by name. The tests assert what must never happen, and wait for what must happen for as long as a loaded
//! machine may take.

// Has the library compiled for both memories (`cenote_damage::ALL_CALLS`).
extern crate cenote_damage as _;

mod groups;
mod part;
mod roles;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cenote::memory::Mapped;
use cenote::pod::format::host_entry::{self, HostPhase, HostRecord};
use cenote::pod::format::record::ProcessRecord;
use cenote::pod::format::superblock::HEAP_LOCK;
use cenote::pod::instance::process::Identity;
use cenote::pod::lock;
use cenote::store::HostStat;
use cenote::{Coherent, Error, HostAgent, Noncoherent, Options, Pool};

use part::Part;
use roles::{journal, leave, play};

/// The host of this test's own process.
const HOME: u32 = 9;
/// The group whose members get events of hosts, and its token.
const GROUP: &str = "group";
const TOKEN: &[u8] = b"token";
/// An event that does not come within this time never comes.
const LONG: Duration = Duration::from_secs(120);
/// Points at which a monitor is killed.
const MONITOR_POINTS: [&str; 4] = [
    "monitor.leads",
    "monitor.suspected",
    "monitor.fenced",
    "monitor.moved",
];

type Outcome<T = ()> = Result<T, String>;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn ensure(condition: bool, what: impl FnOnce() -> String) -> Outcome {
    if condition { Ok(()) } else { Err(what()) }
}

fn options(host: u32) -> Options {
    Options {
        size: 4 << 20,
        max: 1 << 30,
        processes: 24,
        workers: 48,
        hosts: 16,
        host,
        ..Options::default()
    }
}

fn main() -> ExitCode {
    let role = std::env::var("CENOTE_HOSTS_ROLE").unwrap_or_default();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match role.is_empty() {
        true => all(&arguments),
        false => play(&role, &arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

// ------------------------------------------------------------------------------------------------ a pod

/// A pool, this process's host with its agent, and the pool as a process of that host has it open.
struct Home<M: Mapped> {
    path: PathBuf,
    pool: Option<Pool<M>>,
    agent: Option<HostAgent<M>>,
    _folder: tempfile::TempDir,
}

impl<M: Mapped> Home<M> {
    fn new() -> Outcome<Self> {
        let folder = tempfile::tempdir_in("/dev/shm").map_err(text)?;
        let path = folder.path().join("pool");
        drop(Pool::<M>::create(&path, &options(0)).map_err(text)?);
        let agent = HostAgent::start(&path, &options(HOME)).map_err(text)?;
        let pool = Pool::open(&path, &options(HOME)).map_err(text)?;
        Ok(Self {
            path,
            pool: Some(pool),
            agent: Some(agent),
            _folder: folder,
        })
    }

    fn pool(&self) -> &Pool<M> {
        self.pool.as_ref().expect("open until the end")
    }

    fn start(&self, role: &str, host: u32, set: &[(&str, &str)]) -> Outcome<Part> {
        Part::start::<M>(role, &self.path, host, set)
    }

    fn host(&self, host: u32) -> Outcome<Part> {
        let mut part = Part::start_apart::<M>("host", &self.path, host)?;
        part.hear("ready")?;
        Ok(part)
    }

    fn stat(&self, host: u32) -> Outcome<HostStat> {
        let stat = self.pool().stat().map_err(text)?;
        let found = stat.hosts.into_iter().find(|stat| stat.host == host);
        found.ok_or(format!("nothing is known of host {host}"))
    }

    fn number(&self, host: u32) -> Outcome<u64> {
        let map = self.pool().map("m").map_err(text)?;
        Ok(map.get_u64(u64::from(host)).map_err(text)?.unwrap_or(0))
    }

    /// Waits until a host is down in a generation, and none of its processes is left.
    fn is_recovered(&self, host: u32, generation: u32) -> Outcome {
        let begun = Instant::now();
        loop {
            let stat = self.stat(host)?;
            let processes = self.pool().stat().map_err(text)?.processes;
            let left = processes
                .iter()
                .filter(|process| process.host == u64::from(host))
                .count();
            if (stat.phase, stat.generation, left) == (HostPhase::Down, generation, 0) {
                return Ok(());
            }
            ensure(stat.generation <= generation, || {
                format!("host {host} went past generation {generation}: {stat:?}")
            })?;
            ensure(begun.elapsed() < LONG, || {
                format!("host {host} is not recovered: {stat:?}, {left} processes")
            })?;
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Checks that all writes that a host's worker has acknowledged are there, and at most one more.
    fn check_journal(&self, host: u32) -> Outcome {
        let bytes = std::fs::read(journal(&self.path, host)).map_err(text)?;
        let last = bytes.chunks_exact(8).next_back().ok_or("nothing was written")?;
        let last = u64::from_le_bytes(last.try_into().expect("8 bytes"));
        let found = self.number(host)?;
        ensure(found == last || found == last + 1, || {
            format!("host {host} acknowledged {last}, and {found} is there")
        })
    }

    /// Leaves, opens the pool as a machine on its own, and accounts for every byte.
    fn end(mut self) -> Outcome {
        self.pool = None;
        if let Some(agent) = self.agent.take() {
            leave(agent)?;
        }
        let pool = Pool::<M>::open(&self.path, &options(0)).map_err(text)?;
        let report = pool.fsck().map_err(text)?;
        ensure(report.is_clean() && report.other_processes == 0, || {
            format!("not clean: {report:#?}")
        })
    }
}

// --------------------------------------------------------------------------------------------- the cases

/// All processes of a host die at once.
fn killed<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let mut monitor = home.start("monitor", 1, &[])?;
    monitor.hear("Leads")?;
    let (two, mut three) = (home.host(2)?, home.host(3)?);
    two.signal(libc::SIGKILL);
    monitor.hear("Moved { host: 2, generation: 0 }")?;
    home.is_recovered(2, 1)?;
    home.check_journal(2)?;
    // The others have never stopped.
    let before = home.number(3)?;
    let begun = Instant::now();
    while home.number(3)? == before {
        ensure(begun.elapsed() < LONG, || "host 3 does not go on".to_owned())?;
    }
    // The host starts again, in its next generation.
    let mut again = home.host(2)?;
    ensure(home.stat(2)?.generation == 1, || "not generation 1".to_owned())?;
    again.end()?;
    three.end()?;
    home.is_recovered(2, 2)?;
    home.is_recovered(3, 1)?;
    monitor.end()?;
    let said = monitor.rest();
    ensure(said.matches("Suspected").count() == 1, || {
        format!("a host that left, or lived, was suspected: {said}")
    })?;
    home.end()
}

/// A host that is stopped is fenced, and writes nothing when it is continued.
fn stopped<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let mut monitor = home.start("monitor", 1, &[])?;
    monitor.hear("Leads")?;
    for round in 0..3 {
        let two = home.host(2)?;
        let living = members::<M>(&home, 2)?;
        ensure(living.len() == 2, || format!("host 2 has {living:?}"))?;
        two.signal(libc::SIGSTOP);
        // As soon as its generation has moved, none of its processes is there any more.
        let begun = Instant::now();
        while home.stat(2)?.generation == round {
            ensure(begun.elapsed() < LONG, || "it is not fenced".to_owned())?;
        }
        let after = home.number(2)?;
        let held = lock_holders(&home.path, &living)?;
        ensure(held.is_empty(), || {
            format!("places {held:?} are held after the fence")
        })?;
        two.signal(libc::SIGCONT);
        std::thread::sleep(Duration::from_millis(100));
        ensure(home.number(2)? == after, || {
            "it wrote after it was fenced".to_owned()
        })?;
        home.is_recovered(2, round + 1)?;
        home.check_journal(2)?;
    }
    monitor.end()?;
    home.end()
}

/// The places of a host's processes.
fn members<M: Mapped>(home: &Home<M>, host: u32) -> Outcome<Vec<u32>> {
    let processes = home.pool().stat().map_err(text)?.processes;
    let of_host = processes.iter().filter(|process| process.host == u64::from(host));
    Ok(of_host.map(|process| process.index).collect())
}

/// Those of the places whose liveness locks are held.
fn lock_holders(pool: &Path, places: &[u32]) -> Outcome<Vec<u32>> {
    let file = std::fs::File::open(pool).map_err(text)?;
    let mut held = Vec::new();
    for &place in places {
        // SAFETY: plain data for which all zeroes is a valid value.
        let mut request: libc::flock = unsafe { std::mem::zeroed() };
        request.l_type = libc::F_WRLCK as i16;
        request.l_start = (1 << 62) + i64::from(place);
        request.l_len = 1;
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
        // SAFETY: a valid descriptor and a valid request.
        let asked = unsafe { libc::fcntl(descriptor, libc::F_OFD_GETLK, &mut request) };
        ensure(asked == 0, || text(std::io::Error::last_os_error()))?;
        if request.l_type != libc::F_UNLCK as i16 {
            held.push(place);
        }
    }
    Ok(held)
}

/// The leading monitor dies at every step of its work; another one finishes it, and no second fence has an effect.
fn monitor_dies<M: Mapped>(point: &str) -> Outcome {
    let home = Home::<M>::new()?;
    let crash = format!("{point}:1");
    let mut first = home.start("monitor", 1, &[("CENOTE_CRASH", &crash)])?;
    match point {
        "monitor.leads" => first.is_killed()?,
        _ => first.hear("Leads")?,
    }
    let mut second = home.start("monitor", 4, &[])?;
    let mut two = home.host(2)?;
    let mut three = home.host(3)?;
    if point == "monitor.leads" {
        second.hear("Leads")?;
        two.signal(libc::SIGKILL);
    } else {
        second.hear("Follows")?;
        two.signal(libc::SIGKILL);
        first.is_killed()?;
        second.hear("Leads")?;
    }
    // A host may come up again under the next generation only.
    home.is_recovered(2, 1)?;
    home.is_recovered(1, 1)?;
    home.check_journal(2)?;
    two = home.host(2)?;
    ensure(home.stat(2)?.generation == 1, || "fenced twice".to_owned())?;
    two.end()?;
    three.end()?;
    second.end()?;
    let said = second.rest();
    ensure(!said.contains("host: 3") && !said.contains("host: 9"), || {
        format!("a host that lived was suspected: {said}")
    })?;
    home.end()
}

/// A monitor that is stopped is fenced by the other one, and does nothing when it is continued.
fn monitor_stopped<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let mut first = home.start("monitor", 1, &[])?;
    first.hear("Leads")?;
    let mut second = home.start("monitor", 4, &[])?;
    second.hear("Follows")?;
    first.signal(libc::SIGSTOP);
    second.hear("Suspected { host: 1")?;
    second.hear("Moved { host: 1, generation: 0 }")?;
    second.hear("Leads")?;
    first.signal(libc::SIGCONT);
    first.is_killed()?;
    let two = home.host(2)?;
    two.signal(libc::SIGKILL);
    home.is_recovered(2, 1)?;
    second.end()?;
    home.end()
}

/// A monitor all of whose polls come late reports that. It still suspects silent hosts, and no others.
fn polls_late<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let mut monitor = home.start("monitor", 1, &[("CENOTE_HOSTS_SLOW", "25")])?;
    monitor.hear("PollsLate")?;
    let (two, mut three) = (home.host(2)?, home.host(3)?);
    two.signal(libc::SIGSTOP);
    monitor.hear("Moved { host: 2, generation: 0 }")?;
    home.is_recovered(2, 1)?;
    three.end()?;
    monitor.end()?;
    let said = monitor.rest();
    ensure(said.matches("Suspected").count() == 1, || {
        format!("a host that lived was suspected: {said}")
    })?;
    home.end()
}

/// A host's record is damaged: nobody can tell whether its processes live. The dead of other hosts are recovered, and
/// monitors report the damage.
fn damaged<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let mut monitor = home.start("monitor", 1, &[])?;
    monitor.hear("Leads")?;
    let three = home.host(3)?;
    let two = home.host(2)?;
    let worker = home.pool().worker().map_err(text)?;
    let state = HostRecord::new(worker.geometry(), 3).state();
    let sound = state.load(worker.mem());
    state.store(worker.mem(), sound | 0xff);
    two.signal(libc::SIGKILL);
    monitor.hear("Moved { host: 2, generation: 0 }")?;
    monitor.hear("NotRecovered")?;
    home.is_recovered(2, 1)?;
    home.check_journal(2)?;
    let recovered = home.pool().recover().map_err(text)?;
    let failures = home.pool().failures();
    ensure(recovered.failed > 0 && failures.len() == 1, || {
        format!("one damage, of which this was said: {recovered:?}, {failures:?}")
    })?;
    let stat = home.pool().stat().map_err(text)?;
    ensure(
        stat.damaged.iter().any(|damaged| damaged.what == "host 3"),
        || format!("not said: {:?}", stat.damaged),
    )?;
    let report = home.pool().fsck().map_err(text)?;
    ensure(!report.problems.is_empty(), || "not found by fsck".to_owned())?;
    state.store(worker.mem(), sound);
    home.pool().recover().map_err(text)?;
    ensure(home.pool().failures().is_empty(), || {
        format!("it was mended: {:?}", home.pool().failures())
    })?;
    drop(worker);
    three.signal(libc::SIGKILL);
    home.is_recovered(3, 1)?;
    monitor.end()?;
    home.end()
}

/// The records of a host's processes name other processes, which have never opened the pool. These are not killed, and
/// the host is fenced.
fn strangers_are_named<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let mut stranger = Stranger::start()?;
    let mut monitor = home.start("monitor", 1, &[])?;
    monitor.hear("Leads")?;
    let two = home.host(2)?;
    let worker = home.pool().worker().map_err(text)?;
    let (mem, name) = (worker.mem(), stranger.name()?);
    for place in members::<M>(&home, 2)? {
        let record = ProcessRecord::new(worker.geometry(), place);
        for (word, says) in [record.pid()].into_iter().chain(record.name()).zip(name) {
            word.set(mem, says);
            mem.persist(word.offset(), 8);
        }
    }
    drop(worker);
    two.signal(libc::SIGSTOP);
    monitor.hear("Moved { host: 2, generation: 0 }")?;
    ensure(stranger.lives()?, || "a stranger was killed".to_owned())?;
    home.is_recovered(2, 1)?;
    home.check_journal(2)?;
    monitor.end()?;
    home.end()
}

/// A process that has nothing to do with any pool.
struct Stranger(std::process::Child);

impl Stranger {
    fn start() -> Outcome<Self> {
        let child = std::process::Command::new("sleep").arg("600").spawn();
        child.map(Self).map_err(text)
    }

    /// Its id, when it began, and its PID namespace.
    fn name(&self) -> Outcome<[u64; 3]> {
        let proc = PathBuf::from(format!("/proc/{}", self.0.id()));
        let stat = std::fs::read_to_string(proc.join("stat")).map_err(text)?;
        let fields = stat.rsplit_once(')').ok_or("no name")?.1;
        let began = fields.split_whitespace().nth(19).ok_or("no beginning")?;
        let namespace = std::fs::metadata(proc.join("ns/pid")).map_err(text)?;
        Ok([
            self.0.id().into(),
            began.parse().map_err(text)?,
            std::os::unix::fs::MetadataExt::ino(&namespace),
        ])
    }

    fn lives(&mut self) -> Outcome<bool> {
        Ok(self.0.try_wait().map_err(text)?.is_none())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The record of the leader's host is damaged. The monitor that follows reports that and goes on: once it is repaired,
/// the monitor takes over.
fn leader_is_damaged<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let mut first = home.start("monitor", 1, &[])?;
    first.hear("Leads")?;
    let mut second = home.start("monitor", 2, &[])?;
    second.hear("Follows")?;
    let worker = home.pool().worker().map_err(text)?;
    let state = HostRecord::new(worker.geometry(), 1).state();
    let sound = state.load(worker.mem());
    state.store(worker.mem(), sound | 0xff);
    second.hear("FenceFailed { host: 1, generation: 0, why: \"damaged pool: a host's state")?;
    first.signal(libc::SIGKILL);
    first.is_killed()?;
    state.store(worker.mem(), sound);
    drop(worker);
    second.hear("Moved { host: 1, generation: 0 }")?;
    second.hear("Leads")?;
    home.is_recovered(1, 1)?;
    second.end()?;
    home.end()
}

/// All places are taken, one by a dead process of a host with a damaged record. A new process gets the error that there
/// is no place, not an error about damage that has nothing to do with it.
fn no_place_beside_damage<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let mut monitor = home.start("monitor", 1, &[])?;
    monitor.hear("Leads")?;
    let mut agent = home.start("agent", 3, &[])?;
    agent.hear("up")?;
    let worker = home.pool().worker().map_err(text)?;
    let state = HostRecord::new(worker.geometry(), 3).state();
    let sound = state.load(worker.mem());
    state.store(worker.mem(), sound | 0xff);
    agent.signal(libc::SIGKILL);
    agent.is_killed()?;
    let mut pools = Vec::new();
    let refused = loop {
        match Pool::<M>::open(&home.path, &options(HOME)) {
            Ok(pool) => pools.push(pool),
            Err(error) => break error,
        }
    };
    ensure(matches!(refused, Error::TooMany { .. }), || format!("{refused}"))?;
    drop(pools);
    state.store(worker.mem(), sound);
    drop(worker);
    home.is_recovered(3, 1)?;
    monitor.end()?;
    home.end()
}

/// A process of a host with a damaged record holds the allocator's lock, and releases it: a waiter gets it.
fn lock_beside_damage<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let theirs = HostAgent::<M>::start(&home.path, &options(3)).map_err(text)?;
    let pool = Pool::<M>::open(&home.path, &options(3)).map_err(text)?;
    let holder = pool.worker().map_err(text)?;
    let held = lock::acquire(&*holder, HEAP_LOCK).map_err(text)?;
    let state = HostRecord::new(holder.geometry(), 3).state();
    let sound = state.load(holder.mem());
    state.store(holder.mem(), sound | 0xff);
    let phase = theirs.status().map_err(text)?.phase;
    ensure(phase == HostPhase::Damaged, || {
        format!("its agent says that it is {phase:?}")
    })?;
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| -> Outcome {
            let worker = home.pool().worker().map_err(text)?;
            lock::acquire(&*worker, HEAP_LOCK).map(drop).map_err(text)
        });
        std::thread::sleep(Duration::from_millis(20));
        drop(held);
        waits.join().map_err(|_| "it panicked".to_owned())?
    })?;
    // But nobody waits for ever.
    let held = lock::acquire(&*holder, HEAP_LOCK).map_err(text)?;
    let worker = home.pool().worker().map_err(text)?;
    let waited = lock::acquire(&*worker, HEAP_LOCK).map(drop);
    ensure(matches!(waited, Err(Error::Corrupt { .. })), || {
        format!("{waited:?}")
    })?;
    drop(held);
    state.store(holder.mem(), sound);
    drop((worker, holder, pool));
    leave(theirs)?;
    home.end()
}

/// A machine took the lease, as the monitor of host 3, and failed before host 3 went up. Another machine has the lease
/// since, so the first was fenced: host 3 must not be refused for ever because nobody can end a generation in which
/// nobody was.
fn down_elsewhere<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let worker = home.pool().worker().map_err(text)?;
    let record = HostRecord::new(worker.geometry(), 3);
    let elsewhere = Identity::here(&home.path, &home.path, 3).name.machine + 1;
    record
        .home()
        .store(worker.mem(), host_entry::Home::new(0, elsewhere).encode());
    drop(worker);
    let mut agent = home.start("agent", 3, &[])?;
    agent.hear("up")?;
    ensure(home.stat(3)?.generation == 1, || {
        "it is in a generation of another machine".to_owned()
    })?;
    agent.end()?;
    home.end()
}

/// Agents and workers die at their points; a monitor or the next agent repairs what they leave.
fn agent_dies<M: Mapped>(point: &str) -> Outcome {
    let home = Home::<M>::new()?;
    let mut monitor = home.start("monitor", 1, &[])?;
    monitor.hear("Leads")?;
    let crash = format!("{point}:1");
    let mut agent = home.start("agent", 2, &[("CENOTE_CRASH", &crash)])?;
    match point {
        "host.leaving" => {
            agent.hear("up")?;
            agent.input = None;
        }
        "host.declared" => {
            agent.hear("up")?;
            let mut worker = home.start("worker", 2, &[])?;
            worker.hear("working")?;
            worker.signal(libc::SIGKILL);
        }
        _ => {}
    }
    agent.is_killed()?;
    home.is_recovered(2, 1)?;
    let mut again = home.host(2)?;
    again.end()?;
    home.is_recovered(2, 2)?;
    monitor.end()?;
    home.end()
}

/// A worker dies when it has claimed a place and not written who it is; its host's agent recovers that.
fn claim_is_left<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let mut agent = home.start("agent", 2, &[])?;
    agent.hear("up")?;
    let before = home.pool().stat().map_err(text)?;
    let mut worker = home.start("worker", 2, &[("CENOTE_CRASH", "open.claimed:1")])?;
    worker.is_killed()?;
    let begun = Instant::now();
    while home.pool().stat().map_err(text)?.recoveries == before.recoveries {
        ensure(begun.elapsed() < LONG, || "the claim is not recovered".to_owned())?;
    }
    agent.end()?;
    home.end()
}

/// An agent that is restarted goes on in the same generation: its host has not failed. Its processes do not notice.
fn agent_again<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let mut agent = home.start("agent", 2, &[])?;
    agent.hear("up")?;
    let mut worker = home.start("worker", 2, &[])?;
    worker.hear("working")?;
    agent.signal(libc::SIGKILL);
    agent.is_killed()?;
    let mut again = home.start("agent", 2, &[])?;
    again.hear("up")?;
    ensure(home.stat(2)?.generation == 0, || "the host has failed".to_owned())?;
    let before = home.number(2)?;
    let begun = Instant::now();
    while home.number(2)? == before {
        ensure(begun.elapsed() < LONG, || "its worker does not go on".to_owned())?;
    }
    worker.end()?;
    again.end()?;
    home.is_recovered(2, 1)?;
    home.end()
}

/// A fence that is a program: the generation does not move before it succeeds, even if it fails at first.
fn fenced_by_command<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let folder = home.path.parent().ok_or("a pool has a folder")?;
    let (log, script) = (folder.join("log"), folder.join("fence"));
    let two = home.host(2)?;
    let lines = format!(
        "#!/bin/sh\necho \"$@\" >> {log}\n[ $(wc -l < {log}) -gt 1 ] || exit 3\nkill -9 -{group}\n",
        log = log.display(),
        group = two.child.id()
    );
    std::fs::write(&script, lines).map_err(text)?;
    let command = format!("sh {} now", script.display());
    let mut monitor = home.start("monitor", 1, &[("CENOTE_HOSTS_FENCE", &command)])?;
    monitor.hear("Leads")?;
    two.signal(libc::SIGSTOP);
    monitor.hear("Suspected { host: 2")?;
    monitor.hear("FenceFailed { host: 2")?;
    ensure(home.stat(2)?.generation == 0, || {
        "moved without a fence".to_owned()
    })?;
    monitor.hear("Moved { host: 2, generation: 0 }")?;
    home.is_recovered(2, 1)?;
    home.check_journal(2)?;
    let said = std::fs::read_to_string(log).map_err(text)?;
    ensure(said == "now 2 0\nnow 2 0\n", || format!("it was told {said:?}"))?;
    monitor.end()?;
    home.end()
}

/// Calls that are refused, and their errors.
fn refusals<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let refuses = |result: cenote::Result<()>, words: &str| match result {
        Err(error @ (Error::Host { .. } | Error::InvalidOption { .. }))
            if error.to_string().contains(words) =>
        {
            Ok(())
        }
        other => Err(format!("{words:?} was expected, and came: {other:?}")),
    };
    let open = |host| Pool::<M>::open(&home.path, &options(host)).map(drop);
    let start = |host| HostAgent::<M>::start(&home.path, &options(host)).map(drop);
    refuses(open(0), "say which host this is")?;
    refuses(open(5), "no agent")?;
    refuses(open(16), "fewer hosts")?;
    refuses(start(HOME), "an agent already")?;
    refuses(start(16), "fewer hosts")?;
    refuses(start(0), "begin with 1")?;
    let other = home.path.with_extension("other");
    let created = Pool::<M>::create(&other, &options(3)).map(drop);
    refuses(created, "created with host 0")?;
    // A machine on its own, and the agent of a host that comes later.
    let alone = Pool::<M>::create(&other, &options(0)).map_err(text)?;
    refuses(
        HostAgent::<M>::start(&other, &options(3)).map(drop),
        "without a host",
    )?;
    drop(alone);
    drop(HostAgent::<M>::start(&other, &options(3)).map_err(text)?);
    drop(Pool::<M>::open(&other, &options(0)).map_err(text)?);
    home.end()
}

fn all(wanted: &[String]) -> Outcome {
    // Options of the test harness mean nothing here.
    let wanted: Vec<&String> = wanted.iter().filter(|word| !word.starts_with('-')).collect();
    let mut failures = 0;
    let mut case = |name: String, run: &dyn Fn() -> Outcome| {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            return;
        }
        // Ends a case that hangs; its processes end when their standard input does.
        // SAFETY: the call takes a number.
        unsafe { libc::alarm(4 * LONG.as_secs() as u32) };
        match run() {
            Ok(()) => println!("{name}: ok"),
            Err(what) => {
                failures += 1;
                println!("{name}: {what}");
            }
        }
    };
    case("refusals".to_owned(), &refusals::<Coherent>);
    case("agent_again".to_owned(), &agent_again::<Coherent>);
    case("killed".to_owned(), &killed::<Coherent>);
    case("killed noncoherent".to_owned(), &killed::<Noncoherent>);
    case("stopped".to_owned(), &stopped::<Coherent>);
    case("stopped noncoherent".to_owned(), &stopped::<Noncoherent>);
    case("told".to_owned(), &groups::told::<Coherent>);
    case("told noncoherent".to_owned(), &groups::told::<Noncoherent>);
    case(
        "told_by_the_next".to_owned(),
        &groups::told_by_the_next::<Coherent>,
    );
    case("monitor_stopped".to_owned(), &monitor_stopped::<Coherent>);
    case("polls_late".to_owned(), &polls_late::<Coherent>);
    case("damaged".to_owned(), &damaged::<Coherent>);
    case("leader_is_damaged".to_owned(), &leader_is_damaged::<Coherent>);
    case("strangers_are_named".to_owned(), &strangers_are_named::<Coherent>);
    case(
        "no_place_beside_damage".to_owned(),
        &no_place_beside_damage::<Coherent>,
    );
    case("lock_beside_damage".to_owned(), &lock_beside_damage::<Coherent>);
    case("down_elsewhere".to_owned(), &down_elsewhere::<Coherent>);
    case("fenced_by_command".to_owned(), &fenced_by_command::<Coherent>);
    case("claim_is_left".to_owned(), &claim_is_left::<Coherent>);
    for point in MONITOR_POINTS {
        case(format!("monitor_dies {point}"), &|| {
            monitor_dies::<Coherent>(point)
        });
    }
    for point in [
        "host.up",
        "host.home-claimed",
        "host.agent",
        "host.declared",
        "host.leaving",
    ] {
        case(format!("agent_dies {point}"), &|| agent_dies::<Coherent>(point));
    }
    match failures {
        0 => Ok(()),
        failures => Err(format!("{failures} cases failed")),
    }
}
