//! Who bought what a moment ago: whoever clicks again hears so from memory.

use std::time::Duration;

use moka::sync::Cache;

use crate::model::{OrderId, Outcome, Refusal, UserId, VoucherId};

/// As long as the process remembers a voucher, and for the same reason: if somebody takes the
/// order out of the database, a refusal from memory is wrong for no longer than a second.
const REMEMBERED_FOR: Duration = Duration::from_millis(900);

/// Orders remembered at once: a second of the fastest sale that was measured. Beyond it some are
/// forgotten early, and the database is asked.
const MAX_REMEMBERED: u64 = 50_000;

/// Orders that are known to be committed.
#[derive(Debug, Clone)]
pub(super) struct Bought(Cache<(UserId, VoucherId), OrderId>);

impl Bought {
    pub(super) fn new() -> Self {
        let orders = Cache::builder().max_capacity(MAX_REMEMBERED).time_to_live(REMEMBERED_FOR);
        Self(orders.build())
    }

    /// Learns from what a purchase came to.
    pub(super) fn remember(&self, user: UserId, voucher: VoucherId, outcome: &Outcome) {
        match outcome {
            Outcome::Ordered(order) => self.0.insert((user, voucher), order.id),
            Outcome::Refused(Refusal::AlreadyBought { order_id }) => {
                self.0.insert((user, voucher), *order_id);
            }
            Outcome::Refused(_) => {}
        }
    }

    /// The order that `user` has of `voucher`, if memory has it.
    pub(super) fn order(&self, user: UserId, voucher: VoucherId) -> Option<OrderId> {
        self.0.get(&(user, voucher))
    }
}
