//! How long after a process's death others know of it, measured on this machine with real processes and `kill -9`.
//!
//! A pool is filled with as many bytes as victims are to touch. There are a *watcher*, whose background thread only
//! watches, and *members* of a group that wait for its events. Again and again a *victim* joins the group, reads all of
//! the pool, so that it has it in its page tables, and is killed. *Detected* is the time from just before the kill
//! until the death is in the group's log, by the clock of the process that wrote it there. *Notified* is the time until
//! a member, in a process of its own, has the event.
//!
//! The processes are this program once more, with the arguments `worker detection ROLE …`. They end with their standard
//! input, and so with their parent however that ends.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cenote::group::EventKind;
use cenote::{Options, Pool};

/// The group's token; no other program uses the pool.
const TOKEN: &[u8] = b"detection";
/// The bytes of a value that victims read.
const VALUE_BYTES: u64 = 1 << 20;
/// Bytes of a page.
const PAGE: usize = 4096;
/// A death of which no member is notified for so long is missed.
const MISSED: Duration = Duration::from_secs(20);

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum DetectionError {
    /// The pool.
    #[error(transparent)]
    Pool(#[from] cenote::Error),
    /// A process or its pipes.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Something is not as it must be.
    #[error("{0}")]
    Wrong(String),
}

type Result<T> = std::result::Result<T, DetectionError>;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the pool is made.
    pub folder: PathBuf,
    /// How many victims are killed.
    pub kills: u32,
    /// Bytes of the pool that each victim has touched.
    pub touched: u64,
    /// Members that are notified.
    pub members: u32,
    /// Processes that keep the cores busy meanwhile.
    pub busy: u32,
}

/// Microseconds after one kill.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Sample {
    /// Until the death was in the group's log.
    pub detected: f64,
    /// Until the first member had the event.
    pub first: f64,
    /// Until the last member had it.
    pub last: f64,
}

/// What came of it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Measured {
    /// One for each kill.
    pub samples: Vec<Sample>,
    /// What the watcher took of a processor while nothing happened, in parts of 1.
    pub idle_load: f64,
}

