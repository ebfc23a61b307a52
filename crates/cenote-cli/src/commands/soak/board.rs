//! What the workers of a run tell each other about memory: a file of words outside the pool, a row for each worker.
//! From it a worker knows how much is live, and how much may be garbage that cannot be freed yet.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::plan::milliseconds;

const WORDS: usize = 16;
const ROW: u64 = WORDS as u64 * 8;
/// Memory need not be free again at the very moment in which its holder lets go.
const GRACE_MS: u64 = 500;

/// The words of a row. The last four are the supervisor's.
#[derive(Clone, Copy)]
#[repr(u64)]
enum Word {
    Heartbeat,
    Paused,
    Live,
    Small,
    SmallMost,
    Unlinked,
    HeldSince,
    HeldUntil,
    /// What all had unlinked when the worker was last certain not to be in an operation, and one; 0 if it is in none.
    Since,
    StoppedSince = 12,
    StoppedUntil,
}

/// What a worker says of its bytes in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Bytes of all its pairs, with those that it is about to write.
    pub live: u64,
    /// Those of them that share blocks with others.
    pub small: u64,
    /// The most that these ever were.
    pub small_most: u64,
    /// Bytes that it has unlinked so far.
    pub unlinked: u64,
}

/// What all rows come to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Live bytes.
    pub live: u64,
    /// Bytes of blocks that were full of small objects once, and may be held by a few.
    pub fragments: u64,
    /// Bytes unlinked so far.
    pub unlinked: u64,
    /// Bytes unlinked since the oldest worker began that keeps garbage from being freed: one that is in an operation,
    /// holds a value, or is stopped.
    pub garbage: u64,
    /// A worker is stopped, or was just now.
    pub is_silent: bool,
}

/// The file, as one process has it open.
pub struct Board {
    file: File,
    workers: u32,
}

impl Board {
    /// Makes the file.
    pub fn create(folder: &Path, workers: u32) -> io::Result<Self> {
        File::create_new(folder.join("board"))?.set_len(ROW * u64::from(workers))?;
        Self::open(folder, workers)
    }

