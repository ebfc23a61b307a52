//! create, stat and fsck, and pools that are missing or damaged.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Stdio;

use super::Here;

#[test]
fn pools_are_created_as_asked() {
    let here = Here::new();
    let line =
        "create ./p --size 8MiB --max 1GiB --processes 9 --workers 20 --names 7 --mode 640 --noncoherent";
    let created = here.json(line);
    assert_eq!(created["kind"], "noncoherent");
    assert!(created["size"].as_u64().unwrap() >= 8 << 20);
    assert_eq!(created["max"], 1u64 << 30);
    let mode = std::fs::metadata(here.path("p")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert!(here.fails(1, line).contains("already"));
    for bad in [
        "--size 8XB",
        "--size 2MiB --max 1MiB",
        "--max 1",
        "--mode 9",
        "--mode 1000",
        "--processes x",
        "--workers 0",
    ] {
        here.fails(2, &format!("create ./q {bad}"));
        assert!(!here.path("q").exists(), "{bad}");
    }
    here.fails(1, "create ./no/such/folder/q");
    // Less than what is reserved by default.
    let small = here.json("create ./small --max 1MiB");
    assert_eq!(
        (&small["size"], &small["max"]),
        (&(1 << 20).into(), &(1 << 20).into())
    );
}

#[test]
fn names_without_a_slash() {
    let here = Here::new();
    let name = here.0.path().file_name().unwrap().to_str().unwrap().to_owned() + "-named";
    let created = here.json(&format!("create {name}"));
    assert_eq!(created["path"], format!("/dev/shm/{name}"));
    here.ok(&format!("put {name} k shared"));
    here.ok(&format!("create ./{name}"));
    here.ok(&format!("put {name} k local"));
    assert_eq!(here.ok(&format!("get ./{name} k")), "local");
    assert_eq!(here.ok(&format!("get /dev/shm/{name} k")), "shared");
    std::fs::remove_file(format!("/dev/shm/{name}")).unwrap();
}

#[test]
fn stat_shows_figures() {
    let here = Here::new();
    here.ok("create ./p");
    here.ok("put ./p k v --map cities");
    let stat = here.json("stat ./p");
    assert_eq!(stat["maps"][0]["name"], "cities");
    assert_eq!(stat["maps"][0]["keys"], 1);
    assert_eq!(stat["kind"], "coherent");
    assert_eq!(stat["processes"].as_array().unwrap().len(), 1);
    let text = here.ok("stat ./p");
    assert!(
        text.contains("\"cities\": 1 keys") && text.contains("(this command)"),
        "{text}"
    );
    here.fails(2, "stat ./p --watch=0");

    let args = ["stat", "./p", "--watch=0.02", "--json"];
    let mut child = here.command(args).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    assert!(here.fails(1, "fsck ./p --repair").contains("other processes"));
    for line in lines.take(3) {
        let stat: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(stat["maps"][0]["keys"], 1);
    }
    // Nobody reads any more.
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn fsck_accounts_for_all() {
    let here = Here::new();
    here.ok("create ./p");
    here.ok("put ./p needle-in-the-pool v");
    let report = here.json("fsck ./p");
    let figure = |name: &str| report[name].as_u64().unwrap();
    let parts = ["reachable", "free", "retired", "held", "overhead", "leaked"];
    let sum: u64 = parts.iter().map(|name| figure(&format!("{name}_bytes"))).sum();
    assert_eq!(sum, figure("committed_bytes"));
    assert_eq!(report["clean"], true);
    assert_eq!(here.json("fsck ./p --repair")["clean"], true);

    // Damage: a key's length, 16 bytes before the key.
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(here.path("p"))
        .unwrap();
    let bytes = std::fs::read(here.path("p")).unwrap();
    let needle = b"needle-in-the-pool";
    let at = bytes
        .windows(needle.len())
        .position(|window| window == needle)
        .unwrap();
    file.write_all_at(&[0xff; 8], at as u64 - 16).unwrap();
    let ran = here.run("fsck ./p");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.text().contains("problem: damaged pool"), "{ran:?}");
    let ran = here.run("fsck ./p --json");
    assert_eq!(ran.code, Some(1));
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&ran.stdout).unwrap()["clean"],
        false
    );
    assert!(
        here.fails(1, "get ./p needle-in-the-pool")
            .contains("damaged pool")
    );
}

#[test]
fn what_is_no_pool() {
    let here = Here::new();
    std::fs::write(here.path("text"), "this is no pool\n".repeat(100)).unwrap();
    std::fs::write(here.path("empty"), "").unwrap();
    std::fs::create_dir(here.path("folder")).unwrap();
    for command in [
        "get POOL k",
        "put POOL k v",
        "del POOL k",
        "scan POOL",
        "export POOL",
        "stat POOL",
        "fsck POOL",
    ] {
        let missing = here.fails(1, &command.replace("POOL", "./missing"));
        assert!(missing.contains("cenote create ./missing"), "{missing}");
        assert!(
            here.fails(1, &command.replace("POOL", "./text"))
                .contains("not a cenote pool")
        );
        assert!(
            here.fails(1, &command.replace("POOL", "./empty"))
                .contains("not a cenote pool")
        );
        here.fails(1, &command.replace("POOL", "./folder"));
    }
    here.fails(1, "bench ./text --records 10");
}
