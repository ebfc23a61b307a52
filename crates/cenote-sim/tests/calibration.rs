//! Calibration: what code reads off its virtual clock under the profile of the paper's machine is what the paper
//! measured (pcc-indexes, sections 5.2 and 7.1), within 10 %. Only the ignored test reads a real clock, and it asserts
//! nothing.

use std::rc::Rc;

use cenote::memory::Memory;
use cenote::memory::{Published, SyncWord, Unpublished, WordLine};
use cenote_sim::exec::{Context, Ended, Settings, SimMemory, run};
use cenote_sim::policy::RandomWalk;
use cenote_sim::profile::Profile;
use cenote_sim::reproduce::{Charted, Measured, Place, make, measure, names};

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of simulated memory, which checks each access.
    unsafe { SyncWord::at(at) }
}

/// A line of words.
#[inline(always)]
fn word_line(at: u64) -> WordLine {
    // SAFETY: a line of words of simulated memory, which checks each access.
    unsafe { WordLine::at(at) }
}

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Published::at(at, len) }
}

/// Unpublished bytes.
#[inline(always)]
fn unpublished(at: u64, len: u64) -> Unpublished {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Unpublished::at(at, len) }
}

fn measured(threads: u32, operation: fn(&SimMemory<false>, Place)) -> Measured {
    let profile = Profile::load("cxl-remote-wide").unwrap();
    measure(&profile, threads, 100, 64 * u64::from(threads), operation).unwrap()
}

#[track_caller]
fn assert_near(found_ns: f64, paper_ns: f64) {
    println!("paper {paper_ns} ns, simulated {found_ns} ns");
    assert!(
        (0.9..=1.1).contains(&(found_ns / paper_ns)),
        "{found_ns} ns instead of {paper_ns} ns"
    );
}

#[test]
fn sync_loads_of_one_word_take_turns() {
    let one_word = |mem: &SimMemory<false>, _: Place| {
        sync_word(0).load(mem);
    };
    assert_near(measured(1, one_word).median_ns(), 300.0);
    assert_near(measured(96, one_word).median_ns(), 29_900.0);
}

#[test]
fn sync_loads_of_different_words_share_the_bandwidth() {
    let own_word = |mem: &SimMemory<false>, place: Place| {
        sync_word(64 * place.thread).load(mem);
    };
    assert_near(measured(1, own_word).median_ns(), 300.0);
    // Below what the links give, they share nothing.
    assert_near(measured(64, own_word).median_ns(), 300.0);
    assert_near(measured(96, own_word).median_ns(), 400.0);
}

#[test]
fn exchanges_of_one_word_queue() {
    // The paper does not say which words it used; see `profiles/cxl-remote.toml`.
    let one_word = |mem: &SimMemory<false>, _: Place| {
        let _ = sync_word(0).compare_exchange(mem, 0, 0);
    };
    assert_near(measured(1, one_word).mean_ns(), 474.0);
    assert_near(measured(64, one_word).mean_ns(), 9_000.0);
}

#[test]
fn exchanges_of_different_words_hardly_ever_meet() {
    let own_word = |mem: &SimMemory<false>, place: Place| {
        let _ = sync_word(64 * place.thread).compare_exchange(mem, 0, 0);
    };
    assert_near(measured(64, own_word).mean_ns(), 474.0);
}

#[test]
fn figures_have_the_papers_numbers_and_ours() {
    for name in ["pcc/fig5", "pcc/fig12"] {
        let figure = make(name, &std::env::temp_dir(), None, &|_, _| {}).unwrap();
        let table = figure.table();
        assert!(table.contains("simulated") && table.contains("paper"), "{table}");
        for row in figure
            .rows
            .iter()
            .filter(|row| Charted::Threads(row.quantity) == figure.charted)
        {
            assert!(row.ours.is_some_and(|ours| ours > 0.0), "{row:?}");
            // The model's cached loads hit; the figure's notes say what is known of the paper's.
            if let Some(ratio) = row.ratio.filter(|_| !row.case.starts_with("cached")) {
                assert!((0.75..=1.1).contains(&ratio), "{row:?}");
            }
        }
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        let files = figure.save(folder).unwrap();
        let svg = std::fs::read_to_string(files.svg).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("simulated") && svg.contains("threads"));
        let numbers: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(files.json).unwrap()).unwrap();
        assert_eq!(numbers["rows"].as_array().unwrap().len(), figure.rows.len());
    }
    let unknown = make("pcc/fig99", &std::env::temp_dir(), None, &|_, _| {})
        .unwrap_err()
        .to_string();
    assert_eq!(
        unknown,
        format!(
            "there is no figure \"pcc/fig99\"; give all, or some of {}",
            names().join(", ")
        )
    );
}

/// Runs the same on so many hosts of a coherent machine, a thread each; the time that each took after all had begun, in
/// nanoseconds.
fn on_coherent_hosts(hosts: u32, body: fn(&Context<true>, u64)) -> f64 {
    let profile = Profile::load("dram").unwrap();
    let settings = Settings::timed(&profile, true, hosts, 1, 1 << 16);
    let outcome = run(
        &settings,
        Box::new(RandomWalk::new(0)),
        Box::new(|_| {}),
        // The first process prepares.
        Rc::new(move |context: Context<true>| body(&context, u64::from(context.process()) - 1)),
        Box::new(|_| {}),
    );
    assert_eq!(outcome.ended, Ended::Well);
    outcome.time_ps as f64 / 1e3
}

