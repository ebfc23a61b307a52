//! load and export.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cenote::{Options, Pool};

use super::{Here, kill};

const CITIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/cities.tsv.gz");
const CITY_COUNT: u64 = 69_472;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn pairs(here: &Here, pool: &str) -> Pairs {
    let pool: Pool = Pool::open(here.path(pool), &Options::default()).unwrap();
    let map = pool.existing_map("default").unwrap();
    let pairs: Pairs = map.iter().map(Result::unwrap).collect();
    assert_eq!(map.len(), pairs.len() as u64);
    pairs
}

/// Keys and values with all kinds of bytes in them.
fn odd_pairs() -> Pairs {
    let mut pairs = Pairs::new();
    let mut word = 1u64;
    for n in 0..5_000u32 {
        word = word
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mut key = word.to_be_bytes()[..(n % 9) as usize].to_vec();
        key.extend_from_slice(if n % 3 == 0 { b"\t\n\r\\,\"x" } else { b"" });
        let value = format!("{n}: Köln \"quoted\", \\x41 \t\n").into_bytes();
        pairs.insert(
            key,
            if n % 2 == 0 {
                value
            } else {
                word.to_ne_bytes().repeat(n as usize % 40)
            },
        );
    }
    pairs
}

#[test]
fn exports_load_as_they_were() {
    let here = Here::new();
    let wanted = odd_pairs();
    {
        let pool: Pool = Pool::create(here.path("p"), &Options::default()).unwrap();
        let map = pool.map("default").unwrap();
        for (key, value) in &wanted {
            map.put(key, value).unwrap();
        }
    }
    for (n, extension) in ["tsv", "csv", "jsonl", "tsv.gz", "csv.gz", "ndjson.gz"]
        .into_iter()
        .enumerate()
    {
        let file = format!("out.{extension}");
        assert_eq!(here.json(&format!("export ./p {file}"))["records"], wanted.len());
        let loaded = here.json(&format!("load ./q{n} {file} --create --processes 3"));
        assert_eq!(loaded["keys"], wanted.len(), "{extension}");
        assert!(pairs(&here, &format!("q{n}")) == wanted, "{extension}");
        assert_eq!(here.json(&format!("fsck ./q{n}"))["clean"], true);
    }
    for format in ["tsv", "csv", "jsonl"] {
        let piped = here.run(&format!("export ./p --format {format}")).stdout;
        let ran = here.run_with(
            &format!("load ./piped-{format} - --create --format {format}"),
            &piped,
        );
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(pairs(&here, &format!("piped-{format}")) == wanted, "{format}");
    }
    let left: Vec<_> = std::fs::read_dir(here.0.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        !left.iter().any(|name| name.to_string_lossy().starts_with('.')),
        "{left:?}"
    );
    here.fails(2, "export ./p out.unknown");
    here.fails(1, "export ./p no/such/folder.tsv");
}

