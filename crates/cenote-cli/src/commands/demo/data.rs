//! The demo's data: real cities, and how they are laid out in the pool.
//!
//! All keys and values are text, so that `cenote get` and `cenote scan` show them:
//!
//! | map | key | value |
//! |---|---|---|
//! | `cities` | GeoNames id | name, country, region, latitude, longitude, population, time zone; by tabs |
//! | `by-name`, ordered | name | ids, ascending, by spaces |
//! | `by-country` | country code | ids, ascending, by spaces |
//! | `countries` | country code | population, number of cities, and which units of work are in these sums |
//! | `units-1`, `units-2` | number of a unit of work | the process that does it, or has done it |
//! | `reports` | phase and process | what a worker says when it is done |

use std::collections::BTreeSet;
use std::io::Read;

use crate::failure::Failure;

const ARCHIVE: &[u8] = include_bytes!("../../../data/cities.tsv.gz");

/// Cities in a unit of work.
pub const UNIT: usize = 512;
/// Cities with less inhabitants are removed in the second phase.
pub const SMALL: u64 = 15_000;

/// A city.
#[derive(Clone, Debug)]
pub struct City {
    /// Its GeoNames id.
    pub id: u32,
    /// The columns after the id, by tabs.
    pub record: String,
    /// The name.
    pub name: String,
    /// The country's code.
    pub country: String,
    /// The number of inhabitants.
    pub population: u64,
}

impl City {
    /// The record with other inhabitants, for the second phase.
    pub fn grown(&self) -> String {
        let mut columns: Vec<String> = self.record.split('\t').map(str::to_owned).collect();
        columns[5] = self.grown_population().to_string();
        columns.join("\t")
    }

    /// One per cent more.
    pub fn grown_population(&self) -> u64 {
        self.population + self.population / 100
    }

    /// Whether it is removed in the second phase.
    pub fn is_small(&self) -> bool {
        self.population < SMALL
    }
}

/// All cities, by ascending id.
pub fn cities() -> Result<Vec<City>, Failure> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(ARCHIVE)
        .read_to_string(&mut text)
        .map_err(Failure::io("the built-in data set"))?;
    let city = |line: &str| {
        let (id, record) = line.split_once('\t')?;
        let columns: Vec<&str> = record.split('\t').collect();
        let [name, country, _, _, _, population, _] = columns[..] else {
            return None;
        };
        Some(City {
            id: id.parse().ok()?,
            name: name.to_owned(),
            country: country.to_owned(),
            population: population.parse().ok()?,
            record: record.to_owned(),
        })
    };
    let cities: Option<Vec<City>> = text.lines().map(city).collect();
    cities.ok_or_else(|| Failure::failed("the built-in data set has a line that is not a city"))
}

/// Ids as text.
pub fn ids_to_text(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// Ids from text.
pub fn ids_from_text(text: &[u8]) -> Option<Vec<u32>> {
    let text = std::str::from_utf8(text).ok()?;
    text.split(' ')
        .filter(|id| !id.is_empty())
        .map(|id| id.parse().ok())
        .collect()
}

/// What `countries` holds of a country: sums, and the units of work that are in them, phase by phase.
///
/// A worker adds its unit's share and marks the unit in one compare-and-replace. So a worker that takes a unit over
/// from a dead one may do it again, wholly or in part, and it is still counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Country {
    /// Inhabitants of its cities.
    pub population: u64,
    /// Its cities.
    pub cities: u64,
    units: [BTreeSet<usize>; 2],
}

impl Country {
    /// Reads it.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        let mut country = Self {
            population: words.next()?.parse().ok()?,
            cities: words.next()?.parse().ok()?,
            ..Self::default()
        };
        for units in &mut country.units {
            let numbers = words.next()?.split(',').skip(1);
            *units = numbers.map(|unit| unit.parse().ok()).collect::<Option<_>>()?;
        }
        Some(country)
    }

    /// Writes it.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} {}", self.population, self.cities);
        for (phase, units) in self.units.iter().enumerate() {
            text.push_str(if phase == 0 { " in" } else { " changed" });
            units.iter().for_each(|unit| text.push_str(&format!(",{unit}")));
        }
        text
    }

    /// Whether a unit of a phase is in the sums.
    pub fn has(&self, phase: usize, unit: usize) -> bool {
        self.units[phase - 1].contains(&unit)
    }

    /// Marks a unit of a phase.
    pub fn mark(&mut self, phase: usize, unit: usize) {
        self.units[phase - 1].insert(unit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_set_is_complete() {
        let cities = cities().unwrap();
        assert_eq!(cities.len(), 69_472);
        assert!(cities.is_sorted_by(|a, b| a.id < b.id));
        let tokyo = cities.iter().find(|city| city.id == 1_850_147).unwrap();
        assert_eq!(
            (&*tokyo.name, &*tokyo.country, tokyo.population),
            ("Tokyo", "JP", 9_733_276)
        );
        assert_eq!(tokyo.grown().split('\t').nth(5), Some("9830608"));
    }

    #[test]
    fn a_country_is_read_back() {
        let mut country = Country {
            population: 7,
            cities: 2,
            ..Country::default()
        };
        country.mark(1, 3);
        country.mark(1, 9);
        country.mark(2, 1);
        assert_eq!(country.to_text(), "7 2 in,3,9 changed,1");
        assert_eq!(Country::parse(country.to_text().as_bytes()), Some(country));
        assert_eq!(
            Country::parse(Country::default().to_text().as_bytes()),
            Some(Country::default())
        );
    }
}
