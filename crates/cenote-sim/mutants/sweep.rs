//! The sweep: each site that orders memory is weakened in turn, and all subjects that pass it are run. The table is
//! `docs/sweep.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use cenote::mutant::choose;
use cenote_sim::campaign::{LimitsKind, Plan, PolicyKind, Result as Ended};
use cenote_sim::subjects::Subject;
use cenote_sim::sweep::{Passes, Site, Touch, be_stubborn, sites_of, take_moments, take_passes, weaken};

use super::table;

/// Runs of all subjects that pass a site, before it counts as not seen.
pub const RUNS: u64 = 650;
/// Seeds with which sites are searched for.
const SITE_SEEDS: u64 = 4;
/// What the command line asked for.
pub struct Sweep {
    /// Runs for each site.
    pub runs: u64,
    /// Only sites whose file and line contain this.
    pub only: Option<String>,
    /// Only sites that the table has not, or says nothing of.
    pub missing: bool,
    /// Which of how many parts of the sites.
    pub part: (usize, usize),
    /// This subject alone; then the table is left as it is.
    pub subject: Option<Subject>,
}

/// What came of a site.
enum Outcome {
    /// This plan and seed show it.
    Seen(String),
    /// So many runs did not; how often they passed it.
    Not(u64, Passes),
}

/// Each site's name in the table: it has no line number, so that the table lives longer than the next change.
type Name = String;

/// Runs the sweep and writes the table.
pub fn run(sweep: &Sweep) -> Result<bool, String> {
    choose(None);
    let subjects = subjects_of_sites(sweep.subject);
    let names = names(subjects.keys().copied())?;
    let known = read()?;
    let sites: Vec<Site> = subjects
        .keys()
        .copied()
        .filter(|site| is_meant(site, sweep, known.get(&names[site])))
        .collect();
    let (part, parts) = sweep.part;
    let mine: Vec<Site> = sites.iter().copied().skip(part - 1).step_by(parts).collect();
    eprintln!("{} sites; {} to run", subjects.len(), mine.len());
    let mut rows = BTreeMap::new();
    for site in mine {
        let start = Instant::now();
        let outcome = try_site(site, &subjects[&site], sweep.runs);
        let what = match outcome {
            Outcome::Seen(what) => what,
            Outcome::Not(runs, passes) if passes.with_effect == 0 => {
                format!("{NOT_SEEN} {runs} runs: without effect in {} passes", passes.all)
            }
            Outcome::Not(runs, passes) => format!(
                "{NOT_SEEN} {runs} runs: with an effect in {} of {} passes",
                passes.with_effect, passes.all
            ),
        };
        println!(
            "{}:{} {what} ({:.1} s)",
            names[&site],
            site.line,
            start.elapsed().as_secs_f64()
        );
        rows.insert(names[&site].clone(), what);
    }
    weaken(None);
    if sweep.subject.is_some() {
        return Ok(rows.values().all(|what| !what.starts_with(NOT_SEEN)));
    }
    write(&names, rows)
}

const NOT_SEEN: &str = "not seen in";

fn is_meant(site: &Site, sweep: &Sweep, known: Option<&String>) -> bool {
    let at = format!("{}:{}", site.file, site.line);
    let is_known = known.is_some_and(|row| !row.is_empty());
    sweep.only.as_ref().is_none_or(|only| at.contains(only)) && !(sweep.missing && is_known)
}

/// The plans of a subject: short runs with deaths, changes of priority, and longer runs with small thresholds.
fn plans(subject: Subject, coherent: bool) -> [Plan; 3] {
    let plan = |operations, crashes, policy, limits| Plan {
        coherent,
        limits,
        ..table::noncoherent(subject, 3, 2, operations, crashes, policy)
    };
    [
        plan(14, 2, PolicyKind::Random, LimitsKind::Usual),
        plan(10, 2, PolicyKind::Pct(3), LimitsKind::Drawn),
        plan(30, 1, PolicyKind::Random, LimitsKind::Small),
    ]
}

/// Which subjects pass each site of the protocols, of all or of one.
fn subjects_of_sites(only: Option<Subject>) -> BTreeMap<Site, Vec<Subject>> {
    let mut all: BTreeMap<Site, Vec<Subject>> = BTreeMap::new();
    for subject in Subject::ALL
        .into_iter()
        .filter(|&subject| only.is_none_or(|only| only == subject))
    {
        let mut sites = BTreeSet::new();
        for plan in plans(subject, false).iter().chain(&plans(subject, true)) {
            sites.append(&mut sites_of(|| {
                (1..=SITE_SEEDS).for_each(|seed| drop(plan.run(seed)))
            }));
        }
        let is_protocol = |site: &Site| {
            ["/pod/", "/index/", "/sync/"]
                .iter()
                .any(|folder| site.file.contains(folder))
                && !site.file.contains("baseline")
        };
        for site in sites.into_iter().filter(is_protocol) {
            all.entry(site).or_default().push(subject);
        }
    }
    all
}

/// Runs in which a process dies soon after it passed the site, for each run in which it lived on.
const DEATHS: u32 = 2;

