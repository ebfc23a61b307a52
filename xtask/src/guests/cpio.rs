//! A cpio archive (`newc`), as the kernel unpacks it into its first file system.

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// An archive in the making.
#[derive(Default)]
pub struct Cpio {
    bytes: Vec<u8>,
    entries: u32,
}

impl Cpio {
    /// Adds a folder; its parents come before it.
    pub fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER, &[]);
    }

    /// Adds a file that anybody may execute.
    pub fn program(&mut self, name: &str, content: &[u8]) {
        self.entry(name, PROGRAM, content);
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let links = 1;
        // Inode, mode, owner, group, links, time, length, device and its two halves, the name's length, no checksum.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            links,
            0,
            content.len() as u32,
            0,
            0,
            0,
            0,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_begin_at_multiples_of_four_and_the_last_one_says_so() {
        let mut archive = Cpio::default();
        archive.folder("bin");
        archive.program("bin/true", b"#!/bin/sh\n");
        let bytes = archive.finish();
        let at: Vec<usize> = (0..bytes.len())
            .filter(|&at| bytes[at..].starts_with(b"070701"))
            .collect();
        assert_eq!(at.len(), 3);
        assert!(at.iter().all(|at| at % 4 == 0));
        // The name's length, its zero counted, and the content's.
        let field = |entry: usize, n: usize| {
            let text = std::str::from_utf8(&bytes[at[entry] + 6 + 8 * n..][..8]).unwrap();
            u32::from_str_radix(text, 16).unwrap()
        };
        assert_eq!((field(1, 11), field(1, 6), field(1, 1)), (9, 10, PROGRAM));
        assert_eq!(&bytes[at[1] + 110..][..9], b"bin/true\0");
        assert_eq!(&bytes[at[2] + 110..][..11], b"TRAILER!!!\0");
    }
}
