//! How a cluster is.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use cenote_cluster::control::Status;

use super::place::ClusterArg;
use crate::failure::Failure;
use crate::output::{Output, bytes, count};

/// Prints it.
pub fn run(cluster: &ClusterArg, out: &Output) -> Result<ExitCode, Failure> {
    out.result(&cluster.status()?, text)?;
    Ok(ExitCode::SUCCESS)
}

fn text(status: &Status) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let mut line = |what: &str, value: String| {
        let _ = writeln!(text, "{what:<8} {value}");
    };
    let health = match (status.unavailable, status.closed, status.under_replicated) {
        (0, 0, 0) => "whole".to_owned(),
        (0, closed, under_replicated) => {
            format!("{closed} regions closed for now, {under_replicated} with too few copies")
        }
        (unavailable, ..) => format!("{unavailable} regions without a memory node"),
    };
    line("cluster", format!("{health}; view {}", status.view));
    line(
        "regions",
        format!(
            "{} of {}, {} copies of each; {} of {} blocks are in use",
            count(status.regions as u64),
            bytes(status.region_bytes.into()),
            status.replicas,
            count(status.blocks),
            count(status.blocks_max)
        ),
    );
    line(
        "closings",
        format!(
            "{} since the master began; the last one took {:?}",
            count(status.closings),
            Duration::from_micros(status.last_closing_us)
        ),
    );
    for node in &status.nodes {
        let is = match (node.alive, node.answers, node.draining) {
            (false, ..) => "given up",
            (true, false, _) => "silent",
            (true, true, true) => "being emptied",
            (true, true, false) => "alive",
        };
        line(
            "node",
            format!(
                "{} at {}: {is}; {} of memory, primary of {}, backup of {}",
                node.node,
                node.address,
                bytes(node.memory),
                node.primary_of,
                node.backup_of
            ),
        );
    }
    for session in &status.sessions {
        line(
            "client",
            format!(
                "{} ({}): {} blocks, heard {:?} ago",
                session.session,
                session.name,
                count(session.blocks),
                Duration::from_micros(session.silent_us)
            ),
        );
    }
    text
}
