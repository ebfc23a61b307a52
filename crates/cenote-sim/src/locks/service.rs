//! A lock service: managers, each with a queue for each of its locks, which are asked by letters (as in TreadMarks).
//! First come first served; readers that follow each other have the lock together.

use std::collections::{HashMap, VecDeque};

use cenote::sync::directory::queue::Permission;

use super::mail::{Letter, Mail};

/// First words of letters to managers.
const ACQUIRE_SHARED: u64 = 0;
const ACQUIRE_EXCLUSIVE: u64 = 1;
const RELEASE: u64 = 2;

/// A lock at its manager.
#[derive(Default)]
struct Managed {
    readers: u32,
    is_written: bool,
    waiting: VecDeque<(u32, Permission)>,
}

/// A manager's locks.
#[derive(Default)]
pub struct Manager {
    locks: HashMap<u64, Managed>,
}

impl Manager {
    /// Takes a letter. Returns the ports that have the lock now.
    pub fn take(&mut self, [kind, lock, port]: Letter) -> Vec<u32> {
        let managed = self.locks.entry(lock).or_default();
        match kind {
            ACQUIRE_SHARED => managed.waiting.push_back((port as u32, Permission::Shared)),
            ACQUIRE_EXCLUSIVE => managed.waiting.push_back((port as u32, Permission::Exclusive)),
            _ if managed.is_written => managed.is_written = false,
            _ => managed.readers = managed.readers.saturating_sub(1),
        }
        let mut granted = Vec::new();
        while let Some(&(port, wants)) = managed.waiting.front() {
            let is_free = match wants {
                Permission::Shared => !managed.is_written,
                Permission::Exclusive => !managed.is_written && managed.readers == 0,
            };
            if !is_free {
                break;
            }
            match wants {
                Permission::Shared => managed.readers += 1,
                Permission::Exclusive => managed.is_written = true,
            }
            managed.waiting.pop_front();
            granted.push(port);
        }
        granted
    }

    /// Serves the letters of a port. `works` is called for each.
    pub fn serve<M: Mail>(mut self, mail: &M, port: u32, works: impl Fn(&M)) -> ! {
        loop {
            let letter = mail.receive(port);
            works(mail);
            for granted in self.take(letter) {
                mail.send(granted, letter);
            }
        }
    }
}

/// The service as its users see it.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// The ports of the managers: the first one, and how many follow each other. Lock `n` is managed by the one of
    /// number `n` modulo that.
    pub managers: (u32, u32),
}

impl Service {
    fn manager(&self, lock: u32) -> u32 {
        self.managers.0 + lock % self.managers.1
    }

    /// Acquires a lock, by the thread of a port.
    pub fn acquire<M: Mail>(&self, mail: &M, port: u32, lock: u32, wants: Permission) {
        let kind = match wants {
            Permission::Shared => ACQUIRE_SHARED,
            Permission::Exclusive => ACQUIRE_EXCLUSIVE,
        };
        mail.send(self.manager(lock), [kind, lock.into(), port.into()]);
        mail.receive(port);
    }

    /// Releases it.
    pub fn release<M: Mail>(&self, mail: &M, port: u32, lock: u32) {
        mail.send(self.manager(lock), [RELEASE, lock.into(), port.into()]);
    }
}
