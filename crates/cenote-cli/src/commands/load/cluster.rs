//! Loading into a cluster: one client, whose changes overlap.

use std::process::ExitCode;
use std::time::Instant;

use super::{Args, Loaded, deal_all, text};
use crate::commands::cluster::place::ClusterArg;
use crate::failure::Failure;
use crate::input::Position;
use crate::output::Output;
use crate::records::Source;

/// Records that are put at a time.
const AT_ONCE: usize = 256;

/// Loads a file.
pub fn load(
    cluster: &ClusterArg,
    args: &Args,
    source: &mut dyn Source,
    position: &Position,
    out: &Output,
) -> Result<ExitCode, Failure> {
    args.map.of_cluster()?;
    if args.ordered || args.create || args.processes.is_some() {
        return Err(Failure::misuse(
            "a cluster is loaded by one process, and is there: leave out --ordered, --create and --processes",
        ));
    }
    let mut map = cluster.open()?;
    let progress = position.bar(out);
    let begin = Instant::now();
    let (mut records, mut bad_records) = (0, 0);
    let mut waiting: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut failure = None;
    let mut put = |waiting: &mut Vec<(Vec<u8>, Vec<u8>)>| -> Result<(), Failure> {
        let pairs: Vec<(&[u8], &[u8])> = waiting.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        map.put_many(&pairs)?;
        records += pairs.len() as u64;
        progress.inc(pairs.len() as u64);
        waiting.clear();
        Ok(())
    };
    let read = deal_all(
        source,
        &mut |key, value| {
            waiting.push((key.to_vec(), value.to_vec()));
            if waiting.len() == AT_ONCE {
                failure = put(&mut waiting).err();
            }
            failure.is_none()
        },
        args,
        out,
        (position, &progress),
        &mut bad_records,
    );
    let failure = match failure {
        None => put(&mut waiting).err(),
        failure => failure,
    };
    progress.finish_and_clear();
    if let Some(failure) = failure {
        return Err(failure);
    }
    read?;
    let seconds = begin.elapsed().as_secs_f64();
    let loaded = Loaded {
        records,
        bad_records,
        keys: None,
        processes: 1,
        replaced_workers: 0,
        seconds,
        records_per_second: records as f64 / seconds.max(1e-9),
    };
    out.result(&loaded, text)?;
    Ok(ExitCode::SUCCESS)
}
