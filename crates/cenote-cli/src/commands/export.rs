//! `cenote export`: writes all pairs of a map as TSV, CSV or JSON lines; `load` reads them back the same.
//!
//! A file appears under its name only when it is complete; [what has the name already](crate::destination) is replaced
//! only if it is an ordinary file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cenote::Range;
use cenote::memory::Memory;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{Output, count};
use crate::pool::{MapArg, PoolArg};
use crate::records::{Format, Sink};
use crate::source::{ReadArg, Source, on_source};
use crate::whole_file::Target;

/// Arguments.
///
/// Pairs that other processes write meanwhile may or may not be exported; all others are, once each, in no
/// particular order.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    /// Where to; `-` is standard output. A name that ends in .gz is compressed
    #[arg(default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    map: MapArg,
    /// How [default: by the file's name; tsv for standard output]
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    read: ReadArg,
}

/// Writes the pairs.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let path = args.pool.existing()?;
    let file = (args.file.as_os_str() != "-").then_some(&*args.file);
    let format = Format::choose(args.format, file)?;
    // Standard output may have been opened on the pool, too.
    Target::at(Path::new("-"))?.made_of(&path)?;
    let target = file.map(|file| Target::at(file)?.made_of(&path)).transpose()?;
    let is_quiet = target.as_ref().is_some_and(Target::is_stdout);
    let (written, is_without_place) = on_source!(&path, args.read, out, |source| match target {
        Some(target) => (
            export_to_file(&source, &args.map.map, format, target, &args.file)?,
            source.is_without_place()
        ),
        None => {
            export(&source, &args.map.map, format, out.writer(), Failure::stdout)?
                .1
                .flush()
                .map_err(Failure::stdout)?;
            return Ok(ExitCode::SUCCESS);
        }
    });
    if is_quiet {
        return Ok(ExitCode::SUCCESS);
    }
    let mut result = json!({ "records": written, "file": args.file.to_string_lossy() });
    if is_without_place {
        result["without_place"] = true.into();
    }
    out.result(&result, |_| {
        format!("exported {} records to {}", count(written), args.file.display())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Pairs of an ordered map that are copied at a time.
const AT_ONCE: usize = 256;

fn export<M: Memory, W: Write>(
    source: &Source<M>,
    map: &str,
    format: Format,
    to: W,
    failure: impl Fn(io::Error) -> Failure,
) -> Result<(u64, W), Failure> {
    let mut sink = Sink::new(format, to);
    let mut written = 0;
    let map = source.map(map)?;
    if let Some(pairs) = map.unordered() {
        for pair in pairs {
            let (key, value) = pair?;
            sink.write(&key, &value).map_err(&failure)?;
            written += 1;
        }
        return Ok((written, sink.finish().map_err(failure)?));
    }
    let mut from = Vec::new();
    loop {
        let rest = Range {
            from: &from,
            to: None,
        };
        let pairs = map.page(rest, AT_ONCE, false)?;
        for (key, value) in &pairs {
            sink.write(key, value).map_err(&failure)?;
        }
        written += pairs.len() as u64;
        match pairs.last() {
            Some((last, _)) if pairs.len() == AT_ONCE => {
                from.clone_from(last);
                // The least key behind it.
                from.push(0);
            }
            _ => break,
        }
    }
    Ok((written, sink.finish().map_err(failure)?))
}

fn export_to_file<M: Memory>(
    source: &Source<M>,
    map: &str,
    format: Format,
    target: Target,
    file: &Path,
) -> Result<u64, Failure> {
    target.write(|to| {
        let failure = |error| Failure::io(file.display())(error);
        Ok(export(source, map, format, to, failure)?.0)
    })
}
