//! Orders that were placed a moment ago, so that a second click is answered from memory.

use quick_cache::sync::Cache;
use tokio::time::Instant;

use crate::model::{OrderId, UserId, VoucherId};
use crate::store::FRESH_FOR;

/// Orders remembered at once. Of a faster sale some are forgotten, and the database is asked.
const MAX_REMEMBERED: usize = 32_768;

/// Orders that are known to be committed.
#[derive(Debug)]
pub struct RecentOrders(Cache<(UserId, VoucherId), (OrderId, Instant)>);

impl RecentOrders {
    pub(super) fn new() -> Self {
        Self(Cache::new(MAX_REMEMBERED))
    }

    /// The database, asked `at` this instant, said that `user` has `order` of `voucher`.
    pub fn remember(&self, user: UserId, voucher: VoucherId, order: OrderId, at: Instant) {
        self.0.insert((user, voucher), (order, at));
    }

    /// `user` may have no live order of `voucher` any more.
    pub fn forget(&self, user: UserId, voucher: VoucherId) {
        self.0.remove(&(user, voucher));
    }

    /// The order that `user` has of `voucher`, if memory has it.
    pub fn find(&self, user: UserId, voucher: VoucherId) -> Option<OrderId> {
        let (order, since) = self.0.get(&(user, voucher))?;
        (since.elapsed() <= FRESH_FOR).then_some(order)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_order_is_remembered_for_less_than_a_second() {
        let orders = RecentOrders::new();
        let (Some(user), Some(voucher)) = (UserId::new(7), VoucherId::new(1)) else { return };
        let Some(order) = OrderId::new(9) else { return };
        for _ in 0..2 {
            assert_eq!(orders.find(user, voucher), None);
            orders.remember(user, voucher, order, Instant::now());
            tokio::time::advance(FRESH_FOR).await;
            assert_eq!(orders.find(user, voucher), Some(order));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
    }
}
