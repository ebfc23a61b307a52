//! Histories: each call with its caller, when it began, when it returned, and its result (Herlihy & Wing 1990,
//! section 2). A history is all that the checkers of this crate see of a run.
//!
//! **Time.** A step is a number of the scheduler. One call is before another if it returned at a smaller step than the
//! other was invoked at; all other pairs are concurrent.
//!
//! **Crashes.** A call that never returned is *pending*. If its process died, `lost` is the step of the death; a call
//! with neither `returned` nor `lost` was still running when the run ended.
//!
//! **Invariants** (checked by [`History::new`], hence true of every history): `invoke < returned` and `invoke < lost`
//! where present; a result is there exactly if `returned` is; no call has both `returned` and `lost`.
//!
//! **On disk.** JSON lines, one call a line, with the keys `process`, `op`, `key`, `arg`, `result`, `invoke`, `return`,
//! null where absent, and `lost` only where present. A result of null together with a `return` is a result, such as
//! that of a search which found nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, Write};

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<Op, Ret> {
    /// Who called.
    pub process: u32,
    /// What was called.
    pub op: Op,
    /// What came back; `None` if nothing did.
    pub result: Option<Ret>,
    /// The step at which the call began.
    pub invoke: u64,
    /// The step at which it returned.
    pub returned: Option<u64>,
    /// The step at which the process died in it.
    pub lost: Option<u64>,
}

/// Why a list of calls is no history. Calls count from 0, in the order of invocation or of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It ended before it began.
    #[error("call {event} ends at step {end}, but began at step {invoke}")]
    Backwards {
        /// Which call.
        event: usize,
        /// Its begin.
        invoke: u64,
        /// Its end.
        end: u64,
    },
    /// A result without a return or a return without a result.
    #[error("call {0} has a result or a step of return, but not both")]
    HalfReturned(usize),
    /// It returned although its process had died, or returned twice.
    #[error("call {0} ends twice")]
    EndedTwice(usize),
    /// The ticket of another recorder.
    #[error("a call {0} was completed that never began")]
    NeverBegan(usize),
}

/// Calls with the invariants of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History<Op, Ret> {
    events: Vec<Event<Op, Ret>>,
}

impl<Op, Ret> History<Op, Ret> {
    /// Checks the invariants. The order of the calls does not matter and is kept.
    pub fn new(events: Vec<Event<Op, Ret>>) -> Result<Self, Malformed> {
        for (index, event) in events.iter().enumerate() {
            let invoke = event.invoke;
            if event.result.is_some() != event.returned.is_some() {
                return Err(Malformed::HalfReturned(index));
            }
            if event.returned.is_some() && event.lost.is_some() {
                return Err(Malformed::EndedTwice(index));
            }
            if let Some(end) = event.returned.or(event.lost).filter(|end| *end <= invoke) {
                return Err(Malformed::Backwards {
                    event: index,
                    invoke,
                    end,
                });
            }
        }
        Ok(History { events })
    }

    /// The calls.
    pub fn events(&self) -> &[Event<Op, Ret>] {
        &self.events
    }
}

/// A call that a [`Recorder`] saw begin.
#[derive(Clone, Copy, Debug)]
pub struct Ticket(usize);

/// Writes a history while it happens.
#[derive(Clone, Debug)]
pub struct Recorder<Op, Ret> {
    events: Vec<Event<Op, Ret>>,
    fault: Option<Malformed>,
}

impl<Op, Ret> Default for Recorder<Op, Ret> {
    fn default() -> Self {
        Recorder {
            events: Vec::new(),
            fault: None,
        }
    }
}

impl<Op, Ret> Recorder<Op, Ret> {
    /// A recorder that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A call begins.
    pub fn invoke(&mut self, process: u32, op: Op, step: u64) -> Ticket {
        self.events.push(Event {
            process,
            op,
            result: None,
            invoke: step,
            returned: None,
            lost: None,
        });
        Ticket(self.events.len() - 1)
    }

