//! Pools of other users, and what may happen to a pool's file while a command has it open: limits, and truncation.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};

use super::{Here, kill};

/// The user that owns nothing.
const NOBODY: u32 = 65_534;

/// A line of a shell with the command as `$0`.
fn line(here: &Here, line: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", line, env!("CARGO_BIN_EXE_cenote")])
        .current_dir(here.0.path());
    command
}

fn shell(here: &Here, text: &str) -> std::process::Output {
    line(here, text).output().unwrap()
}

#[test]
fn pools_of_others_are_opened_only_when_that_is_said() {
    let here = Here::new();
    here.ok("create ./p");
    here.ok("put ./p k v");
    let set_mode = |mode| std::fs::set_permissions(here.path("p"), Permissions::from_mode(mode)).unwrap();
    set_mode(0o666);
    let refused = |word: &str| {
        for line in [
            "stat ./p",
            "get ./p k",
            "put ./p k w",
            "del ./p k",
            "scan ./p",
            "export ./p",
            "fsck ./p",
            "fsck ./p --repair",
            "trim ./p",
            "group list ./p g",
            "agent ./p --host 1",
            "monitor ./p --one-machine --host 1",
            "bench ./p --workload c --records 10",
        ] {
            let message = here.fails(1, line);
            assert!(
                message.contains(word) && message.contains("--trust-owner"),
                "{line}: {message}"
            );
        }
        let locked = here.run("lock ./p l -- touch ran");
        assert!(
            locked.code == Some(1) && locked.stderr.contains(word),
            "{locked:?}"
        );
        assert!(!here.path("ran").exists());
    };
    let trusted = || {
        assert_eq!(here.ok("get ./p k --trust-owner"), "v");
        assert_eq!(here.json("fsck ./p --trust-owner")["clean"], true);
        let said = |value: &str| {
            let mut get = here.command(["get", "./p", "k"]);
            get.env("CENOTE_TRUST_OWNER", value)
                .output()
                .unwrap()
                .status
                .code()
        };
        assert_eq!((said("1"), said("0"), said("")), (Some(0), Some(1), Some(1)));
        // Its workers get the option.
        let loaded = here.run_with(
            "load ./p - --format tsv --processes 2 --map n --trust-owner",
            b"a\tb\n",
        );
        assert_eq!(loaded.code, Some(0), "{loaded:?}");
    };
    refused("every user may write it");
    trusted();
    set_mode(0o660);
    here.ok("get ./p k");
    if std::fs::metadata(here.path("p")).unwrap().uid() == 0 {
        chown(here.path("p"), Some(NOBODY), Some(NOBODY)).unwrap();
        refused("belongs to user 65534");
        trusted();
    }
}

#[test]
fn a_user_opens_what_is_root_s_and_not_what_another_user_planted() {
    let here = Here::new();
    if std::fs::metadata(here.0.path()).unwrap().uid() != 0 {
        // Only root can become another user. The cases above test the same by modes.
        return;
    }
    here.ok("create ./p --mode 660");
    here.ok("put ./p k v");
    std::fs::set_permissions(here.0.path(), Permissions::from_mode(0o1777)).unwrap();
    // Other users may not be allowed to reach the command by its path; a descriptor works.
    let program = std::fs::File::open(env!("CARGO_BIN_EXE_cenote")).unwrap();
    let as_nobody = |line: &str| {
        use std::os::fd::AsRawFd;
        // SAFETY: a system call that takes numbers; the child has the descriptor.
        assert_eq!(unsafe { libc::fcntl(program.as_raw_fd(), libc::F_SETFD, 0) }, 0);
        let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
        command.args(line.split(' ')).current_dir(here.0.path());
        command.uid(NOBODY).gid(NOBODY).output().unwrap()
    };
    let ran = as_nobody("get ./p k");
    assert!(
        String::from_utf8_lossy(&ran.stderr).contains("Permission denied"),
        "{ran:?}"
    );
    chown(here.path("p"), None, Some(NOBODY)).unwrap();
    assert_eq!(as_nobody("get ./p k").stdout, b"v");
    // A pool that the user `nobody` plants for root, with all permissions.
    let ran = as_nobody("create ./planted --mode 666");
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(
        here.fails(1, "put ./planted k v")
            .contains("belongs to user 65534")
    );
    let ran = as_nobody("create ./own --lock-file locks");
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(
        here.fails(1, "stat ./p --lock-file locks")
            .contains("locks: it belongs to user 65534")
    );
}

#[test]
fn what_everybody_may_write_is_created_as_asked() {
    let here = Here::new();
    for (place, kind, locks) in [
        ("./p", "", ""),
        ("./q", "", "--lock-file locks"),
        ("./r", "--noncoherent", ""),
    ] {
        let created = here.json(&format!("create {place} --mode 666 {kind} {locks}"));
        assert_eq!(created["size"], 64 << 20);
        let stat = format!("stat {place} {locks}");
        assert!(here.fails(1, &stat).contains("--trust-owner"));
        here.ok(&format!("{stat} --trust-owner"));
    }
    for (mask, mode) in [("077", "660"), ("000", "600"), ("777", "640")] {
        let line = format!("umask {mask}; exec $0 create ./m{mask} --mode {mode} --lock-file l{mask}");
        let ran = shell(&here, &line);
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        for name in ["m", "l"] {
            let found = std::fs::metadata(here.path(&format!("{name}{mask}"))).unwrap();
            assert_eq!(format!("{:o}", found.mode() & 0o7777), mode, "{name}{mask}");
        }
    }
}

