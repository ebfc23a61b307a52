//! Traces that are drawn instead of recorded: as steps on keys of 8 bytes, without any file, or as whole records.
//!
//! Each request draws its action and its key, independently of all others: actions by their shares, keys by a zipfian
//! distribution of any exponent ([`Skewed`]) whose ranks are scattered over the keys ([`Scatter`]). So popularity,
//! mix and sizes are those asked for; what a real trace has besides (keys that come into fashion and go, bursts,
//! a `get` followed by the `add` that it caused) is not there.
//!
//! Workers share a trace without talking, as in [`Spec`](crate::Spec): each draws from its own stream of the seed.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::error::Error;
use super::record::{Action, Operation, Record, Step};
use super::sizes::Sizes;
use crate::{Scatter, Skewed, key_of_record};

/// What to draw.
#[derive(Debug, Clone, PartialEq)]
pub struct Synthetic {
    /// Requests; of all workers together until [`for_worker`](Self::for_worker) gives one its share.
    pub operations: u64,
    /// Keys, from 1 to 2^48. Not all of them need occur.
    pub keys: u64,
    /// The share of reads, from 0 to 1.
    pub reads: f64,
    /// The share of inserts, which write only if the key is absent.
    pub inserts: f64,
    /// The share of deletes. What is left of 1 are writes.
    pub deletes: f64,
    /// The exponent of the zipfian distribution; 0 for keys that are all as popular.
    pub exponent: f64,
    /// Bytes of keys, in records. No key is shorter than it needs to differ from all others.
    pub key_size: Sizes,
    /// Bytes of values.
    pub value_size: Sizes,
    /// Requests in a second of the trace's own time, in records; 0 puts all of them into the same second.
    pub per_second: u64,
    /// Everything is drawn from it.
    pub seed: u64,
    /// Which worker draws, from 0.
    pub worker: u64,
    /// How many workers there are.
    pub workers: u64,
}

impl Default for Synthetic {
    /// A million requests for 100,000 keys, nine tenths of them reads, with YCSB's skew, keys of 32 and values of 200
    /// bytes.
    fn default() -> Self {
        Self {
            operations: 1_000_000,
            keys: 100_000,
            reads: 0.9,
            inserts: 0.0,
            deletes: 0.0,
            exponent: crate::zipf::THETA,
            key_size: Sizes::fixed(32),
            value_size: Sizes::fixed(200),
            per_second: 10_000,
            seed: 1,
            worker: 0,
            workers: 1,
        }
    }
}

/// Different sizes for keys and values of one seed.
const KEY_SALT: u64 = 0x6b65_7973;
const VALUE_SALT: u64 = 0x7661_6c75_6573;

impl Synthetic {
    /// The share of worker `worker` of `workers`: its own draws, and its part of the operations.
    pub fn for_worker(mut self, worker: u64, workers: u64) -> Self {
        self.operations = self.operations.saturating_sub(worker).div_ceil(workers.max(1));
        self.worker = worker;
        self.workers = workers;
        self
    }

    fn stream(&self) -> Result<Stream, Error> {
        let unfit = |why: String| Err(Error::Unfit(why));
        for (name, share) in [
            ("reads", self.reads),
            ("inserts", self.inserts),
            ("deletes", self.deletes),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return unfit(format!(
                    "the share of {name} is {share}, but must lie from 0 to 1"
                ));
            }
        }
        let sum = self.reads + self.inserts + self.deletes;
        // Shares that are written as 0.7, 0.2 and 0.1 add up to a little more than 1.
        if sum > 1.0 + 1e-9 {
            return unfit(format!(
                "reads, inserts and deletes add up to {sum}, which is more than 1"
            ));
        }
        if !(1..=1 << 48).contains(&self.keys) {
            return unfit(format!("{} keys; from 1 to 2^48 can be drawn from", self.keys));
        }
        if !(0.0..=20.0).contains(&self.exponent) {
            return unfit(format!(
                "the zipf exponent is {}, but must lie from 0 to 20",
                self.exponent
            ));
        }
        if self.worker >= self.workers {
            return unfit(format!("worker {} of {}", self.worker, self.workers));
        }
        self.key_size.check("key size")?;
        self.value_size.check("value size")?;
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(self.worker);
        Ok(Stream {
            bounds: [self.reads, self.reads + self.inserts, sum],
            ranks: Skewed::new(self.keys, self.exponent),
            scatter: Scatter::new(self.keys),
            value_size: self.value_size,
            salt: key_of_record(self.seed) ^ VALUE_SALT,
            left: self.operations,
            rng,
        })
    }

    /// The requests as records, with keys of the asked sizes.
    ///
    /// # Errors
    /// Those of [`synthetic`], and [`Error::Unfit`] if keys of the asked size are too few.
    pub fn records(&self) -> Result<Records, Error> {
        let stream = self.stream()?;
        let digits = digits_for(self.keys);
        if self.key_size.mean < digits {
            return Err(Error::Unfit(format!(
                "keys of {} bytes do not tell {} keys apart; that takes {digits}",
                self.key_size.mean, self.keys
            )));
        }
        Ok(Records {
            stream,
            key_size: self.key_size,
            key_salt: key_of_record(self.seed) ^ KEY_SALT,
            per_second: self.per_second,
            done: 0,
            digits,
        })
    }
}