    /// A call returns.
    pub fn complete(&mut self, ticket: Ticket, ret: Ret, step: u64) {
        let event = ticket.0;
        match self.events.get_mut(event) {
            Some(call) if call.returned.is_none() && call.lost.is_none() => {
                call.result = Some(ret);
                call.returned = Some(step);
            }
            Some(_) => self.note(Malformed::EndedTwice(event)),
            None => self.note(Malformed::NeverBegan(event)),
        }
    }

    /// A process dies, maybe in a call. Later calls under its number are its successor's.
    pub fn lose(&mut self, process: u32, step: u64) {
        for event in &mut self.events {
            if event.process == process && event.returned.is_none() && event.lost.is_none() {
                event.lost = Some(step);
            }
        }
    }

    /// The history, or the first misuse of the recorder.
    pub fn finish(self) -> Result<History<Op, Ret>, Malformed> {
        match self.fault {
            Some(fault) => Err(fault),
            None => History::new(self.events),
        }
    }

    fn note(&mut self, fault: Malformed) {
        self.fault.get_or_insert(fault);
    }
}

/// What is called, as it is written into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The operation's name.
    pub op: String,
    /// The one key that it is about.
    pub key: Option<u64>,
    /// Everything else that it was given; null if nothing.
    pub arg: Value,
}

/// An operation that can be written into a file and read back.
pub trait Record: Sized {
    /// Its results.
    type Ret;

    /// The operation as it is written.
    fn call(&self) -> Call;

    /// The operation that was written; `None` if there is no such one.
    fn parse_call(call: &Call) -> Option<Self>;

    /// A result of this operation as it is written.
    fn result(&self, ret: &Self::Ret) -> Value;

    /// The result of this operation that was written; `None` if it has no such one.
    fn parse_result(&self, result: &Value) -> Option<Self::Ret>;
}

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read at all.
    #[error("the history cannot be read")]
    Io(#[from] io::Error),
    /// A line is not one of a history.
    #[error("line {line}: {what}")]
    Line {
        /// Which line, counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// The lines make no history.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    process: u32,
    op: String,
    key: Option<u64>,
    #[serde(default)]
    arg: Value,
    #[serde(default)]
    result: Value,
    invoke: u64,
    #[serde(rename = "return")]
    returned: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
}

impl<Op: Record<Ret = Ret>, Ret> History<Op, Ret> {
    /// Writes JSON lines.
    pub fn export(&self, mut out: impl Write) -> io::Result<()> {
        for event in &self.events {
            let Call { op, key, arg } = event.op.call();
            let line = Line {
                process: event.process,
                op,
                key,
                arg,
                result: event
                    .result
                    .as_ref()
                    .map_or(Value::Null, |ret| event.op.result(ret)),
                invoke: event.invoke,
                returned: event.returned,
                lost: event.lost,
            };
            serde_json::to_writer(&mut out, &line)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    /// Reads JSON lines; empty ones are skipped.
    pub fn import(input: impl BufRead) -> Result<Self, ImportError> {
        let mut events = Vec::new();
        for (index, text) in input.lines().enumerate() {
            let text = text?;
            if !text.trim().is_empty() {
                events.push(read(&text).map_err(|what| ImportError::Line {
                    line: index + 1,
                    what,
                })?);
            }
        }
        Ok(History::new(events)?)
    }
}

fn read<Op: Record>(text: &str) -> Result<Event<Op, Op::Ret>, String> {
    let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let call = Call {
        op: line.op,
        key: line.key,
        arg: line.arg,
    };
    let op = Op::parse_call(&call).ok_or_else(|| format!("no such operation: {call:?}"))?;
    let result = match line.returned {
        None if line.result.is_null() => None,
        _ => {
            let ret = op.parse_result(&line.result);
            Some(ret.ok_or_else(|| format!("{call:?} does not return {}", line.result))?)
        }
    };
    Ok(Event {
        process: line.process,
        op,
        result,
        invoke: line.invoke,
        returned: line.returned,
        lost: line.lost,
    })
}
