//! The two guests, what they print, and their power switches: a monitor's fence in a guest asks here, as it would ask a
//! management controller, and gets its answer when it is certain that the host is down.
//!
//! A *run* is one start of a guest, counted from 1. Each agent says in which run it brought its host up in which
//! generation. So a fence of a guest that has started again since needs no second reset. All happens on one thread,
//! which reads what guests print while it waits for something.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::image::Image;
use super::judge::{Acknowledged, Found, Kind};
use super::machine::{Machine, Parts, Said};
use super::plan::Memory;

/// Ports of a guest.
const COMMANDS: usize = 0;
const APPLICATION: usize = 1;
const AGENTS: usize = 2;
/// Guests, and what lies between the ids of a guest's agent and its monitor.
pub const GUESTS: u32 = 2;
/// How long anything may take. Guests are slow, and the machine may be busy with other work.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Lines of agents and monitors that are kept to be shown when something fails.
const KEPT: usize = 40;

/// What is known of a guest.
#[derive(Default)]
struct Guest {
    /// `None` if it is off.
    machine: Option<Machine>,
    /// How often it was reset or switched off.
    switched: u64,
    /// The start of its kernel that waits for the order to begin.
    waiting: Option<String>,
    /// Whether it begins by itself.
    begins: bool,
    answer: Vec<String>,
    done: Option<i32>,
}

/// See the [module documentation](self).
pub struct Pod<'a> {
    image: &'a Image,
    memory: Memory,
    folder: PathBuf,
    shared: PathBuf,
    said: Receiver<Said>,
    tell: Sender<Said>,
    guests: [Guest; GUESTS as usize],
    /// Which run brought a host up in a generation.
    brought_up: BTreeMap<(u32, u64), u64>,
    /// How many agents have begun on a host.
    begun: BTreeMap<u32, u64>,
    /// Generations that are over, and when that was heard.
    moved: BTreeMap<(u32, u64), Instant>,
    /// Hosts whose monitors have begun to lead, in this order.
    leaders: Vec<u32>,
    /// Whether fences say that hosts are down which are not.
    lies: bool,
    /// Whether agents notify each other by datagrams.
    tells: bool,
    /// What applications have said.
    pub acknowledged: Acknowledged,
    /// Lines about a group's members, and that one was killed, with their times.
    pub told: Vec<(Instant, String)>,
    /// The last lines of agents and monitors.
    heard: Vec<String>,
}

impl<'a> Pod<'a> {
    /// Of guests that are off, and share a file.
    pub fn new(
        image: &'a Image,
        memory: Memory,
        folder: PathBuf,
        shared: PathBuf,
        lies: bool,
        tells: bool,
    ) -> Self {
        let (tell, said) = channel();
        Self {
            image,
            memory,
            folder,
            shared,
            said,
            tell,
            guests: Default::default(),
            brought_up: BTreeMap::new(),
            begun: BTreeMap::new(),
            moved: BTreeMap::new(),
            leaders: Vec::new(),
            lies,
            tells,
            told: Vec::new(),
            acknowledged: Acknowledged::default(),
            heard: Vec::new(),
        }
    }

    /// Switches a guest on, and waits until its kernel has started. The guest begins on an order, or by itself.
    pub fn switch_on(&mut self, guest: usize, begins: bool) -> Result<(), String> {
        let parts = Parts {
            guest,
            image: self.image,
            shared: &self.shared,
            memory: self.memory,
            tells: self.tells,
            folder: &self.folder,
        };
        self.guests[guest].begins = begins;
        self.guests[guest].machine = Some(Machine::start(&parts, &self.tell)?);
        if begins {
            return Ok(());
        }
        self.wait("a guest to start", |pod| pod.guests[guest].waiting.is_some())
    }

    /// Has a guest that waits go up as a host of the pod, now and whenever it starts again.
    pub fn begin(&mut self, guest: usize) -> Result<(), String> {
        self.guests[guest].begins = true;
        match self.guests[guest].waiting.take() {
            Some(boot) => self.tell_to_start(guest, &boot),
            None => Ok(()),
        }
    }

