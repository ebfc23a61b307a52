//! What others meet of an operation that is halfway.

use std::os::unix::fs::MetadataExt;

use super::*;
use crate::error::Error;
use crate::index::objects::name_without_settings;
use crate::store::Options;

/// Of two that hold an object which nobody has viewed, one has removed it before the other releases it, and its bytes
/// are the file system's again. A look at them would take a page, or end the process if there is none.
#[test]
fn a_late_release_does_not_touch_what_was_given_back() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool: Pool = Pool::create(&path, &Options::default()).unwrap();
    let objects = pool.objects("store", &ObjectSettings::default()).unwrap();
    let ids = [b"first ", b"second", b"object"];
    for id in ids {
        assert!(objects.insert(id, &vec![1; 3 << 20]).unwrap());
    }
    let blocks = || path.metadata().unwrap().blocks();
    let mut before = 0;
    objects.store.hold_meanwhile(b"object", || {
        for id in ids {
            assert!(objects.delete(id).unwrap());
        }
        let trimmed = pool.trim().unwrap();
        assert_eq!(trimmed.waiting_bytes, 0, "{trimmed:?}");
        before = blocks();
    });
    assert_eq!(blocks(), before);
    assert!(pool.fsck().unwrap().is_clean());
}

/// Between the store's name and its settings nobody opens it: it would go by none for as long as it has it open.
#[test]
fn a_store_without_settings_is_not_made_yet() {
    let folder = tempfile::tempdir().unwrap();
    let pool: Pool = Pool::create(folder.path().join("pool"), &Options::default()).unwrap();
    name_without_settings(&pool.worker().unwrap(), "store");
    let opened = pool.existing_objects("store");
    assert!(matches!(opened, Err(Error::NoSuch { .. })), "{opened:?}");

    let settings = ObjectSettings {
        quota: Some(1),
        ..ObjectSettings::cache()
    };
    // Its creator, or another one.
    let made = pool.objects("store", &settings).unwrap();
    assert_eq!(made.settings(), &settings);
    assert_eq!(pool.existing_objects("store").unwrap().settings(), &settings);
}
