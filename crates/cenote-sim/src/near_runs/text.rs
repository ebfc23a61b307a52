//! The words of a text as keys: an index from words to the passages that have them. How often a word is asked for is
//! how often people have written it.

use std::fs;
use std::path::{Path, PathBuf};

/// Words of a passage: what counts as a document, as long as a search engine's snippets are.
const PASSAGE_WORDS: usize = 128;
/// Letters of a word that a key has; words that begin alike share one.
const LETTERS: u32 = 8;
/// Bits of a letter, and of a passage's number below the letters.
const LETTER_BITS: u32 = 5;
const PASSAGE_BITS: u32 = 64 - LETTERS * LETTER_BITS;

/// A text.
#[derive(Debug, PartialEq, Eq)]
pub struct Text {
    /// The key of each word of the text, in the text's order: the word, and the passage.
    occurrences: Vec<u64>,
}

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// A file or a folder cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// There are too few words.
    #[error("{}: {words} words, where {wanted} are needed at least; give a text, or a folder of files that end in .txt", path.display())]
    TooShort {
        /// What was read.
        path: PathBuf,
        /// Words in it.
        words: usize,
        /// Words that are needed.
        wanted: usize,
    },
}

impl Text {
    /// Reads a file, or all files of a folder whose names end in `.txt`, in the order of their names.
    pub fn read(path: &Path, wanted: usize) -> Result<Self, TextError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            |error| TextError::File { path, error }
        };
        let mut files = Vec::new();
        if path.is_dir() {
            for entry in fs::read_dir(path).map_err(failed(path))? {
                files.push(entry.map_err(failed(path))?.path());
            }
            files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
            files.sort_unstable();
        } else {
            files.push(path.to_owned());
        }
        let mut text = Self {
            occurrences: Vec::new(),
        };
        for file in files {
            let bytes = fs::read(&file).map_err(failed(&file))?;
            text.add(&String::from_utf8_lossy(&bytes));
        }
        match text.occurrences.len() {
            words if words < wanted => Err(TextError::TooShort {
                path: path.to_owned(),
                words,
                wanted,
            }),
            _ => Ok(text),
        }
    }

    /// Adds what is written. Its words are runs of letters; those that are not of the English alphabet count for none.
    fn add(&mut self, written: &str) {
        let words = written.split(|letter: char| !letter.is_alphabetic());
        for word in words.map(word_bits).filter(|word| *word != 0) {
            let passage = (self.occurrences.len() / PASSAGE_WORDS) as u64;
            self.occurrences
                .push(word << PASSAGE_BITS | passage & ((1 << PASSAGE_BITS) - 1));
        }
    }

    /// Words of the text.
    pub fn words(&self) -> usize {
        self.occurrences.len()
    }

    /// The key of a word of the text.
    pub fn key(&self, word: usize) -> u64 {
        self.occurrences[word % self.occurrences.len().max(1)]
    }

    /// The keys of the first words, each once, in order.
    pub fn keys(&self, words: usize) -> Vec<u64> {
        let mut keys = self.occurrences[..words.min(self.words())].to_vec();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// Where the last passage of a key's word would be.
pub fn last_passage(key: u64) -> u64 {
    key | ((1 << PASSAGE_BITS) - 1)
}

/// The first letters of a word, which order words as their letters do; 0 if it has none.
fn word_bits(word: &str) -> u64 {
    let letters = word.chars().flat_map(char::to_lowercase);
    let letters = letters.filter(char::is_ascii_lowercase).take(LETTERS as usize);
    let (bits, used) = letters.fold((0, 0), |(bits, used), letter| {
        (bits << LETTER_BITS | (u64::from(letter as u32) - 96), used + 1)
    });
    bits << (LETTER_BITS * (LETTERS - used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_their_order() {
        let words = ["a", "ab", "abbreviation", "abc", "b", "zz"].map(word_bits);
        assert!(words.is_sorted() && words[0] > 0);
        assert_eq!(word_bits("Zz"), word_bits("zz"));
        assert_eq!(word_bits("1789"), 0);
    }

    #[test]
    fn each_word_is_in_its_passage() {
        let folder = tempfile::tempdir().unwrap();
        let written = "to be or not to be, ".repeat(50);
        fs::write(folder.path().join("b.txt"), &written).unwrap();
        fs::write(folder.path().join("a.txt"), "Hamlet 1603").unwrap();
        fs::write(folder.path().join("c.bin"), "nothing").unwrap();
        let text = Text::read(folder.path(), 301).unwrap();
        assert_eq!(text.words(), 301);
        assert_eq!(text.key(0), word_bits("hamlet") << PASSAGE_BITS);
        assert_eq!(text.key(129), word_bits("or") << PASSAGE_BITS | 1);
        // Of each passage of the second kind: to, be, or, not.
        assert_eq!(text.keys(301).len(), 3 * 4 + 1);
        assert!(last_passage(text.key(0)) >= text.key(0));
        assert!(matches!(
            Text::read(folder.path(), 302),
            Err(TextError::TooShort { words: 301, .. })
        ));
        assert!(matches!(
            Text::read(&folder.path().join("d"), 1),
            Err(TextError::File { .. })
        ));
    }
}
