//! Messages on standard error. A message that cannot be written is no reason to end, or to give up the work.

/// As `eprintln!`, which panics where standard error is closed or full.
macro_rules! complain {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($what)*);
    }};
}

pub(crate) use complain;
