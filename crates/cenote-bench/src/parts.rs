//! Parts: this program once more, with a hidden subcommand, as processes that measure when they are told to.
//!
//! A part is told what to do a line at a time. It prepares that, warms up and answers `ready`; `go` starts its clock;
//! it answers with the operations it has done and the nanoseconds it took. A part that is not asked waits for its
//! standard input and takes no time. A part ends when its standard input does, and so with its parent however that
//! ends.

use crate::subjects::{Failure, check};
use std::ffi::OsStr;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Operations between two readings of the clock.
const STRETCH: usize = 2_048;

/// A process that does operations when it is told to.
pub struct Part {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Part {
    /// Starts a program with these arguments.
    pub fn start<A: AsRef<OsStr>>(
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Self, Failure> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::Broken("a part has no pipes".to_owned()));
        };
        Ok(Self {
            child,
            input: Some(input),
            output: BufReader::new(output),
        })
    }

    /// Tells it something.
    pub fn say(&mut self, line: &str) -> Result<(), Failure> {
        match &mut self.input {
            Some(input) => Ok(writeln!(input, "{line}")?),
            None => Ok(()),
        }
    }

    /// Waits for its answer.
    pub fn hear(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        check(line.ends_with('\n'), "a part has ended too early")?;
        Ok(line.trim_end().to_owned())
    }

    /// Waits until it has made ready for what it was told.
    pub fn is_ready(&mut self) -> Result<(), Failure> {
        let answer = self.hear()?;
        check(answer == "ready", "a part is not ready")
    }

    /// Waits for what it has done: operations, and nanoseconds.
    pub fn figures(&mut self) -> Result<(f64, f64), Failure> {
        let answer = self.hear()?;
        let mut numbers = answer.split(' ').map(str::parse::<f64>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(operations)), Some(Ok(ns))) => Ok((operations, ns)),
            _ => Err(Failure::Broken(format!("a part answered \"{answer}\""))),
        }
    }

    /// Kills it, and waits until it is dead.
    pub fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Ends it, and fails if it has.
    pub fn end(mut self) -> Result<(), Failure> {
        drop(self.input.take());
        let status = self.child.wait()?;
        check(status.success(), "a part has failed")
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Operations a second of some parts that start at the same time: the sum of theirs. `task` says what the part of a
/// number is told.
pub fn together(parts: &mut [Part], task: impl Fn(usize) -> String) -> Result<f64, Failure> {
    for (n, part) in parts.iter_mut().enumerate() {
        part.say(&task(n))?;
    }
    parts.iter_mut().try_for_each(Part::is_ready)?;
    for part in &mut *parts {
        part.say("go")?;
    }
    parts.iter_mut().try_fold(0.0, |sum, part| {
        let (operations, ns) = part.figures()?;
        Ok(sum + operations / ns * 1e9)
    })
}

/// What a part does.
pub trait Work {
    /// Makes ready for a task, untimed.
    fn prepare(&mut self, task: &str) -> Result<(), Failure>;

    /// Does it; returns the operations done, and the nanoseconds.
    fn run(&mut self, task: &str) -> Result<(u64, u128), Failure>;
}

/// Does what the standard input says until it ends.
pub fn serve(work: &mut impl Work) -> Result<(), Failure> {
    let mut lines = std::io::stdin().lines();
    let mut next = || lines.next().transpose();
    while let Some(task) = next()? {
        work.prepare(&task)?;
        answer("ready")?;
        if next()?.is_none() {
            break;
        }
        let (operations, ns) = work.run(&task)?;
        answer(&format!("{operations} {ns}"))?;
    }
    Ok(())
}

/// Answers the parent.
pub fn answer(line: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}

/// The failure of a part that does not know what it was told.
#[cold]
pub fn unknown(task: &str) -> Failure {
    Failure::Broken(format!("a part was told \"{task}\""))
}

/// Goes through the operations, over and over, until the time is over; how many, and the nanoseconds. `stretch` returns
/// 0 if all it read was right.
pub fn repeat<T>(
    time: Duration,
    operations: &[T],
    mut stretch: impl FnMut(&[T]) -> Result<u64, Failure>,
) -> Result<(u64, u128), Failure> {
    let mut done = 0;
    let mut wrong = 0;
    let start = Instant::now();
    for part in operations.chunks(STRETCH).cycle() {
        wrong |= stretch(part)?;
        done += part.len() as u64;
        let elapsed = start.elapsed();
        if elapsed >= time {
            check(black_box(wrong) == 0, "a get returned a wrong value")?;
            return Ok((done, elapsed.as_nanos()));
        }
    }
    Err(Failure::Broken("there is nothing to do".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_repeated_until_the_time_is_over_and_faults_are_seen() {
        let time = Duration::from_millis(2);
        let (done, ns) = repeat(time, &[1, 2, 3], |part| Ok(part.len() as u64 - 3)).expect("all is right");
        assert!(done >= 3 && done % 3 == 0 && ns >= time.as_nanos());
        assert!(repeat(time, &[1], |_| Ok(1)).is_err());
        assert!(repeat(time, &[0u64; 0], |_| Ok(0)).is_err());
    }
}
