//! Who bought what a moment ago: whoever clicks again hears so from memory.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::model::{OrderId, Outcome, Refusal, UserId, VoucherId};

/// How long a generation is the young one. An order is remembered for one to two of these: as
/// long as the process remembers a voucher, and for the same reason. If somebody takes the order
/// out of the database, a refusal from memory is wrong for no longer than a second.
const GENERATION: Duration = Duration::from_millis(450);

/// So that two cores do not wait for each other: a purchase is remembered under its user's.
const SHARDS: usize = 16;

/// Orders in one generation of one shard. Of a faster sale some are not remembered, and the
/// database is asked.
const MAX_IN_GENERATION: usize = 2_048;

type Orders = HashMap<(UserId, VoucherId), OrderId>;

/// Orders that are known to be committed.
///
/// Two generations, of which the old one is thrown away as a whole: a cache that knows the age of
/// each entry took 17 MB more at 30,000 orders a second, and a microsecond more an order.
#[derive(Debug)]
pub(super) struct Bought([Mutex<Generations>; SHARDS]);

#[derive(Debug)]
struct Generations {
    young: Orders,
    old: Orders,
    since: Instant,
}

impl Generations {
    /// Lets the young grow old, and the old be forgotten.
    fn age(&mut self) {
        let age = self.since.elapsed();
        if age < GENERATION {
            return;
        }
        self.since += age;
        self.old = std::mem::take(&mut self.young);
        if age >= GENERATION * 2 {
            self.old.clear();
        }
    }
}

impl Bought {
    pub(super) fn new() -> Self {
        let since = Instant::now();
        let generations =
            |_| Mutex::new(Generations { young: Orders::new(), old: Orders::new(), since });
        Self(std::array::from_fn(generations))
    }

    /// Learns from what a purchase came to.
    pub(super) fn remember(&self, user: UserId, voucher: VoucherId, outcome: &Outcome) {
        let order_id = match outcome {
            Outcome::Ordered(order) => order.id,
            Outcome::Refused(Refusal::AlreadyBought { order_id }) => *order_id,
            Outcome::Refused(_) => return,
        };
        self.with_shard(user, |shard| {
            if shard.young.len() < MAX_IN_GENERATION {
                shard.young.insert((user, voucher), order_id);
            }
        });
    }

    /// The order that `user` has of `voucher`, if memory has it.
    pub(super) fn order(&self, user: UserId, voucher: VoucherId) -> Option<OrderId> {
        let key = (user, voucher);
        self.with_shard(user, |shard| {
            shard.young.get(&key).or_else(|| shard.old.get(&key)).copied()
        })
    }

    fn with_shard<T>(&self, user: UserId, work: impl FnOnce(&mut Generations) -> T) -> T {
        let shard = &self.0[user.get() as usize % SHARDS];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        shard.age();
        work(&mut shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(number: i64) -> Outcome {
        let Some(order_id) = OrderId::new(number) else { unreachable!("it is positive") };
        Outcome::Refused(Refusal::AlreadyBought { order_id })
    }

    fn ids(number: i64) -> (UserId, VoucherId) {
        let (Some(user), Some(voucher)) = (UserId::new(number), VoucherId::new(1)) else {
            unreachable!("it is positive")
        };
        (user, voucher)
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_is_remembered_for_a_generation_and_forgotten_after_two() {
        let bought = Bought::new();
        let (user, voucher) = ids(7);
        // At any time in a generation.
        for wait in [0, 1, 200, 449, 450, 451, 5_000] {
            tokio::time::advance(Duration::from_millis(wait)).await;
            bought.remember(user, voucher, &refused(9));
            for _ in 0..2 {
                assert_eq!(bought.order(user, voucher), OrderId::new(9));
                tokio::time::advance(GENERATION / 2).await;
            }
            tokio::time::advance(GENERATION).await;
            assert_eq!(bought.order(user, voucher), None);
            bought.remember(user, voucher, &refused(9));
            tokio::time::advance(GENERATION * 2).await;
            assert_eq!(bought.order(user, voucher), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_remembered_than_may_be() {
        let bought = Bought::new();
        let shards = SHARDS as i64;
        let most = MAX_IN_GENERATION as i64;
        for number in 1..=most + 10 {
            let (user, voucher) = ids(number * shards);
            bought.remember(user, voucher, &refused(number));
        }
        let is_known = |number: &i64| {
            let (user, voucher) = ids(number * shards);
            bought.order(user, voucher).is_some()
        };
        assert_eq!((1..=most + 10).filter(is_known).count(), MAX_IN_GENERATION);
    }
}
