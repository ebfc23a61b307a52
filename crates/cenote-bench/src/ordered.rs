//! The `ordered` command: Cenote's ordered map beside ordered maps of one process and LMDB, through the phases of
//! [`mod@crate::hash`], with keys chosen uniformly, and scans of 50 keys.

use crate::hash::{Entry, Options, Plan, report_of};
use crate::subjects::Failure;
use crate::subjects::lmdb::Lmdb;
use crate::subjects::ordered::Tree;
use crate::subjects::trees::{self, Concurrent, Scc, Skip};
use cenote_ycsb::Chooser;

/// Measures every chosen subject and prints the report.
pub fn run(options: &Options) -> Result<(), Failure> {
    let entries = vec![
        Entry::of::<Tree<cenote::Coherent>>(true),
        Entry::of::<Tree<cenote::Noncoherent>>(false),
        Entry::of::<trees::Tree<Scc>>(true),
        Entry::of::<trees::Tree<Skip>>(true),
        Entry::of::<trees::Tree<Concurrent>>(true),
        Entry::of::<Lmdb<false>>(true),
        Entry::of::<Lmdb<true>>(true),
    ];
    let plan = Plan::chosen_by(options, Chooser::Uniform);
    let report = report_of("ordered", "uniform", entries, options, &plan)?;
    options
        .output()
        .print(|| report.json(), |style| report.text(style));
    Ok(())
}
