//! Which of the paper's guidelines a handle follows.

/// The paper's guidelines that a handle follows. All of them are P³; without replication and speculation it is SP;
/// none at all, on coherent memory, is CC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guidelines {
    /// G1: values are replaced by new objects, never overwritten. A property of the map, fixed when it is created;
    /// without it, 8-byte values of 8-byte keys are overwritten in place, every read fetches the object afresh, and
    /// [`HashMap::replace`](crate::HashMap::replace) cannot replace an 8-byte value by one of another size.
    pub out_of_place: bool,
    /// G2: each worker reads its own replica of the root and of the epoch.
    pub replicate: bool,
    /// G3: the root is taken from the handle's cache while the worker's announcement stands.
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
    /// As on a coherent machine, in place.
    pub const CC: Self = Self {
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
