//! Members of groups on several hosts: the events that living members get when a host is fenced.

use cenote::group::{Event, EventKind};
use cenote::memory::Mapped;
use cenote::{Membership, Pool};

use super::part::Part;
use super::{GROUP, HOME, Home, LONG, Outcome, TOKEN, ensure, text};

/// The next event, which must come.
fn next<M: Mapped>(member: &mut Membership<M>) -> Outcome<Event> {
    let event = member.next(Some(LONG)).map_err(text)?;
    event.ok_or_else(|| "nothing is told".to_owned())
}

/// Checks that the next event is of this kind, and of this member, or of a host if that is empty.
fn hear<M: Mapped>(told: &mut Membership<M>, kind: EventKind, member: &str, host: u32) -> Outcome<Event> {
    let event = next(told)?;
    let fits = event.kind == kind && event.member == member && event.host == host;
    match fits {
        true => Ok(event),
        false => Err(format!("{kind:?} {member:?} was to be told, not {event:?}")),
    }
}

/// A host with an agent and two members.
struct Crew {
    agent: Part,
    members: Vec<Part>,
}

impl Crew {
    fn start<M: Mapped>(home: &Home<M>, host: u32) -> Outcome<Self> {
        let mut agent = home.start("agent", host, &[])?;
        agent.hear("up")?;
        let mut members = Vec::new();
        for name in ["one", "two"] {
            let mut member = home.start("member", host, &[("CENOTE_HOSTS_NAME", name)])?;
            member.hear("joined")?;
            members.push(member);
        }
        Ok(Self { agent, members })
    }
}

/// The events that must come once host 2 is fenced: its death, and then those of its members.
fn hear_its_end<M: Mapped>(told: &mut Membership<M>, generation: u32) -> Outcome {
    let end = hear(told, EventKind::HostDied, "", 2)?;
    ensure(end.identity == u64::from(generation), || {
        format!("another generation has died: {end:?}")
    })?;
    for name in ["one", "two"] {
        hear(told, EventKind::Died, name, 2)?;
    }
    Ok(())
}

fn begin<M: Mapped>(pool: &Pool<M>) -> Outcome<Membership<M>> {
    let mut member = pool
        .group(GROUP, TOKEN)
        .and_then(|group| group.join("home"))
        .map_err(text)?;
    hear(&mut member, EventKind::Joined, "home", HOME)?;
    Ok(member)
}

/// No other events have come, and the pool says the same of its members.
fn is_all<M: Mapped>(home: &Home<M>, told: &mut Membership<M>) -> Outcome {
    let more = told.try_next().map_err(text)?;
    ensure(more.is_none(), || format!("too much was told: {more:?}"))?;
    let groups = home.pool().stat().map_err(text)?.groups;
    ensure(groups.iter().all(|group| group.members == 1), || {
        format!("somebody is here still: {groups:?}")
    })
}

/// A host is fenced, comes up again, and is fenced again: members elsewhere get the events each time, once and in
/// order.
pub fn told<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let mut member = begin(home.pool())?;
    let mut monitor = home.start("monitor", 1, &[])?;
    monitor.hear("Leads")?;
    for (generation, kind) in [(0, EventKind::Joined), (1, EventKind::Rejoined)] {
        let two = Crew::start(&home, 2)?;
        for name in ["one", "two"] {
            hear(&mut member, kind, name, 2)?;
        }
        // It misses its heartbeats; the fence kills its members.
        two.agent.signal(libc::SIGSTOP);
        hear_its_end(&mut member, generation)?;
        home.is_recovered(2, generation + 1)?;
        for mut part in two.members.into_iter().chain([two.agent]) {
            part.is_killed()?;
        }
        is_all(&home, &mut member)?;
    }
    monitor.end()?;
    drop(member);
    home.end()
}

/// The monitor dies as soon as it has moved the generation: others report the deaths.
pub fn told_by_the_next<M: Mapped>() -> Outcome {
    let home = Home::<M>::new()?;
    let mut member = begin(home.pool())?;
    let mut first = home.start("monitor", 1, &[("CENOTE_CRASH", "monitor.moved:1")])?;
    first.hear("Leads")?;
    let two = Crew::start(&home, 2)?;
    for name in ["one", "two"] {
        hear(&mut member, EventKind::Joined, name, 2)?;
    }
    two.agent.signal(libc::SIGSTOP);
    first.is_killed()?;
    // Another thread of the first may have died with the group's lock: nobody can report deaths before its host is
    // fenced.
    let mut second = home.start("monitor", 4, &[])?;
    hear_its_end(&mut member, 0)?;
    second.hear("Leads")?;
    home.is_recovered(2, 1)?;
    home.is_recovered(1, 1)?;
    is_all(&home, &mut member)?;
    second.end()?;
    drop(member);
    home.end()
}
