//! `cenote run`.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{Here, kill};

#[test]
fn each_worker_knows_its_number_and_keeps_it() {
    let here = Here::new();
    let script = r#"echo "$CENOTE_WORKER of $CENOTE_WORKERS, $CENOTE_RESTARTS"
        [ $CENOTE_WORKER$CENOTE_RESTARTS != 10 ]"#;
    let output = here
        .command([
            "run",
            "--workers",
            "3",
            "--backoff",
            "1",
            "--",
            "sh",
            "-c",
            script,
        ])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 of 3, 0", "1 of 3, 0", "1 of 3, 1", "2 of 3, 0"]);
    assert!(stderr.contains("worker 1"), "{stderr}");
    assert!(stderr.contains("exit code 1; restart in"), "{stderr}");
}

#[test]
fn the_exit_code_is_the_workers() {
    let here = Here::new();
    let output = here
        .command(["--json", "run", "--restart", "never", "--", "sh", "-c", "exit 9"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(9));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["ok"], false);
    assert_eq!(summary["workers"][0]["exit_code"], 9);
    let killed = here
        .command([
            "run",
            "--max-restarts",
            "1",
            "--backoff",
            "1",
            "--",
            "sh",
            "-c",
            "kill -9 $$",
        ])
        .output()
        .unwrap();
    assert_eq!(killed.status.code(), Some(137));
    assert!(String::from_utf8(killed.stderr).unwrap().contains("given up"));
}

#[test]
fn hosts_are_prefixes_and_a_lost_one_is_left() {
    let here = Here::new();
    let args = [
        "run",
        "--workers",
        "4",
        "--backoff",
        "1",
        "--on",
        "env ON=one",
        "--on",
        "false",
        "--reschedule-after",
        "2",
        "--",
        "sh",
        "-c",
        "echo $ON $CENOTE_NODE",
    ];
    let output = here.command(args).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "one 0\n".repeat(4));
    assert!(stderr.contains("host 1 counts as lost"), "{stderr}");
}

#[test]
fn signals_are_handed_on_and_nobody_is_left() {
    let here = Here::new();
    let script = "echo $$; trap 'echo asked; exit 0' TERM; while :; do sleep 0.05; done";
    let mut child = here
        .command([
            "run",
            "--workers",
            "2",
            "--restart",
            "always",
            "--",
            "sh",
            "-c",
            script,
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    for _ in 0..2 {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        lines.push(line.trim().to_owned());
    }
    // The traps are set soon after.
    std::thread::sleep(Duration::from_millis(200));
    kill(child.id().into(), libc::SIGTERM);
    let begun = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(128 + libc::SIGTERM));
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "it was not asked but killed"
    );
    for process in lines {
        assert!(!std::path::Path::new(&format!("/proc/{process}")).exists());
    }
}

#[test]
fn misuse_is_told() {
    let here = Here::new();
    assert_eq!(here.run("run").code, Some(2));
    assert_eq!(here.run("run --workers 0 -- true").code, Some(2));
    assert_eq!(here.run("run --pool ./none -- true").code, Some(1));
    assert_eq!(
        here.run("run --backoff 1 --max-restarts 1 -- ./none").code,
        Some(127)
    );
}
