//! `cenote trace generate`: a synthetic trace in the form of Twitter's.

use std::path::PathBuf;
use std::process::ExitCode;

use cenote_ycsb::trace::{Error, Preset, Shape, Sizes, Synthetic, write_line};
use serde_json::json;

use crate::commands::bench::number;
use crate::failure::Failure;
use crate::output::{Output, count};
use crate::whole_file::Target;

/// How sizes are distributed over keys.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ShapeArg {
    /// All alike
    Fixed,
    /// From 1 to twice the mean
    Uniform,
    /// Many small ones and few large ones
    Exponential,
}

/// Arguments.
///
/// Requests are drawn independently of each other; the same arguments make the same file.
#[derive(clap::Args)]
pub struct Args {
    /// Where to; `-` is standard output. A name that ends in .gz is compressed
    file: PathBuf,
    /// Imitate the published figures of a cluster of Twitter's, as cluster26; other options override them
    #[arg(long)]
    preset: Option<Preset>,
    /// Requests, as in 500k or 2M [default: 1M]
    #[arg(long, value_name = "N", value_parser = number)]
    operations: Option<u64>,
    /// Keys [default: 100k]
    #[arg(long, value_name = "N", value_parser = number)]
    keys: Option<u64>,
    /// The share of gets, from 0 to 1 [default: 0.9]
    #[arg(long, value_name = "SHARE")]
    read_ratio: Option<f64>,
    /// The share of adds, which write only if the key is absent [default: 0]
    #[arg(long, value_name = "SHARE")]
    add_ratio: Option<f64>,
    /// The share of deletes; what is left are sets [default: 0]
    #[arg(long, value_name = "SHARE")]
    delete_ratio: Option<f64>,
    /// The exponent of the zipfian distribution of keys; 0 for none [default: 0.99]
    #[arg(long, value_name = "EXPONENT")]
    zipf: Option<f64>,
    /// Bytes of a key, on average over keys [default: 32]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    key_size: Option<u32>,
    /// Bytes of a value, on average over keys [default: 200]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    value_size: Option<u32>,
    /// How the sizes of keys are distributed
    #[arg(long, value_enum, value_name = "SHAPE", default_value = "fixed")]
    key_sizes: ShapeArg,
    /// How the sizes of values are distributed
    #[arg(long, value_enum, value_name = "SHAPE", default_value = "fixed")]
    value_sizes: ShapeArg,
    /// Everything random is drawn from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn bytes(text: &str) -> Result<u32, String> {
    let size = cenote::parse_size(text).map_err(|error| error.to_string())?;
    u32::try_from(size).map_err(|_| "sizes here are below 4GiB".to_owned())
}

impl Args {
    fn spec(&self) -> Synthetic {
        let operations = self.operations.unwrap_or(1_000_000);
        let base = match &self.preset {
            Some(preset) => preset.spec(operations),
            None => Synthetic {
                operations,
                ..Synthetic::default()
            },
        };
        let sizes = |asked: Option<u32>, shape: ShapeArg, base: Sizes| Sizes {
            mean: asked.unwrap_or(base.mean),
            shape: match shape {
                ShapeArg::Fixed => Shape::Fixed,
                ShapeArg::Uniform => Shape::Uniform,
                ShapeArg::Exponential => Shape::Exponential,
            },
        };
        Synthetic {
            keys: self.keys.unwrap_or(base.keys),
            reads: self.read_ratio.unwrap_or(base.reads),
            inserts: self.add_ratio.unwrap_or(base.inserts),
            deletes: self.delete_ratio.unwrap_or(base.deletes),
            exponent: self.zipf.unwrap_or(base.exponent),
            key_size: sizes(self.key_size, self.key_sizes, base.key_size),
            value_size: sizes(self.value_size, self.value_sizes, base.value_size),
            seed: self.seed,
            ..base
        }
    }
}

/// Writes the trace.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let extension = args.file.extension().unwrap_or_default();
    if extension == "zst" || extension == "zstd" {
        return Err(Failure::misuse(format!(
            "{}: traces are read from Zstandard, not written to it; name a .gz",
            args.file.display()
        )));
    }
    let spec = args.spec();
    let records = spec.records().map_err(|error| match error {
        Error::Unfit(why) => Failure::Misuse(why),
        other => Failure::Failed(other.to_string()),
    })?;
    let target = Target::at(&args.file)?;
    let is_quiet = target.is_stdout();
    target.write(|mut to| {
        records
            .into_iter()
            .try_for_each(|record| write_line(&record, &mut to))
            .map_err(Failure::io(args.file.display()))
    })?;
    if is_quiet {
        return Ok(ExitCode::SUCCESS);
    }
    let done = json!({
        "file": args.file,
        "operations": spec.operations,
        "keys": spec.keys,
        "read_ratio": spec.reads,
        "add_ratio": spec.inserts,
        "delete_ratio": spec.deletes,
        "zipf": spec.exponent,
        "key_size": spec.key_size.mean,
        "value_size": spec.value_size.mean,
        "seed": spec.seed,
    });
    out.result(&done, |_| {
        format!(
            "wrote {} requests for {} keys to {}",
            count(spec.operations),
            count(spec.keys),
            args.file.display()
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
