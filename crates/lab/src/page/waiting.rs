//! The queue of those that wait for a place to play, in the order in which they came.

use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

struct Waiter {
    session: Uuid,
    asked: Instant,
}

/// A bounded queue. A session that has not asked for a while has left it.
pub(super) struct WaitingQueue {
    waiters: Vec<Waiter>,
    most: usize,
    waits_for: Duration,
}

impl WaitingQueue {
    /// An empty queue.
    pub(super) fn new(most: usize, waits_for: Duration) -> Self {
        Self { waiters: Vec::new(), most, waits_for }
    }

    /// The place of a session that asks, from 1. It is put at the end when it is new; `None` when there is
    /// no room for it.
    pub(super) fn ask(&mut self, session: Uuid, now: Instant) -> Option<usize> {
        self.forget_those_gone(now);
        if let Some(at) = self.waiters.iter().position(|waiter| waiter.session == session) {
            self.waiters[at].asked = now;
            return Some(at + 1);
        }
        if self.waiters.len() >= self.most {
            return None;
        }
        self.waiters.push(Waiter { session, asked: now });
        Some(self.waiters.len())
    }

    /// Whether so many free places are enough for this session, and for all that came before it.
    pub(super) fn has_turn(&mut self, session: Uuid, free: usize, now: Instant) -> bool {
        self.forget_those_gone(now);
        let ahead = self.waiters.iter().take_while(|waiter| waiter.session != session).count();
        ahead < free
    }

    /// A session does not wait any more. Returns whether it did.
    pub(super) fn leave(&mut self, session: Uuid) -> bool {
        let before = self.waiters.len();
        self.waiters.retain(|waiter| waiter.session != session);
        self.waiters.len() < before
    }

    fn forget_those_gone(&mut self, now: Instant) {
        let waits_for = self.waits_for;
        self.waiters.retain(|waiter| now.duration_since(waiter.asked) <= waits_for);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS_FOR: Duration = Duration::from_secs(10);

    fn sessions() -> [Uuid; 4] {
        [1, 2, 3, 4].map(Uuid::from_u128)
    }

    #[test]
    fn places_follow_the_order_of_arrival_and_one_beyond_the_bound_is_refused() {
        let (mut queue, now) = (WaitingQueue::new(3, WAITS_FOR), Instant::now());
        let [a, b, c, d] = sessions();
        assert_eq!([a, b, c, d].map(|it| queue.ask(it, now)), [Some(1), Some(2), Some(3), None]);
        assert_eq!(queue.ask(b, now), Some(2));
        assert!(queue.leave(a) && !queue.leave(a));
        assert_eq!([b, c, d].map(|it| queue.ask(it, now)), [Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn whoever_does_not_ask_any_more_loses_the_place_and_not_before() {
        let (mut queue, now) = (WaitingQueue::new(3, WAITS_FOR), Instant::now());
        let [a, b, ..] = sessions();
        queue.ask(a, now);
        queue.ask(b, now);
        let (at_the_bound, later) = (now + WAITS_FOR, now + WAITS_FOR + Duration::from_millis(1));
        assert_eq!(queue.ask(b, at_the_bound), Some(2));
        assert_eq!(queue.ask(b, later), Some(1));
    }

    #[test]
    fn a_free_place_is_for_those_who_came_first() {
        let (mut queue, now) = (WaitingQueue::new(3, WAITS_FOR), Instant::now());
        let [a, b, _, stranger] = sessions();
        assert!(queue.has_turn(stranger, 1, now) && !queue.has_turn(stranger, 0, now));
        queue.ask(a, now);
        queue.ask(b, now);
        assert!(queue.has_turn(a, 1, now) && !queue.has_turn(b, 1, now));
        assert!(queue.has_turn(b, 2, now) && !queue.has_turn(stranger, 2, now));
        assert!(queue.has_turn(stranger, 3, now));
    }
}
