//! What the supervisor is going to do, and when.

use std::time::{Duration, Instant};

/// What is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The next kill of the schedule.
    Strike,
    /// A kill of one worker, if it still is this incarnation.
    Kill(u32, u32),
    /// A stopped worker goes on, if it still is this incarnation.
    Continue(u32, u32),
    /// A worker is started.
    Start(u32),
    /// Look whether everybody moves.
    Look,
}

/// Events to come. There are few at a time, so they lie in no order.
#[derive(Default)]
pub struct Agenda(Vec<(Instant, Event)>);

impl Agenda {
    /// Adds an event.
    pub fn add(&mut self, at: Instant, event: Event) {
        self.0.push((at, event));
    }

    /// Takes the earliest event that is due.
    pub fn take_due(&mut self, now: Instant) -> Option<Event> {
        let due = self.0.iter().enumerate().filter(|(_, (at, _))| *at <= now);
        let (earliest, _) = due.min_by_key(|(_, (at, _))| *at)?;
        Some(self.0.swap_remove(earliest).1)
    }

    /// How long nothing is due.
    pub fn idle(&self, now: Instant) -> Duration {
        let next = self.0.iter().map(|(at, _)| *at).min();
        next.map_or(Duration::MAX, |next| next.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_their_times() {
        let now = Instant::now();
        let later = |ms| now + Duration::from_millis(ms);
        let mut agenda = Agenda::default();
        agenda.add(later(7), Event::Start(1));
        agenda.add(later(3), Event::Look);
        agenda.add(later(5), Event::Strike);
        assert_eq!(agenda.take_due(now), None);
        assert_eq!(agenda.idle(later(1)), Duration::from_millis(2));
        assert_eq!(agenda.take_due(later(9)), Some(Event::Look));
        assert_eq!(agenda.take_due(later(9)), Some(Event::Strike));
        assert_eq!(agenda.take_due(later(9)), Some(Event::Start(1)));
        assert_eq!(agenda.idle(now), Duration::MAX);
    }
}
