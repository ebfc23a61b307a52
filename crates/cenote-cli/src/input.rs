//! A file of records that is read, unpacked if its name says so, and how far it has been read.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use cenote_ycsb::trace::Packing;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::failure::Failure;
use crate::output::{Output, count};

/// Records between two guesses of how many there are.
const RECORDS_PER_GUESS: u64 = 4096;

/// Bytes that are read at a time into one piece of memory.
const PIECE: u64 = 1 << 20;

/// How far a file has been read.
pub struct Position {
    /// Bytes that the file has; 0 if unknown.
    size: u64,
    read: Rc<Cell<u64>>,
}

/// Counts what is read from a file.
struct Counted {
    file: File,
    read: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read.set(self.read.get() + read as u64);
        Ok(read)
    }
}

/// Opens a file, or standard input.
pub fn open(path: Option<&Path>) -> Result<(Box<dyn BufRead>, Position), Failure> {
    let read = Rc::new(Cell::new(0));
    let Some(path) = path else {
        return Ok((Box::new(io::stdin().lock()), Position { size: 0, read }));
    };
    let file = File::open(path).map_err(Failure::io(path.display()))?;
    let metadata = file.metadata().map_err(Failure::io(path.display()))?;
    if metadata.is_dir() {
        return Err(Failure::failed(format!(
            "{}: it is a folder, not a file",
            path.display()
        )));
    }
    let position = Position {
        size: metadata.len(),
        read: read.clone(),
    };
    let buffered = BufReader::with_capacity(1 << 18, Counted { file, read });
    Ok((Packing::of(path).unpack(buffered), position))
}

/// Reads all of a file, or of standard input: at most so many bytes, or why not more. What is longer is not read to its
/// end, and a file of which that is known not at all.
pub fn whole(path: Option<&Path>, (most, why): (u64, &str)) -> Result<Vec<u8>, Failure> {
    let name = path.map_or("standard input".into(), Path::to_string_lossy);
    let failed = || Failure::io(&name);
    let (input, len): (Box<dyn Read>, u64) = match path {
        Some(path) => {
            let file = File::open(path).map_err(failed())?;
            let len = file.metadata().map_err(failed())?.len();
            (Box::new(file), len)
        }
        None => (Box::new(io::stdin().lock()), 0),
    };
    let too_long = |len: &dyn fmt::Display| {
        Failure::failed(format!(
            "{name}: it has {len} bytes, and at most {most} are read: {why}"
        ))
    };
    if len > most {
        return Err(too_long(&len));
    }
    let mut bytes = Vec::new();
    let mut input = input.take(most.saturating_add(1));
    loop {
        // Memory that is not there is an error, too.
        if bytes.try_reserve(PIECE as usize).is_err() {
            return Err(Failure::failed(format!(
                "{name}: there is no memory for more than {} bytes of it",
                bytes.len()
            )));
        }
        match (&mut input)
            .take(PIECE)
            .read_to_end(&mut bytes)
            .map_err(failed())?
        {
            0 if bytes.len() as u64 > most => return Err(too_long(&format_args!("more than {most}"))),
            0 => return Ok(bytes),
            _ => {}
        }
    }
}

impl Position {
    /// A bar, if a person watches. It counts records that are done; how many there are is guessed from the file's size.
    pub fn bar(&self, out: &Output) -> ProgressBar {
        if !out.is_watched() {
            return ProgressBar::hidden();
        }
        let known = "{wide_bar} {percent}%  {human_pos} records  {rate} a second  {eta} left";
        let unknown = "{spinner} {human_pos} records  {rate} a second  {elapsed}";
        let bar = ProgressBar::no_length();
        // The templates are constants; if one were wrong, the default would do.
        if let Ok(style) = ProgressStyle::with_template(if self.size > 0 { known } else { unknown }) {
            bar.set_style(
                style.with_key("rate", |state: &ProgressState, to: &mut dyn fmt::Write| {
                    // A bar that cannot be drawn is not reported.
                    let _ = to.write_str(&count(state.per_sec() as u64));
                }),
            );
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    /// Tells the bar how many records there may be.
    pub fn guess(&self, records: u64, bar: &ProgressBar) {
        let read = self.read.get();
        if self.size > 0 && read > 0 && records.is_multiple_of(RECORDS_PER_GUESS) {
            bar.set_length((u128::from(records) * u128::from(self.size) / u128::from(read)) as u64);
        }
    }
}
