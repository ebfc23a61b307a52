//! A client's side of a node's mapped memory: its line, its turns, and the verbs that it executes itself.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use cenote_replica::verbs::{Completion, Request};

use super::{CLIENTS_MAX, INCARNATION_AT, LEN_AT, MAGIC, MAGIC_AT, MEMORY_AT, MappedError, Words, lock_of};

/// A node's memory, as one thread of a client has it.
pub struct MappedClient {
    words: Words,
    /// Which line is its own.
    line: u32,
    /// Locked as long as this process lives.
    _lock: File,
}

impl MappedClient {
    /// Maps the memory of the node of an incarnation; `None` if all lines are taken.
    ///
    /// Errors: there is no such file, it cannot be mapped, or it is of another node.
    pub fn open(path: &Path, incarnation: u64) -> Result<Option<Self>, MappedError> {
        let refused = |error| MappedError::File(path.to_owned(), error);
        let other = || MappedError::Other(path.to_owned());
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(refused)?;
        let len = file.metadata().map_err(refused)?.len();
        if len < MEMORY_AT {
            return Err(other());
        }
        let words = Words::map(file, path, len)?;
        let is_the_node = words.load(MAGIC_AT) == MAGIC
            && words.load(INCARNATION_AT) == incarnation
            && words.load(LEN_AT) == len;
        if !is_the_node {
            return Err(other());
        }
        for line in 0..CLIENTS_MAX {
            let lock = File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(lock_of(path, line))
                .map_err(refused)?;
            if lock.try_lock().is_ok() {
                // The one who had it before may have died in its turn.
                words.store(Words::turn_at(line), 0);
                return Ok(Some(Self {
                    words,
                    line,
                    _lock: lock,
                }));
            }
        }
        Ok(None)
    }

    /// Executes a batch in one turn.
    pub fn post(&self, requests: &[&Request]) -> Vec<Completion> {
        let turn = self.begin();
        let execute = |request: &&Request| match self.words.place(request.at.region(), request.key) {
            Some(place) => self.words.execute(place, request.at.offset(), &request.verb),
            None => Completion::Refused,
        };
        let completions = requests.iter().map(execute).collect();
        self.end(turn);
        completions
    }

    /// Begins a turn, before any look at keys.
    pub(super) fn begin(&self) -> u64 {
        let at = Words::turn_at(self.line);
        let turn = self.words.load(at) | 1;
        self.words.store_seq_cst(at, turn);
        turn
    }

    /// Ends a turn, after all that was done in it.
    pub(super) fn end(&self, turn: u64) {
        self.words.store(Words::turn_at(self.line), turn + 1);
    }
}
