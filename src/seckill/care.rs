//! Whether a batch is sent with hope or with care ([`Sending`]).

use std::sync::atomic::{AtomicU8, Ordering};

use crate::model::OrderId;
use crate::store::order_batch::Sending;
use crate::store::orders::{Placed, Purchase};

/// Batches that are sent with care after one in which hope was in vain.
const CAREFUL_FOR: u8 = 16;

/// How many batches to come are sent with care. Hope costs twice where it is in vain, and where one
/// batch could not be sold to all, most likely the next one cannot.
#[derive(Debug, Default)]
pub(super) struct Care(AtomicU8);

impl Care {
    /// How the next batch is sent.
    pub(super) fn sending(&self) -> Sending {
        let less = |left: u8| left.checked_sub(1);
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => Sending::Careful,
            Err(_) => Sending::Hopeful,
        }
    }

    /// From what became of one.
    pub(super) fn learn(&self, purchases: &[Purchase], placed: &[Placed]) {
        let ours = |order: &OrderId| purchases.iter().any(|one| one.order_id == *order);
        let is_in_vain = |placed: &Placed| match placed {
            Placed::Ordered(_) => false,
            // Who is in the batch twice is sent once.
            Placed::AlreadyBought(order) => !ours(order),
            _ => true,
        };
        if placed.iter().any(is_in_vain) {
            self.0.store(CAREFUL_FOR, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::model::{UserId, VoucherId};

    #[test]
    fn after_a_batch_that_was_hopeless_the_next_ones_are_sent_with_care() {
        let (Some(user_id), Some(voucher_id)) = (UserId::new(1), VoucherId::new(1)) else {
            unreachable!("1 is positive")
        };
        let (Some(ours), Some(other)) = (OrderId::new(7), OrderId::new(8)) else {
            unreachable!("7 and 8 are positive")
        };
        let batch = [Purchase { order_id: ours, user_id, voucher_id, at: DateTime::UNIX_EPOCH }];
        let care = Care::default();
        for placed in [vec![], vec![Placed::AlreadyBought(ours)]] {
            care.learn(&batch, &placed);
            assert_eq!(care.sending(), Sending::Hopeful);
        }
        for placed in [Placed::SoldOut, Placed::AlreadyBought(other)] {
            care.learn(&batch, &[placed]);
            for _ in 0..CAREFUL_FOR {
                assert_eq!(care.sending(), Sending::Careful);
            }
            assert_eq!(care.sending(), Sending::Hopeful);
        }
    }
}
