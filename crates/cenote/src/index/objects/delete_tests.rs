//! Releasing a storage that others have removed meanwhile.

use std::os::unix::fs::MetadataExt;

use super::*;
use crate::index::objects::ObjectSettings;
use crate::{Coherent, Options, Pool};

/// Of two that hold an object which nobody has viewed, one has removed it before the other releases it, and its bytes
/// are the file system's again. A look at them would take a page, or end the process if there is none.
#[test]
fn a_late_release_does_not_touch_what_was_given_back() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool: Pool<Coherent> = Pool::create(&path, &Options::default()).unwrap();
    let objects = pool.objects("store", &ObjectSettings::default()).unwrap();
    let ids = [b"first ", b"second", b"object"];
    for id in ids {
        assert!(objects.insert(id, &vec![1; 3 << 20]).unwrap());
    }

    let worker = pool.worker().unwrap();
    let store = ObjectStore::open(worker, "store", Guidelines::SP).unwrap();
    let held = store.hold(&name_key(b"object"), |_| true, |named| store.is_there(named));
    let Ok(Some(Holding::Held(named, slot))) = held else {
        panic!("the object is not there");
    };
    for id in ids {
        assert!(objects.delete(id).unwrap());
    }
    let trimmed = pool.trim().unwrap();
    assert_eq!(trimmed.waiting_bytes, 0, "{trimmed:?}");
    let before = path.metadata().unwrap().blocks();
    store.release(slot, named);
    assert_eq!(path.metadata().unwrap().blocks(), before);
    assert!(pool.fsck().unwrap().is_clean());
}