/// Weakens a site until it is seen.
fn try_site(site: Site, subjects: &[Subject], runs: u64) -> Outcome {
    let on_coherent = matches!(site.touch, Touch::Fence | Touch::Exchange);
    let plans: Vec<Plan> = subjects
        .iter()
        .flat_map(|&subject| {
            let more = if on_coherent {
                &plans(subject, true)[..]
            } else {
                &[]
            };
            [&plans(subject, false)[..], more].concat()
        })
        .collect();
    let mut run = 0;
    take_passes();
    for seed in 1.. {
        for plan in &plans {
            if run >= runs {
                return Outcome::Not(run, take_passes());
            }
            run += 1;
            take_moments();
            if let Some(checker) = shows(site, || plan.run(seed).result) {
                return Outcome::Seen(format!("{}, seed {seed}: {checker}", table::describe(plan)));
            }
            let moments = take_moments();
            for death in (0..DEATHS).filter(|_| !moments.is_empty() && !plan.coherent) {
                run += 1;
                let dying = plan.dies_soon(seed, &moments, death);
                be_stubborn(death > 0);
                let shown = shows(site, || plan.run_dying(seed, dying.clone()).result);
                be_stubborn(false);
                if let Some(checker) = shown {
                    let deaths: Vec<String> = dying
                        .iter()
                        .map(|crash| format!("{} at {}", crash.process, crash.step))
                        .collect();
                    return Outcome::Seen(format!(
                        "{}, seed {seed}, dying {}: {checker}",
                        table::describe(plan),
                        deaths.join(" and ")
                    ));
                }
            }
        }
    }
    Outcome::Not(run, take_passes())
}

/// The checker that a run with the site weakened fails, and without passes.
fn shows(site: Site, run: impl Fn() -> Ended) -> Option<&'static str> {
    weaken(Some(site));
    let shown = run();
    weaken(None);
    let checker = match shown {
        Ended::Passed => return None,
        Ended::Wrong(checker, _) => checker,
        Ended::Stuck(_) => "progress",
        Ended::Crashed(_) => "panic",
    };
    (run() == Ended::Passed).then_some(checker)
}

/// Names of sites: the file, what is done, and the line of code; with a number where there are several alike.
fn names(sites: impl Iterator<Item = Site>) -> Result<BTreeMap<Site, Name>, String> {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let mut names = BTreeMap::new();
    let mut alike: BTreeMap<String, u32> = BTreeMap::new();
    for site in sites {
        let file = site.file.split_once("src/").map_or(site.file, |(_, file)| file);
        let path = folder().join("../cenote/src").join(file);
        if !texts.contains_key(site.file) {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            texts.insert(site.file, text);
        }
        let line = texts[site.file]
            .lines()
            .nth(site.line as usize - 1)
            .unwrap_or_default();
        let code: String = line.trim().replace('|', "\\|").chars().take(70).collect();
        let name = format!("| {file} | {} | `{code}`", site.touch.name());
        let number = alike.entry(name.clone()).or_default();
        *number += 1;
        let suffix = if *number > 1 {
            format!(" ({number})")
        } else {
            String::new()
        };
        names.insert(site, format!("{name}{suffix}"));
    }
    Ok(names)
}

fn folder() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

fn path() -> PathBuf {
    folder().join("../../docs/sweep.md")
}

const HEAD: &str = "| file | site | code | what shows it, or why nothing does |\n|---|---|---|---|\n";

/// The table's rows: what is said of each name.
fn read() -> Result<BTreeMap<Name, String>, String> {
    let text = fs::read_to_string(path()).map_err(|error| format!("docs/sweep.md: {error}"))?;
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains(".rs |"));
    Ok(rows
        .filter_map(|row| row.strip_suffix(" |")?.rsplit_once(" | "))
        .map(|(name, what)| (name.to_owned(), what.to_owned()))
        .collect())
}

/// Writes the table anew: what was run, and of other sites what it said before. An argument stays until the site is
/// seen. Whether all are seen or have one.
fn write(names: &BTreeMap<Site, Name>, rows: BTreeMap<Name, String>) -> Result<bool, String> {
    let mut known = read()?;
    for (name, what) in rows {
        let is_argued = known
            .get(&name)
            .is_some_and(|old| !old.is_empty() && is_argument(old));
        if !(is_argued && what.starts_with(NOT_SEEN)) {
            known.insert(name, what);
        }
    }
    let all: Vec<(&Name, &str)> = names
        .values()
        .map(|name| (name, known.get(name).map_or("", String::as_str)))
        .collect();
    let table: String = all
        .iter()
        .map(|(name, what)| format!("{name} | {what} |\n"))
        .collect();
    let count = |is: &dyn Fn(&str) -> bool| all.iter().filter(|(_, what)| is(what)).count();
    let open = count(&|what| what.starts_with(NOT_SEEN));
    let vain = count(&|what| what.starts_with(NOT_SEEN) && what.contains("without effect"));
    let not_run = count(&str::is_empty);
    let argued = count(&|what| is_argument(what) && !what.is_empty());
    println!(
        "{} sites: {} seen, {argued} argued, {open} not seen ({vain} of them without effect), {not_run} not run",
        all.len(),
        all.len() - open - argued - not_run
    );
    let text = fs::read_to_string(path()).map_err(|error| format!("docs/sweep.md: {error}"))?;
    let head = text.split(HEAD).next().unwrap_or(&text);
    fs::write(path(), format!("{head}{HEAD}{table}")).map_err(|error| format!("docs/sweep.md: {error}"))?;
    Ok(open + not_run == 0)
}

fn is_argument(what: &str) -> bool {
    !what.starts_with(NOT_SEEN) && !what.contains(", seed ")
}
