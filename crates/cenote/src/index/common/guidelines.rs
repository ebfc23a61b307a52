//! Which of the paper's guidelines a handle follows.

/// The paper's guidelines that a handle follows. All of them are P³; without replication and speculation it is SP.
/// SP on coherent memory is the paper's CC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guidelines {
    /// G1: values are replaced by new objects, never overwritten. A property of the map, fixed when it is created;
    /// without it, 8-byte values of 8-byte keys are overwritten in place, every read fetches the object afresh, and
    /// [`HashMap::replace`](crate::HashMap::replace) cannot replace an 8-byte value by one of another size. Ordered
    /// maps always follow it.
    pub out_of_place: bool,
    /// G2: each worker reads its own replica of the root and of the epoch.
    pub replicate: bool,
    /// G3: while the worker's announcement stands, a hash map's root is taken from the handle's cache, and every word
    /// of an ordered map above the leaves from the process's.
    pub speculate: bool,
}

impl Guidelines {
    /// All guidelines.
    pub const P3: Self = Self {
        out_of_place: true,
        replicate: true,
        speculate: true,
    };
    /// Conversion only.
    pub const SP: Self = Self {
        out_of_place: true,
        replicate: false,
        speculate: false,
    };
    /// None: small values are overwritten in place.
    pub const IN_PLACE: Self = Self {
        out_of_place: false,
        replicate: false,
        speculate: false,
    };
}

impl Default for Guidelines {
    fn default() -> Self {
        Self::P3
    }
}
