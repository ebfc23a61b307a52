//! Whether what clients were told is linearizable, for a register whose writes all have values of their own.
//!
//! A history is followed as it happens. What is kept is not the history, but all states in which the register can be by
//! now: its value, which of the calls that go on have taken effect, and what those that read may have read. A call
//! takes effect between its beginning and its end; a client that has crashed leaves a write that may take effect later,
//! or never. So different histories that allow the same future are one state of the model.

/// A set of small numbers: values, or clients.
type Set = u16;

fn only(number: u64) -> Set {
    1 << number
}

/// A state in which the register can be.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Possible {
    value: u64,
    /// Clients whose write has taken effect and goes on.
    written: Set,
    /// For each client that reads: what the register has been since.
    seen: Vec<Set>,
}

impl Possible {
    /// Whether whatever `other` allows is allowed here as well.
    fn covers(&self, other: &Self) -> bool {
        let is_subset = |(mine, theirs): (&Set, &Set)| theirs & !mine == 0;
        self.value == other.value
            && self.written == other.written
            && self.seen.iter().zip(&other.seen).all(is_subset)
    }
}

/// What clients were told so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct History {
    /// For each client: what it is writing.
    writes: Vec<Option<u64>>,
    /// Empty once it was not linearizable.
    possible: Vec<Possible>,
}

impl History {
    /// Nobody was told anything yet. Clients and values are less than 16.
    pub fn new(clients: usize, value: u64) -> Self {
        let first = Possible {
            value,
            written: 0,
            seen: vec![0; clients],
        };
        Self {
            writes: vec![None; clients],
            possible: vec![first],
        }
    }

    /// Whether it is linearizable.
    pub fn is_linearizable(&self) -> bool {
        !self.possible.is_empty()
    }

    /// A client begins to write a value that nobody else writes.
    pub fn begins_write(&mut self, client: usize, value: u64) {
        self.writes[client] = Some(value);
    }

    /// A client begins to read.
    pub fn begins_read(&mut self, client: usize) {
        for possible in &mut self.possible {
            possible.seen[client] = only(possible.value);
        }
    }

    /// A client is told that it has written.
    pub fn ends_write(&mut self, client: usize) {
        self.reach(|possible| possible.written & only(client as u64) != 0);
        for possible in &mut self.possible {
            possible.written &= !only(client as u64);
        }
        self.writes[client] = None;
        self.close();
    }

    /// A client is told what it has read.
    pub fn ends_read(&mut self, client: usize, value: u64) {
        self.reach(|possible| possible.seen[client] & only(value) != 0);
        self.forgets_read(client);
    }

    /// A client is never told what it has read.
    pub fn forgets_read(&mut self, client: usize) {
        for possible in &mut self.possible {
            possible.seen[client] = 0;
        }
        self.close();
    }

    /// Lets writes that go on take effect, in all orders, but no more of them than it takes to fit what a client was
    /// told. Keeps what fits.
    fn reach(&mut self, fits: impl Fn(&Possible) -> bool) {
        let mut reached = std::mem::take(&mut self.possible);
        let mut next = 0;
        while let Some(from) = reached.get(next).cloned() {
            next += 1;
            if fits(&from) {
                self.possible.push(from);
                continue;
            }
            for (client, value) in self.writes.iter().enumerate() {
                let Some(value) = *value else { continue };
                if from.written & only(client as u64) != 0 {
                    continue;
                }
                let mut to = from.clone();
                to.value = value;
                to.written |= only(client as u64);
                for seen in to.seen.iter_mut().filter(|seen| **seen != 0) {
                    *seen |= only(value);
                }
                if !reached.contains(&to) {
                    reached.push(to);
                }
            }
        }
    }

    /// Drops what others cover.
    fn close(&mut self) {
        self.possible.sort_unstable();
        self.possible.dedup();
        let all = self.possible.clone();
        self.possible
            .retain(|one| !all.iter().any(|other| other != one && other.covers(one)));
    }
}
