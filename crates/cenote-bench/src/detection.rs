//! The `detection` command: how long after `kill -9` others know of a process's death, and whether anybody is taken for
//! dead who lives. What is measured, and how, is in [`cenote_sim::detection`].

use std::path::PathBuf;
use std::time::Duration;

use cenote_sim::detection::{Measured, Plan, Sample, measure, part, soak};
use clap::Args;
use serde_json::{Value, json};

use crate::subjects::Failure;
use crate::table::{Output, Style, table};

/// The options of `detection`.
#[derive(Args)]
pub struct Options {
    /// Kills of each case.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    kills: u32,
    /// Mebibytes of the pool that the dead had touched; one case each.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1024])]
    touched: Vec<u64>,
    /// Members that are told, each a process.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=32))]
    members: u32,
    /// Processes that keep the cores busy meanwhile, with two threads each.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=32))]
    busy: u32,
    /// Instead of killing, keep the cores busy for so many minutes, stop and continue processes, and count deaths:
    /// there must be none.
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    soak: Option<Duration>,
    /// The folder for the pool.
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// The arguments of a process that plays a part.
#[derive(Args)]
pub struct PartOptions {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

fn minutes(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('m').unwrap_or(text).parse::<f64>().ok();
    number
        .and_then(|minutes| Duration::try_from_secs_f64(minutes * 60.0).ok())
        .ok_or("minutes are a number of 0 or more, such as 5 or 5m".to_owned())
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    if let Some(time) = options.soak {
        return soaked(options, time);
    }
    let mut cases = Vec::new();
    for &mebibytes in &options.touched {
        let plan = Plan {
            folder: options.folder.clone(),
            kills: options.kills,
            touched: mebibytes << 20,
            members: options.members,
            busy: options.busy,
        };
        let measured = measure(&plan, |_| {}).map_err(|error| Failure::Broken(error.to_string()))?;
        cases.push((mebibytes, measured));
    }
    options.output.print(
        || {
            json!({
                "command": "detection", "kills": options.kills, "members": options.members, "busy": options.busy,
                "cases": json_of(&cases),
            })
        },
        |style| text(options, &cases, style),
    );
    Ok(())
}

/// What is asked of each sample.
type Figure = (&'static str, fn(&Sample) -> f64);

const FIGURES: [Figure; 3] = [
    ("detected", |sample| sample.detected),
    ("first member told", |sample| sample.first),
    ("last member told", |sample| sample.last),
];
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 1.0];

fn text(options: &Options, cases: &[(u64, Measured)], style: Style) -> String {
    let mut text = format!(
        "{} kills, {} members, {} busy processes; microseconds from just before the kill (Lupin: 175 to detect, 106 to \
         notify)\n\n",
        options.kills, options.members, options.busy
    );
    let mut rows = Vec::new();
    for (mebibytes, measured) in cases {
        for (name, of) in FIGURES {
            let figures = QUANTILES.map(|quantile| format!("{:.0}", measured.quantile(of, quantile)));
            let case = [format!("{mebibytes} MiB touched"), name.to_owned()];
            rows.push(case.into_iter().chain(figures).collect());
        }
    }
    table(
        &mut text,
        style,
        2,
        &["case", "", "median", "p90", "p99", "max"],
        &rows,
    );
    for (mebibytes, measured) in cases
        .iter()
        .filter(|(_, measured)| measured.idle_load.is_finite())
    {
        let load = measured.idle_load * 100.0;
        text +=
            &format!("\nA watcher that nothing happens to, {mebibytes} MiB: {load:.2} % of a processor\n");
    }
    text
}

fn json_of(cases: &[(u64, Measured)]) -> Vec<Value> {
    let case = |(mebibytes, measured): &(u64, Measured)| {
        let figures = FIGURES.iter().map(|(name, of)| {
            let quantiles = QUANTILES.map(|quantile| measured.quantile(of, quantile));
            json!({ "name": name, "quantiles": QUANTILES, "us": quantiles })
        });
        json!({
            "touched_mib": mebibytes,
            "figures": figures.collect::<Vec<_>>(),
            "idle_load": measured.idle_load.is_finite().then_some(measured.idle_load),
            "samples": measured.samples,
        })
    };
    cases.iter().map(case).collect()
}

fn soaked(options: &Options, time: Duration) -> Result<(), Failure> {
    let busy = options.busy.max(2);
    let (deaths, stops) =
        soak(&options.folder, busy, time).map_err(|error| Failure::Broken(error.to_string()))?;
    options.output.print(
        || {
            json!({
                "command": "detection", "soak_s": time.as_secs_f64(), "busy": busy, "stops": stops, "deaths": deaths,
            })
        },
        |_| {
            format!(
                "{:.0} s with {busy} busy processes, stopped and continued {stops} times: {} false positives\n",
                time.as_secs_f64(),
                deaths.len()
            )
        },
    );
    match deaths.first() {
        None => Ok(()),
        Some(first) => Err(Failure::Broken(format!(
            "somebody who lives was taken for dead: {first}"
        ))),
    }
}

/// One of the processes.
pub fn run_part(options: &PartOptions) -> Result<(), Failure> {
    match options.args.split_first() {
        Some((role, args)) if role == "detection" => {
            part(args).map_err(|error| Failure::Broken(error.to_string()))
        }
        _ => Err(Failure::Broken("which part?".to_owned())),
    }
}
