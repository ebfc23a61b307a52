//! `cenote mapreduce`: the same bytes by processes that are killed, by threads and alone.

use serde_json::Value;

use super::Here;

const WORKLOADS: [(&str, &str); 6] = [
    ("wordcount", "2MiB"),
    ("kmeans", "200KiB"),
    ("matrix", "300KiB"),
    ("histogram", "2MiB"),
    ("blackscholes", "200KiB"),
    ("dedup", "5MiB"),
];

fn summary(here: &Here, line: &str) -> Value {
    serde_json::from_str(&here.ok(line)).unwrap()
}

#[test]
fn results_are_the_same_with_deaths_and_without() {
    let here = Here::new();
    for (workload, size) in WORKLOADS {
        here.ok(&format!("mapreduce generate {workload} {workload} --size {size}"));
        // Tasks so small that every worker gets some.
        let grain = match workload {
            "kmeans" => 500,
            "matrix" => 4,
            "dedup" => 1,
            _ => 20_000,
        };
        let run = |options: &str, output: &str| {
            let line = format!(
                "--json mapreduce {workload} ./{workload} --grain {grain} {options} --output ./{output}"
            );
            let summary = summary(&here, &line);
            (summary, std::fs::read(here.path(output)).unwrap())
        };
        let (alone, wanted) = run("--alone", "alone");
        assert_eq!(alone["output_bytes"].as_u64(), Some(wanted.len() as u64));
        let checksum = format!("{:08x}", crc32c::crc32c(&wanted));
        for (options, restarts) in [
            ("--workers 3", 0),
            ("--workers 2 --threads", 0),
            ("--workers 3 --crashes 4", 4),
            ("--workers 2 --crashes 2 --noncoherent", 2),
        ] {
            let (summary, output) = run(options, "output");
            assert!(output == wanted, "{workload} {options}: another output");
            assert_eq!(summary["restarts"], restarts, "{workload} {options}: {summary}");
            assert_eq!(summary["checksum"], checksum);
            assert_eq!(summary["tasks"], alone["tasks"]);
        }
    }
    // The last one made an archive.
    here.ok("mapreduce undedup ./alone ./unpacked");
    let [original, unpacked] = ["dedup", "unpacked"].map(|name| std::fs::read(here.path(name)).unwrap());
    assert!(original == unpacked);
    std::fs::write(here.path("alone"), &original).unwrap();
    here.fails(1, "mapreduce undedup ./alone ./unpacked");
}

#[test]
fn a_job_in_a_named_pool_goes_on_and_leaves_a_clean_pool() {
    let here = Here::new();
    here.ok("create ./pool");
    here.ok("mapreduce generate wordcount text --size 1MiB");
    let line = "--json mapreduce wordcount ./text --pool ./pool --name words --grain 50000 --crashes 2";
    let first = summary(&here, line);
    assert_eq!(first["restarts"], 2);
    // Everything is done already.
    let again = summary(&here, line);
    assert_eq!(
        (&again["restarts"], &again["checksum"]),
        (&Value::from(0), &first["checksum"])
    );
    let stat = summary(&here, "--json stat ./pool");
    assert_eq!(stat["tasks"][0]["name"], "words");
    assert_eq!(stat["tasks"][0]["done"], first["tasks"]);
    assert!(here.ok("stat ./pool").contains("\"words\": "));
    assert!(here.ok("fsck ./pool").contains("tasks \"words\": "));
    let report = summary(&here, "--json fsck ./pool");
    assert_eq!(report["leaked_bytes"], 0, "{report}");
    assert_eq!(report["tasks"][0]["done"], first["tasks"]);
    // Another plan under the same name.
    here.fails(
        2,
        "mapreduce wordcount ./text --pool ./pool --name words --grain 40000",
    );
}

#[test]
fn task_lengths_are_measured_and_errors_are_told() {
    let here = Here::new();
    here.ok("mapreduce generate matrix ./matrix --size 100KiB");
    let text = here.ok("mapreduce matrix ./matrix --task-ms 1 --workers 1");
    assert!(text.contains("tasks by 1 processes"), "{text}");
    std::fs::write(
        here.path("bad"),
        "42 40 0.1 0.2 0.5 C\n".repeat(3_000) + "no option\n",
    )
    .unwrap();
    let message = here.fails(1, "mapreduce blackscholes ./bad --grain 1000 --workers 1");
    assert!(message.contains("at byte 60000"), "{message}");
    here.fails(1, "mapreduce blackscholes ./bad --grain 1000 --threads");
    here.fails(1, "mapreduce kmeans ./bad --workers 1");
    here.fails(1, "mapreduce matrix ./none --workers 1");
    here.fails(2, "mapreduce matrix ./matrix --crashes 1 --threads");
    here.fails(2, "mapreduce generate sorting ./out");
    assert_eq!(here.run("mapreduce").code, Some(2));
    assert!(here.ok("reproduce list").contains("lupin/table4"));
}
