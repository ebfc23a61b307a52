//! Histories as JSON lines, written and read back.

use super::super::samples::{done, history, lost, running};
use super::{lock, map, ordered, register};
use crate::history::{Event, History, ImportError, Malformed, Record, Recorder};
use std::fmt::Debug;

/// Writes the operations with their results, and each once more without one.
fn round_trip<Op, Ret>(calls: Vec<(Op, Ret)>) -> String
where
    Op: Record<Ret = Ret> + Clone + Debug + PartialEq,
    Ret: Clone + Debug + PartialEq,
{
    let mut events: Vec<Event<Op, Ret>> = Vec::new();
    for (n, (op, ret)) in (0..).zip(calls) {
        events.push(done(1, (10 * n, 10 * n + 1), op.clone(), ret));
        events.push(lost(2, (10 * n + 2, 10 * n + 3), op.clone()));
        events.push(running(3, 10 * n + 4, op));
    }
    let written = history(events);
    let mut text = Vec::new();
    written.export(&mut text).unwrap();
    assert_eq!(History::import(text.as_slice()).unwrap(), written);
    String::from_utf8(text).unwrap()
}

#[test]
fn maps() {
    use map::{Op, Ret};
    let (key, value, expected) = (1, u64::MAX, 2);
    let text = round_trip(vec![
        (Op::Put { key, value }, Ret::Inserted),
        (Op::Put { key, value }, Ret::Replaced),
        (Op::Insert { key, value }, Ret::Inserted),
        (Op::Insert { key, value }, Ret::Present),
        (Op::Replace { key, expected, value }, Ret::Replaced),
        (Op::Replace { key, expected, value }, Ret::Differs(9)),
        (Op::Replace { key, expected, value }, Ret::Missing),
        (Op::Remove { key }, Ret::Removed),
        (Op::Remove { key }, Ret::Missing),
        (Op::Get { key }, Ret::Found(3)),
        (Op::Get { key }, Ret::Missing),
    ]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        r#"{"process":1,"op":"put","key":1,"arg":18446744073709551615,"result":"inserted","invoke":0,"return":1}"#
    );
    assert_eq!(
        lines[1],
        r#"{"process":2,"op":"put","key":1,"arg":18446744073709551615,"result":null,"invoke":2,"return":null,"lost":3}"#
    );
    assert_eq!(
        lines[32],
        r#"{"process":3,"op":"get","key":1,"arg":null,"result":null,"invoke":104,"return":null}"#
    );
}

#[test]
fn ordered_maps() {
    use ordered::{Op, Ret};
    let text = round_trip(vec![
        (
            Op::Point(map::Op::Remove { key: 4 }),
            Ret::Point(map::Ret::Missing),
        ),
        (Op::Scan { from: 5, limit: 2 }, Ret::Scan(vec![(5, 50), (7, 70)])),
        (Op::Scan { from: 5, limit: 0 }, Ret::Scan(Vec::new())),
        (Op::Before { key: 7 }, Ret::Scan(vec![(5, 50)])),
    ]);
    assert_eq!(
        text.lines().nth(3),
        Some(
            r#"{"process":1,"op":"scan","key":null,"arg":[5,2],"result":[[5,50],[7,70]],"invoke":10,"return":11}"#
        )
    );
}

#[test]
fn registers() {
    use register::{Access, Op, Ret};
    let op = |access| Op { register: 6, access };
    let exchange = Access::CompareExchange {
        expected: 1,
        value: 2,
    };
    round_trip(vec![
        (op(Access::Read), Ret::Found(0)),
        (op(Access::Write(3)), Ret::Written),
        (op(exchange), Ret::Exchanged),
        (op(exchange), Ret::Differs(8)),
    ]);
}

#[test]
fn locks() {
    use lock::{Action, Op, Ret};
    let op = |action| Op { lock: 0, action };
    round_trip(vec![
        (op(Action::Acquire), Ret::Done),
        (op(Action::TryAcquire), Ret::Acquired),
        (op(Action::TryAcquire), Ret::Refused),
        (op(Action::Release), Ret::Done),
        (op(Action::AcquireShared), Ret::Done),
        (op(Action::TryAcquireShared), Ret::Refused),
        (op(Action::ReleaseShared), Ret::Done),
        (op(Action::Recover { dead: 3 }), Ret::Done),
    ]);
}

fn import(text: &str) -> Result<History<map::Op, map::Ret>, ImportError> {
    History::import(text.as_bytes())
}

#[test]
fn foreign_lines_are_refused_with_their_number() {
    let good = r#"{"process":1,"op":"get","key":1,"arg":null,"result":null,"invoke":0,"return":1}"#;
    assert_eq!(import(&format!("{good}\n\n{good}\n")).unwrap().events().len(), 2);
    for bad in [
        good.replace("get", "got"),
        good.replace(r#""key":1"#, r#""key":null"#),
        good.replace(r#""result":null"#, r#""result":true"#),
        good.replace("return", "retrun"),
        good.replace('}', ""),
        good.replace("get", "put"),
        good.replace("get", "replace"),
    ] {
        let error = import(&format!("{good}\n{bad}\n")).unwrap_err();
        assert!(
            matches!(error, ImportError::Line { line: 2, .. }),
            "{bad}: {error}"
        );
    }
}

#[test]
fn lines_that_make_no_history_are_refused() {
    let good = r#"{"process":1,"op":"get","key":1,"arg":null,"result":3,"invoke":5,"return":6}"#;
    assert!(import(good).is_ok());
    for (bad, why) in [
        (
            good.replace(r#":6}"#, r#":5}"#),
            Malformed::Backwards {
                event: 0,
                invoke: 5,
                end: 5,
            },
        ),
        (
            good.replace(r#":6}"#, r#":6,"lost":7}"#),
            Malformed::EndedTwice(0),
        ),
        (good.replace(r#":6}"#, r#":null}"#), Malformed::HalfReturned(0)),
    ] {
        let error = import(&bad).unwrap_err();
        assert!(
            matches!(error, ImportError::Malformed(found) if found == why),
            "{bad}: {error}"
        );
    }
}

#[test]
fn a_recorder_writes_what_happened() {
    let get = || map::Op::Get { key: 1 };
    let mut recorder = Recorder::new();
    let first = recorder.invoke(1, get(), 0);
    let second = recorder.invoke(2, get(), 1);
    recorder.invoke(1, get(), 2);
    recorder.complete(first, map::Ret::Missing, 3);
    recorder.lose(1, 4);
    recorder.invoke(1, get(), 5);
    recorder.complete(second, map::Ret::Found(9), 6);
    let expected = history(vec![
        done(1, (0, 3), get(), map::Ret::Missing),
        done(2, (1, 6), get(), map::Ret::Found(9)),
        lost(1, (2, 4), get()),
        running(1, 5, get()),
    ]);
    assert_eq!(recorder.finish(), Ok(expected));
}

#[test]
fn a_recorder_remembers_its_first_misuse() {
    let mut recorder = Recorder::new();
    let ticket = recorder.invoke(1, map::Op::Get { key: 1 }, 0);
    recorder.lose(1, 1);
    recorder.complete(ticket, map::Ret::Missing, 2);
    assert_eq!(recorder.finish(), Err(Malformed::EndedTwice(0)));

    let mut other = Recorder::new();
    other.complete(ticket, map::Ret::Missing, 2);
    other.invoke(1, map::Op::Get { key: 1 }, 3);
    assert_eq!(other.finish(), Err(Malformed::NeverBegan(0)));
}
