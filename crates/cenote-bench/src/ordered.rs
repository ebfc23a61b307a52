//! The `ordered` command: Cenote's ordered map beside ordered maps of one process, LMDB, redb and BTreeOLC, through the
//! phases of [`mod@crate::hash`], with keys chosen uniformly, and scans of 50 keys.

use crate::hash::{Entry, Options, Plan, report_of};
use crate::subjects::Failure;
use crate::subjects::baseline::Baseline;
use crate::subjects::lmdb::Lmdb;
use crate::subjects::ordered::Tree;
use crate::subjects::redb::Redb;
use crate::subjects::trees::{self, Concurrent, Scc, Skip};
use cenote::index::baseline::btree::BTree;
use cenote_ycsb::Chooser;

/// Measures every chosen subject and prints the report.
pub fn run(options: &Options) -> Result<(), Failure> {
    let entries = vec![
        Entry::of::<Tree<cenote::Coherent>>(true),
        Entry::of::<Tree<cenote::Noncoherent>>(false),
        Entry::of::<trees::Tree<Scc>>(true),
        Entry::of::<trees::Tree<Skip>>(true),
        Entry::of::<trees::Tree<Concurrent>>(true),
        Entry::of::<Baseline<BTree<cenote::Coherent>>>(true),
        Entry::of::<Lmdb<false>>(true),
        Entry::of::<Lmdb<true>>(true),
        Entry::of::<Redb<false>>(true),
        Entry::of::<Redb<true>>(true),
    ];
    let plan = Plan::chosen_by(options, Chooser::Uniform);
    let report = report_of("ordered", "uniform", entries, options, &plan)?;
    options
        .output()
        .print(|| report.json(), |style| report.text(style));
    Ok(())
}
