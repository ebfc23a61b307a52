//! Why bytes could not be reserved.

use crate::causes::Shortage;
use crate::memory::MapError;

/// Why bytes could not be reserved, and how many, if it is that there is no room for them.
pub(crate) fn lacking_room(error: &MapError) -> Option<(Shortage, u64)> {
    match error {
        MapError::NoSpace { bytes } => Some((Shortage::FileSystem, *bytes)),
        MapError::FileSizeLimit { bytes } => Some((Shortage::FileSizeLimit, *bytes)),
        _ => None,
    }
}
