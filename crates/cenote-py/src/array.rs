//! What is known of an array's elements: it is kept before the metadata of an object, so that a view of the object is
//! an array again.
//!
//! ```text
//! array:FORMAT:ITEMSIZE:N,N,…;
//! array:;                        no array: what follows is the user's, and begins like a description
//! ```
//!
//! The format is that of the buffer protocol (module `struct` of Python), in the byte order of the machine. Numbers
//! alone: nothing that refers to the memory of a process, and nothing whose size is not known here, as others may have
//! written what is read.

use std::borrow::Cow;
use std::ffi::CString;

/// The most dimensions that the buffer protocol has.
const DIMENSIONS_MAX: usize = 64;

/// What the elements of an array are, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) format: CString,
    pub(crate) itemsize: isize,
    pub(crate) shape: Vec<isize>,
    pub(crate) strides: Vec<isize>,
}

/// Bytes of an element, if it is a number of this machine's.
pub(crate) fn bytes_of(format: &str) -> Option<isize> {
    let (standard, letters) = match format.as_bytes() {
        [b'<' | b'=', letters @ ..] => (true, letters),
        [b'@', letters @ ..] => (false, letters),
        letters => (false, letters),
    };
    Some(match letters {
        b"?" | b"b" | b"B" | b"c" => 1,
        b"h" | b"H" | b"e" => 2,
        b"i" | b"I" | b"f" => 4,
        b"l" | b"L" => 4 << u32::from(!standard),
        b"q" | b"Q" | b"d" | b"Zf" => 8,
        b"n" | b"N" if !standard => 8,
        b"g" if !standard => 16,
        b"Zd" => 16,
        b"Zg" if !standard => 32,
        _ => return None,
    })
}

const BEGIN: &[u8] = b"array:";

impl Description {
    /// Of a buffer; none if it is a plain string of bytes, or something that cannot be said in a few letters.
    pub(crate) fn of(format: &str, itemsize: isize, shape: &[isize]) -> Option<Self> {
        if format.trim_start_matches(['<', '=', '@']) == "B" && shape.len() == 1 {
            return None;
        }
        Self::checked(format, itemsize, shape.to_vec())
    }

    /// Of an array that is to be made.
    pub(crate) fn new(format: &str, itemsize: isize, shape: &[isize]) -> Option<Self> {
        Self::checked(format, itemsize, shape.to_vec())
    }

    fn checked(format: &str, itemsize: isize, shape: Vec<isize>) -> Option<Self> {
        let is_known = bytes_of(format) == Some(itemsize);
        if !is_known || shape.len() > DIMENSIONS_MAX || shape.iter().any(|&n| n < 0) {
            return None;
        }
        let mut strides = vec![0; shape.len()];
        let mut stride = itemsize;
        for (n, &len) in shape.iter().enumerate().rev() {
            strides[n] = stride;
            stride = stride.checked_mul(len.max(1))?;
        }
        Some(Self {
            format: CString::new(format).ok()?,
            itemsize,
            shape,
            strides,
        })
    }

    /// Whether its elements lie in the order of Fortran, too.
    pub(crate) fn is_in_both_orders(&self) -> bool {
        self.shape.iter().filter(|&&n| n != 1).count() <= 1 || self.shape.contains(&0)
    }

    /// Bytes of all elements.
    pub(crate) fn bytes(&self) -> Option<usize> {
        let elements = self
            .shape
            .iter()
            .try_fold(1_isize, |all, &n| all.checked_mul(n))?;
        usize::try_from(elements.checked_mul(self.itemsize)?).ok()
    }

    /// An object's metadata: this, and what the user says.
    pub(crate) fn before(&self, metadata: &[u8]) -> Vec<u8> {
        let shape: Vec<String> = self.shape.iter().map(isize::to_string).collect();
        let format = self.format.to_string_lossy();
        let mut all = format!("array:{format}:{}:{};", self.itemsize, shape.join(",")).into_bytes();
        all.extend_from_slice(metadata);
        all
    }

    /// The metadata of an object that is no array.
    pub(crate) fn none_before(metadata: &[u8]) -> Cow<'_, [u8]> {
        match metadata.starts_with(BEGIN) {
            true => Cow::Owned([BEGIN, b";", metadata].concat()),
            false => Cow::Borrowed(metadata),
        }
    }

    /// Divides an object's metadata into this and what the user says. What does not fit the object's size, or is not
    /// such a description, is the user's.
    pub(crate) fn split(metadata: &[u8], size: usize) -> (Option<Self>, &[u8]) {
        if let Some(rest) = metadata.strip_prefix(b"array:;") {
            return (None, rest);
        }
        match Self::parse(metadata) {
            Some((found, rest)) if found.bytes() == Some(size) => (Some(found), rest),
            _ => (None, metadata),
        }
    }

    fn parse(metadata: &[u8]) -> Option<(Self, &[u8])> {
        let said = metadata.strip_prefix(BEGIN)?;
        let end = said.iter().position(|&byte| byte == b';')?;
        let mut parts = std::str::from_utf8(&said[..end]).ok()?.split(':');
        let (format, itemsize, shape) = (parts.next()?, parts.next()?, parts.next()?);
        let shape: Option<Vec<isize>> = match shape {
            "" => Some(Vec::new()),
            shape => shape.split(',').map(|n| n.parse().ok()).collect(),
        };
        if parts.next().is_some() {
            return None;
        }
        let found = Self::checked(format, itemsize.parse().ok()?, shape?)?;
        Some((found, &said[end + 1..]))
    }
}
