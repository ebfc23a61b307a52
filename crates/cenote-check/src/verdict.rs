//! The result of a check of linearizability, and its text.
//!
//! A violation is the smallest that is cheap to find: the history up to the first return that fits no order, from the
//! last moment before it at which no completed call was running, without the reads that change nothing about it.

use std::fmt;

/// The most calls that are shown: the last ones.
const LINES_MAX: usize = 40;

/// Whether a history is linearizable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// There is an order.
    Linearizable,
    /// There is none.
    Violation(Box<Violation>),
    /// The search was given up.
    Undecided {
        /// The part that was searched, if the history was partitioned.
        key: Option<String>,
        /// How many configurations were visited.
        states: usize,
    },
}

impl Verdict {
    /// Whether an order was found.
    pub fn is_linearizable(&self) -> bool {
        matches!(self, Verdict::Linearizable)
    }

    /// Whether it is certain that there is none.
    pub fn is_violation(&self) -> bool {
        matches!(self, Verdict::Violation(_))
    }
}

/// Calls that cannot be ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The part that they are about, if the history was partitioned.
    pub key: Option<String>,
    /// The states that the object may have been in before them.
    pub before: Vec<String>,
    /// The calls, in the order of their invocation.
    pub lines: Vec<Line>,
    /// How many earlier calls led to the states in `before`.
    pub earlier: usize,
    /// How many reads in between were left out.
    pub reads: usize,
}

/// One call of a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its place in the history.
    pub event: usize,
    /// Who called.
    pub process: u32,
    /// The operation.
    pub op: String,
    /// The result, if it returned.
    pub result: Option<String>,
    /// When it began.
    pub invoke: u64,
    /// When it returned.
    pub returned: Option<u64>,
    /// When its process died in it.
    pub lost: Option<u64>,
    /// Whether this is the call whose return fits no order.
    pub is_last: bool,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Linearizable => write!(f, "linearizable"),
            Verdict::Violation(violation) => violation.fmt(f),
            Verdict::Undecided { key, states } => {
                write!(
                    f,
                    "undecided{}: given up after {states} configurations",
                    Part(key)
                )
            }
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "not linearizable{}: these calls have no order",
            Part(&self.key)
        )?;
        writeln!(f, "  before them: {}", self.before.join(" or "))?;
        let hidden = self.lines.len().saturating_sub(LINES_MAX);
        if hidden > 0 {
            writeln!(f, "  ({hidden} calls)")?;
        }
        for line in self.lines.iter().skip(hidden) {
            writeln!(f, "  {line}")?;
        }
        write!(
            f,
            "  left out: {} earlier calls and {} reads",
            self.earlier, self.reads
        )
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = match (self.returned, self.lost) {
            (Some(step), _) => format!("{}..{step}", self.invoke),
            (None, Some(step)) => format!("{}..died {step}", self.invoke),
            (None, None) => format!("{}..", self.invoke),
        };
        let result = self.result.as_deref().unwrap_or("?");
        write!(
            f,
            "process {:<3} steps {steps:<20} {} -> {result}",
            self.process, self.op
        )?;
        if self.is_last {
            write!(f, "   <- fits no order")?;
        }
        Ok(())
    }
}

/// ", key 5", or nothing.
struct Part<'v>(&'v Option<String>);

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, ", key {key}"),
            None => Ok(()),
        }
    }
}
