//! Commands of the supervisor to the workers.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAUSE_AT: u64 = 8;
const STOPS_AT: u64 = 16;

/// A file of words that the supervisor writes and the workers read. The first says that they shall end, the second
/// which pause they shall make; the others count, for each worker, how often it was stopped for a while.
pub struct Control {
    file: File,
    worker: u32,
    stops: u64,
}

impl Control {
    /// Makes the file.
    pub fn create(folder: &Path, workers: u32) -> io::Result<Self> {
        let file = File::create_new(folder.join("control"))?;
        file.set_len(STOPS_AT + 8 * u64::from(workers))?;
        Ok(Self {
            file,
            worker: 0,
            stops: 0,
        })
    }

    /// Opens it as a worker.
    pub fn open(folder: &Path, worker: u32) -> io::Result<Self> {
        let mut control = Self {
            file: File::open(folder.join("control"))?,
            worker,
            stops: 0,
        };
        control.was_stopped();
        Ok(control)
    }

    fn read(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        let _ = self.file.read_exact_at(&mut word, at);
        u64::from_le_bytes(word)
    }

    /// Tells all workers to end.
    pub fn end(&self) -> io::Result<()> {
        self.file.write_all_at(&1u64.to_le_bytes(), 0)
    }

    /// Tells all workers to pause, for the `number`th time, or with 0 that they may go on.
    pub fn pause(&self, number: u64) -> io::Result<()> {
        self.file.write_all_at(&number.to_le_bytes(), PAUSE_AT)
    }

    /// The pause that all shall make now; 0 if none.
    pub fn wanted_pause(&self) -> u64 {
        self.read(PAUSE_AT)
    }

    /// Says that a worker is about to be stopped for a while.
    pub fn announce_stop(&self, worker: u32, count: u64) -> io::Result<()> {
        self.file
            .write_all_at(&count.to_le_bytes(), STOPS_AT + 8 * u64::from(worker))
    }

    /// Whether this worker shall end.
    pub fn shall_end(&self) -> bool {
        self.read(0) != 0
    }

    /// Whether this worker was stopped since the last call.
    pub fn was_stopped(&mut self) -> bool {
        let stops = self.read(STOPS_AT + 8 * u64::from(self.worker));
        std::mem::replace(&mut self.stops, stops) != stops
    }
}