/// A word that two hosts set in turn passes between their caches once for each turn: what core-to-core measurements
/// call a one-way latency, which the profile has from them.
#[test]
fn a_handoff_takes_a_transfer() {
    const TURNS: u64 = 1000;
    let time = on_coherent_hosts(2, |context, me| {
        let mem = context.memory();
        for turn in 0..TURNS {
            while sync_word(0)
                .compare_exchange(&mem, 2 * turn + me, 2 * turn + me + 1)
                .is_err()
            {}
        }
    });
    let handoff = time / (2 * TURNS) as f64;
    // An exchange that fails has fetched the line in vain, and the other one fetches it back.
    assert!((59.0..=130.0).contains(&handoff), "{handoff} ns");
}

/// A line moves from host to host one way at a time: additions to one word by many hosts take a transfer each,
/// whichever host does them, except those that are done before the line leaves.
#[test]
fn contended_additions_take_turns() {
    const ROUNDS: u64 = 500;
    let profile = Profile::load("dram").unwrap();
    let again = profile.shared_hit_ns + profile.compute_ns;
    // Of the lines that come, so many stay until their thread is about to add once more; none for longer.
    let retained = 1.0 - again / profile.retention_ns;
    assert!((0.0..0.5).contains(&retained));
    let expected = (profile.transfer_ns + retained * again) / (1.0 + retained);
    for hosts in [2, 8, 32] {
        let time = on_coherent_hosts(hosts, |context, _| {
            for _ in 0..ROUNDS {
                sync_word(0).fetch_add(&context.memory(), 1);
            }
        });
        let each = time / (u64::from(hosts) * ROUNDS) as f64;
        assert!(
            (each / expected - 1.0).abs() < 0.1,
            "{hosts} hosts: {each} ns, not {expected}"
        );
    }
}

/// Loops of compare-exchanges cost what others have measured with 1 to 16 cores of three machines. Under a spin lock it
/// is the order of magnitude.
#[test]
fn contended_exchanges_take_what_others_have_measured() {
    let figure = make("machine/contention", &std::env::temp_dir(), None, &|_, _| {}).unwrap();
    let compared: Vec<_> = figure.rows.iter().filter(|row| row.ratio.is_some()).collect();
    assert_eq!(compared.len(), 36);
    for row in compared {
        let wanted = match row.case.ends_with("lock") {
            true => 0.45..3.5,
            false if row.threads == 1 => 0.8..1.5,
            false => 0.9..1.25,
        };
        assert!(row.ratio.is_some_and(|ratio| wanted.contains(&ratio)), "{row:?}");
    }
}

/// Words in lines of their own stay in the caches of those who use them.
#[test]
fn own_lines_take_no_transfer() {
    let time = on_coherent_hosts(8, |context, me| {
        for _ in 0..500 {
            sync_word(64 * me).fetch_add(&context.memory(), 1);
        }
    });
    assert!(time / 500.0 < 8.0, "{time} ns");
}

#[test]
fn time_passes_alike_in_every_run() {
    let profile = Profile::load("cxl-local").unwrap();
    let outcome = || mixture(&profile, 20, 50);
    let (first, second) = (outcome(), outcome());
    assert_eq!((first.time_ps, first.digest), (second.time_ps, second.digest));
    assert!(first.time_ps > 0);
}

/// Threads on four hosts with a mixture of all kinds of operations.
fn mixture(profile: &Profile, threads: u32, rounds: u64) -> cenote_sim::exec::Outcome {
    let settings = Settings {
        processes: (0..threads).map(|thread| thread % 4).collect(),
        ..Settings::timed(profile, false, 4, 1, 1 << 20)
    };
    let body = move |context: Context<false>| {
        let mem = context.memory();
        let own = 4096 * u64::from(context.process());
        for round in 0..rounds {
            let other = (own + 64 * round * 7) % (1 << 20);
            sync_word(other & !4095).load(&mem);
            sync_word(other).load_speculative(&mem);
            sync_word(other).load_speculative(&mem);
            unpublished(own + 64, 8).write_word(&mem, round);
            mem.write_back(own + 64, 8);
            mem.fence();
            published(own + 128, 100).bytes(&mem);
            let _ = sync_word(own).compare_exchange(&mem, round, round + 1);
            word_line(other & !4095).fetch(&mem);
        }
    };
    let outcome = run(
        &settings,
        Box::new(RandomWalk::new(0)),
        Box::new(|_| {}),
        Rc::new(body),
        Box::new(|_| {}),
    );
    assert_eq!(outcome.ended, Ended::Well);
    outcome
}

/// `cargo test --release -p cenote-sim --test runs calibration -- --ignored --nocapture`
#[test]
#[ignore = "prints how fast the simulator is"]
fn simulated_operations_a_second() {
    let profile = Profile::load("cxl-remote").unwrap();
    for threads in [1, 16, 144] {
        let begin = std::time::Instant::now();
        let outcome = mixture(&profile, threads, 400_000 / u64::from(threads));
        let seconds = begin.elapsed().as_secs_f64();
        println!(
            "{threads} threads: {:.2} M simulated operations a second ({} in {seconds:.2} s)",
            outcome.steps as f64 / seconds / 1e6,
            outcome.steps
        );
    }
}