#[test]
fn ordered_maps_are_loaded_and_exported() {
    let here = Here::new();
    let lines: String = (0..5_000)
        .map(|n| format!("{:04}\tvalue {n}\n", n * 7 % 5_000))
        .collect();
    let ran = here.run_with(
        "load ./p --create --ordered --processes 3 --json",
        lines.as_bytes(),
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let loaded: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(
        (&loaded["records"], &loaded["keys"]),
        (&5_000.into(), &5_000.into())
    );
    let mut sorted: Vec<&str> = lines.lines().collect();
    sorted.sort_unstable();
    let wanted = sorted.join("\n") + "\n";
    assert!(here.ok("export ./p") == wanted);
    assert!(here.ok("scan ./p --from 0000 --limit 2").starts_with("0000\t"));
    // One that is there keeps its kind.
    here.ok("export ./p sorted.tsv");
    here.ok("load ./p sorted.tsv");
    assert!(here.ok("export ./p") == wanted);
    assert_eq!(here.json("fsck ./p")["clean"], true);
    here.ok("load ./p sorted.tsv --map hash");
    let message = here.fails(1, "load ./p sorted.tsv --map hash --ordered");
    assert!(message.contains("is a hash map"), "{message}");
}

#[test]
fn cities() {
    let here = Here::new();
    here.ok("create ./n --noncoherent");
    for pool in ["./p --create", "./n"] {
        let loaded = here.json(&format!("load {pool} {CITIES} --key 1 --processes 2"));
        assert_eq!(loaded["records"], CITY_COUNT);
        assert_eq!(loaded["keys"], CITY_COUNT);
        assert_eq!(loaded["bad_records"], 0);
        let name = pool.split(' ').next().unwrap();
        assert_eq!(
            here.ok(&format!("get {name} 1850147")).split('\t').next(),
            Some("Tokyo")
        );
        assert_eq!(here.json(&format!("fsck {name}"))["clean"], true);
    }
    // By name, the later one counts; one value.
    here.ok(&format!(
        "load ./p {CITIES} --map names --key 2 --value 1,3 --processes 4"
    ));
    let stat = here.json("stat ./p");
    let names = stat["maps"]
        .as_array()
        .unwrap()
        .iter()
        .find(|map| map["name"] == "names")
        .unwrap();
    assert_eq!(names["keys"], 63_889);
    assert_eq!(here.ok("get ./p Tokyo --map names"), "1850147\tJP");
}

#[test]
fn a_killed_worker_is_replaced() {
    let here = Here::new();
    here.ok("create ./p");
    let line = |n: u32| format!("key {n}\tthe value of {n}\n");
    let first: String = (0..60_000).map(line).collect();
    let second: String = (60_000..100_000).map(line).collect();

    let args = ["load", "./p", "-", "--processes", "3", "--json"];
    let mut load = here
        .command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = load.stdin.take().unwrap();
    let begin = Instant::now();
    let workers = loop {
        let stat = Command::new(env!("CARGO_BIN_EXE_cenote"))
            .args(["stat", "./p", "--json"])
            .current_dir(here.0.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let me = u64::from(stat.id());
        let stat: serde_json::Value =
            serde_json::from_slice(&stat.wait_with_output().unwrap().stdout).unwrap();
        let pids = stat["processes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|process| process["pid"].as_u64().unwrap());
        let workers: Vec<_> = pids
            .filter(|pid| *pid != me && *pid != u64::from(load.id()))
            .collect();
        if workers.len() == 3 {
            break workers;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{workers:?}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(5));
            kill(workers[0], libc::SIGKILL);
        });
        stdin.write_all(first.as_bytes()).unwrap();
    });
    kill(workers[1], libc::SIGKILL);
    stdin.write_all(second.as_bytes()).unwrap();
    drop(stdin);
    let ran = load.wait_with_output().unwrap();
    assert_eq!(ran.status.code(), Some(0));
    let loaded: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(loaded["records"], 100_000);
    assert_eq!(loaded["replaced_workers"], 2);
    let found = pairs(&here, "p");
    assert_eq!(found.len(), 100_000);
    for n in 0..100_000 {
        assert_eq!(
            found[format!("key {n}").as_bytes()],
            format!("the value of {n}").as_bytes()
        );
    }
    assert_eq!(here.json("fsck ./p")["clean"], true);
}

#[test]
fn the_later_record_counts() {
    let here = Here::new();
    let lines: String = (0..50_000).map(|n| format!("{}\t{n}\n", n % 5)).collect();
    let ran = here.run_with("load ./p --create --processes 4", lines.as_bytes());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for key in 0..5 {
        assert_eq!(here.ok(&format!("get ./p {key}")), (49_995 + key).to_string());
    }
}

