//! Cells over words of this process: no mapping and no instructions that an interpreter lacks, so that Miri can run these tests.

use super::*;

#[test]
fn todo() {}
