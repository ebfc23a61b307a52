//! What the processes of hosts do: agents, monitors, workers, and a whole host. Each ends in an orderly way when its
//! standard input does.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use cenote::hosts::{Event, Leave, MonitorHandler};
use cenote::memory::Mapped;
use cenote::{Coherent, HostAgent, MonitorOptions, Noncoherent, Pool};

use super::part::Part;
use super::{GROUP, Outcome, TOKEN, options, text};

pub fn play(role: &str, arguments: &[String]) -> Outcome {
    let [pool, memory, host] = arguments else {
        return Err(format!("{role} needs a pool, a memory and a host"));
    };
    let host: u32 = host.parse().map_err(text)?;
    match memory.as_str() {
        "coherent" => play_on::<Coherent>(role, Path::new(pool), host),
        _ => play_on::<Noncoherent>(role, Path::new(pool), host),
    }
}

fn play_on<M: Mapped>(role: &str, pool: &Path, host: u32) -> Outcome {
    match role {
        "agent" => agent::<M>(pool, host),
        "monitor" => monitor::<M>(pool, host),
        "worker" => worker::<M>(pool, host),
        "member" => member::<M>(pool, host),
        "host" => whole_host::<M>(pool, host),
        other => Err(format!("no such role: {other}")),
    }
}

fn say(line: impl std::fmt::Display) {
    println!("{line}");
    // The process that started this one may have ended.
    let _ = std::io::stdout().flush();
}

/// Returns when standard input is closed.
fn until_told() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

pub fn leave<M: Mapped>(mut agent: HostAgent<M>) -> Outcome {
    while agent.leave().map_err(text)? == Leave::InUse {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn agent<M: Mapped>(pool: &Path, host: u32) -> Outcome {
    let agent = HostAgent::<M>::start(pool, &options(host)).map_err(text)?;
    say("up");
    until_told();
    leave(agent)
}

/// Whether standard input is closed.
static TOLD: Mutex<bool> = Mutex::new(false);

/// A monitor that delays each of its polls by so much.
struct Slow(Duration);

impl MonitorHandler for Slow {
    fn may_lead(&self) -> bool {
        std::thread::sleep(self.0);
        true
    }

    fn is_over(&self) -> bool {
        TOLD.lock().is_ok_and(|told| *told)
    }

    fn on_event(&self, event: &Event) {
        say(format!("{event:?}"));
    }
}

fn monitor<M: Mapped>(pool: &Path, host: u32) -> Outcome {
    let agent = HostAgent::<M>::start(pool, &options(host)).map_err(text)?;
    std::thread::spawn(|| {
        until_told();
        if let Ok(mut told) = TOLD.lock() {
            *told = true;
        }
    });
    let watch = MonitorOptions {
        fence: std::env::var("CENOTE_HOSTS_FENCE").ok(),
        ..MonitorOptions::default()
    };
    let slowness = std::env::var("CENOTE_HOSTS_SLOW").map_or(Ok(0), |text| text.parse());
    let slow = Slow(Duration::from_millis(slowness.map_err(text)?));
    agent.watch(&watch, &slow).map_err(text)?;
    leave(agent)
}

/// Puts its host's key to higher and higher numbers, and records each number when the call has returned.
fn worker<M: Mapped>(path: &Path, host: u32) -> Outcome {
    let pool = Pool::<M>::open(path, &options(host)).map_err(text)?;
    let map = pool.map("m").map_err(text)?;
    let mut journal = std::fs::File::create(journal(path, host)).map_err(text)?;
    let mut number = map.get_u64(u64::from(host)).map_err(text)?.unwrap_or(0);
    static TOLD: Mutex<bool> = Mutex::new(false);
    std::thread::spawn(|| {
        until_told();
        if let Ok(mut told) = TOLD.lock() {
            *told = true;
        }
    });
    let mut has_said = false;
    while !TOLD.lock().is_ok_and(|told| *told) {
        number += 1;
        map.put_u64(u64::from(host), number).map_err(text)?;
        journal.write_all(&number.to_le_bytes()).map_err(text)?;
        let key = number % 500 + 1000 * u64::from(host);
        map.put(&key.to_le_bytes(), &vec![number as u8; 1 + number as usize % 700])
            .map_err(text)?;
        if !std::mem::replace(&mut has_said, true) {
            say("working");
        }
    }
    Ok(())
}

/// A member of the group, under the name that it is given.
fn member<M: Mapped>(path: &Path, host: u32) -> Outcome {
    let pool = Pool::<M>::open(path, &options(host)).map_err(text)?;
    let group = pool.existing_group(GROUP, TOKEN).map_err(text)?;
    let name = std::env::var("CENOTE_HOSTS_NAME").map_err(text)?;
    let member = group.join(&name).map_err(text)?;
    say("joined");
    until_told();
    member.leave().map_err(text)
}

/// An agent and a worker, in whatever namespaces this process is.
fn whole_host<M: Mapped>(pool: &Path, host: u32) -> Outcome {
    let mut agent = Part::start::<M>("agent", pool, host, &[])?;
    agent.hear("up")?;
    let mut worker = Part::start::<M>("worker", pool, host, &[])?;
    worker.hear("working")?;
    say("ready");
    until_told();
    worker.end()?;
    agent.end()
}

pub fn journal(pool: &Path, host: u32) -> PathBuf {
    pool.with_extension(format!("journal-{host}"))
}
