//! All states of inserts of one key into two slots.

use cenote_model::twins::client::{Call, Plan};
use cenote_model::twins::{Fault, Twins};
use stateright::{Checker, HasDiscoveries, Model};

fn plan(slot: usize, letters: &str, log: &[usize]) -> Plan {
    let call = |letter| match letter {
        'i' => Call::Insert,
        'g' => Call::Get,
        'r' => Call::Remove,
        _ => Call::Tidy,
    };
    Plan { calls: letters.chars().map(call).collect(), slot, log: log.to_vec() }
}

#[test]
fn explore_env() {
    let env = |name: &str, or: &str| std::env::var(name).unwrap_or(or.to_string());
    let number = |name: &str, or: &str| env(name, or).parse::<usize>().unwrap();
    let list = |text: &str| text.chars().map(|c| c.to_digit(10).unwrap() as usize).collect::<Vec<_>>();
    let log = list(&env("LOG", "01"));
    let words = env("WORDS", "i i");
    let clients = words.split(' ').enumerate().map(|(n, w)| plan(if n == 1 { 0 } else { 1 }, w, &log)).collect();
    let fault = |name: &str| match name {
        "log" => Fault::BackupsFirst,
        "over" => Fault::BoundOverwrites,
        "backup" => Fault::BackupAlone,
        "believes" => Fault::ReaderBelieves,
        "reader" => Fault::ReaderSilent,
        "late" => Fault::ToldLate,
        "shown" => Fault::UndoneShown,
        "smaller" => Fault::SmallerAlways,
        _ => Fault::BoundBelieved,
    };
    let faults = env("FAULT", "").split_whitespace().map(fault).collect();
    let model = Twins {
        nodes: number("NODES", "2"),
        slots: list(&env("SLOTS", "01")),
        clients,
        node_crashes: number("NC", "1"),
        client_crashes: number("CC", "0"),
        cuts: number("CUTS", "0"),
        faults,
    };
    let start = std::time::Instant::now();
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("{} states {:?}", checker.unique_state_count(), start.elapsed());
    for (name, path) in checker.discoveries() {
        println!("DISCOVERY {name}");
        if ["linearizable", "one slot is shown", "no deadlock", "copies are equal at the end", "the key is bound to what it has to be at the end"].contains(&name) {
            for (state, step) in path.into_vec() {
                println!("{step:?}");
                println!("     {:?} {:?}", state.nodes.iter().map(|n| (n.is_alive, n.slots.map(|s| format!("{s:x}")), n.logs.iter().flatten().collect::<Vec<_>>())).collect::<Vec<_>>(), state.clients.iter().map(|c| (c.stage, c.begun)).collect::<Vec<_>>());
            }
        }
    }
}
