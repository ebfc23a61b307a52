//! Settings that are not there yet.

use super::super::ObjectStore;
use super::super::layout;
use super::*;
use crate::error::Error;
use crate::index::common::guidelines::Guidelines;
use crate::pod::names::directory::{self, KIND_OBJECTS};
use crate::{Coherent, Options, Pool};

/// Between the store's name and its settings nobody opens it: it would go by none for as long as it has it open.
#[test]
fn a_store_without_settings_is_not_made_yet() {
    let folder = tempfile::tempdir().unwrap();
    let pool: Pool<Coherent> = Pool::create(folder.path().join("pool"), &Options::default()).unwrap();
    let worker = pool.worker().unwrap();
    let create = || layout::create(&worker);
    directory::find_or_create(&worker, "store", KIND_OBJECTS, create).unwrap();
    let opened = ObjectStore::open(worker.clone(), "store", Guidelines::SP);
    assert!(matches!(opened.map(drop), Err(Error::NoSuch { .. })));

    let settings = ObjectSettings {
        quota: Some(1),
        ..ObjectSettings::cache()
    };
    // Its creator, or another one.
    let made = pool.objects("store", &settings).unwrap();
    assert_eq!(made.settings(), &settings);
    let opened = ObjectStore::open(worker.clone(), "store", Guidelines::SP).unwrap();
    assert_eq!(opened.settings(), &settings);
}
