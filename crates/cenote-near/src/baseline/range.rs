//! Range partition: the map without redistribution is just that. Each module has one subrange for ever, and the host
//! finds it by one probe.

use crate::device::Skiplist;
use crate::map::{Config, Map, MapError};
use crate::modules::{Profile, Simulated};

/// Ranges of equal width over simulated modules.
///
/// # Errors
/// As for [`Map::simulated`].
pub fn simulated(
    config: &Config,
    modules: usize,
    profile: Profile,
) -> Result<Map<Simulated<Skiplist>>, MapError> {
    let config = Config {
        adaptive: false,
        repeats: false,
        ..config.clone()
    };
    Map::simulated(config, modules, profile)
}
