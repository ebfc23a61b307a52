//! The cases: what is done to a pod of two guests, and what is checked after each.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::image::Image;
use super::judge::Found;
use super::plan::Memory;
use super::pod::{GUESTS, Pod};

/// Bytes that the guests share.
const SHARED: u64 = 64 << 20;
/// How many writes of each kind a trial waits for before and after each case.
const WRITES: u64 = 40;
/// A guest that is stopped for so long is not fenced: its monitors wait two seconds.
const MOMENT: Duration = Duration::from_millis(300);

/// What was done to a pod, and what was seen.
#[derive(Debug)]
pub struct Row {
    /// How the guests saw the memory.
    pub memory: &'static str,
    /// For which kind of memory the pool was created.
    pub kind: &'static str,
    /// What was done.
    pub case: &'static str,
    /// Whether the host should have been fenced.
    pub to_fence: bool,
    /// From the failure until a monitor said that the generation is over; `None` if nobody was fenced.
    pub fenced_after: Option<Duration>,
    /// Writes that were acknowledged until the end, in all.
    pub acknowledged: u64,
    /// Of these, not in the pool.
    pub missing: u64,
    /// Torn, out of order, or made twice under one lock.
    pub wrong: u64,
    /// Writes of the fenced host that came into the pool after its generation was over.
    pub after_fence: u64,
    /// Writes of the other host between the failure and the fence.
    pub meanwhile: u64,
    /// What `cenote fsck` has said: only of the last one.
    pub is_clean: Option<bool>,
}

impl Row {
    /// Whether all is as it should be.
    pub fn is_good(&self) -> bool {
        let fenced = self.fenced_after.is_some() == self.to_fence;
        let sound = self.missing + self.wrong + self.after_fence == 0 && self.is_clean != Some(false);
        fenced && sound && self.meanwhile > 0
    }
}

/// What a trial is about.
pub struct Trial<'a> {
    /// What guests start from.
    pub image: &'a Image,
    /// How they see the memory.
    pub memory: Memory,
    /// Whether the pool is for incoherent memory.
    pub noncoherent: bool,
    /// Whether agents notify each other by datagrams.
    pub tells: bool,
    /// The run's folder.
    pub folder: &'a Path,
    /// Called with each row.
    pub tell: &'a dyn Fn(&Row),
}

