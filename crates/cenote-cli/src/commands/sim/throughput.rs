//! `cenote sim throughput`: YCSB workloads in virtual time.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use cenote_sim::profile::Profile;
use cenote_sim::throughput::{self, Plan, Throughput, ThroughputError, measure};
use cenote_ycsb::Workload;
use serde::Serialize;

use crate::commands::bench::plan::Form;
use crate::failure::Failure;
use crate::output::{Output, count};
use crate::whole_file::Target;

/// Arguments.
///
/// Keys and values have 8 bytes, records are chosen zipfian with 0.99. All figures are simulated: they come from
/// virtual clocks and the profile's costs. The same arguments print the same result.
#[derive(clap::Args)]
pub struct Args {
    /// load, a, b, c, d, e or f; several are done one after another on the same map
    #[arg(long, default_value = "c", value_delimiter = ',')]
    workload: Vec<Workload>,
    /// What holds the records: hash or ordered
    #[arg(long, value_name = "KIND", default_value = "hash", value_parser = form)]
    map: throughput::Form,
    /// Threads of all hosts together
    #[arg(long, value_name = "N", default_value_t = 144, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Hosts, each with one process; no more than threads are used
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    hosts: u32,
    /// Records in the map, as in 500k or 1M; for load, those that are put in
    #[arg(long, value_name = "N", default_value = "1M", value_parser = super::super::bench::number)]
    records: u64,
    /// Make the records as skewed as so many would be, as in 100M: popularity is drawn over so many ranks, and taken
    /// modulo the records
    #[arg(long, value_name = "N", value_parser = ranks)]
    ranks: Option<u64>,
    /// Operations of all threads together, of each workload; load has as many as records
    #[arg(long, value_name = "N", default_value = "1M", value_parser = super::super::bench::number)]
    operations: u64,
    /// Which of the paper's guidelines to follow
    #[arg(long, value_enum, default_value_t = Form::P3)]
    guidelines: Form,
    /// Make the hosts' caches coherent
    #[arg(long)]
    coherent: bool,
    /// What things cost: dram, cxl-local, cxl-remote, cxl-remote-wide, or a TOML file
    #[arg(long, value_name = "NAME", default_value = "cxl-remote-wide")]
    profile: String,
    /// The cache of a host, as in 1M, instead of the profile's
    #[arg(long, value_name = "BYTES", value_parser = cenote::parse_size)]
    cache: Option<u64>,
    /// What the operations are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Say where in the library the time goes, by functions; ten times as slow
    #[arg(long)]
    profile_regions: bool,
    /// Write the call stacks and their virtual picoseconds to this file, in the form that flame graph tools read
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
}

#[derive(Serialize)]
struct Answer<'a> {
    origin: &'static str,
    workload: &'static str,
    map: throughput::Form,
    guidelines: Form,
    memory: &'static str,
    profile: &'a str,
    hosts: u32,
    threads: u32,
    records: u64,
    /// That popularity is drawn over.
    ranks: u64,
    seed: u64,
    #[serde(flatten)]
    throughput: Throughput,
    /// Simulated memory operations of the whole run.
    steps: u64,
    /// A checksum over all that happened.
    digest: u64,
}

fn ranks(text: &str) -> Result<u64, String> {
    match super::super::bench::number(text)? {
        ranks if ranks <= 1 << 52 => Ok(ranks),
        _ => Err("at most 2^52 ranks can be drawn from".into()),
    }
}

fn form(text: &str) -> Result<throughput::Form, String> {
    let known = throughput::Form::ALL;
    known
        .into_iter()
        .find(|form| form.name() == text)
        .ok_or_else(|| format!("give one of {}", known.map(throughput::Form::name).join(", ")))
}

