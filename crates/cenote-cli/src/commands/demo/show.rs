//! What the demo prints: coloured steps where there is a terminal, and bars where a person watches.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::Failure;
use crate::output::Output;

/// Prints to people; nothing with `--json`.
pub struct Show<'a> {
    out: &'a Output,
    colour: bool,
}

impl<'a> Show<'a> {
    /// For an output.
    pub fn new(out: &'a Output) -> Self {
        let colour =
            std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
        Self { out, colour }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn line(&self, text: String) -> Result<(), Failure> {
        if self.out.json {
            Ok(())
        } else {
            self.out.line(text)
        }
    }

    /// Begins a part.
    pub fn title(&self, text: &str) -> Result<(), Failure> {
        self.line(format!("\n{}", self.paint("1;36", text)))
    }

    /// Something that was done and checked.
    pub fn good(&self, text: &str) -> Result<(), Failure> {
        self.line(format!("  {} {text}", self.paint("1;32", "ok")))
    }

    /// Something to know.
    pub fn fact(&self, text: &str) -> Result<(), Failure> {
        self.line(format!("     {text}"))
    }

    /// Something violent.
    pub fn kill(&self, bar: &ProgressBar, text: &str) {
        // A closed standard output is noticed by the next line.
        bar.suspend(|| {
            self.line(format!("  {} {text}", self.paint("1;31", "kill -9")))
                .ok()
        });
    }

    /// A command to type.
    pub fn command(&self, command: &str, what: &str) -> Result<(), Failure> {
        self.line(format!("  {}\n      {what}", self.paint("1", command)))
    }

    /// A bar, if a person watches.
    pub fn bar(&self, len: usize, message: &'static str) -> ProgressBar {
        if !self.out.is_watched() {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("  {msg:22} {bar:40.cyan/blue} {pos:>3}/{len} units");
        let bar = ProgressBar::new(len as u64);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(message);
        bar
    }
}
