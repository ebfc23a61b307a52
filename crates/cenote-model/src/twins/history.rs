//! Whether what clients were told is linearizable, for one key that is bound and unbound.
//!
//! As in [`snapshot::history`](crate::snapshot::history), what is kept are all states in which the key can be by now. A
//! call takes effect between its beginning and its end; one that never ends may take effect later, or never.

use std::collections::BTreeSet;

use super::client::Call;

/// What a call returns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Returned {
    /// Whether the key was inserted or removed.
    Did(bool),
    /// What it is bound to: the number of an object.
    Found(Option<usize>),
}

/// A call that goes on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Goes {
    /// Nothing is asked for.
    Nothing,
    /// It has not taken effect. The object is what an insert binds the key to.
    Waits(Call, usize),
    /// It has, and will return this.
    Done(Returned),
}

/// A state in which the key can be.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Possible {
    bound: Option<usize>,
    calls: Vec<Goes>,
}

/// What clients were told so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct History {
    /// Empty once it was not linearizable.
    possible: BTreeSet<Possible>,
}

impl History {
    /// Nobody was told anything yet, and the key is not bound.
    pub fn new(clients: usize) -> Self {
        let first = Possible {
            bound: None,
            calls: vec![Goes::Nothing; clients],
        };
        Self {
            possible: BTreeSet::from([first]),
        }
    }

    /// Whether it is linearizable.
    pub fn is_linearizable(&self) -> bool {
        !self.possible.is_empty()
    }

    /// Whether the key may be bound to this.
    pub fn allows(&self, bound: Option<usize>) -> bool {
        self.possible.iter().any(|possible| possible.bound == bound)
    }

    /// A client begins a call, which concerns this object if it is an insert.
    pub fn begins(&mut self, client: usize, call: Call, object: usize) {
        let mut open: Vec<Possible> = std::mem::take(&mut self.possible).into_iter().collect();
        for possible in &mut open {
            possible.calls[client] = Goes::Waits(call, object);
        }
        // All that can take effect may, in all orders.
        while let Some(from) = open.pop() {
            for (client, goes) in from.calls.iter().enumerate() {
                if let Goes::Waits(call, object) = *goes {
                    let mut to = from.clone();
                    to.calls[client] = Goes::Done(to.takes_effect(call, object));
                    if !self.possible.contains(&to) {
                        open.push(to);
                    }
                }
            }
            self.possible.insert(from);
        }
    }

    /// A call returns.
    pub fn ends(&mut self, client: usize, returned: Returned) {
        let fits = |possible: &Possible| possible.calls[client] == Goes::Done(returned);
        let end = |mut possible: Possible| {
            possible.calls[client] = Goes::Nothing;
            possible
        };
        let before = std::mem::take(&mut self.possible);
        self.possible = before.into_iter().filter(fits).map(end).collect();
    }
}

impl Possible {
    fn takes_effect(&mut self, call: Call, object: usize) -> Returned {
        match call {
            Call::Get => Returned::Found(self.bound),
            Call::Insert => {
                let is_absent = self.bound.is_none();
                self.bound.get_or_insert(object);
                Returned::Did(is_absent)
            }
            Call::Remove => Returned::Did(self.bound.take().is_some()),
            Call::Tidy => Returned::Did(true),
        }
    }
}
