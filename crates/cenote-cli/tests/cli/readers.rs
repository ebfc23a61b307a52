//! Commands that read a pool when no place in it can be had, or when it may not be written.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use cenote::pod::format::geometry::Geometry;
use cenote::pod::format::superblock::{HEADER_BYTES, Superblock};

use super::{Here, Ran};

/// Commands that read, and a word of what they print.
const READS: [(&str, &str); 6] = [
    ("get ./p k3", "value 3"),
    ("get ./p k3 --map o", "value 3"),
    ("scan ./p", "k3\tvalue 3"),
    (
        "scan ./p --map o --reverse --from k3",
        "k4\tvalue 4\nk3\tvalue 3\n",
    ),
    ("export ./p", "k3\tvalue 3"),
    ("stat ./p", "map         \"o\": 5 keys"),
];

fn fill(here: &Here, create: &str) {
    here.ok(&format!("create ./p --size 1MiB --max 16MiB {create}"));
    for n in 0..5 {
        for map in ["", "--map o --ordered"] {
            let mut put = here.command(format!("put ./p k{n} {map}").split_whitespace());
            let done = put.arg("--").arg(format!("value {n}")).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        }
    }
}

/// A process that was started, and ends with this.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command that has the pool open until it is killed.
fn start(here: &Here, line: &str) -> Started {
    let mut command = here.command(line.split_whitespace());
    let child = command.env_remove("CENOTE_HOST").stdout(Stdio::piped()).spawn();
    let mut started = Started(child.unwrap());
    let output = started.0.stdout.take().unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(output);
    output.read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    // The rest is not read; it is not much. The pipe is not closed meanwhile.
    started.0.stdout = Some(output.into_inner());
    started
}

/// Runs all commands that read; each must work, and say that it had no place.
fn reads_without_place(run: impl Fn(&str) -> Ran, rest: &str) {
    for (line, word) in READS {
        let ran = run(&format!("{line} {rest}"));
        assert_eq!(ran.code, Some(0), "{line}: {ran:?}");
        assert!(ran.text().contains(word), "{line}: {ran:?}");
        assert!(ran.stderr.contains("read without a place"), "{line}: {ran:?}");
    }
    for line in ["get ./p k3", "stat ./p", "fsck ./p"] {
        let ran = run(&format!("{line} {rest} --json"));
        let text = ran.text();
        let object: serde_json::Value = serde_json::from_str(&text).expect(&text);
        assert_eq!(object["without_place"], true, "{line}: {ran:?}");
    }
    assert_eq!(run(&format!("get ./p none {rest}")).code, Some(1));
    let checked = run(&format!("fsck ./p {rest}"));
    assert!(
        checked.code == Some(0) && checked.text().contains("read without a place"),
        "{checked:?}"
    );
}

#[test]
fn pools_are_read_when_all_places_are_taken() {
    for kind in ["", "--noncoherent", "--delegated"] {
        let here = Here::new();
        fill(&here, &format!("--processes 2 {kind}"));
        assert!(!here.json("stat ./p")["without_place"].as_bool().unwrap());
        let others = [(); 2].map(|()| start(&here, "stat ./p --watch=100 --json"));
        here.fails(1, "put ./p k v");
        reads_without_place(|line| here.run(line), "");
        drop(others);
        // The next process takes a dead one's place.
        assert_eq!(here.ok("get ./p k3"), "value 3");
        reads_without_place(|line| here.run(line), "--read-only");
    }
    let here = Here::new();
    fill(&here, "--workers 2");
    let other = start(&here, "stat ./p --watch=100 --json");
    reads_without_place(|line| here.run(line), "");
    drop(other);
    here.fails(2, "fsck ./p --repair --read-only");
}

#[test]
fn pools_of_pods_are_read_when_the_agent_is_dead() {
    let here = Here::new();
    fill(&here, "--hosts 4");
    let mut agent = start(&here, "agent ./p --host 2 --json");
    assert_eq!(here.ok("get ./p k3 --host 2"), "value 3");
    agent.0.kill().unwrap();
    agent.0.wait().unwrap();
    // Whether it counts as dead already or not.
    for (line, word) in READS {
        let ran = here.run(&format!("{line} --host 2"));
        assert!(
            ran.code == Some(0) && ran.text().contains(word),
            "{line}: {ran:?}"
        );
    }
    // A host that has none.
    reads_without_place(|line| here.run(line), "--host 1");
    reads_without_place(|line| here.run(line), "--host 2 --read-only");
}

#[test]
fn pools_are_read_beside_records_that_are_overwritten() {
    let here = Here::new();
    fill(&here, "");
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(here.path("p"))
        .unwrap();
    let mut head = [0; HEADER_BYTES];
    file.read_exact_at(&mut head, 0).unwrap();
    let superblock = Superblock::decode(&here.path("p"), &head).unwrap();
    let geometry = Geometry::new(superblock.parameters);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let random: Vec<u8> = (geometry.worker_table..geometry.worker_area_table)
        .map(|_| {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 56) as u8
        })
        .collect();
    file.write_all_at(&random, geometry.worker_table).unwrap();
    for how in ["", "--read-only"] {
        for (line, word) in READS {
            let ran = here.run(&format!("{line} {how}"));
            assert!(
                ran.code == Some(0) && ran.text().contains(word),
                "{line}: {ran:?}"
            );
        }
        let checked = here.run(&format!("fsck ./p {how}"));
        assert!(checked.code == Some(1), "{checked:?}");
    }
}

#[test]
fn pools_of_others_are_read_by_who_may_only_read() {
    let here = Here::new();
    fill(&here, "");
    std::fs::set_permissions(here.path("."), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(here.path("p"), PermissionsExt::from_mode(0o444)).unwrap();
    // SAFETY: takes no argument.
    let is_root = unsafe { libc::geteuid() } == 0;
    // Where the command lies, another user may not come.
    let cenote = here.path("cenote");
    super::threads::copy_of_the_command(&cenote);
    reads_without_place(
        |line| {
            let mut command = Command::new(&cenote);
            command.args(line.split_whitespace()).current_dir(here.path("."));
            if is_root {
                command.uid(65534).gid(65534);
            }
            let output = command.output().unwrap();
            Ran {
                code: output.status.code(),
                stdout: output.stdout,
                stderr: String::from_utf8(output.stderr).unwrap(),
            }
        },
        "",
    );
}
