//! trace and replay: what is generated is what was asked for, and replaying it gives what a model gives.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cenote_ycsb::trace::{Action, Format, Reader};
use serde_json::Value;

use super::{Here, kill};

/// What a replay must find: hits, inserts that wrote, deletes that found, fills, keys in the end.
#[derive(Debug, Default, PartialEq)]
struct Found {
    hits: u64,
    inserted: u64,
    deleted: u64,
    fills: u64,
    keys: u64,
}

fn model(here: &Here, file: &str, fill: bool) -> Found {
    let mut found = Found::default();
    let mut keys = HashSet::new();
    for record in Reader::open(&here.path(file), &Format::Twitter).unwrap() {
        let record = record.unwrap();
        match record.operation.action() {
            Action::Read if keys.contains(&record.key) => found.hits += 1,
            Action::Read => {
                if fill {
                    found.fills += 1;
                    keys.insert(record.key);
                }
            }
            Action::Write => {
                keys.insert(record.key);
            }
            Action::Insert => found.inserted += u64::from(keys.insert(record.key)),
            Action::Delete => found.deleted += u64::from(keys.remove(&record.key)),
        }
    }
    found.keys = keys.len() as u64;
    found
}

fn reported(report: &Value) -> Found {
    let figure = |name: &str| report[name].as_u64().unwrap();
    Found {
        hits: figure("hits"),
        inserted: figure("inserted"),
        deleted: figure("deleted"),
        fills: figure("fills"),
        keys: figure("keys"),
    }
}

#[test]
fn generated_traces_are_replayed_as_a_model_says() {
    let here = Here::new();
    let made = here.json(
        "trace generate t.csv.gz --operations 20k --keys 3k --read-ratio 0.7 --add-ratio 0.05 --delete-ratio 0.1 \
         --zipf 1.1 --key-size 30 --value-size 150 --value-sizes exponential --seed 9",
    );
    assert_eq!(made["operations"], 20_000);
    let stat = here.json("trace stat t.csv.gz");
    assert_eq!(stat["operations"], 20_000);
    assert!(
        (stat["read_ratio"].as_f64().unwrap() - 0.7).abs() < 0.02,
        "{stat}"
    );
    assert!((stat["zipf"].as_f64().unwrap() - 1.1).abs() < 0.1, "{stat}");
    assert_eq!(stat["mean_key_size"], 30.0);
    let text = here.ok("trace stat t.csv.gz");
    assert!(
        text.contains("20,000 requests") && text.contains("zipf exponent 1."),
        "{text}"
    );

    for fill in [false, true] {
        let wanted = model(&here, "t.csv.gz", fill);
        for (map, memory, threads) in [
            ("hash", "coherent", 1),
            ("hash", "noncoherent", 3),
            ("ordered", "coherent", 3),
            ("ordered", "noncoherent", 1),
        ] {
            let fill = if fill { "--fill" } else { "" };
            let line = format!("replay t.csv.gz --map {map} --memory {memory} --threads {threads} {fill}");
            let report = here.json(&line);
            assert_eq!(reported(&report), wanted, "{line}: {report}");
            assert_eq!(report["operations"], 20_000, "{line}");
            assert_eq!(report["verified_reads"], report["hits"], "{line}");
            assert_eq!(
                (&report["map"], &report["memory"]),
                (&map.into(), &memory.into()),
                "{line}"
            );
            assert!(report["operations_per_second"].as_f64().unwrap() > 0.0);
            let samples = report["latencies"]
                .as_array()
                .unwrap()
                .iter()
                .map(|times| times["samples"].as_u64().unwrap());
            assert!((300..=20_000 / 61).contains(&samples.sum::<u64>()), "{report}");
        }
    }
    let text = here.ok("replay t.csv.gz --limit 1k");
    assert!(
        text.contains("replayed 1,000 requests") && text.contains("p99"),
        "{text}"
    );
}

