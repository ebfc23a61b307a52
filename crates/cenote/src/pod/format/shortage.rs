//! Why bytes could not be reserved.

use crate::causes::Shortage;
use crate::memory::MappingError;

/// Why bytes could not be reserved, and how many, if it is that there is no room for them.
pub(crate) fn lacking_room(error: &MappingError) -> Option<(Shortage, u64)> {
    match error {
        MappingError::NoSpace { bytes } => Some((Shortage::FileSystem, *bytes)),
        MappingError::FileSizeLimit { bytes } => Some((Shortage::FileSizeLimit, *bytes)),
        _ => None,
    }
}
