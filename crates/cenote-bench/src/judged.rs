//! The table by which this project is judged: our figure, the peer's, the target, and whether it is met.
//!
//! To add a row: a [`Verdict`] in [`verdicts`]. Nothing here measures.

use crate::report::{Report, Round};
use crate::table::{Style, median, nanoseconds, rate, ratio, table};
use crate::{alloc, noncoherent, processes, together};
use serde_json::{Value, json};

/// Everything that was measured.
pub struct Measured {
    /// The map beside its peers.
    pub hash: Report,
    /// One process and two.
    pub processes: processes::Figures,
    /// Ordered maps and stores by several processes.
    pub together: together::Figures,
    /// Memory without coherence; why not, if it cannot be measured here.
    pub noncoherent: Result<noncoherent::Figures, String>,
    /// Allocation.
    pub alloc: alloc::Figures,
}

/// What a figure is held against.
#[derive(Clone, Copy)]
enum Target {
    AtLeast(f64),
    AtMost(f64, &'static str),
}

/// One row.
pub struct Verdict {
    what: String,
    ours: String,
    peer: String,
    ratio: Option<f64>,
    /// What the target is about: the ratio, or a figure of ours.
    figure: Option<f64>,
    target: Target,
}

/// Picks a figure of a round.
type Figure = fn(&Round) -> Option<f64>;

impl Target {
    fn words(self) -> String {
        match self {
            Self::AtLeast(bound) => format!("at least {bound}"),
            Self::AtMost(bound, unit) => format!("at most {bound}{unit}"),
        }
    }
}

impl Verdict {
    /// Whether the target is met; `None` if it was not measured.
    fn met(&self) -> Option<bool> {
        self.figure.map(|figure| match self.target {
            Target::AtLeast(bound) => figure >= bound,
            Target::AtMost(bound, _) => figure <= bound,
        })
    }

    fn met_word(&self) -> &'static str {
        match self.met() {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not measured",
        }
    }

    /// Our coherent map to the best of some peers, round by round.
    fn to_best(
        report: &Report,
        what: &str,
        ours: Figure,
        peers: &[&str],
        theirs: Figure,
        bound: f64,
    ) -> Self {
        let rows = |name: &str, form: &str| {
            report
                .rows
                .iter()
                .filter(|row| row.name == name && row.form.contains(form) && row.missing.is_none())
                .collect::<Vec<_>>()
        };
        let our_rounds: Vec<Option<f64>> = rows(crate::report::OURS, "coherent")
            .iter()
            .filter(|row| !row.form.contains("noncoherent"))
            .flat_map(|row| row.rounds.iter().map(ours))
            .collect();
        let peers: Vec<_> = peers
            .iter()
            .flat_map(|peer| {
                let (name, form) = peer.split_once(", ").unwrap_or((peer, ""));
                rows(name, form)
            })
            .collect();
        let best = |round: usize| {
            peers
                .iter()
                .filter_map(|row| theirs(row.rounds.get(round)?))
                .reduce(f64::max)
        };
        let ratios: Vec<f64> = our_rounds
            .iter()
            .enumerate()
            .filter_map(|(round, ours)| Some((*ours)? / best(round)?))
            .collect();
        let name_of_best = peers
            .iter()
            .filter_map(|row| {
                let figures: Vec<f64> = row.rounds.iter().filter_map(theirs).collect();
                Some((row.name, median(&figures)?))
            })
            .reduce(|a, b| if b.1 > a.1 { b } else { a });
        let our_figures: Vec<f64> = our_rounds.into_iter().flatten().collect();
        Self {
            what: what.to_owned(),
            ours: rate(median(&our_figures)),
            peer: name_of_best.map_or("not here".to_owned(), |(name, figure)| {
                format!("{name} {}", rate(Some(figure)))
            }),
            ratio: median(&ratios),
            figure: median(&ratios),
            target: Target::AtLeast(bound),
        }
    }
}