    /// Switches a guest off.
    pub fn switch_off(&mut self, guest: usize) -> Result<(), String> {
        let machine = self.guests[guest].machine.take().ok_or("a guest that is off")?;
        machine.power_off()?;
        self.guests[guest].switched += 1;
        Ok(())
    }

    /// Has QEMU stop a guest, or continue one.
    pub fn order(&mut self, guest: usize, what: &str) -> Result<(), String> {
        self.machine(guest)?.order(what)
    }

    /// Runs a shell command in a guest: what it prints, and its exit code.
    pub fn command(&mut self, guest: usize, line: &str) -> Result<(Vec<String>, i32), String> {
        self.guests[guest].answer.clear();
        self.guests[guest].done = None;
        self.machine(guest)?.say(COMMANDS, &format!("do {line}"))?;
        self.wait(&format!("`{line}` in a guest"), |pod| {
            pod.guests[guest].done.is_some()
        })?;
        let code = self.guests[guest].done.take().unwrap_or(-1);
        Ok((std::mem::take(&mut self.guests[guest].answer), code))
    }

    /// What a guest finds in the pool.
    pub fn found_by(&mut self, guest: usize) -> Result<Found, String> {
        let (lines, code) = self.command(guest, "ledger $POOL read --host $host $LOCKS")?;
        match Found::read(&lines) {
            Some(found) if code == 0 => Ok(found),
            _ => Err(format!(
                "reading the ledger ended with {code}: {}",
                lines.join("\n")
            )),
        }
    }

    /// The number of a guest's present run.
    pub fn run(&self, guest: usize) -> u64 {
        self.guests[guest].switched + 1
    }

    /// The generation of a host that was brought up last.
    pub fn generation(&self, host: u32) -> Option<u64> {
        let of = self.brought_up.range((host, 0)..=(host, u64::MAX));
        of.map(|((_, generation), _)| *generation).next_back()
    }

    /// How many agents have begun on a host.
    pub fn begun(&self, host: u32) -> u64 {
        self.begun.get(&host).copied().unwrap_or(0)
    }

    /// When a monitor said that a host's generation is over.
    pub fn moved(&self, host: u32, generation: u64) -> Option<Instant> {
        self.moved.get(&(host, generation)).copied()
    }

    /// How many generations are over.
    pub fn moves(&self) -> usize {
        self.moved.len()
    }

    /// The host of the monitor that began to lead last.
    pub fn leader(&self) -> Option<u32> {
        self.leaders.last().copied()
    }

    /// Waits until a guest's application has written so much more of both kinds, in the guest's present run.
    pub fn wait_for_writes(&mut self, guest: usize, more: u64) -> Result<(), String> {
        let host = guest as u32 + 1;
        for kind in [Kind::Own, Kind::Entry] {
            let writer = (kind, host, self.run(guest));
            let before = self.acknowledged.of(writer);
            self.wait(&format!("host {host} to write"), |pod| {
                let now = (kind, host, pod.run(guest));
                pod.acknowledged.of(now) >= if now == writer { before } else { 0 } + more
            })?;
        }
        Ok(())
    }