/// The steps of a synthetic trace, the same for the same spec. A step costs two random numbers, a logarithm and an
/// exponential, and no memory.
///
/// # Errors
/// [`Error::Unfit`] if shares, numbers or sizes cannot be, with a text that says which.
pub fn synthetic(spec: &Synthetic) -> Result<Stream, Error> {
    spec.stream()
}

/// Steps of a synthetic trace, in order; made by [`synthetic`].
#[derive(Debug, Clone)]
pub struct Stream {
    /// Up to where a number from 0 to 1 is a read, an insert, a delete.
    bounds: [f64; 3],
    ranks: Skewed,
    scatter: Scatter,
    value_size: Sizes,
    salt: u64,
    left: u64,
    rng: ChaCha8Rng,
}

impl Stream {
    /// The next action, and the number of its key, below the number of keys.
    fn draw(&mut self) -> Option<(Action, u64)> {
        self.left = self.left.checked_sub(1)?;
        let share: f64 = self.rng.random();
        let [read, insert, delete] = self.bounds;
        let action = match share {
            _ if share < read => Action::Read,
            _ if share < insert => Action::Insert,
            _ if share < delete => Action::Delete,
            _ => Action::Write,
        };
        Some((action, self.scatter.apply(self.ranks.sample(&mut self.rng))))
    }

    fn value_size(&self, action: Action, key: u64) -> u32 {
        match action {
            Action::Delete => 0,
            _ => self.value_size.of(key, self.salt),
        }
    }
}

impl Iterator for Stream {
    type Item = Step;

    #[inline]
    fn next(&mut self) -> Option<Step> {
        let (action, key) = self.draw()?;
        Some(Step {
            action,
            value_size: self.value_size(action, key),
            key: key_of_record(key),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match usize::try_from(self.left) {
            Ok(left) => (left, Some(left)),
            Err(_) => (usize::MAX, None),
        }
    }
}

/// Records of a synthetic trace, in order.
#[derive(Debug, Clone)]
pub struct Records {
    stream: Stream,
    key_size: Sizes,
    key_salt: u64,
    per_second: u64,
    done: u64,
    digits: u32,
}

/// Seconds that a written value shall live.
const TTL: u64 = 86_400;
/// Clients that ask.
const CLIENTS: u64 = 64;

impl Iterator for Records {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let (action, number) = self.stream.draw()?;
        let key_size = self.key_size.of(number, self.key_salt).max(self.digits);
        let record = Record {
            time: self.done.checked_div(self.per_second).unwrap_or(0),
            key: text(number, key_size),
            key_size,
            value_size: self.stream.value_size(action, number),
            client: key_of_record(self.done) % CLIENTS,
            operation: match action {
                Action::Read => Operation::Get,
                Action::Write => Operation::Set,
                Action::Insert => Operation::Add,
                Action::Delete => Operation::Delete,
            },
            ttl: match action {
                Action::Write | Action::Insert => TTL,
                Action::Read | Action::Delete => 0,
            },
        };
        self.done += 1;
        Some(record)
    }
}

/// The digits of keys, in the order of their bytes.
const DIGITS: &[u8; 64] = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";

/// How many digits tell so many keys apart.
fn digits_for(keys: u64) -> u32 {
    (u64::BITS - (keys - 1).leading_zeros()).div_ceil(6).max(1)
}

/// A key's text: its number in digits, least significant last, with zeros in front. Where there is room for 64 bits
/// (11 digits) the number is mixed first, so that neighbours are not neighbours in the order of keys.
fn text(number: u64, size: u32) -> Vec<u8> {
    let mut rest = if size >= 11 { key_of_record(number) } else { number };
    let mut text = vec![DIGITS[0]; size as usize];
    for digit in text.iter_mut().rev() {
        *digit = DIGITS[(rest % 64) as usize];
        rest /= 64;
    }
    text
}

#[cfg(test)]
#[path = "synthetic_tests.rs"]
pub(super) mod tests;
