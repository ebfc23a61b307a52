//! Requests, dealt to threads by their keys, so that the requests for a key stay in their order.

use cenote::index::hash::KEY_MAX;
use cenote_ycsb::trace::{Action, Record};

use super::content;

/// Requests of all threads that are read before they are replayed.
pub const REQUESTS: usize = 1 << 21;
/// Bytes of their keys.
const KEY_BYTES: usize = 1 << 28;

/// One request; its key lies in the batch.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What to do.
    pub action: Action,
    /// Bytes of its key.
    key_len: u32,
    /// Bytes of its value.
    pub value_size: u32,
    /// Its number in the trace from 1, modulo 2^32: the version of what it writes.
    pub number: u32,
    /// The hash of its key.
    pub hash: u64,
}

/// What one thread replays next.
#[derive(Debug, Default)]
pub struct Batch {
    requests: Vec<Request>,
    keys: Vec<u8>,
}

impl Batch {
    /// The requests with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Request, &[u8])> {
        let mut rest = &*self.keys;
        self.requests.iter().map(move |request| {
            let (key, behind) = rest.split_at(request.key_len as usize);
            rest = behind;
            (request, key)
        })
    }

    /// Makes room for the next ones.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.keys.clear();
    }
}

/// Batches of all threads that are being filled.
pub struct Deal {
    batches: Vec<Batch>,
    key: Vec<u8>,
    dealt: usize,
    key_bytes: usize,
    value_max: u32,
    /// Values that were cut.
    pub cut: u64,
}

impl Deal {
    /// For so many threads; no value has more than `value_max` bytes.
    pub fn new(threads: usize, value_max: u32) -> Self {
        Self {
            batches: (0..threads).map(|_| Batch::default()).collect(),
            key: Vec::new(),
            dealt: 0,
            key_bytes: 0,
            value_max,
            cut: 0,
        }
    }

    /// Adds a request to the batch of its key's thread; an error says what is wrong with it.
    pub fn add(&mut self, record: &Record, number: u64) -> Result<(), String> {
        self.key.clear();
        let size = record.key_size as usize;
        if size.max(record.key.len()) > KEY_MAX {
            return Err(format!(
                "request {number}: its key has {} bytes; keys have at most {KEY_MAX}",
                size.max(record.key.len())
            ));
        }
        content::push_key(&record.key, size, &mut self.key);
        let hash = content::hash(&self.key);
        let threads = self.batches.len() as u64;
        // The upper bits: the map may use the lower ones of a hash of its own.
        let thread = ((u128::from(hash) * u128::from(threads)) >> 64) as usize;
        let batch = &mut self.batches[thread];
        batch.keys.extend_from_slice(&self.key);
        let action = record.operation.action();
        self.cut += u64::from(record.value_size > self.value_max && action != Action::Delete);
        batch.requests.push(Request {
            action,
            key_len: self.key.len() as u32,
            value_size: record.value_size.min(self.value_max),
            number: number as u32,
            hash,
        });
        self.dealt += 1;
        self.key_bytes += self.key.len();
        Ok(())
    }

    /// Whether there is enough to replay.
    pub fn is_full(&self) -> bool {
        self.dealt >= REQUESTS || self.key_bytes >= KEY_BYTES
    }

    /// The batches, to be sent away and given back; they are empty when they come.
    pub fn batches(&mut self) -> &mut [Batch] {
        self.dealt = 0;
        self.key_bytes = 0;
        &mut self.batches
    }
}
