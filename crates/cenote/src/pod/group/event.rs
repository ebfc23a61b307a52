//! Events, and members.

use super::layout::name_of;
use crate::error::{Error, Result};
use crate::pod::format::host_entry::HostInstance;

/// What has happened in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A new member joined.
    Joined,
    /// A member left in peace.
    Left,
    /// A member's thread or process has died.
    Died,
    /// A member that had left or died joined again.
    Rejoined,
    /// A host has died; the deaths of its members follow.
    HostDied,
}

impl EventKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Left => "left",
            Self::Died => "died",
            Self::Rejoined => "rejoined",
            Self::HostDied => "host died",
        }
    }

    pub(super) fn code(self) -> u64 {
        match self {
            Self::Joined => 1,
            Self::Left => 2,
            Self::Died => 3,
            Self::Rejoined => 4,
            Self::HostDied => 5,
        }
    }

    fn of(code: u64) -> Option<Self> {
        Some(match code {
            1 => Self::Joined,
            2 => Self::Left,
            3 => Self::Died,
            4 => Self::Rejoined,
            5 => Self::HostDied,
            _ => return None,
        })
    }
}

/// One event of a group.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Event {
    /// Its number: 1, 2, 3 and so on since the group was made, the same for all members.
    pub number: u64,
    /// What has happened.
    pub kind: EventKind,
    /// The member's name; empty if a host died.
    pub member: String,
    /// The identity of the member's worker: place plus one in the low half, generation in the high half. If a host
    /// died, its generation that is over.
    pub identity: u64,
    /// The host: of the member, or the one that died.
    pub host: u32,
    /// Nanoseconds since 1970 when it was appended.
    pub time_ns: u64,
}

impl Event {
    pub(super) fn words(&self) -> [u64; 8] {
        let name = super::layout::name_words(&self.member);
        let kind = self.kind.code() | u64::from(self.host) << 32;
        [
            self.number,
            kind,
            self.identity,
            self.time_ns,
            name[0],
            name[1],
            name[2],
            name[3],
        ]
    }

    pub(super) fn of(words: [u64; 8], at: u64) -> Result<Self> {
        let [number, kind, identity, time, name @ ..] = words;
        match (EventKind::of(kind & u64::from(u32::MAX)), name_of(&name)) {
            (Some(of), Some(member)) => Ok(Self {
                number,
                kind: of,
                member,
                identity,
                host: (kind >> 32) as u32,
                time_ns: time,
            }),
            _ => Err(Error::corrupt("an event of a group", at)),
        }
    }
}

/// The status of a place in the table of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The place was never used.
    Free,
    /// A member.
    Joined,
    /// An observer: reads events, and causes none.
    Observer,
    /// A member was here, and left.
    Left,
    /// A member was here, and died.
    Died,
}

impl Status {
    pub(super) fn code(self) -> u64 {
        match self {
            Self::Free => 0,
            Self::Joined => 1,
            Self::Observer => 2,
            Self::Left => 3,
            Self::Died => 4,
        }
    }

    pub(super) fn of(code: u64) -> Option<Self> {
        Some(match code {
            0 => Self::Free,
            1 => Self::Joined,
            2 => Self::Observer,
            3 => Self::Left,
            4 => Self::Died,
            _ => return None,
        })
    }
}

/// A present or former member.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Member {
    /// Its name, the same when it joins again.
    pub name: String,
    /// What it is.
    pub status: Status,
    /// The identity of its worker.
    pub identity: u64,
    /// Its host.
    pub host: u32,
    /// The generation of its host that it joined in; 0 on a single machine.
    pub host_generation: u32,
    /// The event that gave it this status.
    pub since_event: u64,
}

impl Member {
    /// Its host, in the generation that it joined in.
    pub fn origin(&self) -> HostInstance {
        HostInstance {
            host: self.host,
            generation: self.host_generation,
        }
    }

    pub(super) fn words(&self) -> [u64; 8] {
        let name = super::layout::name_words(&self.name);
        [
            self.status.code(),
            self.identity,
            self.origin().encode(),
            self.since_event,
            name[0],
            name[1],
            name[2],
            name[3],
        ]
    }

    pub(super) fn of(words: [u64; 8], at: u64) -> Result<Self> {
        let [status, identity, host, since, name @ ..] = words;
        let HostInstance { host, generation } = HostInstance::decode(host);
        match (Status::of(status), name_of(&name)) {
            (Some(status), Some(name)) => Ok(Self {
                name,
                status,
                identity,
                host,
                host_generation: generation,
                since_event: since,
            }),
            _ => Err(Error::corrupt("a member of a group", at)),
        }
    }
}