    /// Opens it.
    pub fn open(folder: &Path, workers: u32) -> io::Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(folder.join("board"))?;
        Ok(Self { file, workers })
    }

    fn read(&self) -> io::Result<Vec<[u64; WORDS]>> {
        let mut bytes = vec![0; ROW as usize * self.workers as usize];
        self.file.read_exact_at(&mut bytes, 0)?;
        let rows = bytes.chunks_exact(ROW as usize).map(|row| {
            let mut words = [0; WORDS];
            for (word, bytes) in words.iter_mut().zip(row.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            words
        });
        Ok(rows.collect())
    }

    fn write(&self, worker: u32, at: Word, words: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let at = u64::from(worker) * ROW + at as u64 * 8;
        self.file.write_all_at(&bytes, at)
    }

    /// What a worker, or the one before it, last said of its bytes.
    pub fn bytes(&self, worker: u32) -> io::Result<Bytes> {
        let row = self.read()?[worker as usize];
        Ok(Bytes {
            live: row[Word::Live as usize],
            small: row[Word::Small as usize],
            small_most: row[Word::SmallMost as usize],
            unlinked: row[Word::Unlinked as usize],
        })
    }

    /// A worker says how its bytes stand.
    pub fn tell(&self, worker: u32, bytes: &Bytes) -> io::Result<()> {
        let words = [bytes.live, bytes.small, bytes.small_most, bytes.unlinked];
        self.write(worker, Word::Live, &words)
    }

    /// A worker shows that it moves.
    pub fn heartbeat(&self, worker: u32, heartbeats: u64) -> io::Result<()> {
        self.write(worker, Word::Heartbeat, &[heartbeats])
    }

    /// How often each has shown that it moves.
    pub fn heartbeats(&self) -> io::Result<Vec<u64>> {
        let rows = self.read()?;
        Ok(rows.iter().map(|row| row[Word::Heartbeat as usize]).collect())
    }

    /// A worker says which pause it makes; 0 that it goes on.
    pub fn pause(&self, worker: u32, number: u64) -> io::Result<()> {
        self.write(worker, Word::Paused, &[number])
    }

    /// A worker is in no operation, and had seen this sum.
    pub fn is_between(&self, worker: u32, seen: &Sum) -> io::Result<()> {
        self.write(worker, Word::Since, &[seen.unlinked + 1])
    }

    /// A worker is dead: it holds nothing, and is in no operation.
    pub fn clear(&self, worker: u32) -> io::Result<()> {
        self.write(worker, Word::Since, &[0])?;
        let row = self.read()?[worker as usize];
        if row[Word::HeldUntil as usize] == u64::MAX {
            self.let_go(worker)?;
        }
        if row[Word::StoppedUntil as usize] == u64::MAX {
            self.stopped_until_now(worker)?;
        }
        Ok(())
    }

    /// Whether all workers pause.
    pub fn are_paused(&self, number: u64) -> io::Result<bool> {
        let rows = self.read()?;
        Ok(rows.iter().all(|row| row[Word::Paused as usize] == number))
    }

    /// A worker begins to hold a value, so that what is unlinked from now on may have to stay.
    pub fn hold(&self, worker: u32) -> io::Result<()> {
        let since = self.sum()?.unlinked;
        self.write(worker, Word::HeldSince, &[since, u64::MAX])
    }

    /// It lets go.
    pub fn let_go(&self, worker: u32) -> io::Result<()> {
        self.write(worker, Word::HeldUntil, &[milliseconds() + GRACE_MS])
    }

    /// A worker is about to be stopped or killed, maybe while it reads.
    pub fn stop(&self, worker: u32) -> io::Result<()> {
        let since = self.sum()?.unlinked;
        self.write(worker, Word::StoppedSince, &[since, u64::MAX])
    }

    /// It goes on, or is dead.
    pub fn stopped_until_now(&self, worker: u32) -> io::Result<()> {
        self.write(worker, Word::StoppedUntil, &[milliseconds() + GRACE_MS])
    }

    /// What all rows come to.
    pub fn sum(&self) -> io::Result<Sum> {
        let (rows, now) = (self.read()?, milliseconds());
        let of = |word: Word| rows.iter().map(move |row| row[word as usize]);
        let unlinked = of(Word::Unlinked).sum();
        let held = of(Word::HeldSince).zip(of(Word::HeldUntil));
        let stopped = of(Word::StoppedSince).zip(of(Word::StoppedUntil));
        let is_silent = stopped.clone().any(|(_, until)| now < until);
        let since = held.chain(stopped).filter(|(_, until)| now < *until);
        let busy = of(Word::Since).filter_map(|since| since.checked_sub(1));
        let oldest = since
            .map(|(since, _)| since)
            .chain(busy)
            .min()
            .unwrap_or(unlinked);
        let fragments = of(Word::SmallMost).zip(of(Word::Small));
        Ok(Sum {
            live: of(Word::Live).sum(),
            fragments: fragments.map(|(most, small)| most.saturating_sub(small)).sum(),
            unlinked,
            garbage: unlinked.saturating_sub(oldest),
            is_silent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_counts_from_the_oldest_who_holds() {
        let folder = tempfile::tempdir().unwrap();
        let board = Board::create(folder.path(), 2).unwrap();
        let tell = |worker, unlinked| {
            let bytes = Bytes {
                live: 10,
                small: 3,
                small_most: 7,
                unlinked,
            };
            board.tell(worker, &bytes).unwrap();
        };
        tell(0, 100);
        board.hold(1).unwrap();
        tell(0, 400);
        board.stop(0).unwrap();
        tell(1, 50);
        let sum = board.sum().unwrap();
        assert_eq!((sum.live, sum.fragments), (20, 8));
        assert_eq!((sum.unlinked, sum.garbage), (450, 350));
        board.clear(1).unwrap();
        let seen = board.sum().unwrap();
        board.is_between(0, &seen).unwrap();
        tell(1, 60);
        // What is over counts for a while.
        assert_eq!(board.sum().unwrap().garbage, 360);
    }
}