impl Measured {
    /// A quantile of what one of the figures of the samples was.
    pub fn quantile(&self, of: impl Fn(&Sample) -> f64, quantile: f64) -> f64 {
        let mut figures: Vec<f64> = self.samples.iter().map(of).collect();
        figures.sort_by(f64::total_cmp);
        let place = (figures.len() as f64 * quantile).ceil() as usize;
        figures
            .get(place.saturating_sub(1).min(figures.len().saturating_sub(1)))
            .copied()
            .unwrap_or(f64::NAN)
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

fn options(touched: u64) -> Options {
    Options {
        size: touched + touched / 4 + (16 << 20),
        ..Options::default()
    }
}

/// Measures.
pub fn measure(plan: &Plan, mut progress: impl FnMut(u32)) -> Result<Measured> {
    let scene = Scene::prepare(&plan.folder, plan.touched, plan.members, plan.busy)?;
    let idle_load = match plan.busy {
        0 => scene.watcher.load_for(Duration::from_secs(3))?,
        _ => f64::NAN,
    };
    let mut samples = Vec::new();
    for n in 0..plan.kills {
        let name = format!("victim-{n}");
        let mut victim = Part::start("victim", &scene.pool, std::slice::from_ref(&name))?;
        victim.expect("ready")?;
        let killed = now();
        victim.child.kill()?;
        let mut told = Vec::new();
        let mut detected = 0;
        for member in &scene.members {
            let (event, at) = member.death_of(&name)?;
            detected = event;
            told.push(at);
        }
        victim.child.wait()?;
        let after = |time: u64| time.saturating_sub(killed) as f64 / 1e3;
        samples.push(Sample {
            detected: after(detected),
            first: after(told.iter().copied().min().unwrap_or(0)),
            last: after(told.iter().copied().max().unwrap_or(0)),
        });
        progress(n + 1);
    }
    Ok(Measured { samples, idle_load })
}

/// Looks for false positives: so many busy members work in the pool, one of them is stopped and continued now and then,
/// and none dies. Returns the deaths that were seen, and how often a member was stopped.
pub fn soak(folder: &Path, busy: u32, time: Duration) -> Result<(Vec<String>, u32)> {
    let scene = Scene::prepare(folder, 16 << 20, 2, busy)?;
    let begun = Instant::now();
    let mut stops = 0;
    let mut deaths = Vec::new();
    while begun.elapsed() < time {
        if let Some(one) = scene.busy.get(stops as usize % scene.busy.len().max(1)) {
            one.signal(libc::SIGSTOP);
            std::thread::sleep(Duration::from_millis(300));
            one.signal(libc::SIGCONT);
            stops += 1;
        }
        std::thread::sleep(Duration::from_millis(700));
        for member in &scene.members {
            deaths.extend(member.lines.try_iter());
        }
    }
    let pool: Pool = Pool::open(&scene.pool, &Options::default())?;
    let recoveries = pool.stat()?.recent.len();
    if recoveries > 0 {
        deaths.push(format!("{recoveries} workers were recovered"));
    }
    Ok((deaths, stops))
}

/// The processes besides the victims.
struct Scene {
    pool: PathBuf,
    watcher: Part,
    members: Vec<Part>,
    busy: Vec<Part>,
    /// Removed last.
    _folder: tempfile::TempDir,
}

impl Scene {
    fn prepare(folder: &Path, touched: u64, members: u32, busy: u32) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("cenote-detection-")
            .tempdir_in(folder)?;
        let path = folder.path().join("pool");
        let pool: Pool = Pool::create(&path, &options(touched))?;
        let map = pool.map("touched")?;
        let value = vec![7; VALUE_BYTES as usize - PAGE];
        for key in 0..touched / VALUE_BYTES {
            map.put_u64(key, key)?;
            map.put(format!("value {key}").as_bytes(), &value)?;
        }
        drop((map, pool));
        let mut watcher = Part::start("watcher", &path, &[])?;
        watcher.expect("ready")?;
        let begin = |role: &str, n: u32| {
            let mut part = Part::start(role, &path, &[format!("{role}-{n}")])?;
            part.expect("ready").map(|()| part)
        };
        Ok(Self {
            members: (0..members).map(|n| begin("member", n)).collect::<Result<_>>()?,
            busy: (0..busy).map(|n| begin("busy", n)).collect::<Result<_>>()?,
            watcher,
            pool: path,
            _folder: folder,
        })
    }
}

/// A process that plays a part; killed when it is dropped.
struct Part {
    child: Child,
    lines: Receiver<String>,
}

impl Part {
    fn start(role: &str, pool: &Path, args: &[String]) -> Result<Self> {
        let mut child = Command::new("/proc/self/exe")
            .arg0("cenote")
            .args(["worker", "detection", role])
            .arg(pool)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let Some(output) = child.stdout.take() else {
            return Err(DetectionError::Wrong("a process has no pipe".to_owned()));
        };
        let (says, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(std::result::Result::ok);
            lines
                .map(|line| says.send(line))
                .take_while(std::result::Result::is_ok)
                .count()
        });
        Ok(Self { child, lines })
    }

    fn hear(&self) -> Result<String> {
        self.lines.recv_timeout(MISSED).map_err(|error| {
            DetectionError::Wrong(match error {
                RecvTimeoutError::Timeout => "no member was notified of a death".to_owned(),
                RecvTimeoutError::Disconnected => "a process has ended too early".to_owned(),
            })
        })
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        match self.hear()? {
            line if line == word => Ok(()),
            other => Err(DetectionError::Wrong(format!("a process said {other:?}"))),
        }
    }

