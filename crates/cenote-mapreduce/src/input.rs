//! Input files, which any number of processes read by ranges at the same time.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// How much more is read at a time of something that goes on behind the end of a range.
const MORE: u64 = 4096;

/// An input file.
pub struct Input {
    path: PathBuf,
    file: File,
    len: u64,
}

impl Input {
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::file(path))?;
        let len = file.metadata().map_err(Error::file(path))?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            len,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// The bytes of a range.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        if range.end > self.len || range.start > range.end {
            let why = "the file ends too soon";
            return Err(Error::input(&self.path, self.len, why));
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.file
            .read_exact_at(&mut bytes, range.start)
            .map_err(Error::file(&self.path))?;
        Ok(bytes)
    }

    /// The pieces (words, lines) that begin in a range, whole: from where the first begins to where the last ends. A
    /// piece ends before the first byte that is not `inside`. Also where that is in the file.
    pub fn pieces(&self, range: Range<u64>, inside: impl Fn(u8) -> bool) -> Result<(Vec<u8>, u64)> {
        let range = range.start.min(self.len)..range.end.min(self.len);
        let from = range.start.saturating_sub(1);
        let mut bytes = self.read(from..range.end)?;
        let mut start = (range.start - from) as usize;
        if start == 1 && inside(bytes[0]) {
            // The last piece of the range before.
            let Some(outside) = bytes.iter().position(|byte| !inside(*byte)) else {
                return Ok((Vec::new(), range.end));
            };
            start = outside;
        }
        let mut end = range.end;
        let mut known = bytes.len();
        while bytes.last().is_some_and(|byte| inside(*byte)) && end < self.len {
            let next = (end + MORE).min(self.len);
            bytes.extend(self.read(end..next)?);
            end = next;
            let outside = bytes[known..].iter().position(|byte| !inside(*byte));
            bytes.truncate(outside.map_or(bytes.len(), |n| known + n));
            if outside.is_some() {
                break;
            }
            known = bytes.len();
        }
        bytes.drain(..start);
        Ok((bytes, from + start as u64))
    }
}

/// The range of a task that is the `n`th of those of so many each.
pub fn part(n: u64, grain: u64, all: u64) -> Range<u64> {
    (n * grain).min(all)..((n + 1) * grain).min(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_is_in_one_range() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        let long = "x".repeat(3 * MORE as usize);
        let text = format!("one two  three {long} four\nfive {long}");
        std::fs::write(&path, &text).unwrap();
        let input = Input::open(&path).unwrap();
        let inside = |byte: u8| byte.is_ascii_alphabetic();
        let words = |bytes: &[u8]| -> Vec<String> {
            bytes
                .split(|byte| !inside(*byte))
                .filter(|word| !word.is_empty())
                .map(|word| String::from_utf8(word.to_vec()).unwrap())
                .collect()
        };
        for grain in [1, 2, 3, 7, 100, 5_000, 1 << 20] {
            let mut found = Vec::new();
            for n in 0..input.len().div_ceil(grain) {
                let (bytes, at) = input.pieces(part(n, grain, input.len()), inside).unwrap();
                assert_eq!(&text.as_bytes()[at as usize..][..bytes.len()], bytes);
                found.extend(words(&bytes));
            }
            assert_eq!(found, words(text.as_bytes()), "{grain}");
        }
    }
}
