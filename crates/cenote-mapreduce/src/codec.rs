//! Results as bytes: little-endian numbers and counted strings, read with every length checked.

/// Bytes that are read from the front. Each function is `None` where they end too soon.
#[derive(Clone, Copy)]
pub struct Reader<'b>(pub &'b [u8]);

impl<'b> Reader<'b> {
    pub fn bytes(&mut self, len: usize) -> Option<&'b [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// A string with its length before it.
    pub fn counted(&mut self) -> Option<&'b [u8]> {
        let len = self.u32()?;
        self.bytes(len as usize)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends a string with its length before it.
pub fn put_counted(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    to.extend_from_slice(bytes);
}

/// The numbers of some bytes, four each.
pub fn i32s(bytes: &[u8]) -> impl Iterator<Item = i32> + '_ {
    bytes.chunks_exact(4).map(|chunk| {
        let mut word = [0; 4];
        word.copy_from_slice(chunk);
        i32::from_le_bytes(word)
    })
}

/// The same of eight bytes each.
pub fn i64s(bytes: &[u8]) -> impl Iterator<Item = i64> + '_ {
    bytes.chunks_exact(8).map(|chunk| {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        i64::from_le_bytes(word)
    })
}
