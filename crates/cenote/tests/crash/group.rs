//! Groups: a victim that joins, leaves, and is reported dead, and a survivor that reads all events.

use std::collections::BTreeMap;
use std::path::Path;

use cenote::memory::Mapped;
use cenote::pod::format::host_entry::HostInstance;
use cenote::pod::group::{self, Event, EventKind, Status};
use cenote::pod::instance::crash::Point;
use cenote::{Coherent, Membership, Noncoherent, Pool};

use super::{Case, Outcome, options, run_case, text};

/// At which passing of a point the victim is killed.
const PASSINGS: [u64; 4] = [1, 2, 4, 7];
const NAME: &str = "group";
const TOKEN: &[u8] = b"token";
/// The host that the victim's members belong to. It is reported dead while they live, so that the victim reports it
/// itself.
const HOST: HostInstance = HostInstance {
    host: 3,
    generation: 0,
};

/// What a victim does.
pub fn work<M: Mapped>(path: &Path) -> Outcome {
    let pool: Pool<M> = Pool::open(path, &options()).map_err(text)?;
    let worker = pool.worker().map_err(text)?;
    let group = group::Group::open(&worker, NAME, TOKEN).map_err(text)?;
    for _ in 0..3 {
        let one = group.join_from(&worker, "one", HOST).map_err(text)?;
        let mut two = group.join_from(&worker, "two", HOST).map_err(text)?;
        while group.next(&worker, &mut two).map_err(text)?.is_some() {}
        group::host_died(&worker, HOST).map_err(text)?;
        let three = group.join_from(&worker, "three", HOST).map_err(text)?;
        for lease in [three, one, two] {
            group.leave(&worker, lease).map_err(text)?;
        }
    }
    Ok(())
}

/// A case's group, and the survivor's place in it.
fn begin<M: Mapped>(pool: &Pool<M>) -> Result<Membership<M>, String> {
    let group = pool.group(NAME, TOKEN).map_err(text)?;
    group.join("survivor").map_err(text)
}

/// Reads all events, and checks them.
fn check<M: Mapped>(case: &Case<'_, M>, mut survivor: Membership<M>) -> Outcome {
    case.pool.recover().map_err(text)?;
    let mut events: Vec<Event> = Vec::new();
    while let Some(event) = survivor.try_next().map_err(text)? {
        events.push(event);
    }
    let mut here: BTreeMap<&str, bool> = BTreeMap::new();
    for (n, event) in events.iter().enumerate() {
        let number = n as u64 + 1;
        let was_here = here.get(event.member.as_str()).copied();
        let fits = match event.kind {
            EventKind::Joined => was_here.is_none(),
            EventKind::Rejoined => was_here == Some(false),
            EventKind::Left | EventKind::Died => was_here == Some(true),
            EventKind::HostDied => event.host == HOST.host,
        };
        if !fits || event.number != number {
            return Err(format!("event {number} makes no sense: {events:#?}"));
        }
        if event.kind != EventKind::HostDied {
            let is_here = matches!(event.kind, EventKind::Joined | EventKind::Rejoined);
            here.insert(&event.member, is_here);
        }
    }
    let group = case.pool.existing_group(NAME, TOKEN).map_err(text)?;
    for member in group.members().map_err(text)? {
        let is_here = member.status == Status::Joined;
        if is_here != (member.name == "survivor") || here.get(member.name.as_str()) != Some(&is_here) {
            return Err(format!("{member:?} does not fit {events:#?}"));
        }
    }
    // The places and the names of the dead are free again.
    for name in ["one", "two", "three"] {
        group.join(name).and_then(Membership::leave).map_err(text)?;
    }
    Ok(())
}

/// Every point of a group's protocol, on both kinds of memory, each followed by a crash of the recoverer.
pub fn all(
    folder: &Path,
    log: &Path,
    wanted: &dyn Fn(&str) -> bool,
    kills: &mut u64,
    failures: &mut Vec<String>,
) {
    let of_groups = || {
        let names = Point::ALL.iter().map(|point| point.name());
        names.filter(|name| name.starts_with("group.") && wanted(name))
    };
    for point in of_groups() {
        for passing in PASSINGS {
            let mut run = |then: Option<&str>| -> Outcome {
                run_case::<Coherent>(folder, |case| play(case, (point, passing), then, log, kills))?;
                run_case::<Noncoherent>(folder, |case| play(case, (point, passing), then, log, kills))
            };
            for then in [
                None,
                Some("group.event"),
                Some("group.cleared"),
                Some("recover.step"),
            ] {
                if let Err(what) = run(then) {
                    failures.push(format!("{point}:{passing} then {then:?}, groups: {what}"));
                }
            }
        }
        println!("{point}: ok so far in groups, {} failures", failures.len());
    }
}

/// A victim dies at a point, a recoverer perhaps at another; then a survivor checks.
fn play<M: Mapped>(
    case: &Case<'_, M>,
    (point, passing): (&str, u64),
    then: Option<&str>,
    log: &Path,
    kills: &mut u64,
) -> Outcome {
    let survivor = begin(case.pool)?;
    *kills += u64::from(case.victim("group", point, passing, log)?);
    if let Some(then) = then {
        *kills += u64::from(case.victim("open", then, 1, log)?);
    }
    check(case, survivor)?;
    case.check_memory()
}
