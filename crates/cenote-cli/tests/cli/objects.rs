//! `cenote object`: objects from files to standard output, and what is said when there is none.

use super::Here;

#[test]
fn objects_are_put_printed_listed_and_deleted() {
    for kind in ["", "--noncoherent"] {
        let here = Here::new();
        here.ok(&format!("create ./pool --size 1MiB --max 64MiB {kind}"));
        let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(here.path("file"), &bytes).unwrap();
        here.ok("object put ./pool layer/1 ./file --metadata f32");
        here.ok("object put ./pool layer/2 ./file --ttl 3600");
        here.ok("object put ./pool other ./file");
        assert!(
            here.fails(1, "object put ./pool other ./file")
                .contains("--replace")
        );
        assert!(
            here.ok("object put ./pool other ./file --replace")
                .contains("replaced")
        );
        assert!(here.run("object get ./pool layer/1").stdout == bytes);
        let listed = here.ok("object list ./pool layer/");
        assert_eq!(listed, "layer/1\t400000\nlayer/2\t400000\n");
        let info = here.json("object stat ./pool layer/1");
        assert_eq!(
            (&info["size"], &info["metadata"]),
            (&serde_json::json!(400_000), &serde_json::json!("f32"))
        );
        here.ok("object rm ./pool layer/1");
        assert!(here.fails(1, "object get ./pool layer/1").contains("no object"));
        here.fails(1, "object get ./pool layer/1 --store none");
        let report = here.json("fsck ./pool");
        assert_eq!(report["objects"][0]["objects"], 2, "{report}");
        assert_eq!(report["leaked_bytes"], 0);
        let stat = here.json("stat ./pool");
        assert_eq!(stat["objects"][0]["name"], "objects");
        // A cache stays within its quota.
        here.ok("object create ./pool --store cache --evict --quota 1MiB");
        for n in 0..6 {
            here.ok(&format!("object put ./pool {n} ./file --store cache"));
        }
        let stat = here.json("stat ./pool");
        let cache = &stat["objects"][1];
        assert!(cache["bytes"].as_u64().unwrap() <= 1 << 20, "{stat}");
        assert_eq!(cache["evictions"]["objects"], 4, "{stat}");
    }
}

#[test]
fn maps_and_object_stores_are_dropped() {
    for kind in ["", "--noncoherent"] {
        let here = Here::new();
        here.ok(&format!("create ./pool --size 1MiB --max 64MiB {kind}"));
        std::fs::write(here.path("file"), vec![7; 300_000]).unwrap();
        here.ok("put ./pool key value");
        here.ok("put ./pool key value --map other");
        here.ok("object put ./pool one ./file");
        assert!(here.fails(1, "drop ./pool none").contains("none"));
        here.fails(2, "drop ./pool");
        let dropped = here.json("drop ./pool other objects");
        assert_eq!(
            dropped["dropped"][1],
            serde_json::json!({ "name": "objects", "is_freed": true })
        );
        assert!(here.fails(1, "get ./pool key --map other").contains("other"));
        assert_eq!(here.ok("get ./pool key").trim(), "value");
        let report = here.json("fsck ./pool");
        assert_eq!(
            (&report["leaked_bytes"], &report["dropped"]),
            (&0.into(), &0.into()),
            "{report}"
        );
        assert_eq!(report["objects"], serde_json::json!([]));
        assert_eq!(report["maps"].as_array().map(Vec::len), Some(1));
        here.ok("lock ./pool a -- true");
        here.fails(1, "drop ./pool a");
        assert_eq!(here.ok("drop ./pool default").trim(), "dropped \"default\"");
    }
}
