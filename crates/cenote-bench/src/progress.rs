//! What is being done, in one line on a terminal; nowhere else.

use std::io::IsTerminal;

/// A line that says what is being done, and is rewritten.
pub struct Progress {
    is_shown: bool,
    /// What it begins with.
    prefix: String,
}

impl Progress {
    /// A line that begins like this.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self {
            is_shown: std::io::stderr().is_terminal(),
            prefix: prefix.into(),
        }
    }

    /// Shows what is done now.
    pub fn tell(&self, what: &str) {
        if self.is_shown {
            eprint!("\r\x1b[K{}{what}", self.prefix);
        }
    }
}

/// Shows what is done now; nothing leaves an empty line.
pub fn tell(what: &str) {
    Progress::new("").tell(what);
}