#[test]
fn the_same_arguments_make_the_same_file() {
    let here = Here::new();
    here.ok("trace generate a.csv --operations 2k --preset cluster14 --seed 4");
    here.ok("trace generate b.csv --operations 2k --preset cluster14 --seed 4");
    here.ok("trace generate c.csv --operations 2k --preset cluster14 --seed 5");
    let read = |name| std::fs::read(here.path(name)).unwrap();
    assert!(read("a.csv") == read("b.csv") && read("a.csv") != read("c.csv"));
    let stat = here.json("trace stat a.csv");
    assert_eq!(
        (&stat["mean_key_size"], &stat["largest_value"]),
        (&96.0.into(), &414.into())
    );
    assert!(here.ok("trace presets").contains("cluster54"));
    let presets = here.ok("trace presets --json");
    let first: Value = serde_json::from_str(presets.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["preset"], &first["zipf"]),
        (&"cluster1".into(), &2.6774.into())
    );
}

/// A Zstandard frame with one block that is not compressed.
fn zstd(content: &[u8]) -> Vec<u8> {
    let size = u8::try_from(content.len()).unwrap();
    let block = u32::from(size) << 3 | 1;
    [
        &[0x28, 0xb5, 0x2f, 0xfd, 0x20, size],
        &block.to_le_bytes()[..3],
        content,
    ]
    .concat()
}

#[test]
fn zstandard_is_read() {
    let here = Here::new();
    let lines = b"1,key,3,10,1,set,60\n2,key,3,10,1,get,0\n";
    std::fs::write(here.path("cluster1.0.zst"), zstd(lines)).unwrap();
    assert_eq!(here.json("replay cluster1.0.zst")["hits"], 1);
    std::fs::write(here.path("a.tsv.zst"), zstd(b"a\t1\nb\t2\n")).unwrap();
    assert_eq!(here.json("load ./p a.tsv.zst --create")["keys"], 2);
}

#[test]
fn other_formats_and_a_pool_that_stays() {
    let here = Here::new();
    let write = |name: &str, bytes: &[u8]| std::fs::write(here.path(name), bytes).unwrap();
    write("ids.txt", b"1\n2\n1\n3\n1\n");
    write("trace.csv", b"when;id;bytes\n1;a;10\n2;b;3000000\n3;a;10\n");
    let oracle: Vec<u8> = [7u64, 8, 7]
        .into_iter()
        .flat_map(|id| {
            [
                &1u32.to_le_bytes()[..],
                &id.to_le_bytes(),
                &100u32.to_le_bytes(),
                &(-1i64).to_le_bytes(),
            ]
            .concat()
        })
        .collect();
    write("sample.oracleGeneral.bin", &oracle);
    here.ok("create ./p");
    for (line, hits, keys) in [
        ("ids.txt", 2, 3),
        (
            "trace.csv --columns time-col=1,obj-id-col=2,obj-size-col=3,has-header=true,delimiter=;",
            1,
            2,
        ),
        ("sample.oracleGeneral.bin", 1, 2),
        ("ids.txt --format txt --pool ./p", 2, 3),
        // Again, on what is there.
        ("ids.txt --format txt --pool ./p --threads 2", 5, 3),
    ] {
        let report = here.json(&format!("replay --fill {line}"));
        assert_eq!(
            (&report["hits"], &report["keys"]),
            (&hits.into(), &keys.into()),
            "{line}"
        );
        assert_eq!(
            report["cut_values"],
            u64::from(keys == 2 && line.contains("csv")),
            "{line}"
        );
        let stat = here.json(&format!("trace stat {}", line.split(" --pool").next().unwrap()));
        assert_eq!(stat["distinct_keys"], keys, "{line}");
    }
    assert_eq!(here.json("stat ./p")["maps"][0]["keys"], 3);
    assert_eq!(here.json("fsck ./p")["clean"], true);
    let ran = here.run_with("replay - --format txt --fill --json", b"x\nx\n");
    assert_eq!(serde_json::from_str::<Value>(&ran.text()).unwrap()["hits"], 1);
}

#[test]
fn damaged_traces() {
    let here = Here::new();
    let good = "1,key,3,10,1,set,60\n";
    let text = format!("{good}1,key,3,ten,1,get,0\n{good}1,key,70000,1,1,get,0\n2,key,3,10,1,get,0\n");
    std::fs::write(here.path("bad.csv"), text).unwrap();
    for command in ["trace stat", "replay"] {
        let message = here.fails(1, &format!("{command} bad.csv"));
        assert!(
            message.contains("bad.csv, line 2, value size: \"ten\"") && message.contains("--skip-bad"),
            "{message}"
        );
    }
    let report = here.json("replay bad.csv --skip-bad");
    assert_eq!(
        (&report["bad_records"], &report["hits"]),
        (&2.into(), &1.into()),
        "{report}"
    );
    let report = here.json("trace stat bad.csv --skip-bad");
    assert_eq!(
        (&report["bad_records"], &report["operations"]),
        (&1.into(), &4.into())
    );
    std::fs::write(here.path("cut.csv.gz"), b"\x1f\x8b\x08\0\0\0").unwrap();
    std::fs::write(here.path("cut.csv.zst"), b"\x28\xb5\x2f\xfd\0").unwrap();
    for file in ["cut.csv.gz", "cut.csv.zst"] {
        let message = here.fails(1, &format!("replay {file} --skip-bad"));
        assert!(message.contains(file), "{message}");
    }
    assert_eq!(here.run("replay bad.csv --skip-bad").code, Some(0));
}

