//! Orders that buyers are known to have, so that who clicks again is answered from memory. In a batch of the database one
//! of them would cost as much as the whole batch.

use std::time::Duration;

use quick_cache::sync::Cache;
use tokio::time::Instant;

use crate::model::{OrderId, UserId, Voucher, VoucherId};
use crate::store::FRESH_FOR;

/// Orders remembered at once. Of a faster sale some are forgotten, and the database is asked.
const MAX_REMEMBERED: usize = 32_768;

/// How long an order is believed whose voucher has not changed. A database that fails over may have lost it.
const REMEMBERED_FOR: Duration = Duration::from_secs(30);

/// Orders that are known to be committed.
#[derive(Debug)]
pub struct RecentOrders(Cache<(UserId, VoucherId), RecentOrder>);

#[derive(Debug, Clone, Copy)]
struct RecentOrder {
    id: OrderId,
    asked_at: Instant,
    /// That of the voucher, as it was known before the database was asked. The end of an order's life changes it.
    revision: i64,
}

impl RecentOrders {
    pub(super) fn new() -> Self {
        Self(Cache::new(MAX_REMEMBERED))
    }

    /// The database, asked at this instant, said that `user` has the order `id` of `voucher`, which was read before.
    pub fn remember(&self, user: UserId, voucher: &Voucher, id: OrderId, asked_at: Instant) {
        let order = RecentOrder { id, asked_at, revision: voucher.revision };
        self.0.insert((user, voucher.id), order);
    }

    /// `user` may have no live order of `voucher` any more.
    pub fn forget(&self, user: UserId, voucher: VoucherId) {
        self.0.remove(&(user, voucher));
    }

    /// The order that `user` has of `voucher`, if the database said so a moment ago.
    pub fn find(&self, user: UserId, voucher: VoucherId) -> Option<OrderId> {
        let order = self.0.get(&(user, voucher))?;
        (order.asked_at.elapsed() <= FRESH_FOR).then_some(order.id)
    }

    /// The order that `user` has of `voucher`, if the database said so lately and the voucher has not changed since.
    pub fn find_of(&self, user: UserId, voucher: &Voucher) -> Option<OrderId> {
        let order = self.0.get(&(user, voucher.id))?;
        let is_known =
            order.revision == voucher.revision && order.asked_at.elapsed() <= REMEMBERED_FOR;
        is_known.then_some(order.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voucher(revision: i64) -> Voucher {
        Voucher { revision, ..Voucher::example() }
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_is_remembered_for_less_than_a_second_and_longer_while_its_voucher_is_the_same()
     {
        let orders = RecentOrders::new();
        let Some((user, order)) = UserId::new(7).zip(OrderId::new(9)) else { unreachable!() };
        let (sale, later) = (voucher(1), voucher(2));
        assert_eq!((orders.find(user, sale.id), orders.find_of(user, &sale)), (None, None));
        for _ in 0..2 {
            orders.remember(user, &sale, order, Instant::now());
            tokio::time::advance(FRESH_FOR).await;
            assert_eq!(orders.find(user, sale.id), Some(order));
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(orders.find(user, sale.id), None);
            assert_eq!(
                (orders.find_of(user, &sale), orders.find_of(user, &later)),
                (Some(order), None)
            );
        }
        orders.remember(user, &sale, order, Instant::now());
        tokio::time::advance(REMEMBERED_FOR).await;
        assert_eq!(orders.find_of(user, &sale), Some(order));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(orders.find_of(user, &sale), None);
        orders.remember(user, &sale, order, Instant::now());
        orders.forget(user, sale.id);
        assert_eq!(orders.find_of(user, &sale), None);
    }
}
