//! What the tests' etcd needs to know of a child.

use std::process::Child;
use std::time::{Duration, Instant};

/// The exit code of a child that ends in time; inside, `None` if a signal ended it.
pub fn until_ended(child: &mut Child, timeout: Duration) -> Option<Option<i32>> {
    let start = Instant::now();
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return Some(status.code()),
            None if start.elapsed() > timeout => return None,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Sends a signal to a child that has not been waited for.
pub fn kill(child: &Child, signal: i32) {
    // SAFETY: a child of ours that was not waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}