#[test]
fn values_of_others_are_told() {
    let here = Here::new();
    here.ok("create ./p");
    here.ok("put ./p key something-else --map replay");
    std::fs::write(here.path("t"), "1,key,3,10,1,get,0\n").unwrap();
    let message = here.fails(1, "replay t --pool ./p");
    assert!(
        message.contains("request 1") && message.contains("\"key\""),
        "{message}"
    );
    assert_eq!(here.json("replay t --pool ./p --name other")["misses"], 1);
    here.fails(1, "replay t --pool ./p --map ordered");
}

#[test]
fn a_full_pool_ends_it() {
    let here = Here::new();
    here.ok("trace generate w.csv --operations 20k --keys 20k --zipf 0 --read-ratio 0 --value-size 1KiB");
    here.ok("trace generate r.csv --operations 20k --keys 20k --zipf 0 --read-ratio 1 --value-size 1KiB");
    for map in ["hash", "ordered"] {
        here.ok(&format!("create ./{map} --size 4MiB --max 4MiB"));
        let message = here.fails(1, &format!("replay w.csv --pool ./{map} --map {map}"));
        assert!(
            message.contains("full") && message.contains("(at request "),
            "{message}"
        );
        assert_eq!(here.json(&format!("fsck ./{map}"))["clean"], true);
        let report = here.json(&format!("replay r.csv --max 4MiB --map {map} --fill"));
        assert!(report["refused_fills"].as_u64().unwrap() > 10_000, "{report}");
        assert!(report["bytes_written"].as_u64().unwrap() < 4 << 20, "{report}");
    }
    let message = here.fails(1, "replay w.csv --max 8MiB --threads 2");
    assert!(message.contains("full"), "{message}");
}

#[test]
fn what_cannot_be_replayed_or_generated() {
    let here = Here::new();
    std::fs::write(here.path("t"), "1,key,3,10,1,get,0\n").unwrap();
    for bad in [
        "replay",
        "replay t --format csv",
        "replay t --format oracle --columns obj-id-col=1",
        "replay t --columns obj-id-col=0",
        "replay t --columns nonsense",
        "replay t --pool ./p --memory coherent",
        "replay t --memory other",
        "replay t --threads 0",
        "replay t --limit 0",
        "replay t --value-max 2GiB",
        "replay t --max x",
        "trace stat",
        "trace generate",
        "trace generate x.csv.zst",
        "trace generate x --preset cluster5",
        "trace generate x --read-ratio 1.5",
        "trace generate x --read-ratio 0.9 --delete-ratio 0.2",
        "trace generate x --keys 0",
        "trace generate x --zipf -1",
        "trace generate x --key-size 1 --keys 1M",
        "trace generate x --value-size 5GiB",
    ] {
        here.fails(2, bad);
    }
    assert_eq!(here.run("trace").code, Some(2));
    assert!(!here.path("x").exists());
    for missing in [
        "replay missing",
        "replay .",
        "trace stat missing",
        "replay t --pool ./missing",
        "trace generate no/such/folder.csv",
    ] {
        here.fails(1, missing);
    }
}

#[test]
fn an_interrupted_replay_cleans_up() {
    let here = Here::new();
    // It waits for a trace that does not come.
    let mut child = here
        .command(["replay", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let pool = loop {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
        let mut words = maps.split_whitespace();
        if let Some(pool) = words.find(|word| word.starts_with("/dev/shm/cenote-replay-")) {
            break PathBuf::from(pool);
        }
        assert!(begin.elapsed() < Duration::from_secs(30));
    };
    kill(child.id().into(), libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!pool.parent().unwrap().exists());
}
