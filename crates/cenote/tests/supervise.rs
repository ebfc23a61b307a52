//! Supervision with real processes: shells that end as the test says.

use std::ops::ControlFlow;
use std::process::Command;
use std::time::{Duration, Instant};

use cenote::Acquired;
use cenote::store::supervise::{
    End, Event, Policy, Restart, Signal, Start, Supervisor, Then, ThreadEnd, run_threads,
};

fn quick() -> Policy {
    Policy {
        wait_first: Duration::from_millis(1),
        grace: Duration::from_millis(300),
        ..Policy::default()
    }
}

fn shell(script: &str) -> impl FnMut(&Start) -> Command {
    move |start| {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .env("WORKER", start.worker.to_string())
            .env("RESTARTS", start.restarts.to_string())
            .env("HOST", start.host.to_string());
        command
    }
}

/// Polls until nobody is left.
fn all<F: FnMut(&Start) -> Command>(supervisor: &mut Supervisor<F>) -> Vec<Event> {
    let (mut events, begun) = (Vec::new(), Instant::now());
    while !supervisor.is_over() {
        events.extend(supervisor.poll(Duration::from_secs(1)));
        assert!(begun.elapsed() < Duration::from_secs(60), "{events:?}");
    }
    events
}

fn restarts<F: FnMut(&Start) -> Command>(supervisor: &Supervisor<F>) -> Vec<u32> {
    supervisor.fates().iter().map(|fate| fate.restarts).collect()
}

#[test]
fn who_fails_is_started_again_under_the_same_number() {
    // Worker 0 ends well, 1 fails twice, 2 is killed once.
    let script = r#"case $WORKER$RESTARTS in 10|11) exit 3;; 20) kill -9 $$;; esac"#;
    let mut supervisor = Supervisor::new(3, 1, quick(), shell(script));
    let events = all(&mut supervisor);
    assert_eq!(restarts(&supervisor), [0, 2, 1], "{events:?}");
    assert!(
        supervisor
            .fates()
            .iter()
            .all(|fate| fate.end == Some(End::Code(0)))
    );
    let ends: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Ended { worker: 2, end, .. } => Some(end.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [End::Signal(9), End::Code(0)]);
    assert_eq!((End::Signal(9).code(), End::Code(3).code()), (137, 3));
}

#[test]
fn policies_differ_in_what_they_start_again() {
    for (restart, script, wanted) in [
        (Restart::Never, "exit 1", 0),
        (Restart::OnFailure, "exit 0", 0),
        (Restart::OnFailure, "exit 1", 4),
        (Restart::Always, "exit 0", 4),
    ] {
        let policy = Policy {
            restart,
            restarts_max: 4,
            ..quick()
        };
        let mut supervisor = Supervisor::new(1, 1, policy, shell(script));
        let events = all(&mut supervisor);
        assert_eq!(
            restarts(&supervisor),
            [wanted],
            "{restart:?} {script}: {events:?}"
        );
        let is_given_up = matches!(
            events.last(),
            Some(Event::Ended {
                then: Then::GivenUp,
                ..
            })
        );
        assert_eq!(is_given_up, wanted > 0);
    }
}

#[test]
fn what_cannot_be_started_is_given_up() {
    let policy = Policy {
        restarts_max: 2,
        ..quick()
    };
    let mut supervisor = Supervisor::new(1, 1, policy, |_: &Start| Command::new("/nowhere/at all"));
    all(&mut supervisor);
    assert_eq!(restarts(&supervisor), [2]);
    assert!(matches!(
        &supervisor.fates()[0].end,
        Some(end @ End::NotStarted(_)) if end.code() == 127
    ));
}

#[test]
fn stopping_asks_first_and_kills_then() {
    // Worker 0 ends when it is asked to; worker 1 does not listen.
    let script = r#"
        if [ $WORKER = 0 ]; then trap 'exit 7' TERM; else trap '' TERM; fi
        while :; do sleep 0.05; done"#;
    let policy = Policy {
        restart: Restart::Always,
        ..quick()
    };
    let mut supervisor = Supervisor::new(2, 1, policy, shell(script));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(300) {
        supervisor.poll(Duration::from_millis(50));
    }
    supervisor.stop();
    all(&mut supervisor);
    let ends: Vec<_> = supervisor.fates().into_iter().map(|fate| fate.end).collect();
    assert_eq!(ends, [Some(End::Code(7)), Some(End::Signal(9))]);
    assert_eq!(restarts(&supervisor), [0, 0]);
}

#[test]
fn workers_of_a_lost_host_go_to_the_others() {
    // Nothing can be started on host 1.
    let script = "if [ $HOST = 1 ]; then exit 255; fi";
    let policy = Policy {
        lost_after: Some(3),
        ..quick()
    };
    let mut supervisor = Supervisor::new(4, 2, policy, shell(script));
    let events = all(&mut supervisor);
    assert!(events.contains(&Event::HostLost { host: 1 }), "{events:?}");
    assert!(
        supervisor
            .fates()
            .iter()
            .all(|fate| fate.end == Some(End::Code(0)))
    );
    // The last one is never lost.
    assert!(!supervisor.lose_host(0));
}

#[test]
fn who_is_dropped_leaves_nobody_behind() {
    let mut supervisor = Supervisor::new(1, 1, quick(), shell("sleep 100"));
    let mut processes = Vec::new();
    while processes.is_empty() {
        for event in supervisor.poll(Duration::from_millis(50)) {
            if let Event::Started { process, .. } = event {
                processes.push(process);
            }
        }
    }
    supervisor.signal(Signal::Other(0));
    drop(supervisor);
    for process in processes {
        assert!(!std::path::Path::new(&format!("/proc/{process}")).exists());
    }
}

#[test]
fn a_thread_that_panics_in_a_lock_is_started_again_and_told_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let pool: cenote::Pool =
        cenote::Pool::create(folder.path().join("pool"), &cenote::Options::default()).unwrap();
    let fates = run_threads(
        4,
        &quick(),
        |start| -> cenote::Result<()> {
            let mutex = pool.mutex("mutex")?;
            let turns = pool.map("turns")?;
            let guard = mutex.lock()?;
            assert_eq!(
                start.restarts > 0,
                start.worker == 1 && turns.get(b"panicked")?.is_some()
            );
            if start.worker == 1 && start.restarts == 0 {
                turns.put(b"panicked", b"yes")?;
                panic!("with the mutex");
            }
            if guard.acquired() != Acquired::Clean {
                turns.put(b"told", b"yes")?;
            }
            Ok(())
        },
        |_| ControlFlow::Continue(()),
    );
    let restarts: Vec<u32> = fates.iter().map(|fate| fate.restarts).collect();
    assert_eq!(restarts, [0, 1, 0, 0], "{fates:?}");
    assert!(fates.iter().all(|fate| fate.end == ThreadEnd::Well), "{fates:?}");
    assert!(pool.map("turns").unwrap().get(b"told").unwrap().is_some());
}
