//! What is said on standard error. That this cannot be written is no reason to end, nor to give up on what is being done.

/// As `eprintln!`, which panics where standard error is closed or full.
macro_rules! complain {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($what)*);
    }};
}

pub(crate) use complain;