/// Runs.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let mut profile = Profile::load(&args.profile).map_err(|error| Failure::misuse(error.to_string()))?;
    profile.cache_bytes = args.cache.unwrap_or(profile.cache_bytes);
    let plan = Plan {
        form: args.map,
        hosts: args.hosts.min(args.threads),
        threads: args.threads,
        coherent: args.coherent,
        workloads: args.workload,
        records: args.records,
        ranks: args.ranks.unwrap_or(0),
        operations: args.operations,
        guidelines: args.guidelines.guidelines(),
        replicates_epoch: args.guidelines.guidelines().replicate,
        trace: None,
        profile,
        seed: args.seed,
        profiles_regions: args.profile_regions || args.folded.is_some(),
    };
    let folded = args.folded.as_deref().map(Target::at).transpose()?;
    let begin = Instant::now();
    let outcome = measure(&plan).map_err(|error| match error {
        ThroughputError::Scans(_) | ThroughputError::LoadLater | ThroughputError::None(_) => {
            Failure::misuse(error.to_string())
        }
        _ => Failure::failed(error.to_string()),
    })?;
    let wall = begin.elapsed().as_secs_f64();
    if let (Some(path), Some(target)) = (&args.folded, folded) {
        let lines = outcome.workloads.iter().flat_map(|done| &done.profiled.folded);
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        target.write(|to| to.write_all(text.as_bytes()).map_err(Failure::io(path.display())))?;
    }
    for (workload, throughput) in plan.workloads.iter().zip(outcome.workloads) {
        let answer = Answer {
            origin: "simulated",
            workload: workload.name(),
            map: plan.form,
            guidelines: args.guidelines,
            memory: if plan.coherent { "coherent" } else { "noncoherent" },
            profile: &plan.profile.name,
            hosts: plan.hosts,
            threads: plan.threads,
            records: plan.records,
            ranks: plan.ranks.max(plan.records),
            seed: plan.seed,
            throughput,
            steps: outcome.steps,
            digest: outcome.digest,
        };
        out.result(&answer, text)?;
    }
    let rate = outcome.steps as f64 / wall / 1e6;
    out.note(format!(
        "took {wall:.1} s: {} simulated memory operations, {rate:.1} M a second",
        count(outcome.steps)
    ));
    Ok(ExitCode::SUCCESS)
}

fn text(answer: &Answer) -> String {
    let Throughput {
        operations,
        mops_per_s,
        latency_ns,
        traffic,
        ..
    } = &answer.throughput;
    let form = answer.guidelines.name();
    let each: Vec<String> = traffic
        .by_kind()
        .iter()
        .map(|(kind, sum)| format!("{kind} {:.3}", *sum as f64 / *operations as f64))
        .collect();
    let mut text = format!(
        "{} map, workload {}, {form}, {} memory, profile {}, {} threads on {} hosts, {} records (simulated)\n\
         {mops_per_s:.3} M operations a second of virtual time; {} operations\n\
         an operation takes {:.0} ns (mean), {:.0} ns (P50), {:.0} ns (P99)\n\
         to memory for each operation: {}",
        answer.map.name(),
        answer.workload,
        answer.memory,
        answer.profile,
        answer.threads,
        answer.hosts,
        count(answer.records),
        count(*operations),
        latency_ns.mean,
        latency_ns.p50,
        latency_ns.p99,
        each.join(", "),
    );
    let _ = where_time_goes(&mut text, &answer.throughput);
    text
}

/// Regions that are shown.
const SHOWN: usize = 25;

fn where_time_goes(text: &mut String, throughput: &Throughput) -> std::fmt::Result {
    let links = throughput.links_gib_per_s;
    write!(
        text,
        "\nthrough the links: {links:.2} GiB a second\nns of an operation, and of them waiting for others:"
    )?;
    for share in throughput.time.iter().filter(|share| share.ns > 0.0) {
        write!(
            text,
            "\n  {:<24} {:>10.1} {:>10.1}",
            share.part, share.ns, share.queued_ns
        )?;
    }
    let regions = &throughput.profiled.regions;
    if !regions.is_empty() {
        write!(
            text,
            "\nby functions, ns of an operation: itself, with what it calls; accesses; % that sync operations and fences take\n"
        )?;
    }
    for region in regions.iter().take(SHOWN) {
        writeln!(
            text,
            "  {:>9.1} {:>9.1} {:>7.2} {:>4.0} {:>4.0}  {}",
            region.ns,
            region.with_callees_ns,
            region.accesses,
            region.sync * 100.0,
            region.fences * 100.0,
            region.function,
        )?;
    }
    Ok(())
}