#[test]
fn links_are_not_followed() {
    let here = Here::new();
    here.ok("create ./p");
    symlink("p", here.path("link")).unwrap();
    symlink("no-such-file", here.path("dangling")).unwrap();
    for line in ["stat", "fsck", "create", "put ./link k v", "create --mode 666"] {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        for link in ["link", "./link", "dangling"] {
            let line = match rest.contains("./link") {
                true => line.replace("./link", link),
                false => format!("{command} {link} {rest}"),
            };
            let message = here.fails(1, &line);
            assert!(message.contains("symbolic link"), "{line}: {message}");
        }
    }
    let message = here.fails(1, "stat ./p --lock-file dangling");
    assert!(
        message.contains("symbolic link") && message.contains("dangling"),
        "{message}"
    );
    assert!(!here.path("no-such-file").exists());
}

#[test]
fn a_pool_of_no_size_is_a_misuse() {
    let here = Here::new();
    for line in [
        "create ./p --size 0",
        "create ./p --size 0MiB --max 1MiB",
        "create ./p --size 0 --delegated",
    ] {
        assert!(here.fails(2, line).contains("--size"), "{line}");
        assert!(!here.path("p").exists());
    }
    here.ok("create ./p --size 1");
    here.ok("put ./p k v");
}

#[test]
fn a_file_size_limit_is_told_and_ends_nothing() {
    let here = Here::new();
    // In units of 512 bytes or of 1 KiB, as shells have it.
    let ran = shell(&here, "ulimit -f 64; exec $0 create ./p");
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert!(told.contains("EFBIG") && told.contains("ulimit -f"), "{told}");
    assert!(!here.path("p").exists());
    here.ok("create ./p --size 1MiB");
    std::fs::write(here.path("value"), vec![b'v'; 40 << 20]).unwrap();
    let ran = shell(&here, "ulimit -f 32768; exec $0 put ./p k --file value");
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert!(
        told.contains("the pool is full") && told.contains("EFBIG"),
        "{told}"
    );
    here.ok("put ./p k --file value");
    assert_eq!(here.json("fsck ./p")["clean"], true);
}

#[test]
fn a_file_size_limit_between_the_tables_and_the_data_is_told_too() {
    let here = Here::new();
    // The tables of a pool of this maximum have some 130 MiB, of which few are written.
    for limit in [3_000, 60_000, 120_000] {
        let ran = shell(
            &here,
            &format!("ulimit -f {limit}; exec $0 create ./p --size 1MiB"),
        );
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(1), "{limit}: {ran:?}");
        assert!(told.contains("EFBIG"), "{limit}: {told}");
        assert!(!here.path("p").exists());
    }
}

#[test]
fn signals_that_are_ignored_stay_ignored() {
    let here = Here::new();
    here.ok("create ./pod --hosts 4 --size 4MiB");
    let mut agent = line(&here, "trap '' HUP; exec $0 agent ./pod --host 1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0];
    agent.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    kill(agent.id().into(), libc::SIGHUP);
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(agent.try_wait().unwrap().is_none(), "it has ended");
    kill(agent.id().into(), libc::SIGTERM);
    assert_eq!(agent.wait().unwrap().code(), Some(0));
}

#[test]
fn standard_error_may_be_full() {
    let here = Here::new();
    here.ok("create ./p");
    here.ok("put ./p k v");
    let ran = shell(
        &here,
        "exec $0 run --workers 2 --max-restarts 1 -- sh -c 'exit 3' 2>/dev/full",
    );
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");
    let ran = shell(&here, "exec $0 get ./p k --read-only 2>/dev/full");
    assert_eq!(
        (ran.status.code(), &ran.stdout[..]),
        (Some(0), &b"v"[..]),
        "{ran:?}"
    );
    let ran = shell(&here, "exec $0 get ./p missing 2>/dev/full");
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
}

#[test]
fn names_of_files_may_be_no_text() {
    let here = Here::new();
    here.ok("create ./p");
    here.ok("put ./p k v");
    for json in ["", "--json"] {
        let ran = shell(
            &here,
            &format!("exec $0 export ./p \"$(printf '\\377').tsv\" {json}"),
        );
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    }
}

/// A command that has a pool open, and reads it again and again; it has begun.
fn watching(here: &Here, json: bool) -> Child {
    let mut args = vec!["stat", "./p", "--watch=0.02"];
    args.extend(json.then_some("--json"));
    let mut child = here
        .command(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    // What it prints later is read, so that it goes on.
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    child
}

#[test]
fn a_pool_that_is_truncated_under_a_command_is_told_of() {
    for json in [false, true] {
        let here = Here::new();
        here.ok("create ./p");
        let child = watching(&here, json);
        let file = std::fs::File::options().write(true).open(here.path("p")).unwrap();
        file.set_len(0).unwrap();
        let ran = child.wait_with_output().unwrap();
        let told = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(1), "{:?}: {told}", ran.status);
        let path = here.path("p");
        assert!(
            told.contains("truncated") && told.contains(path.to_str().unwrap()),
            "{told}"
        );
        match json {
            true => {
                let told: serde_json::Value = serde_json::from_str(&told).expect(&told);
                assert!(told["error"].is_string());
            }
            false => assert!(
                told.starts_with("cenote: ") && told.lines().count() == 1,
                "{told}"
            ),
        }
        assert!(here.fails(1, "stat ./p").contains("too short"));
    }
}

#[test]
fn a_bus_error_that_is_no_pool_s_ends_a_command_as_ever() {
    let here = Here::new();
    here.ok("create ./p");
    let child = watching(&here, false);
    kill(child.id().into(), libc::SIGBUS);
    let ran = child.wait_with_output().unwrap();
    assert_eq!(ran.status.signal(), Some(libc::SIGBUS), "{ran:?}");
    assert!(ran.stderr.is_empty(), "{ran:?}");
}
