//! lock, and what stat says of locks.

use std::process::Stdio;
use std::time::Duration;

use super::Here;

/// Runs `cenote lock` with JSON; what stands behind `--` is the command's.
fn locked(here: &Here, line: &str) -> serde_json::Value {
    serde_json::from_str(&here.ok(&format!("lock --json {line}"))).unwrap()
}

/// Runs `cenote lock`, which must end with an exit code and say why.
fn refused(here: &Here, code: i32, line: &str) {
    let ran = here.run(&format!("lock --json {line}"));
    assert_eq!((ran.code, ran.stdout.len()), (Some(code), 0), "{line}: {ran:?}");
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).expect(&ran.stderr);
    assert!(error["error"].is_string(), "{line}: {error}");
}

/// Whether a process is there that has not ended.
fn is_running(process: u64) -> bool {
    std::fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|words| !words.is_empty())
}

#[test]
fn commands_run_under_locks() {
    let here = Here::new();
    here.ok("create ./p");
    for form in ["spin", "queue", "rw", "directory"] {
        assert_eq!(
            here.ok(&format!("lock ./p {form} --kind {form} -- echo done")),
            "done\n"
        );
        assert_eq!(
            here.run(&format!("lock ./p {form} --kind {form} -- false")).code,
            Some(1)
        );
        let ran = locked(&here, &format!("./p {form} --kind {form} --timeout 5s -- true"));
        assert_eq!((&ran["acquired"], &ran["code"]), (&"clean".into(), &0.into()));
    }
    assert_eq!(here.ok("lock ./p rw --kind rw --shared -- echo read"), "read\n");
    let stat = here.json("stat ./p");
    assert_eq!(stat["locks"].as_array().unwrap().len(), 4);
    assert!(stat["locks"][0]["owner"].is_null());
    assert_eq!(here.ok("lock ./p directory --shared -- echo read"), "read\n");
    refused(&here, 2, "./p spin --kind spin --shared -- true");
    refused(&here, 1, "./p spin --shared -- true");
    refused(&here, 2, "./p many --kind directory --count 5 --index 1 -- true");
    refused(&here, 1, "./p directory --remove");
    refused(&here, 2, "./p spin --timeout soon -- true");
    refused(&here, 2, "./p spin");
    refused(&here, 1, "./p spin --kind queue -- true");
    refused(&here, 1, "./p spin -- no-such-command-anywhere");
    here.ok("fsck ./p");
}

#[test]
fn locks_are_removed_and_many_have_one_name() {
    let here = Here::new();
    here.ok("create ./p --names 2");
    for n in 0..4 {
        let form = ["spin", "queue", "rw", "mutex"][n];
        here.ok(&format!("lock ./p lock-{n} --kind {form} -- true"));
        let removed = here.json(&format!("lock ./p lock-{n} --remove"));
        assert_eq!(removed["removed"], format!("lock-{n}"));
        refused(&here, 1, &format!("./p lock-{n} --remove"));
    }
    assert!(here.json("stat ./p")["locks"].as_array().unwrap().is_empty());
    assert_eq!(
        here.ok("lock ./p many --kind queue --count 500 --index 499 -- echo done"),
        "done\n"
    );
    refused(&here, 2, "./p many --kind queue --count 500 --index 500 -- true");
    refused(&here, 1, "./p many --kind queue --count 400 --index 1 -- true");
    refused(&here, 1, "./p many --count 500 --index 1 -- true");
    refused(&here, 1, "./p many --remove");
    refused(&here, 2, "./p many --count 500 -- true");
    refused(&here, 2, "./p many --remove -- true");
    here.ok("fsck ./p");
    assert!(here.json("stat ./p")["locks"].as_array().unwrap().is_empty());
    let line = "lock ./p many --kind queue --count 500 --index 7 -- sleep 100";
    let mut holder = here.command(line.split_whitespace()).spawn().unwrap();
    let index = loop {
        match here.json("stat ./p")["locks"][0]["index"].as_u64() {
            None => std::thread::sleep(Duration::from_millis(5)),
            Some(index) => break index,
        }
    };
    assert_eq!(index, 7);
    assert!(here.ok("stat ./p").contains("\"many\"[7]"));
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn a_killed_holder_is_told_of() {
    let coherent = ["spin", "queue", "rw", "directory"].map(|form| (form, ""));
    for (form, memory) in coherent.into_iter().chain([("directory", "--noncoherent")]) {
        let here = Here::new();
        here.ok(&format!("create ./p {memory}"));
        let line = format!("lock ./p stock --kind {form} -- sleep 100");
        let mut holder = here
            .command(line.split_whitespace())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let note = loop {
            let locks = &here.json("stat ./p")["locks"];
            match locks[0]["note"].as_u64() {
                None | Some(0) => std::thread::sleep(Duration::from_millis(5)),
                Some(note) => {
                    assert_eq!(locks[0]["owner"]["is_alive"], true);
                    break note;
                }
            }
        };
        assert!(here.ok("stat ./p").contains("lock"));
        refused(
            &here,
            1,
            &format!("./p stock --kind {form} --timeout 50ms -- true"),
        );
        refused(&here, 1, &format!("./p stock --kind {form} --timeout 0 -- true"));
        assert!(is_running(note));
        holder.kill().unwrap();
        holder.wait().unwrap();
        // The command dies with it.
        while is_running(note) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // stat opens the pool, and so recovers it; the next owner is notified all the same.
        let locks = &here.json("stat ./p")["locks"];
        assert_eq!(locks[0]["owner"]["is_alive"], false);
        let ran = locked(&here, &format!("./p stock --kind {form} -- true"));
        assert_eq!(ran["acquired"]["recovered"]["note"], note);
        assert_eq!(
            locked(&here, &format!("./p stock --kind {form} -- true"))["acquired"],
            "clean"
        );
        here.ok("fsck ./p");
    }
}