/// All rows, in the order of the targets.
pub fn verdicts(measured: &Measured) -> Vec<Verdict> {
    let hash = &measured.hash;
    let maps = &["dashmap", "scc::HashIndex"];
    let lmdb = &["LMDB, a txn an operation"];
    let (get, load, update): (Figure, Figure, Figure) = (|r| r.get, |r| r.load, |r| r.update);
    let row = |what: &str, ours: Figure, peers: &[&str], theirs: Figure, bound| {
        Verdict::to_best(hash, what, ours, peers, theirs, bound)
    };
    let mut rows = vec![
        row("single gets / s, to the better map", get, maps, get, 0.6),
        row(
            "get_many / s, to the better map",
            |r| r.get_many,
            maps,
            Round::best_get,
            1.0,
        ),
        row("load / s, to the better map", load, maps, load, 0.4),
    ];
    for (kind, (_, name)) in processes::KINDS.iter().enumerate().take(2) {
        let [one, two, two_to_one] = measured.processes.medians(kind);
        rows.push(Verdict {
            what: format!("{name} / s, two processes to one"),
            ours: rate(two),
            peer: format!("one {}", rate(one)),
            ratio: two_to_one,
            figure: two_to_one,
            target: Target::AtLeast(1.7),
        });
    }
    rows.extend([
        row(
            "inserts / s, to LMDB with a put a transaction",
            load,
            lmdb,
            load,
            50.0,
        ),
        row(
            "updates / s, to LMDB with a put a transaction",
            update,
            lmdb,
            update,
            50.0,
        ),
        row(
            "single gets / s, to LMDB with a get a transaction",
            get,
            lmdb,
            get,
            5.0,
        ),
        row(
            "single gets / s, to LMDB at its fastest",
            get,
            &["LMDB"],
            get,
            5.0,
        ),
        row("single gets / s, to Redis", get, &["Redis"], get, 30.0),
        row("inserts / s, to Redis", load, &["Redis"], load, 30.0),
        row("updates / s, to Redis", update, &["Redis"], update, 30.0),
    ]);
    rows.extend(shared(&measured.together));
    rows.extend(alloc::SIZES.iter().enumerate().map(|(index, size)| {
        let (ours, theirs) = measured.alloc.medians(index);
        Verdict {
            what: format!("allocate + free, {size} bytes, ns"),
            ours: nanoseconds(ours),
            peer: format!("malloc {}", nanoseconds(theirs)),
            ratio: ours.zip(theirs).map(|(ours, theirs)| ours / theirs),
            figure: ours,
            target: Target::AtMost(15.0, " ns"),
        }
    }));
    let bytes = row("", |r| r.bytes_per_record, maps, |r| r.bytes_per_record, 0.0);
    let ours: Vec<f64> = hash
        .rows
        .iter()
        .filter(|row| row.name == crate::report::OURS && row.form == "coherent")
        .flat_map(|row| row.rounds.iter().filter_map(|round| round.bytes_per_record))
        .collect();
    rows.push(Verdict {
        what: "bytes a record".to_owned(),
        figure: median(&ours),
        target: Target::AtMost(64.0, " bytes"),
        ..bytes
    });
    let (ours, line, lines) = match &measured.noncoherent {
        Ok(figures) => figures.judged(),
        Err(_) => (None, None, None),
    };
    rows.push(Verdict {
        what: "noncoherent hit, ns, to a line past the caches".to_owned(),
        ours: nanoseconds(ours),
        peer: match &measured.noncoherent {
            Ok(_) => format!("one line {}", nanoseconds(line)),
            Err(reason) => reason.clone(),
        },
        ratio: lines,
        figure: lines,
        target: Target::AtMost(3.5, " lines"),
    });
    let fetched = measured
        .noncoherent
        .as_ref()
        .ok()
        .map(|figures| figures.lines_a_hit());
    rows.push(Verdict {
        what: "noncoherent hit, lines fetched if nothing is cached".to_owned(),
        ours: fetched.map_or("-".to_owned(), |lines| format!("{lines:.2}")),
        peer: "-".to_owned(),
        ratio: None,
        figure: fetched,
        target: Target::AtMost(3.0, " lines"),
    });
    rows
}

