//! How soon one guest is notified of the death of a process in the other: with agents that notify each other by
//! datagrams, and with agents that only poll every few milliseconds.

use std::time::{Duration, Instant};

use super::pod::Pod;
use super::trial::Trial;

/// Deaths of a measurement.
const DEATHS: usize = 30;

/// The measurement of one pod.
pub struct Told {
    memory: &'static str,
    noncoherent: bool,
    tells: bool,
    /// From one guest's line about a death to the other guest's notification, as their lines came to this process; in
    /// ascending order.
    times: Vec<Duration>,
}

/// Measures: a member of a group is killed in guest 1, again and again; guest 2 watches.
pub fn told(trial: &Trial<'_>) -> Result<Told, String> {
    let times = trial.on_pod(false, |pod| {
        for guest in [0, 1] {
            run(pod, guest, ": >/run/no-ledger; kill $(pids 'ledger ')")?;
        }
        run(pod, 1, "cenote group create $POOL told --host $host $LOCKS")?;
        run(pod, 1, "watch told &")?;
        let mut times = Vec::new();
        for n in 0..DEATHS {
            // The relays poll at regular times: deaths come at others.
            pod.listen_for(Duration::from_millis(300 + 7 * n as u64))?;
            pod.told.clear();
            run(pod, 0, &format!("join told member{n}"))?;
            let joined = |pod: &Pod<'_>| find(pod, "joined").is_some();
            pod.wait("a member to be told of", joined)?;
            pod.told.clear();
            run(pod, 0, "kill_member")?;
            let died = |pod: &Pod<'_>| find(pod, "died").is_some() && find(pod, "killed").is_some();
            pod.wait("a death to be told", died)?;
            if let (Some(killed), Some(died)) = (find(pod, "killed"), find(pod, "died")) {
                times.push(died.saturating_duration_since(killed));
            }
        }
        Ok(times)
    })?;
    let mut times = times;
    times.sort_unstable();
    Ok(Told {
        memory: trial.memory.name(),
        noncoherent: trial.noncoherent,
        tells: trial.tells,
        times,
    })
}

/// When a line with a word in it came.
fn find(pod: &Pod<'_>, word: &str) -> Option<Instant> {
    let line = pod.told.iter().find(|(_, line)| line.contains(word));
    line.map(|(at, _)| *at)
}

fn run(pod: &mut Pod<'_>, guest: usize, line: &str) -> Result<(), String> {
    match pod.command(guest, line)? {
        (_, 0) => Ok(()),
        (said, code) => Err(format!("`{line}` ended with {code}: {}", said.join("\n"))),
    }
}

impl Told {
    fn at(&self, share: f64) -> f64 {
        let n = (self.times.len() as f64 * share) as usize;
        let time = self.times.get(n.min(self.times.len().saturating_sub(1)));
        time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }

    /// For people, or a program.
    pub fn line(&self, json: bool) -> String {
        let kind = if self.noncoherent {
            "noncoherent"
        } else {
            "coherent"
        };
        let [least, median, most] = [0.0, 0.5, 1.0].map(|share| self.at(share));
        let by = if self.tells { "datagrams" } else { "looks" };
        match json {
            true => format!(
                "{{\"memory\":\"{}\",\"kind\":\"{kind}\",\"by\":\"{by}\",\"deaths\":{},\"least_ms\":{least:.2},\"median_ms\":{median:.2},\"most_ms\":{most:.2}}}",
                self.memory,
                self.times.len()
            ),
            false => format!(
                "{} {kind}, told by {by}: {} deaths, {least:.1} ms at least, {median:.1} in the median, {most:.1} at most",
                self.memory,
                self.times.len()
            ),
        }
    }
}
