//! The way into the line of `group-commit`: the users' locks, and ids for their orders.
//!
//! It is a line, too, before Redis: who waits for his turn there is let in together with the others
//! who do. One task asks for all of them, instead of each in a task of his own, for to wake so many
//! cost as much as Redis takes for their locks.

use std::sync::Arc;

use futures_util::future::join_all;

use super::PurchaseError;
use super::group_commit::Committing;
use super::line::{Line, MAX_BATCH, Member};
use super::seller::Seller;
use super::turn::{Leads, Turn, tell};
use crate::model::{Outcome, Refusal};

/// Batches on their way to Redis at once. With one, Redis would rest while the answers are given
/// out.
const MAX_LEADERS: usize = 2;

/// Lets in who holds his lock.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    line: Arc<Line>,
    committing: Committing,
}

impl Entry {
    /// At most `max_in_line` wait to be let in.
    pub(super) fn new(committing: Committing, max_in_line: usize) -> Self {
        let together = committing.seller().locks.sends_together();
        // In a cluster each goes for himself: his lock's node may be away while the others' are not.
        // (Their numbers are on one node: where one cannot be drawn, who has not begun hears so, too.)
        let (max_leaders, max_batch) =
            if together { (MAX_LEADERS, MAX_BATCH) } else { (usize::MAX, 1) };
        Self { line: Arc::new(Line::new(max_in_line, max_leaders, max_batch)), committing }
    }
}

impl Leads for Entry {
    fn seller(&self) -> &Arc<Seller> {
        self.committing.seller()
    }

    fn line(&self) -> &Line {
        &self.line
    }

    async fn lead(turn: Turn<Self>, batch: Vec<Member>) {
        let (seller, batch) = (turn.seller(), turn.in_time(batch));
        if seller.breaker.check().is_err() {
            return turn.give_up(batch, || PurchaseError::DatabaseResting);
        }
        let locks = join_all(batch.iter().map(|member| seller.lock(member.request.user)));
        // Side by side, which takes one round trip. Numbers are skipped where a lock is not
        // granted; numbers have gaps. No more than `MAX_BATCH`.
        let ids = seller.order_ids.next_many(batch.len() as u32);
        let (locks, ids) = tokio::join!(locks, ids);
        let ids = match ids {
            Ok(ids) => ids,
            // The locks are dropped, and so given back in the background: a Redis that did not
            // answer this would keep the buyers waiting once more.
            Err(error) => return turn.give_up(batch, || error.alike().into()),
        };
        let (mut entered, mut refused) = (Vec::with_capacity(batch.len()), Vec::new());
        for ((mut member, lock), id) in batch.into_iter().zip(locks).zip(ids) {
            match lock {
                Ok(Some(guard)) => {
                    (member.guard, member.order_id) = (Some(guard), Some(id));
                    entered.push(member);
                }
                Ok(None) => {
                    refused.push((member, Ok(Outcome::Refused(Refusal::OrderInProgress))));
                }
                Err(error) => refused.push((member, Err(error.into()))),
            }
        }
        tell(seller, refused);
        turn.committing.join(entered);
    }
}
