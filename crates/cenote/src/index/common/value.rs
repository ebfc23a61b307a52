//! Values that were found, and the pins that keep their bytes in place.

use crate::memory::Memory;
use crate::pod::Pin;

/// A value's bytes: in the pool, or a copy where they may be overwritten in place.
#[derive(Clone, Copy, Debug)]
pub enum Bytes<'m> {
    /// In the pool.
    Shared(&'m [u8]),
    /// A copy of an 8-byte value.
    Copied([u8; 8]),
}

impl Bytes<'_> {
    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Shared(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}

/// A value that was found. It holds a pin: while it lives, what it refers to is not reused, and neither is anything
/// that was retired after it was made. So do not keep it for long.
pub struct Value<'m, M: Memory> {
    bytes: Bytes<'m>,
    _pin: Pin<'m, M>,
}

impl<'m, M: Memory> Value<'m, M> {
    /// A value whose bytes the pin keeps in place.
    #[inline]
    pub(in crate::index) fn new(bytes: Bytes<'m>, pin: Pin<'m, M>) -> Self {
        pin.handed_out();
        Self { bytes, _pin: pin }
    }
}

impl<M: Memory> std::ops::Deref for Value<'_, M> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes.as_bytes()
    }
}

impl<M: Memory> std::fmt::Debug for Value<'_, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.bytes.as_bytes().fmt(f)
    }
}