    /// When the death of a member was written to the log, and when this part had the event.
    fn death_of(&self, name: &str) -> Result<(u64, u64)> {
        let line = self.hear()?;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [who, event, at] if who == name => match (event.parse(), at.parse()) {
                (Ok(event), Ok(at)) => Ok((event, at)),
                _ => Err(DetectionError::Wrong(format!("a member said {line:?}"))),
            },
            _ => Err(DetectionError::Wrong(format!(
                "{name} was killed, and a member said {line:?}"
            ))),
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a signal to a child that has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Ticks of processor time that it has used, by its `stat` file.
    fn ticks(&self) -> Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = text
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let number = |n: usize| {
            fields
                .get(n)
                .and_then(|field| field.parse::<u64>().ok())
                .unwrap_or(0)
        };
        Ok(number(11) + number(12))
    }

    /// What it takes of a processor for some time.
    fn load_for(&self, time: Duration) -> Result<f64> {
        let before = self.ticks()?;
        std::thread::sleep(time);
        let ticks = self.ticks()? - before;
        // SAFETY: asks for a constant.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        Ok(ticks as f64 / per_second as f64 / time.as_secs_f64())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the processes do: the arguments after `worker detection`.
pub fn part(args: &[String]) -> Result<()> {
    let (role, pool, name) = match args {
        [role, pool] => (role.as_str(), pool, ""),
        [role, pool, name] => (role.as_str(), pool, name.as_str()),
        _ => return Err(DetectionError::Wrong("which part?".to_owned())),
    };
    std::thread::spawn(|| {
        let mut lines = std::io::stdin().lines();
        while lines.next().is_some_and(|line| line.is_ok()) {}
        std::process::exit(0);
    });
    let options = Options {
        background_thread: role == "watcher",
        ..Options::default()
    };
    let pool: Pool = Pool::open(pool, &options)?;
    match role {
        "watcher" => {
            say("ready")?;
            loop {
                std::thread::park();
            }
        }
        "member" => member(&pool, name),
        "victim" => victim(&pool, name),
        "busy" => busy(&pool, name),
        other => Err(DetectionError::Wrong(format!("no such part: {other}"))),
    }
}

fn say(line: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}

fn member(pool: &Pool, name: &str) -> Result<()> {
    let mut membership = pool.group("group", TOKEN)?.join(name)?;
    say("ready")?;
    for event in membership.events() {
        let (event, at) = (event?, now());
        if event.kind == EventKind::Died {
            say(&format!("{} {} {at}", event.member, event.time_ns))?;
        }
    }
    Ok(())
}

fn victim(pool: &Pool, name: &str) -> Result<()> {
    let map = pool.map("touched")?;
    let keys = map.len() / 2;
    let mut sum = 0u64;
    for key in 0..keys {
        if let Some(value) = map.get(format!("value {key}").as_bytes())? {
            sum += value
                .iter()
                .step_by(PAGE)
                .map(|&byte| u64::from(byte))
                .sum::<u64>();
        }
    }
    std::hint::black_box(sum);
    let _membership = pool.group("group", TOKEN)?.join(name)?;
    say("ready")?;
    loop {
        std::thread::park();
    }
}

/// Works without a pause, in two threads: ordinary work, also where the measurement was started with real-time
/// priority.
fn busy(pool: &Pool, name: &str) -> Result<()> {
    let ordinary = libc::sched_param { sched_priority: 0 };
    // SAFETY: a system call about this very process, with a parameter of ours. What it cannot change stays as it is.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &ordinary) };
    let _membership = pool.group("group", TOKEN)?.join(name)?;
    let other = pool.clone();
    let named = name.to_owned();
    std::thread::spawn(move || work(&other, &named));
    say("ready")?;
    work(pool, name)
}

fn work(pool: &Pool, name: &str) -> Result<()> {
    let map = pool.map("work")?;
    for version in 0u64.. {
        map.put(name.as_bytes(), &version.to_le_bytes())?;
        map.put_u64(version % 4096, version)?;
    }
    Ok(())
}
