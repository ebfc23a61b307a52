//! Why bytes could not be reserved.

use crate::memory::MapError;

/// Why a pool that may still grow is full.
pub(crate) const NO_SPACE: &str = "its file system has no space left";

/// The same, of this process.
pub(crate) const FILE_SIZE_LIMIT: &str =
    "this process may not make its file larger: EFBIG, see `ulimit -f`; another one might";

/// Why bytes could not be reserved, and how many, if it is that there is no room for them.
pub(crate) fn lacking_room(error: &MapError) -> Option<(&'static str, u64)> {
    match error {
        MapError::NoSpace { bytes } => Some((NO_SPACE, *bytes)),
        MapError::FileSizeLimit { bytes } => Some((FILE_SIZE_LIMIT, *bytes)),
        _ => None,
    }
}
