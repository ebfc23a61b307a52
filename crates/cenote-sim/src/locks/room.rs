//! Where locks lie: each word that is contended in a line of its own.

/// Memory of which nothing is given back.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    line: u64,
    next: u64,
}

impl Room {
    /// Memory whose lines have so many bytes.
    pub fn new(line: u64) -> Self {
        Self { line, next: 0 }
    }

    /// A line of its own.
    pub fn line(&mut self) -> u64 {
        self.lines(1).at(0)
    }

    /// Adjacent lines.
    pub fn lines(&mut self, count: u32) -> Lines {
        let first = self.next;
        self.next += self.line * u64::from(count);
        Lines {
            first,
            line: self.line,
            count,
        }
    }

    /// So many bytes, in lines of their own.
    pub fn bytes(&mut self, len: u64) -> u64 {
        let at = self.next;
        self.next += len.next_multiple_of(self.line);
        at
    }

    /// So many bytes, in lines of their own, as room for lines of 64 bytes.
    pub fn close(&mut self, len: u64) -> Self {
        Self {
            line: 64,
            next: self.bytes(len),
        }
    }

    /// Bytes that were given so far.
    pub fn end(&self) -> u64 {
        self.next
    }
}

/// Adjacent lines.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    first: u64,
    line: u64,
    count: u32,
}

impl Lines {
    /// Where a line begins.
    pub fn at(self, n: u32) -> u64 {
        self.first + u64::from(n) * self.line
    }

    /// Where each begins.
    pub fn all(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |n| self.at(n))
    }
}
