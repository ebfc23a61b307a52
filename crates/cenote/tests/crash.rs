//! The kill -9 crash-point test.
fn main() {}