/// The ordered map beside stores that processes share: LMDB by several of them, redb by one, as it allows no more.
fn shared(figures: &together::Figures) -> Vec<Verdict> {
    let (get, load, update): (Figure, Figure, Figure) = (|r| r.get, |r| r.load, |r| r.update);
    let rows: [(&Report, &str, Figure, &str, f64); 8] = [
        (
            &figures.all,
            "inserts / s by processes, to LMDB",
            load,
            "LMDB",
            10.0,
        ),
        (
            &figures.all,
            "updates / s by processes, to LMDB",
            update,
            "LMDB",
            10.0,
        ),
        (
            &figures.all,
            "gets / s by processes, to LMDB with a get a transaction",
            get,
            "LMDB, a txn an operation",
            3.0,
        ),
        (
            &figures.all,
            "gets / s by processes, to LMDB in one transaction",
            get,
            "LMDB, one txn",
            3.0,
        ),
        (
            &figures.one,
            "inserts / s by one process, to redb",
            load,
            "redb",
            10.0,
        ),
        (
            &figures.one,
            "updates / s by one process, to redb",
            update,
            "redb",
            10.0,
        ),
        (
            &figures.one,
            "gets / s by one process, to redb with a get a transaction",
            get,
            "redb, a txn an operation",
            3.0,
        ),
        (
            &figures.one,
            "gets / s by one process, to redb in one transaction",
            get,
            "redb, one txn",
            3.0,
        ),
    ];
    rows.into_iter()
        .map(|(report, what, figure, peer, bound)| {
            let what = format!("ordered: {what}");
            Verdict::to_best(report, &what, figure, &[peer], figure, bound)
        })
        .collect()
}

/// The table.
pub fn text(verdicts: &[Verdict], style: Style) -> String {
    let mut text = String::new();
    let head = ["what", "cenote", "peer", "ratio", "target", "met"];
    let rows: Vec<Vec<String>> = verdicts
        .iter()
        .map(|verdict| {
            vec![
                verdict.what.clone(),
                verdict.ours.clone(),
                verdict.peer.clone(),
                ratio(verdict.ratio),
                verdict.target.words(),
                verdict.met_word().to_owned(),
            ]
        })
        .collect();
    table(&mut text, style, 3, &head, &rows);
    text
}

/// The same as JSON.
pub fn json(verdicts: &[Verdict]) -> Value {
    verdicts
        .iter()
        .map(|verdict| {
            json!({
                "what": verdict.what,
                "cenote": verdict.ours,
                "peer": verdict.peer,
                "ratio": verdict.ratio,
                "judged": verdict.figure,
                "target": verdict.target.words(),
                "met": verdict.met(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Row;

    fn report() -> Report {
        let row = |name, form, gets: &[f64]| Row {
            name,
            form,
            missing: None,
            rounds: gets
                .iter()
                .map(|&get| Round {
                    get: Some(get),
                    ..Round::default()
                })
                .collect(),
        };
        Report {
            command: "hash",
            choice: "zipfian 0.99",
            setting: "one thread".to_owned(),
            loading: "into an empty map",
            records: 1,
            rounds: 3,
            operations: 1,
            batch: 1,
            seed: 1,
            seconds: 1.0,
            rows: vec![
                row("cenote", "noncoherent", &[1.0, 1.0, 1.0]),
                row("cenote", "coherent", &[6.0, 9.0, 10.0]),
                row("dashmap", "fxhash", &[10.0, 5.0, 20.0]),
                row("scc::HashIndex", "fxhash", &[5.0, 10.0, 20.0]),
                row("LMDB", "slow", &[1.0, 1.0, 1.0]),
                row("LMDB", "fast", &[2.0, 2.0, 2.0]),
            ],
        }
    }

    #[test]
    fn ratios_are_to_the_best_of_each_round() {
        let report = report();
        let maps = &["dashmap", "scc::HashIndex"];
        let verdict = Verdict::to_best(&report, "x", |r| r.get, maps, |r| r.get, 0.6);
        assert_eq!(verdict.ratio, Some(0.6));
        assert_eq!(verdict.met(), Some(true));
        let verdict = Verdict::to_best(&report, "x", |r| r.get, &["LMDB, slow"], |r| r.get, 50.0);
        assert_eq!((verdict.ratio, verdict.met_word()), (Some(9.0), "no"));
        let verdict = Verdict::to_best(&report, "x", |r| r.get, &["Redis"], |r| r.get, 30.0);
        assert_eq!((verdict.ratio, verdict.met_word()), (None, "not measured"));
        assert!(verdict.peer.contains("not here"));
    }

    #[test]
    fn a_figure_of_ours_may_be_judged() {
        let verdict = |figure| Verdict {
            what: "bytes".to_owned(),
            ours: String::new(),
            peer: String::new(),
            ratio: None,
            figure: Some(figure),
            target: Target::AtMost(64.0, " bytes"),
        };
        let rows = [verdict(64.0), verdict(64.1)];
        let text = text(&rows, Style::Markdown);
        assert!(
            text.lines()
                .nth(2)
                .is_some_and(|line| line.contains("at most 64 bytes | yes")),
            "{text}"
        );
        assert_eq!(json(&rows)[1]["met"], false);
    }
}