impl Trial<'_> {
    /// Runs all cases on one pod.
    pub fn run(&self) -> Result<Vec<Row>, String> {
        self.on_pod(false, |pod| {
            let mut rows = Vec::new();
            let mut add = |row: Row| {
                (self.tell)(&row);
                rows.push(row);
            };
            add(self.spared(pod, "agent killed and started again", |pod| {
                let before = pod.begun(1);
                kill_agent(pod, 0)?;
                pod.wait("another agent of host 1", |pod| pod.begun(1) > before)
            })?);
            add(self.fenced(pod, "agent killed", 0, |pod| {
                pod.command(0, ": >/run/no-agent")?;
                kill_agent(pod, 0)
            })?);
            add(self.spared(pod, "guest stopped for a moment", |pod| {
                pod.order(0, "stop")?;
                pod.listen_for(MOMENT)?;
                pod.order(0, "cont")
            })?);
            add(self.fenced(pod, "guest stopped, fenced, continued", 0, |pod| {
                pod.order(0, "stop")
            })?);
            add(self.fenced(pod, "guest powered off", 0, |pod| pod.switch_off(0))?);
            let leader = pod.leader().map_or(0, |host| ((host - 1) % GUESTS) as usize);
            let mut last = self.fenced(pod, "leading monitor's guest powered off", leader, |pod| {
                pod.switch_off(leader)
            })?;
            last.is_clean = Some(is_clean(pod)?);
            add(last);
            Ok(rows)
        })
    }

    /// Stops a guest, has the fence say that it is down, and continues it: how many of its writes are seen in the pool
    /// after that.
    pub fn control(&self) -> Result<u64, String> {
        self.on_pod(true, |pod| {
            let (victim, survivor) = (0, 1);
            let (generation, run) = (pod.generation(1).unwrap_or(0), pod.run(victim));
            pod.order(victim, "stop")?;
            pod.wait("a fence that lies", |pod| pod.moved(1, generation).is_some())?;
            let before = pod.found_by(survivor)?;
            let said = pod.acknowledged.of_host(1);
            pod.order(victim, "cont")?;
            pod.wait("a host that writes after its fence", |pod| {
                pod.acknowledged.of_host(1) > said + WRITES
            })?;
            Ok(pod.found_by(survivor)?.written_since(&before, 1, run))
        })
    }

    pub(super) fn on_pod<T>(
        &self,
        lies: bool,
        work: impl FnOnce(&mut Pod<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let shared = self.folder.join("shared");
        make_file(&shared)?;
        let folder = PathBuf::from(self.folder);
        let mut pod = Pod::new(self.image, self.memory, folder, shared.clone(), lies, self.tells);
        let done = self.bring_up(&mut pod).and_then(|()| work(&mut pod));
        let done = done.map_err(|error| {
            let consoles = [0, 1].map(|guest| pod.console(guest));
            let [one, two] = consoles;
            format!("{error}\nthe kernel of guest 1 said:\n{one}\nthat of guest 2:\n{two}")
        });
        drop(pod);
        std::fs::remove_file(&shared).map_err(|error| error.to_string())?;
        done
    }

    /// Guest 2 makes the pool, and its monitor leads; then guest 1 joins.
    fn bring_up(&self, pod: &mut Pod<'_>) -> Result<(), String> {
        pod.switch_on(1, false)?;
        let make = match self.memory {
            Memory::Ivshmem => "",
            Memory::Dax => "make_dax && find_pool && ",
        };
        let kind = if self.noncoherent { " --noncoherent" } else { "" };
        let line = format!("{make}cenote create $POOL --hosts 8 $LOCKS{kind}");
        let (said, code) = pod.command(1, &line)?;
        if code != 0 {
            return Err(format!("`{line}` ended with {code}: {}", said.join("\n")));
        }
        pod.begin(1)?;
        pod.wait("guest 2's monitor to lead", |pod| {
            pod.leader() == Some(2 + GUESTS)
        })?;
        pod.switch_on(0, true)?;
        self.wait_for_all(pod)
    }

    /// Waits until both guests write, and are watched.
    fn wait_for_all(&self, pod: &mut Pod<'_>) -> Result<(), String> {
        pod.wait_for_writes(0, WRITES)?;
        pod.wait_for_writes(1, WRITES)?;
        for host in 1..=2 * GUESTS {
            pod.wait(&format!("host {host} to be up"), |pod| {
                let generation = pod.generation(host);
                generation.is_some_and(|generation| pod.moved(host, generation).is_none())
            })?;
        }
        Ok(())
    }

    /// A case that guest 1 survives.
    fn spared(
        &self,
        pod: &mut Pod<'_>,
        case: &'static str,
        act: impl FnOnce(&mut Pod<'_>) -> Result<(), String>,
    ) -> Result<Row, String> {
        let (begin, moves, before) = (Instant::now(), pod.moves(), pod.acknowledged.of_host(2));
        act(pod)?;
        let meanwhile = pod.acknowledged.of_host(2) - before;
        self.wait_for_all(pod)?;
        let fenced_after = (pod.moves() > moves).then(|| begin.elapsed());
        let row = self.row(case, false, pod, 1)?;
        Ok(Row {
            fenced_after,
            meanwhile,
            ..row
        })
    }

    /// A case in which a guest is fenced. A stopped guest is continued then; one that is off is switched on.
    fn fenced(
        &self,
        pod: &mut Pod<'_>,
        case: &'static str,
        victim: usize,
        act: impl FnOnce(&mut Pod<'_>) -> Result<(), String>,
    ) -> Result<Row, String> {
        let survivor = 1 - victim;
        let host = victim as u32 + 1;
        let run = pod.run(victim);
        let doomed = [host, host + GUESTS].map(|host| (host, pod.generation(host).unwrap_or(0)));
        let (begin, before) = (Instant::now(), pod.acknowledged.of_host(survivor as u32 + 1));
        act(pod)?;
        for (host, generation) in doomed {
            let what = format!("host {host} to be fenced in generation {generation}");
            pod.wait(&what, |pod| pod.moved(host, generation).is_some())?;
        }
        let (host, generation) = doomed[0];
        let fenced_after = pod.moved(host, generation).map(|at| at.duration_since(begin));
        let meanwhile = pod.acknowledged.of_host(survivor as u32 + 1) - before;
        let at_fence = pod.found_by(survivor)?;
        match case {
            "guest stopped, fenced, continued" => pod.order(victim, "cont")?,
            "agent killed" => {}
            _ => pod.switch_on(victim, true)?,
        }
        pod.wait_for_writes(survivor, WRITES)?;
        self.wait_for_all(pod)?;
        let row = self.row(case, true, pod, survivor)?;
        let after_fence = pod.found_by(survivor)?.written_since(&at_fence, host, run);
        Ok(Row {
            fenced_after,
            meanwhile,
            after_fence,
            ..row
        })
    }

    /// How many of the acknowledged writes a guest finds.
    fn row(
        &self,
        case: &'static str,
        to_fence: bool,
        pod: &mut Pod<'_>,
        reader: usize,
    ) -> Result<Row, String> {
        let acknowledged = pod.acknowledged.clone();
        let found: Found = pod.found_by(reader)?;
        Ok(Row {
            memory: self.memory.name(),
            kind: if self.noncoherent {
                "noncoherent"
            } else {
                "coherent"
            },
            case,
            to_fence,
            fenced_after: None,
            acknowledged: acknowledged.all(),
            missing: acknowledged.missing_in(&found),
            wrong: found.wrong + pod.acknowledged.conflicts,
            after_fence: 0,
            meanwhile: 0,
            is_clean: None,
        })
    }
}

/// Kills a guest's agent as `kill -9` does.
fn kill_agent(pod: &mut Pod<'_>, guest: usize) -> Result<(), String> {
    match pod.command(guest, "kill -9 $(pids 'cenote --json agent')")? {
        (_, 0) => Ok(()),
        (said, code) => Err(format!("killing an agent ended with {code}: {}", said.join("\n"))),
    }
}

/// Ends the applications, and has the pool checked.
fn is_clean(pod: &mut Pod<'_>) -> Result<bool, String> {
    for guest in 0..GUESTS as usize {
        pod.command(guest, ": >/run/no-ledger; kill $(pids 'ledger ')")?;
    }
    let (said, code) = pod.command(0, "sleep 1; cenote fsck $POOL --host $host $LOCKS")?;
    if code != 0 {
        println!("cenote fsck said:\n{}", said.join("\n"));
    }
    Ok(code == 0)
}

fn make_file(path: &Path) -> Result<(), String> {
    let made = std::fs::File::create(path).and_then(|file| file.set_len(SHARED));
    made.map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_bad_when_anything_is_lost_or_late_or_unexpected() {
        let good = || Row {
            memory: "dax",
            kind: "coherent",
            case: "guest powered off",
            to_fence: true,
            fenced_after: Some(Duration::from_secs(3)),
            acknowledged: 900,
            missing: 0,
            wrong: 0,
            after_fence: 0,
            meanwhile: 70,
            is_clean: None,
        };
        assert!(good().is_good());
        let bad = [
            Row { missing: 1, ..good() },
            Row { wrong: 1, ..good() },
            Row {
                meanwhile: 0,
                ..good()
            },
            Row {
                after_fence: 1,
                ..good()
            },
            Row {
                fenced_after: None,
                ..good()
            },
            Row {
                is_clean: Some(false),
                ..good()
            },
            Row {
                to_fence: false,
                ..good()
            },
        ];
        assert!(bad.iter().all(|row| !row.is_good()));
    }
}