#[test]
fn bad_records_stop_it_or_are_skipped() {
    let here = Here::new();
    let good = "{\"key\":\"a\",\"value\":\"1\"}\n";
    std::fs::write(here.path("bad.jsonl"), format!("{good}{{oops\n{good}")).unwrap();
    std::fs::write(here.path("columns.csv"), "id,name\n1,one\n2\n3,three\n").unwrap();
    std::fs::write(here.path("escapes.tsv"), "a\tC:\\windows\n").unwrap();
    std::fs::write(
        here.path("long.tsv"),
        format!("{}\tv\nk\tv\n", "k".repeat(65_537)),
    )
    .unwrap();
    std::fs::write(
        here.path("cut.tsv.gz"),
        &std::fs::read(CITIES).unwrap()[..100_000],
    )
    .unwrap();
    std::fs::write(here.path("no.tsv.gz"), "plain text").unwrap();

    let message = here.fails(1, "load ./p bad.jsonl --create");
    assert!(
        message.contains("bad.jsonl, line 2:") && message.contains("--skip-bad"),
        "{message}"
    );
    let ran = here.run("load ./p bad.jsonl --skip-bad --json");
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&ran.stdout).unwrap()["bad_records"],
        1
    );
    assert!(
        here.run("load ./p bad.jsonl --skip-bad")
            .stderr
            .contains("skipped: bad.jsonl, line 2")
    );

    let message = here.fails(1, "load ./p columns.csv --key name --value id");
    assert!(message.contains("line 3: it has 1 column"), "{message}");
    let ran = here.run("load ./p columns.csv --key name --value id --skip-bad");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(here.ok("get ./p three"), "3");
    assert!(
        here.fails(2, "load ./p columns.csv --key nome")
            .contains("id, name")
    );

    assert!(here.fails(1, "load ./p escapes.tsv").contains("--raw"));
    here.ok("load ./p escapes.tsv --raw");
    assert_eq!(here.ok("get ./p a"), "C:\\windows");

    assert!(here.fails(1, "load ./p long.tsv").contains("record 1"));
    here.fails(1, "load ./p cut.tsv.gz");
    here.fails(1, "load ./p no.tsv.gz");
    assert_eq!(here.json("fsck ./p")["clean"], true);
}

#[test]
fn loads_that_cannot_begin() {
    let here = Here::new();
    std::fs::write(here.path("a.tsv"), "k\tv\n").unwrap();
    std::fs::write(here.path("a.txt"), "k\tv\n").unwrap();
    assert!(here.fails(1, "load ./p a.tsv").contains("cenote create ./p"));
    here.fails(1, "load ./p none.tsv --create");
    here.fails(2, "load ./p a.txt --create");
    here.fails(2, "load ./p a.tsv --create --processes 0");
    here.fails(2, "load ./p a.tsv --create --key 0");
    here.fails(1, "load ./p . --create --format tsv");
    assert!(!here.path("p").exists());
    here.ok("load ./p a.txt --create --format tsv");
}

#[test]
fn a_full_pool_is_an_error() {
    let here = Here::new();
    here.ok("create ./p --size 2MiB --max 2MiB");
    let message = here.fails(1, &format!("load ./p {CITIES} --processes 2"));
    assert!(message.contains("full"), "{message}");
    assert_eq!(here.json("fsck ./p")["clean"], true);
    here.ok("stat ./p");
}

#[test]
fn free_memory_is_given_back() {
    let here = Here::new();
    here.ok("create ./p --size 64MiB");
    here.ok("put ./p k v");
    let before = here.json("stat ./p");
    let trimmed = here.json("trim ./p");
    let number = |answer: &serde_json::Value, what: &str| answer[what].as_u64().unwrap();
    assert!(
        number(&trimmed, "newly_given_back_bytes") >= 56 << 20,
        "{trimmed}"
    );
    assert_eq!(
        number(&trimmed, "committed_bytes") + number(&trimmed, "given_back_bytes"),
        number(&before, "committed_bytes")
    );
    assert!(number(&trimmed, "file_bytes") + (56 << 20) <= number(&before, "file_bytes"));
    let fsck = here.json("fsck ./p");
    assert_eq!(fsck["clean"], true);
    assert_eq!(
        number(&fsck, "given_back_bytes"),
        number(&trimmed, "given_back_bytes")
    );
    assert_eq!(here.ok("get ./p k"), "v");
    assert!(here.ok("stat ./p").contains("given back"));
    // There is nothing more to give back, and that is no failure.
    assert_eq!(number(&here.json("trim ./p"), "newly_given_back_bytes"), 0);

    here.ok("create ./n --noncoherent");
    assert!(here.fails(1, "trim ./n").contains("incoherent memory"));
    assert!(here.fails(1, "trim ./missing").contains("cenote create"));
}
