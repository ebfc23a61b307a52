//! lockd, and lock --at: commands under locks of a service; processes that are killed, stopped for longer than their
//! lease, and continued.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::{Here, kill};

const SIGKILL: i32 = Signal::KILL.as_raw();
const SIGSTOP: i32 = Signal::STOP.as_raw();
const SIGCONT: i32 = Signal::CONT.as_raw();
const SIGTERM: i32 = Signal::TERM.as_raw();

/// A process that is killed in the end.
struct Started(Child);

impl Started {
    fn signal(&self, signal: i32) {
        kill(self.0.id().into(), signal);
    }

    /// Its exit code.
    fn wait(&mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(here: &Here, line: &str) -> Started {
    let mut command = here.command(line.split_whitespace());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Started(command.spawn().unwrap())
}

/// A service, what it has said, and where it listens.
fn serve(here: &Here, more: &str) -> (Started, serde_json::Value, String) {
    let mut service = start(
        here,
        &format!("lockd --json --listen unix:locks --listen 127.0.0.1:0 {more}"),
    );
    let mut line = String::new();
    BufReader::new(service.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let said: serde_json::Value = serde_json::from_str(&line).expect(&line);
    let tcp = said["listening"][1].as_str().unwrap().to_owned();
    (service, said, tcp)
}

fn status(here: &Here) -> serde_json::Value {
    here.json("lockd --status unix:locks")
}

/// Waits until a lock is as it shall be.
fn wait_for(here: &Here, lock: &str, is: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    loop {
        let status = status(here);
        let locks = status["locks"].as_array().unwrap();
        if let Some(found) = locks.iter().find(|found| found["name"] == lock)
            && is(found)
        {
            return found.clone();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_written(lock: &serde_json::Value) -> bool {
    lock["writer"].is_number()
}

fn ran(here: &Here, line: &str) -> serde_json::Value {
    serde_json::from_str(&here.ok(&format!("lock --json --at unix:locks {line}"))).unwrap()
}

/// Runs a command line, whose first word is the command, that must fail with an exit code and say why; returns the
/// message.
fn refused(here: &Here, code: i32, line: &str) -> String {
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    let ran = here.run(&format!("{command} --json {rest}"));
    assert_eq!((ran.code, ran.stdout.len()), (Some(code), 0), "{line}: {ran:?}");
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).expect(&ran.stderr);
    error["error"].as_str().unwrap().to_owned()
}

fn is_running(process: u64) -> bool {
    std::fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|words| !words.is_empty())
}

#[test]
fn commands_run_under_locks_of_a_service() {
    let here = Here::new();
    let (mut service, said, tcp) = serve(&here, "--lease 30s");
    assert_eq!(
        (&said["listening"][0], &said["lease_ms"]),
        (&"unix:locks".into(), &30_000.into())
    );
    assert_eq!(here.ok("lock --at unix:locks stock -- echo done"), "done\n");
    assert_eq!(
        here.ok(&format!("lock --at {tcp} stock --shared -- echo done")),
        "done\n"
    );
    assert_eq!(here.run("lock --at unix:locks stock -- false").code, Some(1));
    let tokens = [0, 1].map(|_| ran(&here, "stock --timeout 0 -- true"));
    assert_eq!(
        (&tokens[0]["acquired"], &tokens[0]["code"]),
        (&"clean".into(), &0.into())
    );
    assert!(tokens[0]["token"].as_u64() < tokens[1]["token"].as_u64());
    assert!(ran(&here, "stock --shared -- true")["token"].is_null());
    let script = here.path("token.sh");
    std::fs::write(&script, "echo $CENOTE_FENCING_TOKEN").unwrap();
    let token: u64 = here
        .ok("lock --at unix:locks stock -- sh token.sh")
        .trim()
        .parse()
        .unwrap();
    assert!(tokens[1]["token"].as_u64() < Some(token));

    let mut holder = start(&here, "lock --at unix:locks stock -- sleep 100");
    wait_for(&here, "stock", is_written);
    let late = refused(&here, 1, "lock --at unix:locks stock --timeout 0 -- true");
    assert!(late.contains("lockd --status"), "{late}");
    refused(
        &here,
        1,
        "lock --at unix:locks stock --shared --timeout 50ms -- true",
    );
    let shown = here.ok("lockd --status unix:locks");
    assert!(
        shown.contains("\"stock\": node") && shown.contains("keeps it to write"),
        "{shown}"
    );
    assert!(shown.contains("cenote lock["), "{shown}");
    drop(holder.0.kill());
    holder.wait();

    // Ends in order.
    service.signal(SIGTERM);
    assert_eq!(service.wait(), Some(0));
    assert!(!here.path("locks").exists());
}

#[test]
fn misuse_of_lock_services_is_told() {
    let here = Here::new();
    let none = refused(&here, 1, "lock --at unix:none stock -- true");
    assert!(none.contains("cenote lockd --listen unix:none"), "{none}");
    refused(&here, 1, "lockd --status unix:none");
    for line in [
        "lock --at nowhere stock -- true",
        "lock --at unix: stock -- true",
        "lock --at unix:none pool stock -- true",
        "lock --at unix:none stock --kind rw -- true",
        "lock --at unix:none stock",
        "lock stock -- true",
        "lockd",
        "lockd --listen nowhere",
        "lockd --listen unix:x --status unix:x",
        "lockd --listen unix:x --lease 1ms",
        "lockd --listen unix:x --max-bytes much",
    ] {
        refused(&here, 2, line);
    }
    std::fs::write(here.path("file"), "mine").unwrap();
    refused(&here, 1, "lockd --listen unix:file");
    refused(&here, 1, "lockd --listen unix:no/such/folder");
    let (_service, _, tcp) = serve(&here, "--max-locks 1");
    refused(&here, 1, "lockd --listen unix:locks");
    refused(&here, 1, &format!("lockd --listen {tcp}"));
    here.ok("lock --at unix:locks one -- true");
    let full = refused(&here, 1, "lock --at unix:locks two -- true");
    assert!(full.contains("--max-locks"), "{full}");
    refused(
        &here,
        2,
        &format!("lock --at unix:locks {} -- true", "x".repeat(181)),
    );
    refused(&here, 1, "lock --at unix:locks one -- no-such-command-anywhere");
}

#[test]
fn a_killed_holder_is_told_of_at_once() {
    let here = Here::new();
    // Nobody waits for the lease.
    let (_service, _, tcp) = serve(&here, "--lease 60m");
    for at in ["unix:locks", &tcp] {
        let mut holder = start(&here, &format!("lock --at {at} stock -- sleep 100"));
        wait_for(&here, "stock", is_written);
        let waiter = start(&here, "lock --json --at unix:locks stock -- true");
        wait_for(&here, "stock", |lock| {
            lock["waiting"].as_array().unwrap().len() == 1
        });
        // Its note is the process of its command.
        let noted = wait_for(&here, "stock", |lock| lock["note"] != 0);
        let command = noted["note"].as_u64().unwrap();
        assert!(is_running(command));
        holder.signal(SIGKILL);
        holder.wait();
        let said = waiter.output();
        assert_eq!(said["acquired"]["recovered"]["note"], command, "{said}");
        while is_running(command) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(ran(&here, "stock -- true")["acquired"], "clean");
    }
}

impl Started {
    /// What it prints, when it has ended well.
    fn output(mut self) -> serde_json::Value {
        let mut line = String::new();
        BufReader::new(self.0.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(self.wait(), Some(0));
        serde_json::from_str(&line).expect(&line)
    }
}

#[test]
fn a_holder_that_is_stopped_for_longer_than_its_lease_is_fenced() {
    let here = Here::new();
    let (_service, _, _) = serve(&here, "--lease 500ms");
    let mut holder = start(&here, "lock --at unix:locks stock -- sleep 100");
    let before = wait_for(&here, "stock", is_written)["writer"].clone();
    holder.signal(SIGSTOP);
    let said = ran(&here, "stock -- true");
    assert_eq!(said["acquired"]["recovered"]["from"]["worker"], before, "{said}");
    holder.signal(SIGCONT);
    // It learns of it, by its own clock, from the service or by the cut connection, kills its command, and says so.
    assert_eq!(holder.wait(), Some(1));
    let mut told = String::new();
    BufReader::new(holder.0.stderr.take().unwrap())
        .read_line(&mut told)
        .unwrap();
    assert!(told.contains("may be lost"), "{told}");
    assert_eq!(ran(&here, "stock -- true")["acquired"], "clean");
}

#[test]
fn a_service_that_was_stopped_for_a_while_goes_on() {
    let here = Here::new();
    let (service, _, _) = serve(&here, "--lease 2s");
    let mut holder = start(&here, "lock --at unix:locks stock --shared -- sleep 3");
    wait_for(&here, "stock", |lock| {
        lock["readers"].as_array().unwrap().len() == 1
    });
    // For less than the holder counts on, and for longer than the service takes for a pause of its own.
    service.signal(SIGSTOP);
    std::thread::sleep(Duration::from_millis(800));
    service.signal(SIGCONT);
    wait_for(&here, "stock", |lock| {
        lock["readers"].as_array().unwrap().len() == 1
    });
    assert_eq!(holder.wait(), Some(0));
}

#[test]
fn a_service_that_is_killed_is_noticed_and_its_socket_is_taken_over() {
    let here = Here::new();
    let (mut service, _, _) = serve(&here, "");
    let mut holder = start(&here, "lock --at unix:locks stock -- sleep 100");
    wait_for(&here, "stock", is_written);
    service.signal(SIGKILL);
    service.wait();
    assert_eq!(holder.wait(), Some(1));
    assert!(here.path("locks").exists());
    let (_service, _, _) = serve(&here, "");
    here.ok("lock --at unix:locks stock -- true");
}