    /// Listens to the guests until something is so.
    pub fn wait(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<(), String> {
        let begin = Instant::now();
        while !is_so(self) {
            if begin.elapsed() > TIMEOUT {
                return Err(format!(
                    "waited {} s for {what}; agents and monitors said:\n{}",
                    TIMEOUT.as_secs(),
                    self.heard.join("\n")
                ));
            }
            self.listen(Duration::from_millis(100))?;
        }
        Ok(())
    }

    /// Listens to the guests for so long.
    pub fn listen_for(&mut self, time: Duration) -> Result<(), String> {
        let begin = Instant::now();
        while begin.elapsed() < time {
            self.listen(Duration::from_millis(20))?;
        }
        Ok(())
    }

    /// The end of what a guest's kernel has said.
    pub fn console(&self, guest: usize) -> String {
        let Some(machine) = &self.guests[guest].machine else {
            return "it is off".to_owned();
        };
        let text = std::fs::read(&machine.console).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn machine(&mut self, guest: usize) -> Result<&mut Machine, String> {
        let machine = self.guests[guest].machine.as_mut();
        machine.ok_or_else(|| format!("guest {} is off", guest + 1))
    }

    fn tell_to_start(&mut self, guest: usize, boot: &str) -> Result<(), String> {
        let line = format!("start {boot} {}", self.run(guest));
        self.machine(guest)?.say(COMMANDS, &line)
    }

    /// Takes in one line, if there is one in time.
    fn listen(&mut self, time: Duration) -> Result<(), String> {
        let said = match self.said.recv_timeout(time) {
            Ok(said) => said,
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => return Err("nobody listens".to_owned()),
        };
        let Said { guest, port, line } = said;
        match port {
            COMMANDS => self.hear_command(guest, &line),
            APPLICATION => {
                self.acknowledged.hear(guest as u32 + 1, &line);
                Ok(())
            }
            AGENTS => self.hear_agents(guest, &line),
            _ => Ok(()),
        }
    }

    fn hear_command(&mut self, guest: usize, line: &str) -> Result<(), String> {
        if let Some(boot) = line.strip_prefix("ready ") {
            if self.guests[guest].begins {
                return self.tell_to_start(guest, boot);
            }
            self.guests[guest].waiting = Some(boot.to_owned());
        } else if let Some(text) = line.strip_prefix("| ") {
            self.guests[guest].answer.push(text.to_owned());
        } else if let Some(code) = line.strip_prefix("done ") {
            self.guests[guest].done = code.parse().ok();
        }
        Ok(())
    }

    fn hear_agents(&mut self, guest: usize, line: &str) -> Result<(), String> {
        if self.heard.len() == KEPT {
            self.heard.remove(0);
        }
        self.heard.push(format!("guest {}: {line}", guest + 1));
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match words[..] {
            ["told" | "killed", ..] => self.told.push((Instant::now(), line.to_owned())),
            ["fence", host, generation] => {
                if let (Ok(host), Ok(generation)) = (host.parse(), generation.parse()) {
                    return self.fence(guest, host, generation);
                }
            }
            ["agent" | "monitor", run, json] => {
                let own = guest as u32 + 1 + if words[0] == "monitor" { GUESTS } else { 0 };
                let host = number(json, "host");
                let of = host.zip(number(json, "generation"));
                let Some(run) = run.parse::<u64>().ok() else {
                    return Ok(());
                };
                match (text(json, "event"), of) {
                    (None, Some((host, generation))) if json.contains("\"priority\"") => {
                        self.brought_up.insert((host as u32, generation), run);
                        *self.begun.entry(host as u32).or_default() += 1;
                    }
                    (Some("moved"), Some((host, generation))) => {
                        self.moved.insert((host as u32, generation), Instant::now());
                    }
                    (Some("leads"), _) => self.leaders.push(own),
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Makes certain that a host is down in a generation, and answers the fence that has asked. A fence that ran on
    /// that very guest gets no answer.
    fn fence(&mut self, asks: usize, host: u32, generation: u64) -> Result<(), String> {
        let target = ((host - 1) % GUESTS) as usize;
        let run = self.brought_up.get(&(host, generation)).copied();
        let run = run.unwrap_or(self.run(target));
        if !self.lies && self.guests[target].switched < run {
            self.machine(target)?.reset()?;
            self.guests[target].switched += 1;
            if asks == target {
                return Ok(());
            }
        }
        match &mut self.guests[asks].machine {
            Some(machine) => machine.say(AGENTS, &format!("down {host} {generation}")),
            None => Ok(()),
        }
    }
}

/// What follows a field's name in one line of JSON.
fn after<'j>(json: &'j str, field: &str) -> Option<&'j str> {
    let name = format!("\"{field}\":");
    Some(json[json.find(&name)? + name.len()..].trim_start())
}

fn number(json: &str, field: &str) -> Option<u64> {
    let rest = after(json, field)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

fn text<'j>(json: &'j str, field: &str) -> Option<&'j str> {
    after(json, field)?.strip_prefix('"')?.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_line_of_json() {
        let line = r#"{"at_ms":17,"event":"moved","host":3,"generation":12}"#;
        assert_eq!(
            (number(line, "host"), number(line, "generation")),
            (Some(3), Some(12))
        );
        assert_eq!(
            (text(line, "event"), text(line, "host"), text(line, "now")),
            (Some("moved"), None, None)
        );
        assert_eq!(number(line, "event"), None);
    }
}
