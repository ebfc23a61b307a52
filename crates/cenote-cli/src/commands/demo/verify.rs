//! Is everything in the pool as the input says, and nothing else?

use std::collections::BTreeMap;

use cenote::{Coherent, Pool};

use super::data::{self, City, Country};
use crate::failure::Failure;
use crate::map::AnyMap;

/// What was compared.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Verified {
    /// Records.
    pub cities: usize,
    /// Names.
    pub names: usize,
    /// Countries.
    pub countries: usize,
    /// Inhabitants of all.
    pub population: u64,
}

/// Compares all maps with the input, as it is to be after a phase.
pub fn verify(pool: &Pool, cities: &[City], phase: usize) -> Result<Verified, Failure> {
    let there: Vec<&City> = cities
        .iter()
        .filter(|city| phase == 1 || !city.is_small())
        .collect();
    let map = AnyMap::existing(pool, "cities")?;
    let mut by_name: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut by_country: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for city in cities {
        // A country all of whose cities are removed keeps its sums: they are 0.
        sums.entry(&city.country).or_default();
    }
    for city in &there {
        let (record, population) = match phase {
            1 => (city.record.clone(), city.population),
            _ => (city.grown(), city.grown_population()),
        };
        let found = map.get(city.id.to_string().as_bytes())?;
        if found.as_deref() != Some(record.as_bytes()) {
            let found = found.map(|found| String::from_utf8_lossy(&found).into_owned());
            return Err(wrong("cities", &city.id.to_string(), &record, found));
        }
        by_name.entry(&city.name).or_default().push(city.id);
        by_country.entry(&city.country).or_default().push(city.id);
        let sum = sums.entry(&city.country).or_default();
        *sum = (sum.0 + population, sum.1 + 1);
    }
    length("cities", &map, there.len())?;
    for (name, lists) in [("by-name", &by_name), ("by-country", &by_country)] {
        let map = AnyMap::existing(pool, name)?;
        for (key, ids) in lists {
            let found = map
                .get(key.as_bytes())?
                .map(|ids| String::from_utf8_lossy(&ids).into_owned());
            let wanted = data::ids_to_text(ids);
            if found.as_ref() != Some(&wanted) {
                return Err(wrong(name, key, &wanted, found));
            }
        }
        length(name, &map, lists.len())?;
    }
    let map = AnyMap::existing(pool, "countries")?;
    for (key, (population, cities)) in &sums {
        let found = map.get(key.as_bytes())?.map(|text| text.to_vec());
        let country = found.as_deref().and_then(Country::parse).unwrap_or_default();
        if (country.population, country.cities) != (*population, *cities) {
            let found = found.map(|text| String::from_utf8_lossy(&text).into_owned());
            return Err(wrong("countries", key, &format!("{population} {cities}"), found));
        }
    }
    length("countries", &map, sums.len())?;
    Ok(Verified {
        cities: there.len(),
        names: by_name.len(),
        countries: sums.len(),
        population: sums.values().map(|sum| sum.0).sum(),
    })
}

fn wrong(map: &str, key: &str, wanted: &str, found: Option<String>) -> Failure {
    let found = found.map_or("nothing".to_owned(), |found| format!("{found:?}"));
    Failure::failed(format!(
        "map {map}, key {key}: {wanted:?} should be there, {found} is"
    ))
}

/// Its own count, and a walk over it.
fn length(name: &str, map: &AnyMap<Coherent>, wanted: usize) -> Result<(), Failure> {
    let mut walked = 0;
    map.for_each(|_, _| walked += 1)?;
    if walked == wanted && map.len() == wanted as u64 {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "map {name} should have {wanted} keys; walking it gives {walked}, its own count is {}",
        map.len()
    )))
}
