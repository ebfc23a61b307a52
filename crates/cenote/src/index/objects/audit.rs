//! Checking a store, for `fsck` and `stat`: every storage has a name, is in a living process's slot, or is
//! marked as evicted.

use std::collections::{BTreeMap, BTreeSet};

use super::ObjectStore;
use super::layout::{EVICTED, NAMES, Named, SLOTS, STORAGES, Storage, number_of};
use crate::error::{Error, Result};
use crate::index::ordered::range::Range;
use crate::memory::Memory;

/// What a store has.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct AuditedObjects {
    /// Sealed objects.
    pub objects: u64,
    /// Bytes of their data.
    pub bytes: u64,
    /// Objects that are not sealed yet, or are deleted and still viewed.
    pub unnamed: u64,
    /// Objects that were evicted and are not removed, because the evictor died: the next eviction goes on.
    pub evicted: u64,
    /// Storages that nobody is answerable for.
    pub lost: u64,
    /// The processes that view or write some.
    pub holders: Vec<ObjectHolder>,
}

/// A process that views or writes objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ObjectHolder {
    /// Its place in the process table.
    pub process: u32,
    /// The generation of the place.
    pub generation: u32,
    /// How many objects it views or writes.
    pub objects: u64,
}

impl<M: Memory> ObjectStore<M> {
    /// Looks at everything. Calls `suspect` for what seems wrong; while others write, that may be their writes.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn audit_objects(&self, mut suspect: impl FnMut(Error)) -> Result<AuditedObjects> {
        let mut audited = AuditedObjects::default();
        // Names last: a storage that gets one meanwhile is not counted as lost.
        let mut storages = self.storages(&mut suspect)?;
        let (mut held, mut holders) = (BTreeSet::new(), BTreeMap::<u64, u64>::new());
        self.for_each_table(None, |table| {
            *holders.entry(table.process).or_default() += table.held().count() as u64;
            held.extend(table.referred.iter().map(|(number, _)| *number));
        })?;
        self.map.scan(
            Range {
                from: &[NAMES],
                to: Some(&[STORAGES]),
            },
            |_, value| {
                match Named::decode(self.worker(), value) {
                    Ok(named) => {
                        audited.objects += 1;
                        audited.bytes += named.size;
                        match storages.remove(&named.number) {
                            Some((size, _)) if size == named.size => {}
                            Some(_) => suspect(Error::corrupt("the size of an object", named.state)),
                            None => suspect(Error::corrupt("an object without its bytes", named.state)),
                        }
                    }
                    Err(error) => suspect(error),
                }
                true
            },
        )?;
        for (number, (_, is_evicted)) in storages {
            match held.contains(&number) {
                true => audited.unnamed += 1,
                false if is_evicted => audited.evicted += 1,
                false => audited.lost += 1,
            }
        }
        let holding = holders.into_iter().filter(|(_, objects)| *objects > 0);
        audited.holders = holding
            .map(|(process, objects)| ObjectHolder {
                process: u32::from(process as u16).wrapping_sub(1),
                generation: (process >> 32) as u32,
                objects,
            })
            .collect();
        Ok(audited)
    }

    /// All storages, the sizes of their objects, and whether they were evicted.
    fn storages(&self, suspect: &mut impl FnMut(Error)) -> Result<BTreeMap<u64, (u64, bool)>> {
        let mut storages = BTreeMap::new();
        self.for_each_storage(|number, storage| match storage {
            Ok(storage) if storage.number == number => {
                let is_evicted = storage.state().load(self.mem()) & EVICTED != 0;
                storages.insert(number, (storage.size, is_evicted));
            }
            Ok(storage) => suspect(Error::corrupt("an object's number", storage.number)),
            Err(error) => suspect(error),
        })?;
        Ok(storages)
    }

    pub(super) fn for_each_storage(&self, mut each: impl FnMut(u64, Result<Storage>)) -> Result<()> {
        let worker = self.worker();
        let mut from = vec![STORAGES];
        loop {
            let _pin = self.map.pin()?;
            let range = Range {
                from: &from,
                to: Some(&[SLOTS]),
            };
            let next = self.map.step_records(range, |key, record| {
                let number =
                    number_of(key).ok_or_else(|| Error::corrupt("the key of a storage at", record))?;
                each(number, Storage::of_record(worker, record));
                Ok(())
            })?;
            match next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// `fsck --repair`: removes what nobody is answerable for, and corrects the figure of bytes in use. No other
    /// process has the pool open. Returns how many storages it removed.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn repair_objects(&self) -> Result<u64> {
        let _ = self.sweep_gone();
        let mut names = Vec::new();
        self.map.scan(
            Range {
                from: &[NAMES],
                to: Some(&[STORAGES]),
            },
            |key, value| {
                let number = Named::decode(self.worker(), value).ok().map(|named| named.number);
                names.push((key.to_vec(), number));
                true
            },
        )?;
        let named: BTreeSet<u64> = names.iter().filter_map(|(_, number)| *number).collect();
        let (mut kept, mut lost, mut bytes) = (BTreeSet::new(), Vec::new(), 0);
        self.for_each_storage(|number, storage| match storage {
            Ok(storage) if named.contains(&number) || self.is_held(number, None).unwrap_or(true) => {
                kept.insert(number);
                bytes += storage.len;
            }
            _ => lost.push(number),
        })?;
        // First names: one without its bytes would refer to whatever comes there.
        for (key, number) in &names {
            if !number.is_some_and(|number| kept.contains(&number)) {
                self.map.remove(key)?;
            }
        }
        for number in &lost {
            self.map.remove(&super::layout::storage_key(*number))?;
        }
        // NO PAIR: count
        self.meta.bytes().store(self.mem(), bytes);
        Ok(lost.len() as u64)
    }
}
