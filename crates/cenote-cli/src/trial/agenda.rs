//! The supervisor's future events and their times.

use std::time::{Duration, Instant};

/// Events to come. There are few at a time, so they lie in no order.
pub struct Agenda<E>(Vec<(Instant, E)>);

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<E> Agenda<E> {
    /// Adds an event.
    pub fn add(&mut self, at: Instant, event: E) {
        self.0.push((at, event));
    }

    /// Takes the earliest event that is due.
    pub fn take_due(&mut self, now: Instant) -> Option<E> {
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
        agenda.add(later(7), "start");
        agenda.add(later(3), "look");
        agenda.add(later(5), "strike");
        assert_eq!(agenda.take_due(now), None);
        assert_eq!(agenda.idle(later(1)), Duration::from_millis(2));
        assert_eq!(agenda.take_due(later(9)), Some("look"));
        assert_eq!(agenda.take_due(later(9)), Some("strike"));
        assert_eq!(agenda.take_due(later(9)), Some("start"));
        assert_eq!(agenda.idle(now), Duration::MAX);
    }
}
