//! A recorded trace of a cache, as commands read it: which format, how many requests, what to do with bad ones.

use std::path::{Path, PathBuf};

use cenote_ycsb::trace::{self, Columns, Reader, Record};
use indicatif::ProgressBar;

use crate::commands::bench::number;
use crate::failure::Failure;
use crate::input::{self, Position};
use crate::output::Output;

/// A trace's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Twitter's CSV: timestamp, key, key size, value size, client, operation, TTL
    Twitter,
    /// libCacheSim's oracleGeneral: records of 24 bytes
    Oracle,
    /// CSV whose columns --columns names
    Csv,
    /// An object id a line
    Txt,
}

impl Format {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Twitter => "twitter",
            Self::Oracle => "oracle",
            Self::Csv => "csv",
            Self::Txt => "txt",
        }
    }

    /// What a file's name says; Twitter's have no extension of their own.
    fn of(file: &Path) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_lowercase();
        if name.contains("oraclegeneral") {
            Self::Oracle
        } else if name.contains(".txt") {
            Self::Txt
        } else {
            Self::Twitter
        }
    }
}

/// The trace that a command works on.
#[derive(clap::Args, Clone, Debug)]
pub struct TraceArg {
    /// The trace; `-` is standard input. A name that ends in .gz or .zst is taken as compressed
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its format [default: csv with --columns; oracle and txt by the file's name; else twitter]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The columns of a CSV, as in time-col=2,obj-id-col=5,obj-size-col=4,has-header=true,delimiter=;
    #[arg(long, value_name = "NAME=VALUE,…")]
    columns: Option<Columns>,
    /// Stop after so many requests, as in 500k or 2M
    #[arg(long, value_name = "N", value_parser = number)]
    limit: Option<u64>,
    /// Go on after records that cannot be read, and count them
    #[arg(long)]
    skip_bad: bool,
}

/// A trace that is read.
pub struct Trace {
    reader: Reader<'static>,
    position: Position,
    progress: ProgressBar,
    limit: u64,
    skip_bad: bool,
    read: u64,
    bad: u64,
}

impl TraceArg {
    /// The file's name for a report.
    pub fn name(&self) -> String {
        match &*self.file.to_string_lossy() {
            "-" => "standard input".to_owned(),
            name => name.to_owned(),
        }
    }

    /// The format that is asked for, or that the name says.
    pub fn format(&self) -> Result<Format, Failure> {
        match (self.format, &self.columns) {
            (Some(Format::Csv), None) => Err(Failure::misuse(
                "a CSV needs --columns, as in --columns time-col=2,obj-id-col=5,obj-size-col=4",
            )),
            (Some(Format::Csv) | None, Some(_)) => Ok(Format::Csv),
            (Some(other), Some(_)) => Err(Failure::misuse(format!(
                "--columns are those of --format csv; {} has columns of its own",
                other.name()
            ))),
            (Some(format), None) => Ok(format),
            (None, None) => Ok(Format::of(&self.file)),
        }
    }

    /// Opens it. Nothing is shown of how far it is read until [`Trace::watch`].
    pub fn open(&self) -> Result<Trace, Failure> {
        let format = match (self.format()?, &self.columns) {
            (Format::Csv, Some(columns)) => trace::Format::Csv(columns.clone()),
            (Format::Oracle, _) => trace::Format::Oracle,
            (Format::Txt, _) => trace::Format::Text,
            _ => trace::Format::Twitter,
        };
        let file = (self.file.as_os_str() != "-").then_some(&*self.file);
        let (input, position) = input::open(file)?;
        Ok(Trace {
            reader: Reader::new(input, &format, self.name()),
            progress: ProgressBar::hidden(),
            position,
            limit: self.limit.unwrap_or(u64::MAX),
            skip_bad: self.skip_bad,
            read: 0,
            bad: 0,
        })
    }
}

impl Trace {
    /// Shows a bar, if a person watches. That starts a thread; see [`on_interrupt`](crate::interrupt::on_interrupt).
    pub fn watch(&mut self, out: &Output) {
        self.progress = self.position.bar(out);
    }

    /// Reads the next request; false at the end or when there are as many as wanted.
    pub fn next(&mut self, record: &mut Record, out: &Output) -> Result<bool, Failure> {
        while self.read < self.limit {
            match self.reader.read(record) {
                Ok(false) => return Ok(false),
                Ok(true) => {
                    self.read += 1;
                    self.position.guess(self.read, &self.progress);
                    return Ok(true);
                }
                Err(error) if error.is_one_record() => self.refuse(&error.to_string(), out)?,
                Err(error) => return Err(Failure::failed(error.to_string())),
            }
        }
        Ok(false)
    }

    /// A record is bad: the end, or counted, as the user wants it.
    pub fn refuse(&mut self, why: &str, out: &Output) -> Result<(), Failure> {
        if !self.skip_bad {
            return Err(Failure::failed(format!(
                "{why}; --skip-bad leaves such records out"
            )));
        }
        self.bad += 1;
        match self.bad {
            1..=5 => self
                .progress
                .suspend(|| out.note(format!("cenote: skipped: {why}"))),
            6 => self
                .progress
                .suspend(|| out.note("cenote: more bad records are only counted")),
            _ => {}
        }
        Ok(())
    }

    /// Requests that were read.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Records that were left out.
    pub fn bad(&self) -> u64 {
        self.bad
    }

    /// The bar, which counts requests that are done.
    pub fn progress(&self) -> &ProgressBar {
        &self.progress
    }
}
